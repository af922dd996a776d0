"""The parser: sqlglot's for Spark, that asks our forms first.

A parse function of a form gets the parser behind the words of the form and uses only the methods without an
underscore, those of `form_reader.py`. Here are also the readers of texts that stand alone: expressions,
queries, hints; and those of JSON functions with words among their arguments, such as `JSON_VALUE(j, '$.a'
RETURNING INT NULL ON EMPTY)`. Each becomes a call with plain arguments: behaviours are texts, `NULL`, `ERROR`
or `=` before a default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

from sqlglot import exp
from sqlglot.dialects.dialect import NormalizationStrategy
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parser import Parser as BaseParser
from sqlglot.tokenizer_core import Token, TokenType

from tablestore.core.errors import Unsupported
from tablestore.sql.dialect.form_reader import SEMICOLON, FormReader
from tablestore.sql.dialect.tokenizer import StatementText, Tokenizer, pieces
from tablestore.sql.problems import SqlProblem
from tablestore.sql.text import Name

_NESTED = ("JSON_OBJECT", "JSON_ARRAY")
_EMPTY = {"EMPTY ARRAY": "=[]", "EMPTY OBJECT": "={}"}


def _value(p: FormReader) -> exp.Expression:
    json, path = _json_and_path(p)
    kind = p.type() if p.accept("RETURNING") else None
    behaviours = _behaviours(p)
    call = exp.Anonymous(
        this="JSON_VALUE", expressions=[json, path, behaviours["EMPTY"], behaviours["ERROR"]]
    )
    return call if kind is None else exp.Cast(this=call, to=kind)


def _query(p: FormReader) -> exp.Expression:
    json, path = _json_and_path(p)
    if p.comes("RETURNING"):
        p.refuse("JSON_QUERY … RETURNING", "it gives text")
    wrapper = "WITHOUT"
    if p.accept("WITHOUT"):
        p.accept("ARRAY")
        p.expect("WRAPPER")
    elif p.accept("WITH"):
        wrapper = "CONDITIONAL" if p.accept("CONDITIONAL") else "UNCONDITIONAL"
        p.accept("UNCONDITIONAL")
        p.accept("ARRAY")
        p.expect("WRAPPER")
    behaviours = _behaviours(p)
    arguments = [json, path, _text(wrapper), behaviours["EMPTY"], behaviours["ERROR"]]
    return exp.Anonymous(this="JSON_QUERY", expressions=arguments)


def _exists(p: FormReader) -> exp.Expression:
    json, path = _json_and_path(p)
    on_error = "FALSE"
    for word in ("TRUE", "FALSE", "UNKNOWN", "ERROR"):
        if p.accept(f"{word} ON ERROR"):
            on_error = word
    return exp.Anonymous(this="JSON_EXISTS", expressions=[json, path, _text(on_error)])


def _object(p: FormReader, name: str = "JSON_OBJECT") -> exp.Expression:
    members: list[Any] = []
    while not p.comes(")") and not _on_null_comes(p):
        p.accept("KEY")
        members.append(p.expr())
        if not p.accept(":"):
            p.expect("VALUE")
        members.append(_json(p.expr()))
        if not p.accept(","):
            break
    return exp.Anonymous(this=name, expressions=[_on_null(p, "NULL"), *members])


def _array(p: FormReader, name: str = "JSON_ARRAY") -> exp.Expression:
    values: list[Any] = []
    while not p.comes(")") and not _on_null_comes(p):
        values.append(_json(p.expr()))
        if not p.accept(","):
            break
    return exp.Anonymous(this=name, expressions=[_on_null(p, "ABSENT"), *values])


CALLS: Mapping[str, Callable[[FormReader], exp.Expression]] = MappingProxyType(
    {
        "JSON_VALUE": _value,
        "JSON_QUERY": _query,
        "JSON_EXISTS": _exists,
        "JSON_OBJECT": _object,
        "JSON_ARRAY": _array,
        "JSON_OBJECTAGG": lambda p: _object(p, "JSON_OBJECTAGG"),
        "JSON_ARRAYAGG": lambda p: _array(p, "JSON_ARRAYAGG"),
    }
)
"""What reads the arguments of a function, behind its opening bracket."""


def _json_and_path(p: FormReader) -> tuple[Any, Any]:
    json = p.expr()
    p.expect(",")
    return json, p.expr()


def _behaviours(p: FormReader) -> dict[str, exp.Expression]:
    """What ON EMPTY and ON ERROR say."""
    behaviours: dict[str, exp.Expression] = {"EMPTY": _text("NULL"), "ERROR": _text("NULL")}
    while not p.comes(")"):
        behaviour: exp.Expression
        words = next((words for words in ("NULL", "ERROR", *_EMPTY) if p.accept(words)), None)
        if words is not None:
            behaviour = _text(_EMPTY.get(words, words))
        else:
            p.expect("DEFAULT")
            default = exp.Cast(this=p.unary(), to=exp.DataType.build("VARCHAR"))
            behaviour = exp.DPipe(this=_text("="), expression=default)
        p.expect("ON")
        moment = "EMPTY" if p.accept("EMPTY") else "ERROR"
        if moment == "ERROR":
            p.expect("ERROR")
        behaviours[moment] = behaviour
    return behaviours


def _on_null_comes(p: FormReader) -> bool:
    return p.comes("NULL ON NULL") or p.comes("ABSENT ON NULL")


def _on_null(p: FormReader, otherwise: str) -> exp.Expression:
    for word in ("NULL", "ABSENT"):
        if p.accept(f"{word} ON NULL"):
            return _text(word)
    return _text(otherwise)


def _json(value: Any) -> Any:
    """A value as JSON; what is JSON already stays."""
    if isinstance(value, exp.Anonymous) and value.name.upper() in _NESTED:
        return value
    return exp.Anonymous(this="JSON_STRING", expressions=[value])


def _text(text: str) -> exp.Expression:
    return exp.Literal.string(text)


_BaseParser: Any = BaseParser
_SparkParser: Any = Spark.Parser  # mypy: sqlglot builds these classes by a metaclass


_NODES = (
    *("COUNT", "SUM", "AVG", "MIN", "MAX", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP"),
    *("VAR_SAMP", "COALESCE", "ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE"),
    *("LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"),
)
_SPELLED = ("CAST", "TRY_CAST", "CEIL", "FLOOR", "EXTRACT", "SUBSTRING", "TRIM", "POSITION", "OVERLAY")


_HINTS = "hints"  # key of the notes of a table


def _within(token: Token) -> Token:
    if token.token_type is not TokenType.SEMICOLON:
        return token
    return Token(SEMICOLON, token.text, token.line, token.col, token.start, token.end)


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


class Parser(FormReader):
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

    def read(self, piece: StatementText) -> Any:
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
                statement = Ready(this=form.parse(self))
                self.finish()
                return statement
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
            part = parse_method()
            if part is None and ((self._prev and self._prev.token_type is sep) or self.comes(",")):
                self.fail("something is expected beside the comma")
            return part

        return cast("list[Any]", super()._parse_csv(one, sep))

    def _parse_limit(self, *args: Any, **kwargs: Any) -> Any:
        """LIMIT; FETCH FIRST n ROWS ONLY is one, too."""
        limit = super()._parse_limit(*args, **kwargs)
        options = limit.args.get("limit_options") if isinstance(limit, exp.Fetch) else None
        if not isinstance(limit, exp.Fetch) or (options is not None and options.args.get("with_ties")):
            return limit
        return exp.Limit(expression=limit.args.get("count") or exp.Literal.number(1))

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


def read(piece: StatementText, forms: tuple[OwnForm, ...]) -> Any:
    """What a piece of a script says. Raises SqlProblem."""
    return reader(forms).read(piece)


def read_expression(text: str) -> exp.Expression:
    """The tree of an expression that stands alone, as tables keep those of computed columns. Raises
    SqlProblem."""
    return cast("exp.Expression", _alone(text, "an expression", Parser.expr))


def read_query(text: str) -> exp.Expression:
    """The tree of a query that stands alone, as views keep it. Raises SqlProblem."""
    return cast("exp.Expression", _alone(text, "a query", Parser.query))


def read_name(text: str) -> Name:
    """The name of a table that stands alone. Raises SqlProblem."""
    return cast("Name", _alone(text, "a table's name", Parser.name))


def options_of(hints: Sequence[str]) -> dict[str, str]:
    """The options that hints `/*+ OPTIONS('key' = 'value', …) */` give; `hints` are texts between `/*+` and
    `*/`. Raises SqlProblem for what is no hint, Unsupported for hints other than OPTIONS."""
    options: dict[str, str] = {}
    for piece in (piece for hint in hints for piece in pieces(hint)):
        given = read(piece, (_Alone("OPTIONS", "", Parser.options),))
        if not isinstance(given, dict):
            raise Unsupported(f"hint {piece.tokens[0].text}", "OPTIONS('key' = 'value') is the one there is")
        options.update(given)
    return options


class _Alone(NamedTuple):
    words: str
    text: str
    parse: Callable[[Parser], Any]


def _alone(text: str, what: str, parse: Callable[[Parser], Any]) -> Any:
    whole = pieces(f"ALONE {text}")
    if len(whole) != 1:
        raise SqlProblem(f"{text!r} is not {what}")
    return read(whole[0], (_Alone("ALONE", "", parse),))
