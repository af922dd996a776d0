"""What reads a statement by hand, word by word: the methods that parse functions of forms use.

They stand on sqlglot's parser of Spark: with `parser.py` this is all of what we ask of sqlglot's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.sql.dialect.tokenizer import StatementText
from tablestore.sql.problems import SqlProblem, placed
from tablestore.sql.query.conditions import value_of
from tablestore.sql.text import Name, literal_text, name_text

T = TypeVar("T")
SEMICOLON = TokenType.BREAK  # of a statement within another: at TokenType.SEMICOLON sqlglot begins anew
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_VERBATIM = (*_QUOTED, TokenType.HEX_STRING, TokenType.NUMBER)
_BEHIND_TYPES = "NOT|NULL|COMMENT|DEFAULT|PRIMARY KEY|CONSTRAINT|UNIQUE|METADATA|FIRST|AFTER".split("|")
_SparkParser: Any = Spark.Parser  # mypy: sqlglot builds these classes by a metaclass


class FormReader(_SparkParser):  # type: ignore[misc]  # likewise
    """Reads the words, names, options and expressions that come next. Not thread-safe."""

    piece: StatementText

    @property
    def at(self) -> int:
        """Where the next token stands in the script; behind the last one at the end."""
        return self._curr.start if self._curr else self.piece.tokens[-1].end + 1

    @property
    def behind(self) -> int:
        """One behind the token that was read last."""
        return self._prev.end + 1 if self._prev else self.piece.start

    @property
    def ended(self) -> bool:
        return not self._curr

    @property
    def next_text(self) -> str:
        """The next token as it was written, in capitals, quotes included; empty at the end."""
        return self.text(self._curr.start, self._curr.end + 1).upper() if self._curr else ""

    def upcoming(self, count: int) -> list[str]:
        """The next tokens as they were written, in capitals."""
        return [str(token.text).upper() for token in self._tokens[self._index : self._index + count]]

    def text(self, start: int, end: int) -> str:
        """The script between two places."""
        return self.piece.text[start:end]

    def accept(self, words: str) -> bool:
        """Read these words or signs if they come next; a name or text in quotes is neither."""
        wanted, ahead = words.split(), 0
        while wanted:
            token = self._token(ahead)
            if token is None or token.token_type in _QUOTED:
                return False
            words_of_token = token.text.upper().split()  # some tokens are two words: PRIMARY KEY
            if not words_of_token or wanted[: len(words_of_token)] != words_of_token:
                return False
            wanted, ahead = wanted[len(words_of_token) :], ahead + 1
        self._advance(ahead)
        return True

    def comes(self, words: str) -> bool:
        """Whether these words or signs come next."""
        index = self._index
        accepted = self.accept(words)
        self._retreat(index)
        return accepted

    def _token(self, ahead: int) -> Token | None:
        index = self._index + ahead
        return self._tokens[index] if index < len(self._tokens) else None

    def expect(self, words: str) -> None:
        if not self.accept(words):
            self.fail(f"{words} is expected")

    def fail(self, problem: str, at: int | None = None) -> NoReturn:
        """Raise SqlProblem at the next token, or at a place of the script."""
        at = self.at if at is None else at
        here = f"; here is {self._curr.text!r}" if self._curr and at == self.at else ""
        end = "; the statement ends" if not self._curr and at == self.at else ""
        raise SqlProblem(f"{problem}{here}{end}", self.piece.text, at)

    def refuse(self, feature: str, why: str, at: int | None = None) -> NoReturn:
        """Raise Unsupported at the next token, or at a place of the script."""
        raise placed(Unsupported(feature, why), self.piece.text, self.at if at is None else at)

    def finish(self) -> None:
        """Require the end of the statement; one within another ends with a semicolon. Forms need not: it is
        required when one has read itself."""
        if self._curr and self._curr.token_type is not SEMICOLON:
            self.fail("the end of the statement is expected")

    def part(self, what: str) -> str:
        """One part of a name, quoted or not; `what` is said where there is none."""
        token = self._curr
        if not token or not token.text:  # behind the last one stands a token that is false
            self.fail(f"{what} is expected")
        if token.token_type in (TokenType.STRING, TokenType.NUMBER) or not (
            token.token_type is TokenType.IDENTIFIER or token.text[0].isalpha() or token.text[0] == "_"
        ):
            self.fail(f"{what} is expected")
        self._advance()
        return str(token.text)

    def name(self, what: str = "a table's name") -> Name:
        """`a`, `a.b` or `a.b.c`."""
        at = self.at
        parts = [self.part(what)]
        while self.accept("."):
            parts.append(self.part(what))
        return Name(tuple(parts), at)

    def string(self, what: str = "a text in single quotes") -> str:
        if not self._match(TokenType.STRING):
            self.fail(f"{what} is expected")
        return str(self._prev.text)

    def listed(self, element: Callable[[], T], *, empty: bool = False) -> list[T]:
        """`(element, element, …)`; `()` only with `empty`."""
        self.expect("(")
        if empty and self.accept(")"):
            return []
        items = [element()]
        while self.accept(","):
            items.append(element())
        self.expect(")")
        return items

    def options(self) -> dict[str, str]:
        """`('key' = 'value', …)`; keys may go without quotes, values may be numbers, TRUE and FALSE."""
        pairs = self.listed(self._option, empty=True)
        for i, (key, _, at) in enumerate(pairs):
            if key in [k for k, _, _ in pairs[:i]]:
                self.fail(f"option {key!r} is named twice", at)
        return {key: value for key, value, _ in pairs}

    def _option(self) -> tuple[str, str, int]:
        at = self.at
        key = self.option_key()
        self.expect("=")
        token = self._curr
        kinds = (TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE)
        if token is None or token.token_type not in kinds:
            self.fail(f"the value of option {key!r} is expected, in single quotes")
        self._advance()
        return key, str(token.text) if token.token_type in kinds[:2] else str(token.text).lower(), at

    def option_key(self) -> str:
        """`'a.b-c'`, or `a.b-c` bare."""
        if self._match(TokenType.STRING):
            return str(self._prev.text)
        start, end = self.at, self.at
        while (
            self._curr
            and self._curr.start == (end if end > start else start)
            and self.next_text not in ("=", ")", ",")
        ):
            end = self._curr.end + 1
            self._advance()
        if start == end:
            self.fail("the name of an option is expected, in single quotes")
        return self.text(start, end)

    def expression_text(self) -> str:
        """The text of an expression as tables keep it: its words in capitals, names in back-quotes, values of
        parameters in their places, single spaces."""
        index = self._index
        tree = self.expr()
        if tree.find(exp.Lambda) is not None:
            return self._written(index)
        names = {node.meta.get("start") for node in tree.find_all(exp.Identifier)}
        words: list[str] = []
        for token, part in zip(self._tokens[index : self._index], self._parts(index), strict=True):
            if token.start in names:
                words.append(name_text(token.text))
            else:
                words.append(part.text if token.token_type in _VERBATIM else part.text.upper())
        return spaced(words)

    def type_text(self) -> str:
        """The text of a column's type, with names in back-quotes: what `parse_type` reads."""
        at, index = self.at, self._index
        self.tokens_until(",", *_BEHIND_TYPES)
        if self._index == index:
            self.fail("a type is expected", at)
        return self._written(index)

    def _written(self, index: int) -> str:
        """What was read since the token of this number, parameters in their places, without comments."""
        return joined(self._parts(index))

    def _parts(self, index: int) -> tuple[Written, ...]:
        return tuple(self._as_written(token) for token in self._tokens[index : self._index])

    def _as_written(self, token: Token) -> Written:
        """A token as text of SQL: names in back-quotes, texts in single quotes, the rest as it stands there,
        but the value of a parameter."""
        source = self.text(token.start, token.end + 1)
        named = self.text(token.start - 1, token.start) == ":" and source != token.text
        is_parameter, text = source == "?" or named, source
        if token.token_type is TokenType.IDENTIFIER:
            text = name_text(token.text)
        elif token.token_type is TokenType.STRING:
            text = literal_text(token.text)
        elif token.token_type is TokenType.HEX_STRING:
            text = f"x'{token.text}'"
        elif is_parameter:
            text = token.text
        return Written(token.start, token.end + 1, text, is_parameter)

    def query_parts(self) -> tuple[Any, tuple[Written, ...]]:
        """A query, as a tree and as it was written."""
        index = self._index
        tree = self.query()
        return tree, self._parts(index)

    def argument_name(self) -> str | None:
        """The name of an argument `name => …`, if such comes next."""
        if not (self._next and self._next.text == "=>"):
            return None
        name = self.part("the name of an argument")
        self.expect("=>")
        return name

    def literal(self) -> Any:
        """The Python value of a literal: None, bool, int, Decimal, str, bytes, date, datetime, time."""
        at = self.at
        tree = self._parse_unary()  # no more: NOT NULL may follow
        if tree is None:
            self.fail("a literal is expected", at)
        try:
            return value_of(tree)
        except InvalidRequest as e:
            self.fail(str(e), at)

    def partition(self, *, partly: bool = False) -> dict[str, Any]:
        """`(column = value, …)` behind PARTITION: literals by column. With `partly` a column may go without
        its value, which is then None."""
        values: dict[str, Any] = {}

        def one() -> None:
            at = self.at
            column = self.part("a partition column")
            if column in values:
                self.fail(f"partition column {column!r} is named twice", at)
            named = self.accept("=")
            if not named and not partly:
                self.expect("=")
            values[column] = self.literal() if named else None

        self.listed(one)
        return values

    def hints(self) -> list[str]:
        """The texts of `/*+ … */` if such comes next; `options_of` reads them."""
        return list(self._prev_comments) if self._match(TokenType.HINT) else []

    def query_is_next(self) -> bool:
        """Whether a bracket opens that a query stands in."""
        index = self._index
        while self._match(TokenType.L_PAREN):
            pass
        is_query = self.next_text in ("SELECT", "WITH", "VALUES")
        self._retreat(index)
        return is_query

    def expr(self) -> Any:
        """An expression or condition, as a tree."""
        start = self.at
        tree = self._parse_assignment()
        if tree is None:
            self.fail("an expression is expected", start)
        return tree

    def unary(self) -> Any:
        """An expression without an operator between two others, as a tree."""
        start = self.at
        tree = self._parse_unary()
        if tree is None:
            self.fail("an expression is expected", start)
        return tree

    def type(self) -> Any:
        """A type, as a tree."""
        start = self.at
        tree = self._parse_types()
        if tree is None:
            self.fail("a type is expected", start)
        return tree

    def query(self) -> Any:
        """SELECT, VALUES, WITH … SELECT, as a tree."""
        start = self.at
        tree = self._parse_ddl_select()
        if tree is None:
            self.fail("a query is expected: SELECT, VALUES or WITH", start)
        return tree

    def statement(self) -> Any:
        """Another statement within this one (EXPLAIN …): its tree, or Ready."""
        return self._parse_statement()

    def tokens_until(self, *stops: str) -> tuple[int, int]:
        """Read tokens up to one of these words or signs outside of brackets: where they begin and end."""
        start, end, depth = self.at, self.at, 0
        while self._curr:
            word = self.next_text
            if depth == 0 and any(self.comes(stop) for stop in stops):
                break
            depth += (word in ("(", "[", "<")) - (word in (")", "]", ">"))
            if depth < 0:
                break
            end = self._curr.end + 1
            self._advance()
        return start, end


@dataclass(frozen=True, slots=True)
class Written:
    """A word or sign of a statement: where it stands in the script, and its text."""

    start: int
    end: int
    text: str
    is_parameter: bool = False


_NO_FUNCTIONS = "AND OR NOT IN WHEN THEN ELSE CASE LIKE BETWEEN IS AS OVER DISTINCT".split()


def spaced(words: Sequence[str]) -> str:
    """Words and signs of an expression as one text: `-a * F(b, 'c')`."""
    text, before, sign = "", "", False
    for word in words:
        joins = word in (",", ")", "]", ".", "[", "::") or before in ("(", "[", ".", "::", "")
        joins |= (
            word == "(" and (before[-1:].isalnum() or before[-1:] in "_`") and before not in _NO_FUNCTIONS
        )
        joins |= sign and not word.startswith(("-", "+"))
        text += word if joins else f" {word}"
        # a sign stands at the beginning, or behind what is no operand
        operand = before[-1:] in ")]'`" or (before[-1:].isalnum() and before not in _NO_FUNCTIONS)
        sign = word in ("-", "+") and not operand
        before = word
    return text


def joined(parts: Iterable[Written]) -> str:
    """Words as a text again, with one space where there was any, or a parameter stood."""
    text, end = "", 0
    for part in parts:
        text += (" " if part.start != end or part.is_parameter else "") + part.text
        end = part.end
    return text.strip()
