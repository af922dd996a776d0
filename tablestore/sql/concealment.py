"""What of a statement, and of an error, nobody is to see: secrets in the text, values of the environment.

A text that cannot be read is quoted by errors too, so this reads every text: it looks for a name that means a
secret, or nearly so, and takes the value behind it. Where a quote is never closed all behind such a name is a
secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches

from tablestore.core.options.environment import without_environment
from tablestore.core.options.secrets import is_secret, replaced, secret_spans, without

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
