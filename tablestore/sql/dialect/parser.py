"""The parser: sqlglot's for Spark, that asks our forms first, with helpers for who reads a statement by hand.

A parse function of a form gets the parser behind the words of the form and uses only the methods without an
underscore, so all of what we ask of sqlglot is in this file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar, cast

from sqlglot import exp
from sqlglot.dialects.dialect import NormalizationStrategy
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parser import Parser as BaseParser
from sqlglot.tokenizer_core import Token, TokenType

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.sql.dialect.json_calls import CALLS
from tablestore.sql.dialect.tokenizer import Piece, Tokenizer, pieces
from tablestore.sql.dialect.written import Written, joined, spaced
from tablestore.sql.names import Name
from tablestore.sql.problems import SqlProblem, placed
from tablestore.sql.query.conditions import value_of
from tablestore.sql.text import literal_text, name_text

T = TypeVar("T")
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_VERBATIM = (*_QUOTED, TokenType.HEX_STRING, TokenType.NUMBER)
_BEHIND_TYPES = "NOT|NULL|COMMENT|DEFAULT|PRIMARY KEY|CONSTRAINT|UNIQUE|METADATA|FIRST|AFTER".split("|")
_BaseParser: Any = BaseParser
_SparkParser: Any = Spark.Parser  # mypy: sqlglot builds these classes by a metaclass


_NODES = (
    *("COUNT", "SUM", "AVG", "MIN", "MAX", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP"),
    *("VAR_SAMP", "COALESCE", "ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE"),
    *("LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"),
)
_SPELLED = ("CAST", "TRY_CAST", "CEIL", "FLOOR", "EXTRACT", "SUBSTRING", "TRIM", "POSITION", "OVERLAY")


_SEMICOLON = TokenType.BREAK  # of a statement within another: at SEMICOLON sqlglot begins anew
_HINTS = "hints"  # key of the notes of a table


def _within(token: Token) -> Token:
    if token.token_type is not TokenType.SEMICOLON:
        return token
    return Token(_SEMICOLON, token.text, token.line, token.col, token.start, token.end)


class OwnForm(Protocol):
    """A kind of statement that may read itself: the words it begins with, and what reads what is behind."""

    @property
    def words(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def parse(self) -> Callable[[Parser], Any] | None: ...


class Ready(exp.Expression):
    """A node that has a statement which is read already: how values of our own parse functions pass through
    sqlglot."""

    arg_types = {"this": True}  # noqa: RUF012  # sqlglot's way to declare


class Parser(_SparkParser):  # type: ignore[misc]  # likewise
    """Reads one statement.

    Functions stay what was written: `Anonymous` with a name and arguments, but for aggregates, windows and
    those with words among their arguments, which have nodes. `query/functions.py` says what they mean.
    """

    STRICT_CAST = True  # a CAST that fails is an error, TRY_CAST gives NULL
    FUNCTIONS = {name: _SparkParser.FUNCTIONS[name] for name in _NODES}  # noqa: RUF012  # sqlglot's way
    FUNCTION_PARSERS = {  # noqa: RUF012  # likewise
        **{name: _SparkParser.FUNCTION_PARSERS[name] for name in _SPELLED},
        **{
            name: lambda self, name=name: self._parse_with_unit(name)
            for name in ("TIMESTAMPDIFF", "TIMESTAMPADD")
        },
        **CALLS,
    }

    UNARY_PARSERS = {  # noqa: RUF012  # likewise
        **_SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: self._parse_plus(),
    }

    TYPE_LITERAL_PARSERS = {  # noqa: RUF012  # likewise
        **_SparkParser.TYPE_LITERAL_PARSERS,
        exp.DType.TIMESTAMP: lambda self, this, _: self._parse_timestamp(this),
    }

    forms: tuple[OwnForm, ...] = ()  # those that read themselves, longest words first
    piece: Piece

    def read(self, piece: Piece) -> Any:
        """The tree of a statement, or the statement itself, if its form reads tokens. Raises SqlProblem."""
        self.piece = piece
        try:
            trees = self.parse([_within(token) for token in piece.tokens], piece.text)
        except ParseError as e:
            raise self._problem_of(e) from None
        except RecursionError:
            raise SqlProblem("the statement is nested too deeply", piece.text, piece.start) from None
        tree = trees[0]
        if isinstance(tree, Ready):
            return tree.this
        if tree is None or tree.find(exp.Command) is not None:
            raise SqlProblem("this is no statement", piece.text, piece.start)
        return tree

    def _problem_of(self, error: ParseError) -> SqlProblem:
        """sqlglot's error in our words: its description may name its classes."""
        first: dict[str, Any] = error.errors[0] if error.errors else {}
        at = self._failed_at if self._failed_at is not None else self.piece.start
        description = str(first.get("description", "") or "")
        unclear = (
            not description
            or "<class" in description
            or "TokenType" in description
            or "Required" in description
        )
        here = self.piece.text[at:].split(None, 1)[:1]
        shown = (
            f"{here[0][:30]!r} is not expected here"
            if here and at < self.piece.tokens[-1].end + 1
            else "the statement ends too early"
        )
        if "does not support CTE" in description:
            return SqlProblem("WITH stands behind INSERT INTO table", self.piece.text, self.piece.start)
        if unclear or description.startswith(("Invalid expression", "Failed to parse")):
            description = shown
        else:
            description = description.rstrip(".").replace("Expecting", "expected:")
        return SqlProblem(description, self.piece.text, at)

    _failed_at: int | None = None

    def raise_error(self, message: str, token: Token | None = None) -> None:
        seen = token or self._curr or None
        if seen is not None and seen.text:
            self._failed_at = seen.start
        else:
            self._failed_at = self.piece.tokens[-1].end + 1
        super().raise_error(message, *(() if token is None else (token,)))

    def _parse_statement(self) -> exp.Expression | None:
        for form in self.forms:
            if self.accept(form.words):
                assert form.parse is not None
                return Ready(this=form.parse(self))
        return cast("exp.Expression | None", super()._parse_statement())

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
        """A table's name, with the hints behind it: `t /*+ OPTIONS('k' = 'v') */`."""
        table = super()._parse_table_parts(*args, **kwargs)
        if self._match(TokenType.HINT):
            table.set("hints", [exp.Hint(expressions=list(self._prev_comments))])
            table.meta[_HINTS] = table.args["hints"]
        return table

    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        """A table of FROM; its hints stay, where sqlglot would forget them behind FOR SYSTEM_TIME AS OF."""
        table = super()._parse_table(*args, **kwargs)
        if isinstance(table, exp.Table) and _HINTS in table.meta:
            table.set("hints", table.meta.pop(_HINTS))
        return table

    def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
        """A type with its length, which Spark forgets in a CAST; `ROW<a INT, b STRING>` is one."""
        return self._parse_row_type() or _BaseParser._parse_types(self, *args, **kwargs)

    def _parse_row_type(self) -> exp.DataType | None:
        index, fields = self._index, list[exp.ColumnDef]()
        if self._match_text_seq("ROW") and self._match(TokenType.LT):
            while (name := self._parse_id_var()) is not None and (kind := self._parse_types()) is not None:
                fields.append(exp.ColumnDef(this=name, kind=kind))
                if not self._match(TokenType.COMMA):
                    break
            if fields and self._match(TokenType.GT):
                return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)
        self._retreat(index)
        return None

    def _parse_timestamp(self, literal: exp.Expression) -> exp.Cast:
        """`TIMESTAMP '…'`, whose precision is that of the digits behind its seconds."""
        digits = min(len(literal.name.partition(".")[2]), 9)
        size = exp.DataTypeParam(this=exp.Literal.number(digits))
        to = exp.DataType(this=exp.DType.TIMESTAMP, expressions=[size], nested=False)
        return exp.Cast(this=literal, to=to)

    def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> list[Any]:
        """What stands between commas; between two of them stands something."""

        def one() -> Any:
            found = parse_method()
            if found is None and ((self._prev and self._prev.token_type is sep) or self.comes(",")):
                self.fail("something is expected beside the comma")
            return found

        return cast("list[Any]", super()._parse_csv(one, sep))

    def _parse_limit(self, *args: Any, **kwargs: Any) -> Any:
        """LIMIT; FETCH FIRST n ROWS ONLY is one, too."""
        found = super()._parse_limit(*args, **kwargs)
        options = found.args.get("limit_options") if isinstance(found, exp.Fetch) else None
        if not isinstance(found, exp.Fetch) or (options is not None and options.args.get("with_ties")):
            return found
        return exp.Limit(expression=found.args.get("count") or exp.Literal.number(1))

    def _parse_plus(self) -> Any:
        """`+a`. Of a column it is an expression, which has no name."""
        tree = self._parse_unary()
        if tree is None:
            self.fail("an expression is expected")
        return exp.Neg(this=exp.Neg(this=tree)) if isinstance(tree, exp.Column) else tree

    def _parse_with_unit(self, name: str) -> exp.Expression:
        """The arguments of a function whose first one is a word: `TIMESTAMPDIFF(DAY, a, b)`."""
        unit = self._parse_var(any_token=True)
        self._match(TokenType.COMMA)
        return exp.Anonymous(this=name, expressions=[unit, *self._parse_csv(self._parse_assignment)])

    # What parse functions of forms use.

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
            found = token.text.upper().split()  # some tokens are two words: PRIMARY KEY
            if not found or wanted[: len(found)] != found:
                return False
            wanted, ahead = wanted[len(found) :], ahead + 1
        self._advance(ahead)
        return True

    def comes(self, words: str) -> bool:
        """Whether these words or signs come next."""
        index = self._index
        found = self.accept(words)
        self._retreat(index)
        return found

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
        refusal = Unsupported(feature, why)
        placed(refusal, self.piece.text, self.at if at is None else at)
        raise refusal

    def finish(self) -> None:
        """Require the end of the statement; one within another ends with a semicolon."""
        if self._curr and self._curr.token_type is not _SEMICOLON:
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

    def integer(self, what: str = "a whole number") -> int:
        if not self._match(TokenType.NUMBER) or not self._prev.text.isdecimal():
            self.fail(f"{what} is expected")
        return int(self._prev.text)

    def listed(self, one: Callable[[], T], *, empty: bool = False) -> list[T]:
        """`(one, one, …)`; `()` only with `empty`."""
        self.expect("(")
        if empty and self.accept(")"):
            return []
        found = [one()]
        while self.accept(","):
            found.append(one())
        self.expect(")")
        return found

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
        found: dict[str, Any] = {}

        def one() -> None:
            at = self.at
            column = self.part("a partition column")
            if column in found:
                self.fail(f"partition column {column!r} is named twice", at)
            named = self.accept("=")
            if not named and not partly:
                self.expect("=")
            found[column] = self.literal() if named else None

        self.listed(one)
        return found

    def hints(self) -> list[str]:
        """The texts of `/*+ … */` if such comes next; `dialect/hints.py` reads them."""
        return list(self._prev_comments) if self._match(TokenType.HINT) else []

    def query_is_next(self) -> bool:
        """Whether a bracket opens that a query stands in."""
        index = self._index
        while self._match(TokenType.L_PAREN):
            pass
        found = self.next_text in ("SELECT", "WITH", "VALUES")
        self._retreat(index)
        return found

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


def reader(forms: tuple[OwnForm, ...]) -> Parser:
    """A parser that knows these forms."""
    parser = Parser(dialect=LakeSql, error_level=ErrorLevel.IMMEDIATE)
    own = [form for form in forms if form.parse is not None]
    parser.forms = tuple(sorted(own, key=lambda form: -len(form.words.split())))
    return parser


class LakeSql(Spark):
    """The dialect, for sqlglot's own functions. Names are as they are written; arrays count from 1."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
    INDEX_OFFSET = 1

    Tokenizer = Tokenizer
    Parser = Parser


def read(piece: Piece, forms: tuple[OwnForm, ...]) -> Any:
    """What a piece of a script says. Raises SqlProblem."""
    return reader(forms).read(piece)


def read_expression(text: str) -> exp.Expression:
    """The tree of an expression that stands alone, as tables keep those of computed columns. Raises
    SqlProblem."""

    def parse(p: Parser) -> Any:
        tree = p.expr()
        p.finish()
        return tree

    return _alone(text, "an expression", parse)


def read_query(text: str) -> exp.Expression:
    """The tree of a query that stands alone, as views keep it. Raises SqlProblem."""

    def parse(p: Parser) -> Any:
        tree = p.query()
        p.finish()
        return tree

    return _alone(text, "a query", parse)


class _Alone(NamedTuple):
    words: str
    text: str
    parse: Callable[[Parser], Any]


def _alone(text: str, what: str, parse: Callable[[Parser], Any]) -> exp.Expression:
    whole = pieces(f"ALONE {text}")
    if len(whole) != 1:
        raise SqlProblem(f"{text!r} is not {what}")
    return cast("exp.Expression", read(whole[0], (_Alone("ALONE", "", parse),)))
