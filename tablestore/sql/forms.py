"""All kinds of statements, the grammar that the parser, help, completion and the reference share; how a text
becomes a statement by it, and the session that knows them all.

Those of Flink and Spark that are out are refused by name, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tablestore.core.arguments import require_session
from tablestore.core.errors import InvalidRequest
from tablestore.io.confined import Roots
from tablestore.sql.dialect.parser import Parser, read
from tablestore.sql.dialect.tokenizer import StatementText
from tablestore.sql.form import Form, Statement, of_family
from tablestore.sql.problems import SqlProblem, near, placing, start_of
from tablestore.sql.session import Session
from tablestore.sql.statements import (
    alter_table,
    call,
    changing,
    create_table,
    databases,
    describe,
    insert,
    merge,
    queries,
    settings,
    show,
    views,
)
from tablestore.table.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FUNCTIONS = "the functions are those of the dialect"
_OUT = {
    "CREATE OR REPLACE TABLE": "a table that exists is altered, or dropped first",
    "CREATE EXTERNAL TABLE": "a catalog says where its tables lie",
    "CREATE MATERIALIZED TABLE": "INSERT INTO … SELECT keeps a table",
    "ALTER MATERIALIZED TABLE": "INSERT INTO … SELECT keeps a table",
    "DROP MATERIALIZED TABLE": "INSERT INTO … SELECT keeps a table",
    "CREATE FUNCTION": _FUNCTIONS,
    "CREATE TEMPORARY FUNCTION": _FUNCTIONS,
    "ALTER FUNCTION": _FUNCTIONS,
    "DROP FUNCTION": _FUNCTIONS,
    "DROP TEMPORARY FUNCTION": _FUNCTIONS,
    "ALTER CATALOG": "the session forgets it by DROP CATALOG; then CREATE CATALOG",
    "CREATE INDEX": "option file-index.bloom-filter.columns asks for indexes of files",
}


def _refusing(words: str, why: str) -> Callable[[Parser], NoReturn]:
    def parse(p: Parser) -> NoReturn:
        p.refuse(words, why, p.piece.start)

    return parse


_REFUSED = of_family(
    "refused",
    *tuple(
        Form(f"{words} …", f"Not supported: {why}.", _refusing(words, why)) for words, why in _OUT.items()
    ),
)
FORMS: tuple[Form, ...] = (
    *queries.FORMS,
    *insert.FORMS,
    *changing.FORMS,
    *merge.FORMS,
    *call.FORMS,
    *databases.FORMS,
    *create_table.FORMS,
    *alter_table.FORMS,
    *describe.FORMS,
    *show.FORMS,
    *views.FORMS,
    *_REFUSED,
    *settings.FORMS,
)
_BUILT = {form.node: form for form in FORMS if form.node is not None}


def first_words() -> list[str]:
    """The words with which statements begin, sorted."""
    return sorted({form.words.split()[0] for form in FORMS})


def statement_of(piece: StatementText) -> Statement:
    """The statement of a piece of a script. Raises SqlProblem, Unsupported."""
    word = piece.tokens[0].text
    words = first_words()
    if word.upper() not in words and word != "(":
        problem = f"{word[:30]!r} begins no statement{near(word, words) or ': ' + ', '.join(words) + ' do'}"
        raise SqlProblem(problem, piece.text, piece.start)
    _require_form(piece)
    tree = read(piece, FORMS)
    if not isinstance(tree, exp.Expression):
        return tree
    return built(tree, piece)


def _require_form(piece: StatementText) -> None:
    """Raise SqlProblem at the first word with which no form goes on, where all forms that begin so read
    themselves: CREATE TABEL, SHOW TABLE."""
    said = [(word, t) for t in piece.tokens[:8] for word in _words(t)]
    forms = [form for form in FORMS if form.words.split()[0] == said[0][0]]
    if not forms or any(form.parse is None for form in forms):
        return
    left, depth = [form.words.split() for form in forms], 0
    while all(len(words) > depth for words in left):
        expected = sorted({words[depth] for words in left})
        word, token = said[depth] if depth < len(said) else ("", None)
        if word not in expected:
            at = piece.tokens[-1].end + 1 if token is None else token.start
            here = "the statement ends" if token is None else f"{token.text[:30]!r} is not expected here"
            which = near(word, expected) or f"; expected: {', '.join(expected)}"
            raise SqlProblem(f"{here}{which}", piece.text, at)
        left, depth = [words for words in left if words[depth] == word], depth + 1


def _words(token: Token) -> list[str]:
    """The words of a token in capitals; quoted ones are none of a form."""
    quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return [""] if quoted else token.text.upper().split()


def built(tree: exp.Expression, piece: StatementText) -> Statement:
    """The statement of a tree that sqlglot has read."""
    form: Form | None = next((_BUILT[kind] for kind in type(tree).__mro__ if kind in _BUILT), None)
    if form is None or form.build is None:
        raise SqlProblem("this is no statement", piece.text, piece.start)
    with placing(piece.text, start_of(tree, piece.start)):
        return form.build(tree, piece.text)


def sql_session(
    lake: Lake | None = None,
    *,
    spark: SparkSession | None = None,
    roots: Sequence[str | os.PathLike[str]] | None = None,
) -> Session:
    """A session for SQL statements over a `lake`, or over catalogs that statements make. With a `spark`
    session, Spark computes its queries (`SET 'execution.engine' = 'embedded'` goes back to DuckDB).

    Statements can name any file that this process reaches, as its user can. `roots` confine them, for texts
    of others: beside the tables of the lake they then reach only what lies in these directories (and places
    in stores, `s3://bucket/path`), with links resolved. That holds for files of tables and connectors,
    warehouses of checkpoints, certificates; variables of the environment, a Hive metastore and a
    database server as a catalog are then out of reach. What is beyond raises OutsideRoots. Without `roots`
    those of `connect(…, sql_roots=[…])` hold. Brokers and databases that statements name are reached all the
    same: networks are confined by other means.

    >>> ts.sql_session(lake).sql("SHOW DATABASES").to_arrow().to_pylist()
    [{'database name': 'shop'}]
    """
    if lake is not None and not isinstance(lake, Lake):
        raise InvalidRequest(f"{lake!r} is not a lake: ts.connect(path) gives one")
    if spark is not None:
        require_session(spark)
    confined = lake.sql_roots if roots is None and lake is not None else None
    return Session(lake, read=statement_of, spark=spark, roots=confined if roots is None else Roots.of(roots))
