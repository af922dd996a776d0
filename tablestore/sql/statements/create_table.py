"""CREATE [TEMPORARY] TABLE, with LIKE and AS SELECT; it says what is to know of the buckets of the new
table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tablestore import doors
from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound, TablestoreError, Unsupported
from tablestore.format.computed_columns import (
    as_options,
    in_order,
)
from tablestore.format.schema import numbered
from tablestore.format.types.arrow_types import DataField, from_arrow
from tablestore.sql.connectors.connector import connector_of
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.form import Form, of_family
from tablestore.sql.result import Result
from tablestore.sql.scope import RecordMetadata, TableDefinition, require_inside
from tablestore.sql.session import Session
from tablestore.sql.settings import TABLE_STORAGE
from tablestore.sql.statements.columns import (
    ColumnText,
    TableText,
    computed_of,
    of_one_part,
    require_different,
    table_text,
    watermark_of,
    without_nulls,
)
from tablestore.sql.statements.queries import rows_of
from tablestore.sql.text import Name
from tablestore.table.table import Table
from tablestore.write.supported import warning_of

CONNECTORS = ("paimon", "table-store", "tablestore")  # what tables of catalogs may call themselves
_ASPECTS = ("CONSTRAINTS", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")


@dataclass(frozen=True, slots=True)
class LikeClause:
    """LIKE source, with what of it is left out: words of `_ASPECTS`."""

    source: Name
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CreateTable:
    """What a statement says of a new table. `of_spark`: types mean what Spark means by them (USING)."""

    name: Name
    table: TableText
    partition_by: tuple[ColumnText, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
    comment: str | None = None
    like: LikeClause | None = None
    query: Any = None
    temporary: bool = False
    if_not_exists: bool = False
    of_spark: bool = False

    def run(self, session: Session) -> Result:
        if self.temporary:
            return self._make_temporary(session)
        refuse_other_connectors(self.options)
        if session.view(self.name) is not None:
            raise AlreadyExists(f"{self.name} is a view")
        lake, name = session.resolved(self.name)
        if name in lake:
            if self.if_not_exists:
                return Result(message=f"table {self.name} exists")
            raise AlreadyExists(f"table {self.name} exists")
        database = session.full_name(self.name)[1]
        if database not in lake.databases() and database != "default":
            raise NotFound.among("database", database, lake.databases())
        rows = None if self.query is None else rows_of(session, self.query, self.table.text)
        definition = self._definition(session, None if rows is None else rows.schema)
        options: dict[str, str | None] = dict(definition.options)
        options |= as_options(definition.computed, definition.watermark)
        source = self._source_of_options(session)
        if source is not None:  # an option given as None is not taken over
            positions = {k: None for k in source.options if k.startswith("schema.")}
            options = {**positions, **options}
        options_known = {*options, *(source.options if source is not None else ())}
        defaults = {k: v for k, v in session.settings.table_defaults().items() if k not in options_known}
        options |= defaults
        require_inside(session.roots, options)
        with of_settings(defaults):
            table = lake.create_table(
                name,
                schema=definition.columns,
                like=source,
                primary_key=definition.primary_key,
                partition_by=definition.partition_by,
                options=options,
                comment=definition.comment
                or ("" if source is not None else None),  # LIKE takes over no comment
            )
        note = note_of(table, by_default="bucket" not in {*options, *options_known})
        if rows is None:
            return Result(message=f"table {self.name} is made{note}")
        try:
            with table.writer() as writer:
                for batch in rows:
                    writer.write(batch)
        except BaseException:
            with suppress(NotFound):  # dropped meanwhile, and perhaps made anew by somebody else
                table.store.require_same()
                lake.drop_table(name)
            raise
        done = writer.committed
        assert done is not None
        message = f"table {self.name} is made, with {done.rows:,} rows{note}"
        return Result(rows_affected=done.rows, snapshots=done.snapshots, message=message)

    def _source_of_options(self, session: Session) -> Table | None:
        """The table of a catalog whose options LIKE takes over."""
        like = self.like
        if like is None or "OPTIONS" in like.excluded or session.temporary_table(like.source) is not None:
            return None
        return session.table(like.source)

    def _make_temporary(self, session: Session) -> Result:
        if self.query is not None:
            raise Unsupported("CREATE TEMPORARY TABLE … AS SELECT", "CREATE TEMPORARY VIEW keeps a query")
        key = session.full_name(self.name)
        if key in session.temporary or key in session.views:
            if self.if_not_exists:
                return Result(message=f"temporary table {self.name} exists")
            raise AlreadyExists(f"temporary table {self.name} exists")
        options = (
            self.options if self.like is None else {**_model(session, self.like).options, **self.options}
        )
        if not options.get("connector"):
            raise InvalidRequest("a temporary table needs option 'connector': WITH ('connector' = 'datagen')")
        connector_of(options["connector"]).require_no_secrets(options)
        definition = self._definition(session, None)
        columns = numbered(without_nulls(definition.columns, definition.primary_key))
        session.temporary[key] = replace(definition, columns=columns, temporary=True)
        return Result(message=f"temporary table {self.name} is made")

    @property
    def _of_source(self) -> bool:
        """Whether the columns are those that the connector finds."""
        return self.temporary and self.like is None and not self.table.of_rows

    def _definition(self, session: Session, rows: pa.Schema | None) -> TableDefinition:
        """The whole table: what is written, what LIKE takes over, the columns of the query."""
        text, written = self.table.text, self.table.columns
        base = _found(session, self.options) if self._of_source else TableDefinition(())
        if self.like is not None:
            base = _model(session, self.like)
        own = [c.field(text, of_spark=self.of_spark) for c in self.table.stored]
        require_different(written, in_order([f.name for f in base.columns], base.computed), text)
        typed = [c for c in self.partition_by if c.type is not None]
        own += [c.field(text, of_spark=self.of_spark) for c in typed]
        if rows is not None:
            listed = {f.name: f for f in own}
            selected = [_of_query(f) for f in rows]
            named = {f.name for f in selected}
            own = [f for f in own if f.name not in named] + [listed.get(f.name, f) for f in selected]
        stored = (*base.columns, *own)
        key = self.table.primary_key or base.primary_key
        before = in_order([f.name for f in base.columns], base.computed)
        layout = [ColumnText((n,), 0, expression=None) for n in before]
        if rows is not None:  # the query's columns stand behind those that are written
            written = (*written, *(ColumnText((f.name,), 0) for f in own if f.name not in _names(written)))
        stored = without_nulls(stored, key)
        later = computed_of(session, (*layout, *written), stored, text, typed=not self.temporary)
        mark = watermark_of(
            session, self.table.watermark, stored, text, (*base.computed, *later), typed=not self.temporary
        )
        return TableDefinition(
            stored,
            key,
            tuple(of_one_part(c) for c in self.partition_by) or base.partition_by,
            {**base.options, **{k: v for k, v in self.options.items() if self.temporary or k != "connector"}},
            (*base.computed, *later),
            mark or base.watermark,
            self.comment,
            (
                *base.metadata,
                *(RecordMetadata(c.name[0], c.metadata, c.virtual) for c in written if c.metadata),
            ),
        )


def _found(session: Session, options: Mapping[str, str]) -> TableDefinition:
    """The columns and the primary key that a connector finds in its source."""
    connector = connector_of(options["connector"])
    assert connector.columns is not None, "asked for when the statement was read"
    columns, key = connector.columns(connector.parsed(TableDefinition((), options=options), session.roots))
    return TableDefinition(columns, key)


def _names(columns: tuple[ColumnText, ...]) -> set[str]:
    return {c.name[-1] for c in columns}


def _of_query(f: pa.Field) -> DataField:
    t = pa.string() if pa.types.is_null(f.type) else f.type
    return DataField(0, f.name, from_arrow(t))


def _model(session: Session, like: LikeClause) -> TableDefinition:
    """What LIKE takes over."""
    temporary = session.temporary_table(like.source)
    if temporary is not None:
        definition = temporary
    else:  # `Lake.create_table(like=…)` knows which options are taken over
        schema = session.table(like.source).store.schema
        definition = replace(TableDefinition.of_schema(schema), options={})
    without = like.excluded
    if "METADATA" in without:
        names = {column.name for column in definition.metadata}
        definition = replace(
            definition, columns=tuple(f for f in definition.columns if f.name not in names), metadata=()
        )
    return replace(
        definition,
        primary_key=() if "CONSTRAINTS" in without else definition.primary_key,
        partition_by=() if "PARTITIONS" in without else definition.partition_by,
        options={} if "OPTIONS" in without else definition.options,
        computed=() if "GENERATED" in without else definition.computed,
        watermark=None if "WATERMARKS" in without else definition.watermark,
    )


def refuse_other_connectors(options: Mapping[str, str]) -> None:
    """Raise Unsupported for a permanent table of another connector."""
    connector = options.get("connector", CONNECTORS[0])
    if connector.lower() not in CONNECTORS:
        raise Unsupported(
            f"a table of connector {connector!r} in a catalog of tables",
            "CREATE TEMPORARY TABLE makes one for the session",
        )


def _parse(p: Parser, *, temporary: bool) -> CreateTable:
    if_not_exists = p.accept("IF NOT EXISTS")
    name = p.name()
    table = table_text(p, metadata=temporary) if p.comes("(") else TableText(p.piece.text)
    statement = CreateTable(name, table, temporary=temporary, if_not_exists=if_not_exists)
    while True:
        if p.accept("PARTITIONED BY"):
            statement = replace(statement, partition_by=tuple(p.listed(lambda: _partition_column(p))))
        elif p.accept("COMMENT"):
            statement = replace(statement, comment=p.string("the comment, in single quotes,"))
        elif p.accept("USING"):
            _using(p)
            statement = replace(statement, of_spark=True)
        elif p.accept("TBLPROPERTIES") or p.accept("OPTIONS") or (p.comes("WITH") and _is_options(p)):
            p.accept("WITH")
            options = p.options()
            twice = sorted(set(options) & set(statement.options))
            if twice:
                p.fail(f"option {twice[0]!r} is named twice")
            statement = replace(statement, options={**statement.options, **options})
        elif p.comes("CLUSTERED") or p.comes("LOCATION") or p.comes("DISTRIBUTED"):
            p.refuse(p.next_text, "options bucket, bucket-key and path say where rows go")
        elif p.accept("LIKE"):
            if statement.like is not None:
                p.fail("a table is LIKE one other table")
            statement = replace(statement, like=_like(p))
        else:
            break
    if p.accept("AS") or p.comes("SELECT") or (p.comes("WITH") and not _is_options(p)):
        statement = replace(statement, query=p.query())
    p.finish()
    if (
        statement.like is None
        and statement.query is None
        and not statement.table.of_rows
        and not _finds_columns(statement)
    ):
        p.fail("the columns are expected: (name type, …)")
    if statement.like is not None and statement.query is not None:
        p.fail("a table is LIKE another one or AS a query, not both")
    return statement


def _finds_columns(statement: CreateTable) -> bool:
    """Whether the table's connector knows the columns of its source."""
    name = statement.options.get("connector")
    connector = doors.connectors_of_sql().get(name) if statement.temporary and name else None
    return connector is not None and connector.columns is not None


def _is_options(p: Parser) -> bool:
    """Whether WITH begins options, not a query."""
    return p.comes("WITH (")


def _partition_column(p: Parser) -> ColumnText:
    """A name; with a type, as Spark allows, it is a column of its own."""
    at = p.at
    name = p.part("a partition column")
    if p.comes(",") or p.comes(")"):
        return ColumnText((name,), at)
    if p.comes("("):
        p.refuse(f"PARTITIONED BY {name}(…)", "partition columns are stored columns", at)
    t = p.type_text()
    return ColumnText((name,), at, t, comment=p.string() if p.accept("COMMENT") else None)


def _using(p: Parser) -> None:
    at = p.at
    word = p.part("paimon or tablestore")
    if word.lower() not in CONNECTORS:
        p.fail(f"USING {word}: tables of a catalog are USING {' or '.join(CONNECTORS)}", at)


def _like(p: Parser) -> LikeClause:
    source = p.name()
    if not p.comes("("):
        return LikeClause(source)
    p.expect("(")
    excluded: set[str] = set()
    included: set[str] = set()
    while not p.accept(")"):
        chosen = included
        if p.accept("EXCLUDING"):
            chosen = excluded
        elif not (p.accept("INCLUDING") or p.accept("OVERWRITING")):
            p.fail("INCLUDING, EXCLUDING or OVERWRITING is expected")
        word = next((w for w in ("ALL", *_ASPECTS) if p.accept(w)), None)
        if word is None:
            p.fail(f"ALL or one of {', '.join(_ASPECTS)} is expected")
        chosen.add(word)
        p.accept(",")
    if "ALL" in excluded:
        excluded |= set(_ASPECTS) - included
    return LikeClause(source, frozenset(excluded))


_COLUMNS = (
    "column type [NOT NULL] [DEFAULT value] [COMMENT 'text'] [PRIMARY KEY NOT ENFORCED] | "
    "column AS expression [COMMENT 'text'], … "
    "[, PRIMARY KEY (column, …) NOT ENFORCED] [, WATERMARK FOR column AS expression]"
)
FORMS = of_family(
    "tables",
    Form(
        f"CREATE TABLE [IF NOT EXISTS] [[catalog.]database.]table ({_COLUMNS}) [COMMENT 'text'] "
        "[PARTITIONED BY (column, …)] [WITH ('key' = 'value', …) | "
        "USING paimon TBLPROPERTIES ('key' = 'value', …)] "
        "[LIKE table [({INCLUDING | EXCLUDING} {ALL | OPTIONS | CONSTRAINTS | …}, …)] | AS query]",
        "Make a table. A computed column is computed when it is read. A table with a primary key and without "
        "option `bucket` gets 1; `SET 'table-storage.bucket' = '-1'` gives Paimon's default, where a key is "
        "unique across partitions and buckets come as rows do.",
        lambda p: _parse(p, temporary=False),
        example="CREATE TABLE shop.items (\n"
        "  item INT, price DECIMAL(8, 2) COMMENT 'in euros', gross AS price * 1.19,\n"
        "  PRIMARY KEY (item) NOT ENFORCED\n"
        ") WITH ('bucket' = '2')",
    ),
    Form(
        f"CREATE TEMPORARY TABLE [IF NOT EXISTS] table [({_COLUMNS})] "
        "WITH ('connector' = 'name', 'key' = 'value', …)",
        "A table of a connector, for this session. Without columns it has those of its source: of mysql-cdc"
        " and postgres-cdc.",
        lambda p: _parse(p, temporary=True),
        example="CREATE TEMPORARY TABLE words (word STRING) WITH ('connector' = 'datagen')",
    ),
)


@contextmanager
def of_settings(defaults: Mapping[str, str]) -> Iterator[None]:
    """An error that names an option which SET gave says so."""
    try:
        yield
    except TablestoreError as e:
        concerned = [key for key in defaults if key in str(e)]
        if concerned and e.args and isinstance(e.args[0], str):
            given = ", ".join(f"{key!r} = {defaults[key]!r}" for key in concerned)
            undone = "; ".join(f"RESET '{TABLE_STORAGE}{key}'" for key in concerned)
            e.args = (f"{e.args[0]}\n  (SET gave {given}; {undone} takes it back)", *e.args[1:])
        raise


def note_of(table: Table, *, by_default: bool) -> str:
    """What to know of the buckets of a table that was made. `by_default`: nothing that was written or set
    says how many there are."""
    note = ""
    schema, options = table.store.schema, table.store.options
    if by_default and schema.primary_keys and options.bucket == 1:
        note += f", with 1 bucket: SET '{TABLE_STORAGE}bucket' = '-1' before it gives Paimon's default"
    warning = warning_of(schema, options)
    return note + (f"; {warning}" if warning else "")
