"""Conditions in SQL text → predicates; the text is parsed and never executed.

    condition  := term (OR term)* · term := factor (AND factor)* · factor := [NOT] ("(" condition ")" | test)
    test       := column (= | <> | != | < | <= | > | >=) literal      (or the literal first)
                | column [NOT] IN (literal, …) | column [NOT] BETWEEN literal AND literal
                | column [NOT] LIKE 'pattern' [ESCAPE 'c'] | column IS [NOT] NULL
                | starts_with(column, 'prefix') | column (of BOOLEAN)
    literal    := 12 | 1.5 | 1e3 | 'text' | TRUE | FALSE | DATE '…' | TIMESTAMP '…' | TIME '…' | X'00ff'

Names are bare, in "double quotes" or in `backticks`; keywords in any case. A backslash in a pattern without
ESCAPE is one before % and _, else a character. Literals get their columns' types when the predicate is bound.
Everything else is a `SyntaxProblem`, which shows the text and points at the part.

This is a part of the language of `tablestore/sql`: every text means the same there, which
`tests/sql/test_conditions_as_text.py` draws texts to prove. Comparisons are exact here where SQL may round: a
number that a FLOAT or DOUBLE cannot hold, 1e9 beside exact numbers, a plain text with more digits of a second
than its column. A reader of its own keeps the engine free of sqlglot: 0.09 ms a text, not 0.5, and 0.35 s of
imports less for whoever scans one table. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch
from tablestore.format.predicates import like
from tablestore.format.predicates.predicate import Always, Column, Predicate, all_of, any_of, bind, col
from tablestore.format.schema import TableSchema

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
      | (?P<bytes>[xX]'[^']*')
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<text>'(?:[^']|'')*')
      | (?P<name>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><=>|<>|!=|<=|>=|==|\|\||&&|[=<>(),.+\-*/%!?:;\[\]{}|&@#$^~])""",
    re.VERBOSE,
)
_COMPARES = ("=", "<>", "!=", "<", "<=", ">", ">=")
_TURNED = {"=": "=", "<>": "<>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_KEYWORDS = frozenset("AND OR NOT IN BETWEEN LIKE IS NULL TRUE FALSE".split())
_TYPED = ("DATE", "TIMESTAMP", "TIME")
_DEEPEST = 50
_SHOWN = 70
_ALLOWED = "comparisons, AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL can be used"


class SyntaxProblem(InvalidRequest):
    """The text is not a condition; `part` is the wrong part, `start` its position in the text."""

    def __init__(self, problem: str, *, part: str, start: int, text: str = "") -> None:
        self.problem, self.part, self.start = problem, part, start
        super().__init__(_pointed(problem, text, start))


def _pointed(problem: str, text: str, start: int) -> str:
    """The problem with its position, and the line of the text with a mark there."""
    said = f"at character {start + 1}: {problem}"
    if not text:
        return said
    low = max(text.rfind("\n", 0, start) + 1, start - _SHOWN)
    line = text[low : start + _SHOWN].splitlines()[0] if text[low : start + _SHOWN] else ""
    return f"{said}\n  {line}\n  {re.sub(chr(92) + 'S', ' ', text[low:start])}^"


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the text: kind is word, name, number, text, bytes, sign or end."""

    kind: str
    text: str
    start: int

    @property
    def keyword(self) -> str:
        """The word in capitals; empty for anything but a bare word."""
        return self.text.upper() if self.kind == "word" else ""


def condition(where: Predicate | str | None, schema: TableSchema | None = None) -> Predicate | None:
    """The predicate of a caller's condition, which is text, a predicate or None.

    Raises SyntaxProblem for text that is not a condition, InvalidRequest for other types; with a `schema`
    also NotFound and SchemaMismatch for a test that does not fit it, pointing at its position.
    """
    if where is None or isinstance(where, Predicate):
        return where
    if not isinstance(where, str):
        raise InvalidRequest(
            f"{where!r} is not a condition: give text such as \"amount > 10\", or ts.col('amount') > 10"
        )
    return _parsed(where, schema)


def chosen(where: Predicate | str, schema: TableSchema) -> Predicate:
    """The predicate of a required condition: None and empty text are refused, too."""
    predicate = condition(where, schema)
    if predicate is None or (isinstance(where, str) and _tokens(where)[0].kind == "end"):
        raise InvalidRequest("the condition is empty: say which rows; TRUE are all of them")
    return predicate


def parse(text: str) -> Predicate:
    """The predicate of a condition such as `amount > 10 AND status IN ('open', 'held')`.

    Empty `text` selects every row. Columns and types are checked when a scan binds it. Raises InvalidRequest,
    showing the position, for text that is not a condition.

    >>> orders.scan(where=ts.where("amount > 6 AND customer LIKE 'a%'")).count()
    1
    """
    if not isinstance(text, str):
        raise InvalidRequest(f"a condition is text such as 'amount > 10', not {text!r}")
    return _parsed(text, None)


def _parsed(text: str, schema: TableSchema | None) -> Predicate:
    try:
        tokens = _tokens(text)
        return Always(True) if tokens[0].kind == "end" else _PredicateParser(tokens, text, schema).whole()
    except SyntaxProblem as e:
        raise SyntaxProblem(e.problem, part=e.part, start=e.start, text=text) from None


def _tokens(text: str) -> list[Token]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] in "'\"`":
                raise SyntaxProblem(f"the {text[at]} is never closed", part=text[at:], start=at)
            raise SyntaxProblem(f"{text[at]!r} cannot be part of a condition", part=text[at], start=at)
        if match.lastgroup != "space":
            tokens.append(Token(match.lastgroup or "", match.group(), at))
        at = match.end()
    return [*tokens, Token("end", "", len(text))]


class _PredicateParser:
    """Recursive descent over the tokens, one method a rule of the grammar."""

    def __init__(self, tokens: list[Token], text: str, schema: TableSchema | None) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0
        self._text, self._schema = text, schema

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _accept(self, word: str) -> bool:
        there = self._next.text == word if not word.isalpha() else self._next.keyword == word
        self._at += there
        return there

    def _expect(self, word: str, why: str) -> None:
        if not self._accept(word):
            raise self._problem(f"{word} is missing {why}")

    def _problem(self, problem: str, token: Token | None = None) -> SyntaxProblem:
        token = token or self._next
        where = f"{problem}; here is {token.text!r}" if token.kind != "end" else f"{problem}; the text ends"
        return SyntaxProblem(where, part=token.text, start=token.start)

    def whole(self) -> Predicate:
        predicate = self._condition()
        if self._next.kind != "end":
            raise self._problem(f"AND, OR or the end is expected; only {_ALLOWED}")
        return predicate

    def _condition(self) -> Predicate:
        terms = [self._term()]
        while self._accept("OR"):
            terms.append(self._term())
        return any_of(*terms)

    def _term(self) -> Predicate:
        factors = [self._factor()]
        while self._accept("AND"):
            factors.append(self._factor())
        return all_of(*factors)

    def _factor(self) -> Predicate:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._problem(f"conditions go {_DEEPEST} deep")
        if self._accept("NOT"):
            predicate = ~self._factor()
        elif self._accept("("):
            predicate = self._condition()
            self._expect(")", "after the condition")
        else:
            start = self._next.start
            predicate = self._checked(self._test(), start)
        self._depth -= 1
        return predicate

    def _checked(self, test: Predicate, start: int) -> Predicate:
        """The test, after a check of its column and literals if the schema is known."""
        if self._schema is not None:
            try:
                bind(test, self._schema)
            except (NotFound, SchemaMismatch) as e:
                raise type(e)(_pointed(str(e), self._text, start)) from None
        return test

    def _test(self) -> Predicate:
        token = self._next
        if token.keyword in ("TRUE", "FALSE") and self._tokens[self._at + 1].text not in _COMPARES:
            return Always(self._take().keyword == "TRUE")
        if self._is_literal():
            value = self._literal()
            sign = self._sign()
            return _compared(self._column(), _TURNED[sign], value)
        if token.keyword == "STARTS_WITH" and self._tokens[self._at + 1].text == "(":
            return self._starts_with()
        column = self._column()
        if self._accept("IS"):
            inverse = self._accept("NOT")
            self._expect("NULL", "after IS")
            return column.is_not_null() if inverse else column.is_null()
        inverse = self._accept("NOT")
        predicate = self._spelled(column, inverse)
        return ~predicate if inverse else predicate

    def _spelled(self, column: Column, inverse: bool) -> Predicate:
        """IN, BETWEEN, LIKE or a comparison."""
        if self._accept("IN"):
            return column.is_in(self._list())
        if self._accept("BETWEEN"):
            low = self._literal()
            self._expect("AND", "between the two ends")
            return column.between(low, self._literal())
        if self._accept("LIKE"):
            return self._like(column)
        if inverse:
            raise self._problem("IN, BETWEEN or LIKE is expected after NOT")
        if self._next.kind == "end" or self._next.text == ")" or self._next.keyword in ("AND", "OR"):
            return column == True  # noqa: E712
        return _compared(column, self._sign(), self._literal())

    def _sign(self) -> str:
        token = self._take()
        if token.text in _COMPARES and token.kind == "sign":
            return token.text
        if token.text in ("==", "<=>"):
            raise self._problem("write = to compare", token)
        raise self._problem(f"a comparison such as = or < is expected; only {_ALLOWED}", token)

    def _column(self) -> Column:
        token = self._take()
        if token.kind == "name":
            quote = token.text[0]
            name = token.text[1:-1].replace(quote * 2, quote)
        elif token.kind == "word" and token.keyword not in _KEYWORDS:
            name = token.text
        elif self._literal_starts(token):
            raise self._problem("a column is expected: two literals are compared", token)
        else:
            raise self._problem("a column is expected", token)
        if self._next.text == "(":
            raise self._problem(f"functions such as {name}(…) cannot be used; only {_ALLOWED}", token)
        if self._next.text == ".":
            raise self._problem("fields of a column cannot be compared")
        if self._next.text in ("+", "-", "*", "/", "%", "||"):
            raise self._problem("columns cannot be computed with; only " + _ALLOWED)
        return col(name)

    def _starts_with(self) -> Predicate:
        self._take()
        self._expect("(", "after starts_with")
        column = self._column()
        self._expect(",", "between the column and its beginning")
        prefix = self._literal()
        self._expect(")", "at the end of starts_with")
        return column.startswith(prefix)

    def _like(self, column: Column) -> Predicate:
        token = self._next
        pattern = self._literal()
        if not isinstance(pattern, str):
            raise self._problem("LIKE wants a text such as 'x%'", token)
        try:
            if self._accept("ESCAPE"):
                return column.like(pattern, escape=self._literal())
            return column.like(like.without_escape(pattern))
        except InvalidRequest as e:
            raise self._problem(str(e), token) from None

    def _list(self) -> list[Any]:
        self._expect("(", "after IN")
        values = [self._literal()]
        while self._accept(","):
            values.append(self._literal())
        self._expect(")", "at the end of the list")
        return values

    def _literal_starts(self, token: Token) -> bool:
        return token.kind in ("number", "text", "bytes") or token.keyword in ("TRUE", "FALSE", "NULL")

    def _is_literal(self) -> bool:
        token, after = self._next, self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        signed = token.text in ("-", "+") and after.kind == "number"
        typed = token.keyword in _TYPED and after.kind == "text"
        return signed or typed or self._literal_starts(token)

    def _literal(self) -> Any:
        token = self._next
        if not self._is_literal():
            if token.text.startswith('"'):
                raise self._problem("a column's name stands in double quotes; text goes in 'single' ones")
            if token.kind in ("word", "name") and token.keyword not in _KEYWORDS:
                raise self._problem(
                    "a literal is expected: a column is compared with values, not with another"
                )
            raise self._problem("a literal is expected, such as 12 or 'text'")
        self._take()
        if token.keyword == "NULL":
            raise self._problem("nothing equals NULL: write IS NULL or IS NOT NULL", token)
        if token.keyword in ("TRUE", "FALSE"):
            return token.keyword == "TRUE"
        if token.keyword in _TYPED:
            return _text(self._take())
        value = _READERS[token.kind if token.kind != "sign" else "number"](
            self._take() if token.kind == "sign" else token
        )
        if self._next.text in ("+", "-", "*", "/", "%", "||"):
            raise self._problem("sums are not worked out: write the value")
        if token.text != "-":
            return value
        return value.copy_negate() if isinstance(value, Decimal) else -value  # its minus rounds to 28 digits


def _compared(column: Column, sign: str, value: Any) -> Predicate:
    if sign == "=":
        return column == value
    if sign in ("<>", "!="):
        return column != value
    if sign in ("<", "<="):
        return column < value if sign == "<" else column <= value
    return column > value if sign == ">" else column >= value


def _number(token: Token) -> int | float | Decimal:
    if token.text.isdecimal():
        if len(token.text) > 40:
            raise SyntaxProblem("the number has more than 40 digits", part=token.text, start=token.start)
        return int(token.text)
    return float(token.text) if "e" in token.text.lower() else Decimal(token.text)


def _text(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _bytes(token: Token) -> bytes:
    try:
        return bytes.fromhex(token.text[2:-1])
    except ValueError:
        raise SyntaxProblem(
            "X'…' holds pairs of hexadecimal digits", part=token.text, start=token.start
        ) from None


_READERS: dict[str, Callable[[Token], Any]] = {"number": _number, "text": _text, "bytes": _bytes}
