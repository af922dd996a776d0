"""PostgresStream: a table of PostgreSQL by itself, each change once: its rows, in chunks between which its
log is followed, then its log alone.

A batch of chunks has them as of where it ends, and the log up to there of the keys that were read before.
A view of a chunk has more than that place. What the log has behind the place is undone by its old images,
so that a batch that is read again has the same rows. Old images are in the log of a table with REPLICA
IDENTITY FULL. A table that is altered, truncated or rewritten ends the stream: what follows is in no log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.databases.address import Address, patiently, patiently_begun
from tablestore.cdc.databases.chunks import bounds_above, chunk_ranges
from tablestore.cdc.databases.declared import DeclaredColumns, DeclaredStream
from tablestore.cdc.databases.slices import Slices
from tablestore.cdc.databases.undo import Kinds, UndoImages, keyed
from tablestore.cdc.postgres.copy_rows import copied, values_of
from tablestore.cdc.postgres.pgoutput import CHANGES, Images, PostgresLog
from tablestore.cdc.postgres.pieces import key_after, range_of
from tablestore.cdc.postgres.server import ALTERING, Connection, in_statement, title_of
from tablestore.cdc.postgres.slot import PEEK, Slot, lsn_text, require_ready, server_of
from tablestore.cdc.postgres.tables import FULL, PostgresTable, tables_now
from tablestore.cdc.postgres.values import Mask, columns_of
from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch, Unsupported
from tablestore.flow.source import Changes, Offset
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.rowkind import INSERT

VERSION, KIND = 1, "postgres-table"
INITIAL = "initial"  # the rows, then changes
SNAPSHOT = "snapshot"  # the rows alone
LATEST = "latest-offset"  # changes from now on
COMMITTED = "committed-offset"  # from where the slot is
STARTUP_MODES = (INITIAL, SNAPSHOT, LATEST, COMMITTED)
AGAIN = "begin the statement anew, with another slot"
COMPARED = ("SMALLINT", "INT", "BIGINT", "DECIMAL")
"""Types of keys that are compared here as by the server."""
KeyRange = tuple[str | None, str | None]
"""Above which key, and up to which; None: without that end."""
_IDLE_BYTES = 1 << 20  # of the log of others, after which the position moves on
_MOVED = f"""
    SELECT count(*) FROM {PEEK}
    WHERE get_byte(data, 0) = ANY(%s::int[]) AND substring(data FROM 2 FOR 4) = %s"""


@dataclass(frozen=True, slots=True)
class _StreamOffset:
    """An offset in parts. `position` is None before the first batch. `rows`: those above `key` are still to
    be read; `bounds` are the ends of the chunks of the batch before."""

    rows: bool
    position: int | None = None
    server: str = ""
    table: PostgresTable | None = None
    key: str | None = None
    bounds: tuple[str, ...] = ()

    def to_json(self) -> Offset:
        table = None if self.table is None else self.table.to_json()
        parts = {"rows": self.rows, "position": self.position, "server": self.server, "table": table}
        return {"v": VERSION, "kind": KIND, **parts, "key": self.key, "bounds": [*self.bounds]}

    @classmethod
    def from_json(cls, offset: Offset) -> _StreamOffset:
        if offset.get("v") != VERSION or offset.get("kind") != KIND:
            raise InvalidRequest(f"{str(offset)[:200]} is no offset of a table of PostgreSQL")
        table = None if offset["table"] is None else PostgresTable.from_json(offset["table"])
        chunks = (offset.get("key"), tuple(offset.get("bounds", ())))
        return cls(offset["rows"], offset["position"], offset["server"], table, *chunks)


@dataclass(frozen=True)
class PostgresStream(DeclaredStream):
    """A keyed table with REPLICA IDENTITY FULL and the slot that it is followed by, which nothing else may
    read. `chunk_rows` to a chunk, up to `chunks` of them in a batch. `columns`: as somebody declares them;
    None: as the source has them. A batch has about `log_bytes` of the log."""

    address: Address
    table: PostgresTable
    slot: Slot
    mode: str = INITIAL
    columns: DeclaredColumns | None = None
    chunk_rows: int = 200_000
    chunks: int = 4
    log_bytes: int = 256 << 20

    @classmethod
    def open(cls, address: Address, schema: str, name: str, slot: Slot, **how: Any) -> PostgresStream:
        """Raises InvalidRequest with all that the server must be set to, NotFound without the table,
        Unsupported with the statement that mends it for one that cannot be followed, and what a table that
        does not have the columns declared raises."""
        with Connection.open(address) as connection:
            require_ready(connection, slot.publication, address.user)
            source = cls(address, table_now(connection, schema, name, slot.publication), slot, **how)
        if source.table.identity != FULL:
            raise Unsupported(
                f"{source.table.source} as a stream: without REPLICA IDENTITY FULL its log has no old rows",
                f"ALTER TABLE {source.table.spelled} REPLICA IDENTITY FULL",
            )
        if source.columns is not None:
            source.columns.require(source.table)
        return source

    @property
    def explained(self) -> str:
        """What it gives, in words."""
        first = f"rows in chunks of {self.chunk_rows:,} first, then its log"
        how = first if self.mode == INITIAL else f"its log from {self.mode} on"
        return f"{self.table.source} of {title_of(self.address)}: {how}, by slot {self.slot.name!r}"

    @property
    def appends(self) -> bool:
        return False

    def initial(self) -> Offset:
        return _StreamOffset(self.mode == INITIAL).to_json()

    def latest(self) -> Offset:
        def end() -> _StreamOffset:
            with Connection.open(self.address) as connection:
                return _StreamOffset(False, connection.log_end(), server_of(connection), self.table)

        return patiently(end, what=str(self.table.source)).to_json()

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        """The first batch makes the slot, and has chunks as of where it begins. Then chunks and what was
        logged meanwhile; once all are read, the log up to its end, to `target`, or about so many bytes.
        The slot moves to `start`, to which all is committed."""
        here = _StreamOffset.from_json(start)
        limit = None if target is None else _StreamOffset.from_json(target).position

        def planned() -> _StreamOffset:
            with Connection.open(self.address) as connection:
                require_ready(connection, self.slot.publication, self.address.user)
                if here.position is None:
                    return self._begun(connection, here)
                return self._followed(connection, here, here.position, limit)

        return patiently(planned, what=str(self.table.source)).to_json()

    def ended(self, offset: Offset) -> bool:
        return False

    def pieces(self, start: Offset, end: Offset) -> list[RowsPiece | ChangesPiece]:
        """A piece of the log, then one for each chunk; no key is in two of them."""
        here, there = _StreamOffset.from_json(start), _StreamOffset.from_json(end)
        if there.position is None or there.table is None:
            return []
        pieces: list[RowsPiece | ChangesPiece] = []
        if here.position is not None and here.position < there.position:
            high = here.key if here.rows else None
            pieces.append(ChangesPiece(self, there.table, here.position, there.position, high))
        if here.rows:
            ranges = chunk_ranges(here.key, there.bounds, last=not there.rows)
            pieces += [RowsPiece(self, there.table, there.position, *keys) for keys in ranges]
        return pieces

    def done(self, end: Offset) -> None:
        """The slot stays until the next batch is planned: what is committed is not noted yet."""

    def needed(self, table: PostgresTable, names: Sequence[str]) -> PostgresTable:
        """The table with those of its columns that these ones are made of, and its key."""
        of_table = names if self.columns is None else [n for n in names if n in self.columns.of_table]
        return only(table, of_table)

    def _begun(self, connection: Connection, here: _StreamOffset) -> _StreamOffset:
        server = server_of(connection)
        begin = self.slot.committed if self.mode == COMMITTED else self.slot.begin
        begun = replace(here, server=server, table=self.table, position=begin(connection))
        return self._with_chunks(connection, begun) if here.rows else begun

    def _with_chunks(self, connection: Connection, here: _StreamOffset) -> _StreamOffset:
        """A batch that ends there and has the next chunks."""
        assert here.table is not None, "an offset with a position has the table"
        bounds: tuple[str, ...] = ()
        last = not _is_compared(here.table)
        if not last:
            above = partial(key_after, connection, here.table, rows=self.chunk_rows)
            bounds, last = bounds_above(here.key, max(1, self.chunks), above)
        return replace(here, rows=not last, key=None if last else bounds[-1], bounds=bounds)

    def _followed(
        self, connection: Connection, here: _StreamOffset, position: int, limit: int | None
    ) -> _StreamOffset:
        if server_of(connection) != here.server:
            where = title_of(self.address)
            raise NotFound(f"{where} is another server than before, or another timeline of it: {AGAIN}")
        self.slot.require(connection, position)
        self.slot.move(connection, position)
        log_end = connection.log_end()
        end = log_end if here.rows else min(log_end, position + self.log_bytes)
        end = end if limit is None else min(end, limit)
        if end <= position and not here.rows:
            return here
        assert here.table is not None, "an offset with a position has the table"
        connection.wait_until_visible([here.table.number], ALTERING)
        _require_same(connection, here.table, self.slot.publication)
        if here.rows:
            return self._with_chunks(connection, replace(here, position=max(position, end)))
        if limit is None and end == log_end and end - position < _IDLE_BYTES:
            number = here.table.number.to_bytes(4, "big")
            values = (self.slot.name, lsn_text(end), self.slot.publication, [*CHANGES], number)
            if not connection.rows(_MOVED, *values)[0][0]:
                return here
        return replace(here, position=end, key=None, bounds=())


@dataclass(frozen=True)
class ChangesPiece:
    """The changes in transactions whose commits are at `start` or later, and before `end`, of keys that are
    not above `high`."""

    source: PostgresStream
    table: PostgresTable
    start: int
    end: int
    high: str | None

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """An update as −U and +U, or of its key as −D and +I; no condition is pushed down to the server."""
        table = self.source.needed(self.table, columns)
        for rows, kinds, seconds in patiently_begun(
            lambda: logged(self.source, self.table, table, (self.start, self.end), (None, self.high)),
            what=title_of(self.source.address),
        ):
            yield self.source.shown(rows, columns, pa.array(seconds)), pa.array(kinds)


@dataclass(frozen=True)
class RowsPiece:
    """The rows as of a place in the log, of keys above `low` and not above `high`."""

    source: PostgresStream
    table: PostgresTable
    position: int
    low: str | None
    high: str | None

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """The same rows whenever they are read; no condition is pushed down to the server."""
        table = self.source.needed(self.table, columns)
        batches = patiently_begun(lambda: self._rows(table), what=title_of(self.source.address))
        for batch in batches:
            shown = self.source.shown(batch, columns)
            yield shown, pa.array(np.full(shown.num_rows, INSERT, np.int8))

    def _rows(self, table: PostgresTable) -> Iterator[pa.RecordBatch]:
        source = self.source
        with (
            Connection.open(source.address) as connection,
            connection.view_of(table.number),
        ):
            _require_same(connection, self.table, source.slot.publication, in_view=True)
            undo = UndoImages(_plain(table), table.primary_key)
            with Connection.open(source.address) as other:
                end = other.log_end()  # the view has nothing behind it
            keys = (self.low, self.high)
            for rows, kinds, _ in logged(source, self.table, table, (self.position, end), keys):
                undo.add(rows, pa.array(kinds))
            for batch in all_rows(connection, table, keys):
                yield undo.unchanged(batch)
            yield from undo.before()


def logged(
    source: PostgresStream,
    table: PostgresTable,
    wanted: PostgresTable,
    span: tuple[int, int],
    keys: KeyRange,
) -> Iterator[tuple[pa.RecordBatch, Kinds, npt.NDArray[np.int64]]]:
    """Of the changes of `table` in a span of the log and a range of keys, the columns of `wanted`, their
    kinds and the seconds of their commits. Raises Unsupported where old rows are missing, or the log has the
    table otherwise than it is."""
    start, end = span
    places = [table.columns.index(column) for column in wanted.columns]
    with Connection.open(source.address) as connection:
        source.slot.require(connection, start)
        decoder = PostgresLog(start, end, frozenset([table.number]))
        values = (source.slot.name, lsn_text(end), source.slot.publication)
        messages = copied(connection, f"SELECT data FROM {PEEK}", values, binary=True)
        for images in decoder.images(messages):
            _require_whole(images, table)
            slices = images.slices
            taken = Slices(slices.data, slices.rows, slices.offsets[places], slices.lengths[places])
            rows = rows_of(taken, wanted)
            kinds = keyed([rows.column(name) for name in wanted.primary_key], images.kinds)
            inside = _in_range(rows.column(wanted.primary_key[0]), keys)
            if inside is None:
                yield rows, kinds, images.seconds
            elif inside.any():
                yield rows.filter(pa.array(inside)), kinds[inside], images.seconds[inside]


def _in_range(column: pa.Array, keys: KeyRange) -> Mask | None:
    """Which values are in a range of keys; None: all."""
    masks = [
        compare(column, pa.scalar(end).cast(column.type)).to_numpy(zero_copy_only=False)
        for compare, end in zip((pc.greater, pc.less_equal), keys, strict=True)
        if end is not None
    ]
    return np.logical_and.reduce(masks) if masks else None


def _is_compared(table: PostgresTable) -> bool:
    """Whether keys are compared here as by the server."""
    column = table.chunk_key
    return column is not None and column.type.root in COMPARED


def all_rows(
    connection: Connection, table: PostgresTable, keys: KeyRange = (None, None)
) -> Iterator[pa.RecordBatch]:
    """All rows that the connection shows in a range of keys."""
    condition, values = range_of(table, *keys)
    query = in_statement(f"SELECT {table.selected} FROM {table.spelled_rows} WHERE ") + condition
    for slices in values_of(connection, query, len(table.columns), values):
        yield rows_of(slices, table)


def rows_of(slices: Slices, table: PostgresTable) -> pa.RecordBatch:
    """Values as columns; raises SchemaMismatch for one that its type here does not have."""
    rows, bad = columns_of(slices, table.columns, table.schema)
    for name in bad:
        column = next(c for c in table.columns if c.name == name)
        raise SchemaMismatch(
            f"column {name!r} of {table.source}, {column.spelled}, has a value that is no "
            f"{column.type}, such as infinity"
        )
    return rows


def table_now(
    connection: Connection, schema: str, name: str, publication: str | None = None, *, in_view: bool = False
) -> PostgresTable:
    """A table as it is; one that can be followed by a publication, if that is named. Raises NotFound without
    it, Unsupported where it cannot."""

    def found() -> dict[Any, PostgresTable | str]:
        named = lambda n: (n.database, n.table) == (schema, name)  # noqa: E731  it is short
        return {**tables_now(connection, publication or "", named, refuse=publication is not None)}

    if in_view:
        there = found()
    else:
        with connection.view():
            there = found()
    table = next(iter(there.values()), None)
    if table is None:
        raise NotFound(f"no table {schema}.{name} in {title_of(connection.address)}")
    if isinstance(table, str):
        raise Unsupported(f"table {schema}.{name}", table)
    return table


def _require_same(
    connection: Connection, table: PostgresTable, publication: str, *, in_view: bool = False
) -> None:
    now = table_now(connection, table.schema_name, table.name, publication, in_view=in_view)
    if now != table:
        raise Unsupported(
            f"a stream of {table.source} beyond a statement that altered, truncated or rewrote it, or its "
            "publication",
            AGAIN,
        )


def _require_whole(images: Images, table: PostgresTable) -> None:
    logged_now = images.relation
    if not table.agrees(logged_now) or len(logged_now.columns) != len(table.columns):
        raise Unsupported(f"a stream of {table.source} beyond a statement that altered it", AGAIN)
    if not {c.name for c in table.columns} <= {*logged_now.identity}:
        raise Unsupported(
            f"a stream of {table.source} without REPLICA IDENTITY FULL, or of such a partition",
            AGAIN,
        )


def only(table: PostgresTable, names: Sequence[str]) -> PostgresTable:
    """The table with these columns and those of its key."""
    wanted = {*names, *table.primary_key}
    return replace(table, columns=tuple(c for c in table.columns if c.name in wanted))


def _plain(table: PostgresTable) -> pa.Schema:
    """The schema of batches of its rows."""
    return pa.schema([pa.field(f.name, f.type) for f in table.schema])
