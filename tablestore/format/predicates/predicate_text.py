"""Conditions as SQL text → predicates: what a person types into a box, nothing of it is ever run.

    condition  := term (OR term)* · term := factor (AND factor)* · factor := [NOT] ("(" condition ")" | test)
    test       := column (= | <> | != | < | <= | > | >=) literal      (or the literal first)
                | column [NOT] IN (literal, …) | column [NOT] BETWEEN literal AND literal
                | column [NOT] LIKE 'prefix%' | column IS [NOT] NULL | starts_with(column, 'prefix')
    literal    := 12 | 1.5 | 1e3 | 'text' | TRUE | FALSE | DATE '…' | TIMESTAMP '…' | TIME '…' | X'00ff'

Names go bare, in "double quotes" or in `backticks`; keywords in any case. Literals get their columns' types
when the predicate is bound. Everything else is one `SyntaxProblem` that names the part. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tablestore.errors import InvalidRequest
from tablestore.format.predicates.predicate import Always, Column, Predicate, all_of, any_of, col

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
_ALLOWED = "comparisons, AND, OR, NOT, IN, BETWEEN, LIKE 'x%' and IS NULL can be used"


class SyntaxProblem(InvalidRequest):
    """The text is no condition; `part` is what is in the way, `start` its place in the text."""

    def __init__(self, problem: str, *, part: str, start: int) -> None:
        self.problem, self.part, self.start = problem, part, start
        super().__init__(f"at character {start + 1}: {problem}")


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


def parse(text: str) -> Predicate:
    """The predicate of a condition such as `amount > 10 AND status IN ('open', 'held')`.

    Empty text selects every row. Columns and types are looked at when it is bound, by a scan.
    """
    if not isinstance(text, str):
        raise InvalidRequest(f"a condition is text such as 'amount > 10', not {text!r}")
    tokens = _tokens(text)
    if tokens[0].kind == "end":
        return Always(True)
    return _Parser(tokens).whole()


def _tokens(text: str) -> list[Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] in "'\"`":
                raise SyntaxProblem(f"the {text[at]} is never closed", part=text[at:], start=at)
            raise SyntaxProblem(f"{text[at]!r} is no part of a condition", part=text[at], start=at)
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup or "", match.group(), at))
        at = match.end()
    return [*found, Token("end", "", len(text))]


class _Parser:
    """Recursive descent over the tokens, one method a rule of the grammar."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

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
        found = self._condition()
        if self._next.kind != "end":
            raise self._problem(f"AND, OR or the end is expected; only {_ALLOWED}")
        return found

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
            found = ~self._factor()
        elif self._accept("("):
            found = self._condition()
            self._expect(")", "after the condition")
        else:
            found = self._test()
        self._depth -= 1
        return found

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
        found = self._spelled(column, inverse)
        return ~found if inverse else found

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
        body, wild = (pattern[:-1], True) if pattern.endswith("%") else (pattern, False)
        if "%" in body or "_" in body:
            raise self._problem("LIKE looks at the beginning only, such as 'x%', without other % or _", token)
        if not wild:
            return column == body
        return column.startswith(body) if body else column.is_not_null()

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
        sign = -1 if token.text == "-" else 1
        value = _READERS[token.kind if token.kind != "sign" else "number"](
            self._take() if token.kind == "sign" else token
        )
        if self._next.text in ("+", "-", "*", "/", "%", "||"):
            raise self._problem("sums are not worked out: write the value")
        return value if token.kind != "sign" else sign * value


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
