"""Reading the binlog: the row images of some tables as Arrow batches, where transactions end, statements.

    for change in read_log(address, tables, start=position, until=end):
        RowImages        a batch of one table and its row kinds, in the order of the log
        LogStatement        DDL, or whatever else is text in the log
        TransactionEnd   all rows before it belong to whole transactions: go on from its position

Many transactions make one batch, and a large one makes many: memory is bounded by a few MB and the largest
single event. Checksums are verified, compressed row events are inflated; what cannot be read is refused,
never passed over.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.databases.address import Address
from tablestore.cdc.databases.slices import PADDING, Ints, Slices
from tablestore.cdc.databases.undo import keyed, part_of
from tablestore.cdc.mysql import events, statements
from tablestore.cdc.mysql.columns import SourceColumn, SourceTable
from tablestore.cdc.mysql.dump import REFUSED, Dump, RecordedLog
from tablestore.cdc.mysql.events import LogPosition, RowEvent, TableMap
from tablestore.cdc.mysql.foreign_keys import UNWATCHED, CascadeWatch
from tablestore.cdc.mysql.row_slices import cut_images
from tablestore.cdc.mysql.statements import TextChanges
from tablestore.cdc.mysql.values import checked, image_column, require_dates, require_readable
from tablestore.core.errors import InvalidRequest, SchemaMismatch, Unsupported

_BATCH_BYTES, _BATCH_ROWS = 4 << 20, 65_536


@dataclass(frozen=True)
class RowImages:
    """Rows of one table, the row kind of each: +I, −U, +U or −D (int8), and when it was committed, seconds
    after 1970 (int64; of a transaction of many MB when it was changed)."""

    table: SourceTable
    batch: pa.RecordBatch
    kinds: pa.Array
    seconds: pa.Array


@dataclass(frozen=True, slots=True)
class LogStatement:
    """A statement of the log, `seconds` after 1970, which ended at `position`; its database may be empty.
    `changes`: captured tables of which it changes rows, without images of them."""

    position: LogPosition
    seconds: int
    database: str
    text: str
    changes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """Where a transaction ended, as the `transactions`-th since the last such value; it was committed
    `seconds` after 1970, by the source's clock."""

    position: LogPosition
    seconds: int
    transactions: int


LogChange = RowImages | LogStatement | TransactionEnd


@dataclass(frozen=True, slots=True)
class ImageChoice:
    """Which row images are read. `scanned`: those of a log over which `scan` went, which looked for
    statements that change rows; rows with NULL in the key come, too.

    `parts` has (i, n) for a table of which only images are wanted whose key is in part i of n, by a hash; an
    update of the key is then −D and +I. `watch`: the parents of tables, of which no change may cascade to
    one.
    """

    scanned: bool = False
    parts: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    watch: CascadeWatch = UNWATCHED


ALL_IMAGES = ImageChoice()


def read_log(
    address: Address,
    tables: Iterable[SourceTable],
    *,
    start: LogPosition,
    until: LogPosition | None = None,
    by_gtid: bool = False,
    wanted: ImageChoice = ALL_IMAGES,
    stretch: RecordedLog | None = None,
) -> Generator[LogChange, None, None]:
    """Changes of the tables after `start`, up to `until` or the end of the log.

    `by_gtid`: positions are of another server of the same replication, which finds them by their GTIDs.
    `stretch`: the log, where it was read before.
    Raises NotFound where the log does not go back to `start` or not on to `until`, SchemaMismatch where a
    table has, or had, other columns, Unavailable where the connection breaks: what follows the last
    TransactionEnd is to be read again.
    """
    if until is not None and not by_gtid and start.reaches(until):
        return
    with Dump.open(address, start, by_gtid=by_gtid, stretch=stretch) as dump:
        names = {(table.database, table.name): table for table in tables}
        reader = _LogReader(dump, names, until, dump.charsets(), wanted)
        yield from reader.changes(dump.events(until=until))
        if not reader.done:
            raise dump.ends_before(until)


@dataclass
class _Pending:
    """Row images of a table that wait for a batch."""

    wire: TableMap
    data: bytearray = field(default_factory=bytearray)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    kinds: list[tuple[int, int]] = field(default_factory=list)
    seconds: list[int] = field(default_factory=list)
    open: int = 0  # the first event of the present transaction

    def add(self, event: RowEvent, seconds: int) -> None:
        self.starts.append(len(self.data))
        self.data += event.images
        self.ends.append(len(self.data))
        self.kinds.append(event.kinds)
        self.seconds.append(seconds)

    def committed(self, seconds: int) -> None:
        """The end of the transaction: its images have its time, but for those that are given already."""
        self.seconds[self.open :] = [seconds] * (len(self.seconds) - self.open)
        self.open = len(self.seconds)

    def abandon(self) -> None:
        """Forget the images of the present transaction."""
        if self.open < len(self.starts):
            del self.data[self.starts[self.open] :]
        for events_of in (self.starts, self.ends, self.kinds, self.seconds):
            del events_of[self.open :]


@dataclass
class _LogReader:
    """State of one dump."""

    dump: Dump
    tables: dict[tuple[str, str], SourceTable]
    until: LogPosition | None
    charsets: Mapping[int, str]
    wanted: ImageChoice
    parents: dict[int, tuple[SourceName, bytes]] = field(default_factory=dict)  # of a number: its table map
    maps: dict[int, TableMap | None] = field(default_factory=dict)
    pending: dict[tuple[str, str], _Pending] = field(default_factory=dict)
    pending_bytes: int = 0
    ended: int = 0  # transactions since a TransactionEnd was given, and what the next one will be
    last: TransactionEnd | None = None
    touched: set[tuple[str, str]] = field(default_factory=set)  # of the tables, by the present transaction
    given: bool = False  # whether some rows of the present transaction are
    done: bool = False  # whether all has been read

    @property
    def position(self) -> LogPosition:
        return self.dump.position

    def changes(self, messages: Iterable[tuple[int, int, int, bytes]]) -> Iterator[LogChange]:
        for code, seconds, _, body in messages:
            if code in events.ROWS:
                self._require_no_cascade(code, body)
                self._keep(code, seconds, body)
                if self.pending_bytes >= _BATCH_BYTES:
                    yield from self._rows()
            elif code == events.TABLE_MAP:
                yield from self._map(body)
            elif code == events.ROTATE:
                self.maps.clear()
                if self.dump.abandoned:
                    self._abandon()
            elif code == events.XID:
                yield from self._end(seconds)
            elif code in events.QUERIES:
                yield from self._statement(code, seconds, body)
            elif code == events.XA_PREPARE and not self.touched:
                yield from self._end(seconds)
            elif code in REFUSED:
                raise Unsupported(f"{REFUSED[code]} in the binlog at {self.position}")
            if self.until is not None and not self.dump.inside and self.dump.reaches(self.until):
                yield from self._flush()
                self.done = True
                return
        yield from self._flush()
        self.done = self.until is None

    def _map(self, body: bytes) -> Iterator[LogChange]:
        number = events.table_number(body)
        database, name, _ = events.map_names(body)
        self.parents.pop(number, None)
        if SourceName(database, name) in self.wanted.watch.parents:
            self.parents[number] = (SourceName(database, name), body)
        if (database, name) not in self.tables:
            self.maps[number] = None
            return
        wire = events.table_map(body)
        if self.maps.get(number) != wire:
            waiting = self.pending.get((database, name))
            if waiting is not None and waiting.wire.columns != wire.columns:
                yield from self._rows()
            self._require_columns(self.tables[database, name], wire)
            self.maps[number] = wire

    def _require_no_cascade(self, code: int, body: bytes) -> None:
        parent, wire = self.parents.get(events.table_number(body), (None, b""))
        if parent is None:
            return
        for child in self.wanted.watch.changed(parent, code, body, wire):
            raise Unsupported(
                f"rows of {child} that a foreign key changes with those of {parent}, at {self.position}",
                "the binlog does not have them: start with a new snapshot, or capture the database "
                "(lake.ingest, tablestore cdc), which reads such a table again",
            )

    def _require_columns(self, table: SourceTable, table_map: TableMap) -> None:
        there = {column.name for column in table_map.columns}
        expected = {column.name for column in table.columns}
        added, dropped = sorted(there - expected - set(table.left_out)), sorted(expected - there)
        if table.others_ignored:
            added = []
        if added or dropped:
            changes = [*(f"+{name}" for name in added), *(f"-{name}" for name in dropped)]
            raise SchemaMismatch(
                f"{table} has other columns in the binlog at {self.position}: {', '.join(changes)}"
            )
        for column in table_map.columns:
            if column.name in expected:
                if column.collation not in self.charsets:
                    raise Unsupported(f"column {column.name!r} of {table} with collation {column.collation}")
                require_readable(column, self.charsets[column.collation])

    def _keep(self, code: int, seconds: int, body: bytes) -> None:
        number = events.table_number(body)
        if number not in self.maps:
            raise self.dump.corrupt(f"rows of unknown table {number}")
        wire = self.maps[number]
        if wire is None:
            return
        event = events.row_event(code, body)
        if event.partial:
            table = f"{wire.database}.{wire.table}"
            raise Unsupported(
                f"row images without all columns, of {table} at {self.position}",
                "SET GLOBAL binlog_row_image = 'FULL', for all sessions, and start with a new snapshot",
            )
        name = (wire.database, wire.table)
        self.touched.add(name)
        self.pending_bytes += len(event.images)
        self.pending.setdefault(name, _Pending(wire)).add(event, seconds)

    def _statement(self, code: int, seconds: int, body: bytes) -> Iterator[LogChange]:
        query = events.query_event(code, body, self.charsets)
        role = statements.role(query.text)
        if role == "rollback" and self.touched:
            raise Unsupported(f"a transaction that is rolled back in the binlog at {self.position}")
        if role in ("commit", "rollback"):
            yield from self._end(seconds)
            return
        if role == "begin":
            self.dump.standalone = False
        if role == "rows" and not self.wanted.scanned and self._changes(query.text):
            raise Unsupported(
                f"a change of rows as a statement in the binlog at {self.position}",
                "SET GLOBAL binlog_format = 'ROW', for all sessions, and start with a new snapshot",
            )
        if role == "other":
            yield from self._flush()
            yield LogStatement(self.position, seconds, query.database, query.text)
        if self.dump.standalone:
            yield from self._end(seconds)
            yield from self._flush()

    def _changes(self, text: str) -> bool:
        parents = [(name.database, name.table) for name in self.wanted.watch.parents]
        return bool(TextChanges(self.dump.address).tables(text, [*self.tables, *parents], self.position))

    def _end(self, seconds: int) -> Iterator[LogChange]:
        for name in self.touched:
            if name in self.pending:
                self.pending[name].committed(seconds)
        self.touched.clear()
        self.given = self.dump.inside = self.dump.standalone = False
        self.ended, self.last = self.ended + 1, TransactionEnd(self.position, seconds, self.ended + 1)
        if self.pending_bytes >= _BATCH_BYTES // 2 or self.ended >= _BATCH_ROWS:
            yield from self._flush()

    def _abandon(self) -> None:
        """Forget the present transaction: the server crashed in it and rolled it back."""
        if self.touched and self.given:
            raise self.dump.corrupt("a large transaction before this has no end: the server crashed in it")
        for name in self.touched:
            self.pending[name].abandon()
        self.touched.clear()

    def _flush(self) -> Iterator[LogChange]:
        """Rows, and where their last transaction ended; only the rows within a transaction."""
        yield from self._rows()
        if self.last is not None and not self.touched:
            yield self.last
            self.ended, self.last = 0, None

    def _rows(self) -> Iterator[RowImages]:
        pending, self.pending, self.pending_bytes = self.pending, {}, 0
        self.given = bool(self.touched)
        for each in pending.values():
            table = self.tables[each.wire.database, each.wire.table]
            each.data += bytes(PADDING)
            widths = [column.width for column in each.wire.columns]
            try:
                cut = cut_images(each.data, each.starts, each.ends, each.kinds, widths, _BATCH_ROWS)
                for slices, kinds, of_event in cut:
                    yield from self._images(table, each, slices, kinds, of_event)
            except InvalidRequest:
                raise
            except ValueError as e:
                raise self.dump.corrupt(f"{table}, before this: {e}") from e

    def _images(
        self, table: SourceTable, each: _Pending, slices: Slices, kinds: Ints, of_event: Ints
    ) -> Iterator[RowImages]:
        seconds = np.array(each.seconds, np.int64)[of_event]
        number, parts = self.wanted.parts.get((table.database, table.name), (0, 1))
        if parts > 1:
            columns = [column for column in table.columns if column.in_key]
            key = self._columns(table, columns, each.wire, slices)
            mine = part_of(key, parts) == number
            slices, kinds, seconds = slices.taken(mine), keyed(key, kinds)[mine], seconds[mine]
        if len(kinds):
            arrays = self._columns(table, table.columns, each.wire, slices)
            batch = checked(arrays, table.columns, table.schema, any_key=self.wanted.scanned)
            yield RowImages(table, batch, pa.array(kinds, pa.int8()), pa.array(seconds, pa.int64()))

    def _columns(
        self, table: SourceTable, columns: Sequence[SourceColumn], wire: TableMap, slices: Slices
    ) -> list[pa.Array]:
        places = {column.name: c for c, column in enumerate(wire.columns)}
        arrays: list[pa.Array] = []
        for source in columns:
            c = places[source.name]
            charset, type_ = self.charsets[wire.columns[c].collation], table.schema.field(source.name).type
            try:
                arrays.append(image_column(slices, c, wire.columns[c], source, charset, type_))
                require_dates(slices, c, arrays[-1], source)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
                raise SchemaMismatch(
                    f"column {source.name!r} of {table} had another type in the binlog "
                    f"before {self.position}: {e}"
                ) from e
        return arrays
