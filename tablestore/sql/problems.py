"""Errors of statements: what is wrong, in which statement, at which line and column, with a mark under it;
and what of a statement and of an error nobody is to see: secrets in the text, values of the environment.

Used by everything here that reads a text. An error of a verb (NotFound, CommitConflict, …) keeps its type and
gets its place added (`placed`). A text that cannot be read is quoted by errors too, so every text is read for
secrets: for a name that means one, or nearly so, and the value behind it. Where a quote is never closed all
behind such a name is a secret.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

from sqlglot import exp

from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.core.options.environment import without_environment
from tablestore.core.options.secrets import HIDDEN, is_secret, replaced, secret_spans, without

E = TypeVar("E", bound=TablestoreError)
_SET = re.compile(r"t\.alter\(ts\.set_options\((\{[^{}]*\})\)\)")
_TRUNCATE = "t.truncate(partition=…)"
_DATABASE = "create_database(name) makes it"
_TARGET = re.compile(
    r"\s*(?:UPDATE|DELETE\s+FROM|MERGE\s+INTO|INSERT\s+(?:INTO|OVERWRITE))\s+"
    r"((?:`[^`]+`|\"[^\"]+\"|[\w$]+)(?:\.(?:`[^`]+`|\"[^\"]+\"|[\w$]+))*)",
    re.IGNORECASE,
)

_WIDTH = 100  # characters of a line that are shown
_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<literal>'(?:[^']|'')*(?:'|\Z))"
    r"|(?P<name>\"[^\"]*(?:\"|\Z)|`[^`]*(?:`|\Z))|(?P<word>[^\s'\"`,;()=<>:]+)|(?P<sign>\S)",
    re.DOTALL,
)
_BETWEEN = frozenset("=>:(")  # a name and its value
_MISSPELT = ("password", "passwd", "passphrase", "secret", "token", "credentials", "accesskey", "apikey")
_LIKENESS, _LONGEST_NAME = 0.8, 100
_LONG = 100_000
_HINT = re.compile("pass|pwd|secret|token|cred|key|sas|jaas|cookie|auth|sign|user|string|://", re.IGNORECASE)
_CUT = (30, 29, 28)  # characters of a word, or of it and its quotes, that errors quote
# In these a name without quotes is a column, and so is what it is compared with.
_OF_COLUMNS = frozenset("SELECT WITH VALUES INSERT UPDATE DELETE MERGE EXPLAIN".split())

Span = tuple[int, int]  # start and end in a text


class SqlProblem(InvalidRequest):
    """A statement that cannot be read; `line` and `column` count from 1, `problem` is what is wrong."""

    def __init__(self, problem: str, text: str = "", at: int = 0) -> None:
        self.problem = problem
        self.line, self.column = position(text, at)
        super().__init__(pointed(problem, text, at) if text else problem)


def position(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1, of the character `at` of the text."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def pointed(problem: str, text: str, at: int) -> str:
    """The problem with its line and column, below it the line of the text and a mark."""
    at = min(at, len(text))
    line, column = position(text, at)
    shown_at, text = _without_secrets(text, at)
    begin = text.rfind("\n", 0, shown_at) + 1
    end = text.find("\n", shown_at)
    whole, mark = text[begin : end if end >= 0 else len(text)], shown_at - begin
    cut = max(0, mark + 1 - _WIDTH // 2)
    shown = whole[cut : cut + _WIDTH]
    below = "".join(c if c.isspace() else " " for c in shown[: mark - cut])
    if cut:
        shown, below = f"…{shown}", f" {below}"
    if cut + _WIDTH < len(whole):
        shown += "…"
    return f"line {line}, column {column}: {problem}\n  {shown}\n  {below}^"


def _without_secrets(text: str, at: int) -> tuple[int, str]:
    """The text with `***` in place of its secrets, and where in that the character `at` of the text is; where
    it is in a secret, the `***`."""
    spans = secret_parts(text)
    before = [(start, min(end, at)) for start, end in spans if start < at]
    inside = any(start < at < end for start, end in spans)
    return len(replaced(text[:at], before)) - (len(HIDDEN) if inside else 0), replaced(text, spans)


def placed(error: E, text: str, at: int) -> E:
    """The error of a verb with where in the text it arose, unless that is known already."""
    if getattr(error, "line", None) is not None:
        return error
    error.line, error.column = position(text, at)  # type: ignore[attr-defined]  # for who catches it
    if error.args and isinstance(error.args[0], str):
        error.args = (pointed(error.args[0], text, at), *error.args[1:])
    return error


@contextmanager
def placing(text: str, at: int) -> Iterator[None]:
    """Errors of verbs within say where in the text they arose."""
    try:
        yield
    except TablestoreError as e:
        placed(e, text, at)
        raise


def start_of(tree: exp.Expression | None, default: int = 0) -> int:
    """Where in the script a part of a tree begins: the place of its first name, literal or function."""
    places = [node.meta["start"] for node in tree.walk() if "start" in node.meta] if tree is not None else []
    return min(places, default=default)


def near(name: str, existing: list[str]) -> str:
    """`; did you mean …?` for a name among those there are, else nothing."""
    close = get_close_matches(name.upper(), [e.upper() for e in existing], n=2, cutoff=0.6)
    names = {e.upper(): e for e in existing}
    return f"; did you mean {' or '.join(names[c] for c in close)}?" if close else ""


def in_sql(message: str, statement: str) -> str:
    """The message of an error of a statement, with its remedies as statements over its table."""
    message = message.replace(_DATABASE, "CREATE DATABASE name makes it")
    target = _TARGET.match(statement)
    if target is None:
        return message
    message = message.replace(_TRUNCATE, f"TRUNCATE TABLE {target[1]} PARTITION (…)")
    return _SET.sub(lambda match: _alter(target[1], match[1]), message)


def _alter(table: str, options: str) -> str:
    values = {key: str(value).lower() for key, value in ast.literal_eval(options).items()}
    return f"ALTER TABLE {table} SET ({', '.join(f'{k!r} = {v!r}' for k, v in values.items())})"


def secret_parts(text: str) -> list[Span]:
    """Where in a text of SQL secrets stand, sorted; spans may overlap. In a long text without any word of a
    secret, misspelt ones are not looked for."""
    if len(text) > _LONG and not _HINT.search(text):
        return []
    return sorted({*_values(text, 0), *secret_spans(text)})


def concealed(text: str) -> str:
    """A text of SQL with `***` in place of its secrets."""
    return replaced(text, secret_parts(text))


def _values(text: str, at: int) -> Iterator[Span]:
    """The values of names that mean a secret; `at` is added to each place."""
    tokens = list(_TOKEN.finditer(text))
    breaks_off = _breaks_off(tokens)
    verb, begins = "", True
    for number, token in enumerate(tokens):
        start, end = _inner(token)
        kind = token.lastgroup
        if begins and kind == "word":
            verb, begins = token[0].upper(), False
        begins = begins or token[0] == ";"
        if kind == "comment":
            yield from _values(token[0][2:].removesuffix("*/"), at + start + 2)
        elif kind == "literal":
            yield from ((at + start + a, at + start + b) for a, b in secret_spans(text[start:end]))
        if kind in ("comment", "sign"):
            continue
        value = _value(tokens, number, bare=kind == "literal" or verb not in _OF_COLUMNS)
        if (value is not None or breaks_off) and _means_secret(text[start:end]):
            if value is None or breaks_off:
                yield at + token.end(), at + len(text)
                return
            yield at + value[0], at + value[1]


def _value(tokens: Sequence[re.Match[str]], number: int, *, bare: bool) -> Span | None:
    """The value behind the name of this number: a text in quotes, or, if it may be `bare`, a word after a
    sign. None where there is none."""
    signs = 0
    for behind in range(number + 1, len(tokens)):
        token = tokens[behind]
        if token.lastgroup == "sign" and token[0] in _BETWEEN:
            signs += 1
        elif token.lastgroup != "comment":
            quoted = token.lastgroup in ("literal", "name")
            return _inner(token) if quoted or (bare and signs and token.lastgroup == "word") else None
    return None


def _inner(token: re.Match[str]) -> Span:
    """A token without its quotes."""
    start, end = token.span()
    if token.lastgroup not in ("literal", "name"):
        return start, end
    closed = end - start > 1 and token[0][-1] == token[0][0]
    return start + 1, end - closed


def _breaks_off(tokens: Sequence[re.Match[str]]) -> bool:
    """Whether the last text in quotes is not closed, so that it is not known which are texts."""
    quoted = [token for token in tokens if token.lastgroup in ("literal", "name")]
    return any(token.end() == _inner(token)[1] for token in quoted[-1:])


def _means_secret(name: str) -> bool:
    """Whether a name means a secret, or is nearly one that does."""
    if is_secret(name):
        return True
    words = re.findall(r"[A-Za-z]{4,14}", name[:_LONGEST_NAME])
    return any(get_close_matches(word.lower(), _MISSPELT, 1, _LIKENESS) for word in words)


def conceal(error: BaseException, *texts: str) -> None:
    """Take the secrets of texts of SQL, and values that came from the environment, out of an error and its
    causes; a cause that still shows one is dropped."""
    typed = [text[start:end] for text in texts for start, end in secret_parts(text)]
    typed += [part.replace("''", "'") for part in typed]
    typed += [part[:length] for part in typed for length in _CUT if len(part) > length]

    def clean(shown: str) -> str:
        return without_environment(without(shown, typed))

    _clean(error, clean)
    last, seen = error, {id(error)}
    while (cause := last.__cause__ or last.__context__) is not None and id(cause) not in seen:
        _clean(cause, clean)
        if clean(str(cause)) != str(cause):
            last.__cause__ = last.__context__ = None
            return
        seen.add(id(cause))
        last = cause


def _clean(error: BaseException, clean: Callable[[str], str]) -> None:
    error.args = tuple(clean(part) if isinstance(part, str) else part for part in error.args)
    for name in (*vars(error), "strerror", "filename"):  # OSError has the last two beside its arguments
        value = getattr(error, name, None)
        if isinstance(value, str):
            setattr(error, name, clean(value))
