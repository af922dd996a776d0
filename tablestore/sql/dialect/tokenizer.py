"""Words of the dialect, and scripts cut into statements; parameters become literals here, before anything is
parsed, so a value is never taken for SQL."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from tablestore.core.errors import InvalidRequest
from tablestore.sql.problems import SqlProblem, pointed
from tablestore.sql.text import literal_text

_OURS = (
    "CALL",
    "EXPLAIN",
    "EXECUTE",
    "RESET",
    "SHOW",
    "REFRESH",
    "ANALYZE",
    "OPTIMIZE",
    "VACUUM",
    "DESCRIBE",
    "DESC",
)
_SparkTokenizer: Any = Spark.Tokenizer  # its metaclass reads the class variables, mypy does not
_COMMANDS = _SparkTokenizer.COMMANDS


class Tokenizer(_SparkTokenizer):  # type: ignore[misc]  # likewise
    """Text in 'single' quotes, names in `back` or "double" ones; no escapes in text but '' for a quote."""

    QUOTES = ["'"]  # noqa: RUF012  # sqlglot's way to declare, here and below
    IDENTIFIERS = ["`", '"']  # noqa: RUF012
    STRING_ESCAPES = ["'"]  # noqa: RUF012
    RAW_STRINGS: list[Any] = []  # noqa: RUF012
    UNICODE_STRINGS = [(f"{letter}&'", "'") for letter in "Uu"]  # noqa: RUF012
    SINGLE_TOKENS = {k: v for k, v in _SparkTokenizer.SINGLE_TOKENS.items() if k != "$"}  # noqa: RUF012
    VAR_SINGLE_TOKENS = {"$"}  # noqa: RUF012  # t$files is one name
    KEYWORDS = {  # noqa: RUF012
        **{
            k: v
            for k, v in _SparkTokenizer.KEYWORDS.items()
            if v not in _COMMANDS and k.split()[0] not in _OURS
        },
        "TIMESTAMP": TokenType.TIMESTAMP,
        "DESC": TokenType.DESC,
        "BYTES": TokenType.VARBINARY,
        "FETCH": TokenType.FETCH,
    }
    COMMANDS: set[TokenType] = set()  # noqa: RUF012  # else the rest of a line is swallowed as text
    NUMERIC_LITERALS: dict[str, str] = {}  # noqa: RUF012
    TOKENS_PRECEDING_HINT = _SparkTokenizer.TOKENS_PRECEDING_HINT | {
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.R_PAREN,
    }


Parameters = Mapping[str, Any] | Sequence[Any] | None


@dataclass(frozen=True, slots=True)
class StatementText:
    """One statement of a script: its tokens, at least one, with positions in the whole script `text`."""

    tokens: tuple[Token, ...]
    text: str

    @property
    def start(self) -> int:
        return int(self.tokens[0].start)

    @property
    def sql(self) -> str:
        """The statement as it was written."""
        return self.text[self.start : self.tokens[-1].end + 1]

    @property
    def bound(self) -> str:
        """The statement with the values of its parameters."""
        parts = (literal_text(t.text) if t.token_type is TokenType.STRING else t.text for t in self.tokens)
        return " ".join(parts)


def pieces(text: str, parameters: Parameters = None) -> list[StatementText]:
    """The statements of a script, separated by semicolons, with the parameters in their places.

    `?` take the values of a sequence in turn, `:name` those of a mapping; `IN (?)` takes a list.
    Raises SqlProblem for a quote that is never closed, and for parameters that are missing, left over or of
    no type of a literal.
    """
    if not isinstance(text, str):
        raise InvalidRequest(f"a statement is text, not {text!r}")
    values = _Values(parameters, text)
    bound = [values.placed(part) for part in _statements(_tokens(text)) if part]
    values.require_all_used()
    return [StatementText(tuple(part), text) for part in bound]


def begun(text: str) -> tuple[list[Token], str, int]:
    """The tokens of the last statement of a text that may break off, what is open at its end (a quote, `/*`,
    `--` or nothing) and where that stands. A statement that a semicolon ends is not the last."""
    try:
        tokens, opened, at = _tokens(text), "", len(text)
    except SqlProblem:
        opened, at = _open_quote(text)
        tokens = _tokens(text[:at])
    after_last = text[tokens[-1].end + 1 if tokens else 0 : at].rpartition("\n")[2]
    if not opened and "--" in after_last:  # between tokens are blanks and comments only
        opened = "--"
    return _statements(tokens)[-1], opened, at


def is_finished(text: str) -> bool:
    """Whether the text is whole statements, each with its semicolon."""
    tokens, opened, _ = begun(text)
    return not tokens and opened in ("", "--")


def placeholders(text: str) -> int:
    """How many `?` a text has. Raises SqlProblem for a quote that is never closed."""
    return sum(t.token_type is TokenType.PLACEHOLDER and t.text == "?" for t in _tokens(text))


def parameter_names(text: str) -> list[str]:
    """The names that `:name` asks for, in order. Raises SqlProblem for a quote that is never closed."""
    tokens = _tokens(text)
    pairs = zip(tokens, [*tokens[1:], None], strict=False)
    return list(dict.fromkeys(b.text for a, b in pairs if b is not None and _is_name(a, b)))


def _statements(tokens: list[Token]) -> list[list[Token]]:
    """The tokens between semicolons; the last may be empty."""
    statements: list[list[Token]] = [[]]
    depth = cases = 0  # within BEGIN … END of a statement set, and of CASE there
    for token, after in zip(tokens, [*tokens[1:], None], strict=False):
        word = token.text.upper()
        if word == "BEGIN" and _words(statements[-1]) in (
            ["EXECUTE", "STATEMENT", "SET"],
            ["STATEMENT", "SET"],
        ):
            depth = 1
        elif depth and word in ("CASE", "END") and (cases or word == "CASE"):
            cases += 1 if word == "CASE" else -1
        elif depth and word == "END" and (after is None or after.token_type is TokenType.SEMICOLON):
            depth = 0
        if token.token_type is TokenType.SEMICOLON and not depth:
            statements.append([])
        else:
            statements[-1].append(token)
    return statements


def _words(tokens: list[Token]) -> list[str]:
    return [token.text.upper() for token in tokens[:3]] if len(tokens) <= 3 else []


def _tokens(text: str) -> list[Token]:
    try:
        tokens = list(Tokenizer(dialect=None).tokenize(text))
    except TokenError:
        quote, at = _open_quote(text)
        raise SqlProblem(f"the {quote} is never closed", text, at) from None
    behind: list[Token | None] = [*tokens[1:], None]
    return [token for token, after in zip(tokens, behind, strict=False) if not _is_charset(token, after)]


def _is_charset(token: Token, after: Token | None) -> bool:
    """Whether it is the character set of a text, `_UTF8'ü'`, which says nothing: a script is Unicode."""
    behind = after is not None and after.token_type is TokenType.STRING and after.start == token.end + 1
    return behind and token.text.upper() in ("_UTF8", "_UTF16", "_UTF32")


def _open_quote(text: str) -> tuple[str, int]:
    """The quote, or beginning of a comment, that nothing closes, and where it stands."""
    at = 0
    while at < len(text):
        if text.startswith("--", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        close = "*/" if text.startswith("/*", at) else text[at] if text[at] in "'`\"" else ""
        if close:
            end = text.find(close, at + (2 if close == "*/" else 1))
            if end < 0:
                return ("/*" if close == "*/" else close), at
            at = end + len(close)
        else:
            at += 1
    return "quote", 0


class _Values:
    """Gives each placeholder of a script its literal."""

    def __init__(self, parameters: Parameters, text: str) -> None:
        if not isinstance(parameters, Iterable | None) or isinstance(parameters, str | bytes):
            raise InvalidRequest("parameters are a list of values or a mapping of names to values")
        self._named = dict(parameters) if isinstance(parameters, Mapping) else None
        self._listed = [] if parameters is None or self._named is not None else list(parameters)
        self._text, self._next = text, 0
        self._used: set[str] = set()

    def placed(self, tokens: list[Token]) -> list[Token]:
        return list(self._placed(tokens))

    def _placed(self, tokens: list[Token]) -> Iterator[Token]:
        skip = False
        for i, (token, after) in enumerate(zip(tokens, [*tokens[1:], None], strict=False)):
            in_list = [t.token_type for t in tokens[max(0, i - 2) : i]] == [TokenType.IN, TokenType.L_PAREN]
            if skip:
                skip = False
            elif token.token_type is TokenType.PLACEHOLDER and token.text == "?":
                yield from self._literal(self._value(token), token, in_list=in_list)
            elif self._named is not None and _is_name(token, after):
                assert after is not None
                yield from self._literal(self._of_name(after), after, in_list=in_list)
                skip = True
            else:
                yield token

    def _value(self, token: Token) -> Any:
        if self._next >= len(self._listed):
            given = "no parameters are" if not self._listed else f"only {len(self._listed)} are"
            raise SqlProblem(f"this ? has no value: {given} given", self._text, token.start)
        self._next += 1
        return self._listed[self._next - 1]

    def _of_name(self, token: Token) -> Any:
        assert self._named is not None
        if token.text not in self._named:
            names = ", ".join(f":{name}" for name in self._named) or "none"
            raise SqlProblem(f"parameter :{token.text} has no value; given: {names}", self._text, token.start)
        self._used.add(token.text)
        return self._named[token.text]

    def require_all_used(self) -> None:
        if self._next < len(self._listed):
            raise InvalidRequest(f"{len(self._listed)} parameters are given, {self._next} are asked for by ?")
        if self._named is not None and (left := sorted(set(self._named) - self._used)):
            raise InvalidRequest(f"parameter {left[0]!r} is given, and :{left[0]} does not occur")

    def _literal(self, value: Any, at: Token, *, in_list: bool) -> list[Token]:
        try:
            literal = (
                list_tokens(value) if in_list and isinstance(value, list | tuple) else literal_tokens(value)
            )
        except InvalidRequest as e:
            raise InvalidRequest(pointed(str(e), self._text, at.start)) from None
        return [Token(kind, text, at.line, at.col, at.start, at.end, []) for kind, text in literal]


def _is_name(token: Token, after: Token | None) -> bool:
    """Whether a colon begins `:name`: the name follows at once."""
    if token.token_type is not TokenType.COLON or after is None:
        return False
    return bool(after.start == token.end + 1 and after.text.isidentifier())


def list_tokens(values: Sequence[Any]) -> list[tuple[TokenType, str]]:
    """The tokens of the values of `IN (?)`; raises InvalidRequest for none, as SQL has no empty list."""
    if not values:
        raise InvalidRequest("IN takes at least one value, and the list is empty")
    tokens = literal_tokens(values[0])
    for value in values[1:]:
        tokens += [(TokenType.COMMA, ","), *literal_tokens(value)]
    return tokens


def literal_tokens(value: Any) -> list[tuple[TokenType, str]]:
    """The tokens of a Python value as a literal; raises InvalidRequest for values that have none."""
    if isinstance(value, bool) or value is None:
        kind = TokenType.NULL if value is None else TokenType.TRUE if value else TokenType.FALSE
        return [(kind, str(kind.value))]
    if isinstance(value, int | Decimal) or (isinstance(value, float) and math.isfinite(value)):
        if isinstance(value, Decimal) and not value.is_finite():
            raise InvalidRequest(f"{value} is no value of a column")
        text = format(value.copy_abs(), "f") if isinstance(value, Decimal) else repr(abs(value))
        text = text if not isinstance(value, float) or "e" in text else f"{text}e0"  # a DOUBLE, no DECIMAL
        sign = [(TokenType.DASH, "-")] if str(value).startswith("-") else []
        return [*sign, (TokenType.NUMBER, text)]
    if isinstance(value, str):
        return [(TokenType.STRING, value)]
    if isinstance(value, bytes | bytearray):
        return [(TokenType.HEX_STRING, bytes(value).hex())]
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            raise InvalidRequest("a time with a zone is no literal: give it in UTC, without its zone")
        return [(TokenType.TIMESTAMP, "TIMESTAMP"), (TokenType.STRING, value.isoformat(" "))]
    if isinstance(value, dt.date):
        return [(TokenType.DATE, "DATE"), (TokenType.STRING, value.isoformat())]
    if isinstance(value, dt.time):
        return [(TokenType.TIME, "TIME"), (TokenType.STRING, value.isoformat())]
    where = ", but for lists in IN (?)" if isinstance(value, list | tuple) else ""
    raise InvalidRequest(f"a parameter of type {type(value).__name__} has no literal in SQL{where}")
