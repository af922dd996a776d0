"""Tables of PostgreSQL as its catalog has them: columns with their types here, key, replica identity; and
why one cannot be captured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import ShapeColumn, TableShape
from tablestore.cdc.postgres.pgoutput import LogTable
from tablestore.cdc.postgres.server import Connection
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataType

DEFAULT, FULL, NOTHING, INDEX = "d", "f", "n", "i"
_FIXED: Mapping[str, DataType] = {
    "bool": t.BOOLEAN,
    "int2": t.SMALLINT,
    "int4": t.INT,
    "int8": t.BIGINT,
    "oid": t.BIGINT,
    "float4": t.FLOAT,
    "float8": t.DOUBLE,
    "bytea": t.BYTES,
    "date": t.DATE,
    "money": t.DECIMAL(19, 2),
}
_ORDERED = (
    "int2",
    "int4",
    "int8",
    "numeric",
    "text",
    "varchar",
    "bpchar",
    "uuid",
    "date",
    "timestamp",
    "timestamptz",
)


def quoted(name: str) -> str:
    """A name in a statement."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """A column: `number` stays as long as it lives, `type_number` and `modifier` are those of the log.
    `kind` is the name of its type, of a domain that of its base; empty for types that are not built in.
    `spelled` is its type in a statement. `fills`: rows from before it was added have a value of it."""

    name: str
    number: int
    type_number: int
    modifier: int
    kind: str
    base_modifier: int
    spelled: str
    fills: bool = False

    @property
    def type(self) -> DataType:
        """Its type here, nullable; STRING for what has no other."""
        if self.kind in _FIXED:
            return _FIXED[self.kind]
        modifier = self.base_modifier - 4
        if self.kind == "numeric" and self.base_modifier >= 4:
            digits, scale = modifier >> 16 & 0xFFFF, modifier & 0x7FF
            scale = scale - 0x800 if scale >= 0x400 else scale
            return t.DECIMAL(digits, scale) if digits <= 38 and 0 <= scale <= digits else t.STRING
        if self.kind in ("timestamp", "timestamptz"):
            digits = self.base_modifier if self.base_modifier >= 0 else 6
            return t.TIMESTAMP(digits) if self.kind == "timestamp" else t.TIMESTAMP_LTZ(digits)
        return t.STRING

    @property
    def spelled_alike(self) -> tuple[Any, ...]:
        """Columns for which it is the same have values that are written alike."""
        return self.number, self.kind, self.base_modifier, "" if self.kind else self.type_number


@dataclass(frozen=True)
class PostgresTable:
    """A table that can be captured. `storage` is another number once its rows were rewritten or truncated;
    `identity` is its replica identity. `published` is another text once it left the publication and came
    back, or the publication was altered. A `partitioned` table has the storage of all its partitions, which
    are no tables of their own."""

    schema_name: str
    name: str
    number: int
    storage: int
    identity: str
    columns: tuple[PostgresColumn, ...]
    primary_key: tuple[str, ...]
    published: str = ""
    partitioned: bool = False

    @property
    def source(self) -> SourceName:
        return SourceName(self.schema_name, self.name)

    @property
    def spelled(self) -> str:
        return f"{quoted(self.schema_name)}.{quoted(self.name)}"

    @property
    def spelled_rows(self) -> str:
        """The rows that are its own in a statement: not those of tables that inherit from it."""
        return self.spelled if self.partitioned else f"ONLY {self.spelled}"

    @cached_property
    def shape(self) -> TableShape:
        """What others see of it: columns of the key are NOT NULL."""
        key = self.primary_key
        typed = ((c, c.type.not_null() if c.name in key else c.type) for c in self.columns)
        return TableShape(tuple(ShapeColumn(c.name, kind, c.spelled) for c, kind in typed), key)

    @property
    def schema(self) -> pa.Schema:
        return self.shape.schema

    @property
    def chunk_key(self) -> PostgresColumn | None:
        """The column by which it is read in ranges; None: only whole."""
        column = next(c for c in self.columns if c.name == self.primary_key[0])
        return column if column.kind in _ORDERED else None

    @property
    def selected(self) -> str:
        """Its columns in a statement."""
        return ", ".join(quoted(c.name) for c in self.columns)

    def under_names_of(self, now: PostgresTable) -> PostgresTable | None:
        """This table under the names that it has now; None where columns of it are gone, or of other types.

        Names may come back, and numbers do not: who finds None finds it later, too."""
        columns = {c.number: c for c in now.columns if c.spelled_alike in self._spelled_alike}
        if now.number != self.number or not {c.number for c in self.columns} <= {*columns}:
            return None
        names = {c.name: columns[c.number].name for c in self.columns}
        return replace(
            now,
            columns=tuple(columns[c.number] for c in self.columns),
            primary_key=tuple(names[name] for name in self.primary_key),
        )

    @cached_property
    def _spelled_alike(self) -> frozenset[tuple[Any, ...]]:
        return frozenset(c.spelled_alike for c in self.columns)

    def agrees(self, logged: LogTable) -> bool:
        """Whether rows of the log are of this table: they have its first columns, in order, and an old row
        has the key. Columns that were added since are at the end."""
        first = tuple((c.name, c.type_number, c.modifier) for c in self.columns)[: len(logged.columns)]
        return first == logged.columns and {*self.primary_key} <= {*logged.identity}

    def includes(self, before: PostgresTable) -> bool:
        """Whether it has all columns of what it was before, as they were."""
        mine = {(c.name, c.number, c.type_number, c.modifier) for c in self.columns}
        same = (self.number, self.source, self.primary_key) == (
            before.number,
            before.source,
            before.primary_key,
        )
        return same and mine >= {(c.name, c.number, c.type_number, c.modifier) for c in before.columns}

    def only_grown(self, before: PostgresTable) -> bool:
        """Whether its rows are those of before, with columns more that are NULL in them."""
        numbers_before = {c.number for c in before.columns}
        added = [c for c in self.columns if c.number not in numbers_before]
        return self.includes(before) and self.storage == before.storage and not any(c.fills for c in added)

    def renamed_columns(self, before: PostgresTable) -> dict[str, str]:
        old = {c.number: c.name for c in before.columns}
        return {old[c.number]: c.name for c in self.columns if old.get(c.number, c.name) != c.name}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> PostgresTable:
        columns = tuple(PostgresColumn(**column) for column in item["columns"])
        return cls(**{**item, "columns": columns, "primary_key": tuple(item["primary_key"])})


_TABLES = """
    WITH RECURSIVE part(root, number) AS (
        SELECT inhparent, inhrelid FROM pg_inherits
        UNION ALL SELECT p.root, i.inhrelid FROM part p JOIN pg_inherits i ON i.inhparent = p.number),
    whole AS (
        SELECT p.root, string_agg(p.number || '.' || coalesce(pg_relation_filenode(p.number), 0), ' '
                ORDER BY p.number) AS storages,
            string_agg(c.relname, ', ') FILTER (WHERE c.relpersistence <> 'p' OR c.relkind = 'f'
                OR c.relkind = 'r' AND c.relreplident NOT IN ('d', 'f')) AS unfit
        FROM part p JOIN pg_class c ON c.oid = p.number GROUP BY p.root)
    SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
        c.relreplident::text, CASE c.relkind
            WHEN 'p' THEN ('x' || left(md5(w.storages), 15))::bit(60)::int8
            ELSE pg_relation_filenode(c.oid)::int8 END,
        coalesce(has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE'), true),
        row_security_active(c.oid), coalesce(w.unfit, '')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN whole w ON w.root = c.oid
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname <> 'information_schema'
    AND NOT starts_with(n.nspname, 'pg_') AND (%s::oid IS NULL OR c.oid = %s)"""
_COLUMNS = """
    WITH RECURSIVE base(number, type, modifier) AS (
        SELECT oid, oid, -1 FROM pg_type WHERE typtype <> 'd'
        UNION ALL SELECT d.oid, b.type, CASE WHEN d.typtypmod >= 0 THEN d.typtypmod ELSE b.modifier END
        FROM pg_type d JOIN base b ON d.typbasetype = b.number WHERE d.typtype = 'd')
    SELECT a.attrelid::int8, a.attname, a.attnum, a.atttypid::int8, a.atttypmod,
        CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace AND t.typcategory <> 'A'
            THEN t.typname ELSE '' END,
        CASE WHEN b.modifier >= 0 THEN b.modifier ELSE a.atttypmod END,
        format_type(a.atttypid, a.atttypmod), a.atthasmissing
    FROM pg_attribute a JOIN base b ON b.number = a.atttypid JOIN pg_type t ON t.oid = b.type
    WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    ORDER BY a.attrelid, a.attnum"""
_KEYS = """
    SELECT i.indrelid::int8, i.indisprimary, i.indisreplident, array_agg(a.attname::text ORDER BY k.place)
    FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = ANY(%s::oid[]) AND (i.indisprimary OR i.indisreplident) AND k.place <= i.indnkeyatts
    GROUP BY i.indexrelid, i.indrelid, i.indisprimary, i.indisreplident"""
_PUBLISHED = """
    SELECT c.oid::int8, p.pubviaroot, r.prqual IS NOT NULL, r.prattrs::int2[],
        concat_ws('.', p.oid, p.xmin, r.oid, s.oid)
    FROM pg_publication p CROSS JOIN pg_class c
    LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
    LEFT JOIN pg_publication_namespace s ON s.pnpubid = p.oid AND s.pnnspid = c.relnamespace
    WHERE p.pubname = %s AND c.oid = ANY(%s::oid[])
    AND (p.puballtables OR r.oid IS NOT NULL OR s.oid IS NOT NULL)"""

_ROW_COUNTS = """
    WITH RECURSIVE whole(root, number) AS (SELECT n, n FROM unnest(%s::oid[]) n
        UNION ALL SELECT w.root, i.inhrelid FROM whole w JOIN pg_inherits i ON i.inhparent = w.number),
    sized AS (
        SELECT w.root, c.reltuples, c.relpages, pg_relation_size(c.oid) AS bytes
        FROM whole w JOIN pg_class c ON c.oid = w.number WHERE c.relkind = 'r')
    SELECT root::int8, sum(CASE WHEN reltuples >= 0 AND relpages > 0
        THEN reltuples * bytes / (relpages * current_setting('block_size')::float8)
        ELSE bytes / 28 END)::float8 FROM sized GROUP BY root"""


def row_counts(connection: Connection, names: Mapping[int, SourceName]) -> dict[SourceName, float]:
    """About how many rows the tables of these numbers have: as densely as when they were last analysed, else
    as many as their bytes may hold."""
    if not names:
        return {}
    return {names[number]: rows for number, rows in connection.rows(_ROW_COUNTS, [*names])}


def tables_now(
    connection: Connection,
    publication: str,
    choose: Callable[[SourceName], bool],
    *,
    only: int | None = None,
    refuse: bool = True,
) -> dict[SourceName, PostgresTable | str]:
    """The chosen tables, or the one with a number; if `refuse`, of one that cannot be captured the reason,
    with the statement that mends it. To be called in a view, so that all of it is of one moment."""
    rows_by_name = {SourceName(row[1], row[2]): row for row in connection.rows(_TABLES, only, only)}
    chosen = {name: row for name, row in sorted(rows_by_name.items()) if choose(name)}
    numbers = [row[0] for row in chosen.values()]
    columns: dict[int, list[PostgresColumn]] = {}
    for number, *column in connection.rows(_COLUMNS, numbers):
        columns.setdefault(number, []).append(PostgresColumn(*column))
    primary, identity = {}, {}
    for number, is_primary, is_identity, names in connection.rows(_KEYS, numbers):
        if is_primary:
            primary[number] = tuple(names)
        if is_identity:
            identity[number] = tuple(names)
    published = {number: how for number, *how in connection.rows(_PUBLISHED, publication, numbers)}
    tables: dict[SourceName, PostgresTable | str] = {}
    for name, row in chosen.items():
        number, _, _, kind, _, replica, storage, *_ = row
        its, key = tuple(columns.get(number, ())), primary.get(number, ())
        member = published.get(number)
        place = str(member[-1]) if member else ""
        what = (number, storage or 0, replica, its, key, place, kind == "p")
        table = PostgresTable(name.database, name.table, *what)
        reason = _refusal(table, row, identity.get(number), publication, member)
        tables[name] = (reason if refuse else "") or table
    return tables


def _refusal(
    table: PostgresTable,
    row: tuple[Any, ...],
    identity: tuple[str, ...] | None,
    publication: str,
    published: Sequence[Any] | None,
) -> str:
    """Why a table cannot be captured; empty if it can."""
    spelled = table.spelled
    readable, hidden, unfit = row[7:]
    if unfit and table.partitioned:
        return (
            f"partitions are UNLOGGED, foreign, or their REPLICA IDENTITY is not DEFAULT or FULL: {unfit}; "
            "ALTER TABLE … SET LOGGED, ALTER TABLE … REPLICA IDENTITY DEFAULT"
        )
    if row[4] == "u":
        return f"it is UNLOGGED, so its changes are in no log: ALTER TABLE {spelled} SET LOGGED"
    if not table.primary_key:
        return f"it has no primary key: ALTER TABLE {spelled} ADD PRIMARY KEY (…)"
    if not {*table.primary_key} <= {c.name for c in table.columns}:
        return "a generated column is in its primary key, and the log does not have it"
    if table.identity == NOTHING:
        return (
            "its REPLICA IDENTITY is NOTHING, so deletions have no key: "
            f"ALTER TABLE {spelled} REPLICA IDENTITY DEFAULT"
        )
    if table.identity == INDEX and {*(identity or ())} != {*table.primary_key}:
        return (
            "its REPLICA IDENTITY is an index that is not its primary key: "
            f"ALTER TABLE {spelled} REPLICA IDENTITY DEFAULT"
        )
    if not readable:
        schema = quoted(table.schema_name)
        return f"the role may not read it: GRANT USAGE ON SCHEMA {schema}; GRANT SELECT ON {spelled}"
    if hidden:
        return "row security hides rows of it from the role, and the log has them: ALTER ROLE … BYPASSRLS"
    change = f"ALTER PUBLICATION {quoted(publication)}"
    if published is None:
        return f"it is not in the publication: {change} ADD TABLE {spelled}"
    via_root, filtered, listed, _ = published
    if table.partitioned and not via_root:
        return f"its partitions are published by themselves: {change} SET (publish_via_partition_root = true)"
    if filtered or (listed is not None and not {c.number for c in table.columns} <= {*listed}):
        return f"the publication leaves out rows or columns of it: {change} SET TABLE …"
    return ""
