"""What a stretch of the binlog holds, without its rows: which tables change and by how much, when its
transactions were committed, and the first statement that concerns the tables.

    scan(address, ScanRequest(A, P, …))    as much as makes a batch: up to P, to so many bytes, or in front of
                                           the statement; always at the end of a transaction
    first_rows(address, start=A, until=P)  how the next rows of a table lie in the log, and the statements
                                           before them: what a table looks like behind a statement

Only heads of row events are looked at: 540 MB/s of large transactions on a core, and some 40,000 small
transactions a second. What nobody can follow is refused here already, as by `binlog`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql import events, statements
from tablestore.cdc.mysql.binlog import LogStatement
from tablestore.cdc.mysql.dump import REFUSED, Dump, DumpRecording
from tablestore.cdc.mysql.events import LogPosition, QueryEvent, TableMap
from tablestore.cdc.mysql.foreign_keys import UNWATCHED, CascadeWatch
from tablestore.cdc.mysql.server_checks import with_creation
from tablestore.cdc.mysql.statements import TextChanges
from tablestore.core.errors import Unsupported

_MOST_SECONDS = 500


@dataclass(frozen=True, slots=True)
class BinlogScan:
    """What lies between a position and `end`: `changed` has the bytes of row events of each table, `commits`
    the transactions that changed one of them, by the seconds after 1970 in which they were committed.
    `cascaded` are tables that foreign keys may have changed without a trace.

    What stopped the scan is a `statement` or a `refused` transaction, which begins at `end` and ends at
    `behind`.
    """

    end: LogPosition
    changed: Mapping[SourceName, int]
    commits: tuple[tuple[int, int], ...]
    log_bytes: int
    statement: LogStatement | None = None
    behind: LogPosition | None = None
    refused: RefusedTransaction | None = None
    cascaded: frozenset[SourceName] = frozenset()

    @property
    def stopped(self) -> bool:
        """Whether it ends in front of something that no batch of rows goes beyond."""
        return self.statement is not None or self.refused is not None


@dataclass(frozen=True, slots=True)
class RefusedTransaction:
    """A transaction that changes these tables and cannot be followed, in words."""

    tables: tuple[SourceName, ...]
    reason: str

    def of_all(self) -> Unsupported:
        """The error where no other table is captured."""
        shown = ",".join(map(str, self.tables))
        return Unsupported(
            f"{self.reason}, of {shown}",
            "no other table is captured; once such a transaction is committed, "
            f"read_again='{shown}' (--read-again) reads all rows anew",
        )


@dataclass(frozen=True, slots=True)
class RowsStep:
    """A row event of a table, of so many bytes; `wire` is the table map before it, in bytes."""

    table: SourceName
    log_bytes: int
    wire: bytes


@dataclass(frozen=True, slots=True)
class Cascaded:
    """Tables that foreign keys may have changed with a row event of another table."""

    tables: frozenset[SourceName]


@dataclass(frozen=True, slots=True)
class End:
    """A transaction has ended."""

    seconds: int


@dataclass(frozen=True, slots=True)
class LostTransaction:
    """A transaction that has begun and is not in the log to its end, since the server crashed in it: it was
    rolled back. The dump is at the next file."""


LogStep = RowsStep | Cascaded | LogStatement | RefusedTransaction | LostTransaction | End


@dataclass
class LogWalk:
    """The steps of a dump: rows of the tables that are `wanted`, what rows of their parents do to them by
    foreign keys, statements, ends of transactions."""

    dump: Dump
    wanted: Callable[[SourceName], bool]
    captured: Collection[SourceName] = ()  # tables of which it matters that a statement changes rows
    watch: CascadeWatch = UNWATCHED
    maps: dict[int, RowsStep | None] = field(default_factory=dict)
    chosen: dict[SourceName, bool] = field(default_factory=dict)
    changed: set[SourceName] = field(default_factory=set)  # of the tables, by the present transaction
    cascaded: set[SourceName] = field(default_factory=set)  # in the same way, by foreign keys

    def __post_init__(self) -> None:
        self.judge = TextChanges(self.dump.address)

    def steps(self, until: LogPosition) -> Iterator[LogStep]:
        """Up to `until`. Raises Unsupported for what cannot be followed, NotFound if the log ends before."""
        dump, charsets = self.dump, self.dump.charsets()
        for code, seconds, _, body in dump.events(until=until):
            if code in events.ROWS:
                yield from self._rows(code, body)
            elif code == events.TABLE_MAP:
                self._map(body)
            elif code in (events.XID, events.XA_PREPARE):
                if code == events.XA_PREPARE and (self.changed or self.cascaded):
                    yield self._refused(REFUSED[code], self.changed | self.cascaded)
                yield self._end(seconds)
            elif code in events.QUERIES:
                yield from self._statement(events.query_event(code, body, charsets), seconds)
            elif code == events.ROTATE:
                self.maps.clear()
                if dump.abandoned:
                    self.changed.clear()
                    self.cascaded.clear()
                    yield LostTransaction()
            elif code in REFUSED:
                raise Unsupported(
                    f"{REFUSED[code]} in the binlog at {dump.position}",
                    "read_again='*.*' (--read-again '*.*') goes on behind it",
                )
            if not dump.inside and dump.reaches(until):
                return
        raise dump.ends_before(until)

    def _map(self, body: bytes) -> None:
        number = events.table_number(body)
        before = self.maps.get(number)
        if before is None or before.wire != body:
            database, table, _ = events.map_names(body)
            name = SourceName(database, table)
            if name not in self.chosen:
                self.chosen[name] = self.wanted(name)
            matters = self.chosen[name] or name in self.watch.parents
            self.maps[number] = RowsStep(name, 0, body) if matters else None

    def _rows(self, code: int, body: bytes) -> Iterator[RowsStep | Cascaded]:
        number = events.table_number(body)
        if number not in self.maps:
            raise self.dump.corrupt(f"rows of unknown table {number}")
        rows = self.maps[number]
        if rows is None:
            return
        if self.chosen[rows.table]:
            self.changed.add(rows.table)
            yield RowsStep(rows.table, len(body), rows.wire)
        children = self.watch.changed(rows.table, code, body, rows.wire) - self.cascaded
        if children:
            self.cascaded |= children
            yield Cascaded(frozenset(children))

    def _statement(self, query: QueryEvent, seconds: int) -> Iterator[LogStep]:
        role = statements.role(query.text)
        if role == "rollback" and self.changed:
            yield self._refused("a transaction that is rolled back", self.changed)
        if role in ("commit", "rollback"):
            yield self._end(seconds)
            return
        if role == "begin":
            self.dump.standalone = False
        at, changes = self.dump.position, list[SourceName]()
        if role == "rows":
            changes = self._changed_by(query.text)
        if role == "other" or changes:
            pairs = tuple((name.database, name.table) for name in changes)
            yield LogStatement(at, seconds, query.database, query.text, pairs)
        if self.dump.standalone:
            yield self._end(seconds)

    def _changed_by(self, text: str) -> list[SourceName]:
        """The captured tables that a statement changes: itself, or by what foreign keys do about it."""
        pairs = [(name.database, name.table) for name in {*self.captured, *self.watch.parents}]
        named = {SourceName(*pair) for pair in self.judge.tables(text, pairs, self.dump.position)}
        cascaded = self.watch.children(named) if self.judge.may_cascade(text) else set()
        return [name for name in self.captured if name in named or name in cascaded]

    def _end(self, seconds: int) -> End:
        self.dump.inside = self.dump.standalone = False
        self.changed.clear()
        self.cascaded.clear()
        return End(seconds)

    def _refused(self, what: str, tables: Collection[SourceName]) -> RefusedTransaction:
        return RefusedTransaction(tuple(sorted(tables)), f"{what} in the binlog at {self.dump.position}")


@dataclass
class _Passed:
    """What a scan has passed: up to `begin`, and in the transaction behind it."""

    begin: LogPosition
    log_bytes: int = 0
    changed: dict[SourceName, int] = field(default_factory=dict)
    commits: dict[int, int] = field(default_factory=dict)
    cascaded: set[SourceName] = field(default_factory=set)
    rows: dict[SourceName, int] = field(default_factory=dict)
    by_keys: set[SourceName] = field(default_factory=set)

    def end(self, seconds: int, position: LogPosition, log_bytes: int) -> None:
        """The transaction is over."""
        for table, size in self.rows.items():
            self.changed[table] = self.changed.get(table, 0) + size
        if self.rows:
            self.commits[seconds] = self.commits.get(seconds, 0) + 1
        self.cascaded |= self.by_keys
        self.rows, self.by_keys = {}, set()
        self.begin, self.log_bytes = position, log_bytes

    def scanned(self, **how: Any) -> BinlogScan:
        """All of it, up to `begin` or as `how` says."""
        end, log_bytes = how.pop("end", self.begin), how.pop("log_bytes", self.log_bytes)
        cascaded = frozenset(self.cascaded)
        return BinlogScan(end, self.changed, _few(self.commits), log_bytes, cascaded=cascaded, **how)

    def whole(self, statement: LogStatement) -> LogStatement:
        """A statement with all tables that its transaction changes."""
        if not statement.changes:  # the rows are those of a CREATE TABLE … SELECT
            return statement
        others = ((name.database, name.table) for name in (*self.rows, *self.by_keys))
        return replace(statement, changes=tuple(dict.fromkeys((*statement.changes, *others))))


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """The stretch between `start` and `until` of the `captured` tables; less of it after `most_bytes`, after
    the first transaction that changed one of them (`one_change`), and in front of a statement that is
    `relevant`. `watch`: the parents of their foreign keys. `by_gtid` as in `read_log`."""

    start: LogPosition
    until: LogPosition
    relevant: Callable[[LogStatement], bool]
    captured: Collection[SourceName] = ()
    watch: CascadeWatch = UNWATCHED
    most_bytes: int | None = None
    one_change: bool = False
    by_gtid: bool = False


def scan(address: Address, request: ScanRequest, recording: DumpRecording | None = None) -> BinlogScan:
    """What lies there; less of it in front of a transaction of the captured tables that cannot be followed.
    A transaction that was never ended is a stretch of its own, without changes.
    `recording` has afterwards what the scan has read. Raises as `LogWalk.steps`."""
    start = request.start
    if not request.by_gtid and start.reaches(request.until):
        return BinlogScan(with_creation(address, start), {}, (), 0)
    with Dump.open(address, start, by_gtid=request.by_gtid, recording=recording) as dump:
        scanned = _scanned(dump, request)
        if recording is not None:
            recording.end(dump, scanned.end)
        return scanned


def _scanned(dump: Dump, request: ScanRequest) -> BinlogScan:
    until, captured = request.until, request.captured
    passed = _Passed(dump.start)
    statement: LogStatement | None = None
    refused: RefusedTransaction | None = None
    for step in LogWalk(dump, captured.__contains__, captured, request.watch).steps(until):
        if isinstance(step, RowsStep):
            passed.rows[step.table] = passed.rows.get(step.table, 0) + step.log_bytes
        elif isinstance(step, Cascaded):
            passed.by_keys |= step.tables
        elif isinstance(step, LostTransaction):
            if passed.begin != dump.start:
                return passed.scanned()
            return BinlogScan(dump.position, {}, (), dump.log_bytes)
        elif isinstance(step, RefusedTransaction):
            refused = step
        elif refused is not None:
            return passed.scanned(behind=dump.position, refused=refused)
        elif isinstance(step, LogStatement):
            if statement is not None:
                statement = replace(statement, changes=(*statement.changes, *step.changes))
            elif request.relevant(step):
                if passed.rows and not step.changes:
                    raise Unsupported(f"{step.text[:200]!r} in a transaction with rows, at {passed.begin}")
                statement = step
        elif statement is not None:
            return passed.scanned(statement=passed.whole(statement), behind=dump.position)
        else:
            passed.end(step.seconds, dump.position, dump.log_bytes)
            full = request.most_bytes is not None and dump.log_bytes >= request.most_bytes
            if full or (request.one_change and passed.changed):
                return passed.scanned()
    end = dump.position if dump.by_gtid else replace(until, created=dump.created)
    return passed.scanned(end=end, log_bytes=dump.log_bytes)


def first_rows(
    address: Address,
    *,
    start: LogPosition,
    until: LogPosition,
    wanted: Callable[[SourceName], bool],
    visit: Callable[[LogStatement], bool],
) -> TableMap | None:
    """How the first rows of a table that is `wanted` lie in the log; None if there are none up to `until`.

    `visit` is shown each statement before them, and says whether to go on.
    """
    if start.reaches(until):
        return None
    with Dump.open(address, start) as dump:
        walk = LogWalk(dump, wanted)
        for step in walk.steps(until):
            if isinstance(step, RowsStep):
                return events.table_map(step.wire)
            if isinstance(step, LogStatement):
                if not visit(step):
                    return None
                walk.chosen.clear()
                walk.maps.clear()
    return None


def _few(commits: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """At most some hundred seconds; where there are more, neighbours count as the earlier one."""
    pairs = sorted(commits.items())
    each = -(-len(pairs) // _MOST_SECONDS)
    if each <= 1:
        return tuple(pairs)
    groups = (pairs[i : i + each] for i in range(0, len(pairs), each))
    return tuple((group[0][0], sum(n for _, n in group)) for group in groups)
