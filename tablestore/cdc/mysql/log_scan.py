"""What a stretch of the binlog holds, without its rows: which tables change and by how much, when its
transactions were committed, and the first statement that concerns the tables.

    scan(address, start=A, until=P, …)     as much as makes a batch: up to P, to so many bytes, or in front of
                                           the statement; always at the end of a transaction
    first_rows(address, start=A, until=P)  how the next rows of a table lie in the log, and the statements
                                           before them: what a table looks like behind a statement

Only heads of row events are looked at: 540 MB/s of large transactions on a core, and some 40,000 small
transactions a second. What nobody can follow is refused here already, as by `binlog`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.mysql import events, statements
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.binlog import Statement
from tablestore.cdc.mysql.changed_by_text import TextChanges
from tablestore.cdc.mysql.dump import REFUSED, Dump
from tablestore.cdc.mysql.events import QueryEvent, TableMap
from tablestore.cdc.mysql.log_identity import with_creation
from tablestore.cdc.mysql.position import LogPosition
from tablestore.core.errors import Unsupported

_MOST_SECONDS = 500


@dataclass(frozen=True, slots=True)
class LogScan:
    """What lies between a position and `end`: `changed` has the bytes of row events of each table, `commits`
    the transactions that changed one of them, by the seconds after 1970 in which they were committed.

    What stopped the scan is a `statement` or a `refused` transaction, which begins at `end` and ends at
    `behind`.
    """

    end: LogPosition
    changed: Mapping[SourceName, int]
    commits: tuple[tuple[int, int], ...]
    log_bytes: int
    statement: Statement | None = None
    behind: LogPosition | None = None
    refused: Refused | None = None

    @property
    def stopped(self) -> bool:
        """Whether it ends in front of something that no batch of rows goes beyond."""
        return self.statement is not None or self.refused is not None


@dataclass(frozen=True, slots=True)
class Refused:
    """A transaction that changes these tables and cannot be followed, in words."""

    tables: tuple[SourceName, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Rows:
    """A row event of a table, of so many bytes; `wire` is the table map before it, in bytes."""

    table: SourceName
    log_bytes: int
    wire: bytes


@dataclass(frozen=True, slots=True)
class End:
    """A transaction has ended."""

    seconds: int


@dataclass
class LogWalk:
    """The steps of a dump: rows of the tables that are `wanted`, statements, ends of transactions."""

    dump: Dump
    wanted: Callable[[SourceName], bool]
    captured: Collection[tuple[str, str]] = ()  # tables of which it matters that a statement changes rows
    maps: dict[int, Rows | None] = field(default_factory=dict)
    chosen: dict[SourceName, bool] = field(default_factory=dict)
    changed: set[SourceName] = field(default_factory=set)  # of the tables, by the present transaction

    def __post_init__(self) -> None:
        self.judge = TextChanges(self.dump.address)

    def steps(self, until: LogPosition) -> Iterator[Rows | Statement | Refused | End]:
        """Up to `until`. Raises Unsupported for what cannot be followed, NotFound if the log ends before."""
        dump, charsets = self.dump, self.dump.charsets()
        for code, seconds, _, body in dump.events(until=until):
            if code in events.ROWS:
                yield from self._rows(body)
            elif code == events.TABLE_MAP:
                self._map(body)
            elif code in (events.XID, events.XA_PREPARE):
                if code == events.XA_PREPARE and self.changed:
                    yield self._refused(REFUSED[code])
                yield self._end(seconds)
            elif code in events.QUERIES:
                yield from self._statement(events.query_event(code, body, charsets), seconds)
            elif code == events.ROTATE:
                self.maps.clear()
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
        known = self.maps.get(number)
        if known is None or known.wire != body:
            database, table, _ = events.map_names(body)
            name = SourceName(database, table)
            if name not in self.chosen:
                self.chosen[name] = self.wanted(name)
            self.maps[number] = Rows(name, 0, body) if self.chosen[name] else None

    def _rows(self, body: bytes) -> Iterator[Rows]:
        number = events.table_number(body)
        if number not in self.maps:
            raise self.dump.corrupt(f"rows of unknown table {number}")
        known = self.maps[number]
        if known is not None:
            self.changed.add(known.table)
            yield Rows(known.table, len(body), known.wire)

    def _statement(self, query: QueryEvent, seconds: int) -> Iterator[Statement | Refused | End]:
        role = statements.role(query.text)
        if role == "rollback" and self.changed:
            yield self._refused("a transaction that is rolled back")
        if role in ("commit", "rollback"):
            yield self._end(seconds)
            return
        if role == "begin":
            self.dump.standalone = False
        at, changes = self.dump.position, list[tuple[str, str]]()
        if role == "rows":
            changes = self.judge.tables(query.text, self.captured, at)
        if role == "other" or changes:
            yield Statement(at, seconds, query.database, query.text, tuple(changes))
        if self.dump.standalone:
            yield self._end(seconds)

    def _end(self, seconds: int) -> End:
        self.dump.inside = self.dump.standalone = False
        self.changed.clear()
        return End(seconds)

    def _refused(self, what: str) -> Refused:
        return Refused(tuple(sorted(self.changed)), f"{what} in the binlog at {self.dump.position}")


def scan(
    address: Address,
    *,
    start: LogPosition,
    until: LogPosition,
    captured: Collection[SourceName],
    relevant: Callable[[Statement], bool],
    most_bytes: int | None = None,
    one_change: bool = False,
    by_gtid: bool = False,
) -> LogScan:
    """What lies between `start` and `until` of the `captured` tables; less of it after `most_bytes`, after
    the first transaction that changed one of them (`one_change`), in front of a statement that is `relevant`,
    and of a transaction of them that cannot be followed. Raises as `LogWalk.steps`."""
    if not by_gtid and start.reaches(until):
        return LogScan(with_creation(address, start), {}, (), 0)
    changed: dict[SourceName, int] = {}
    commits: dict[int, int] = {}
    texts = [(name.database, name.table) for name in captured]
    with Dump.open(address, start, by_gtid=by_gtid) as dump:
        begin, log_bytes, mine = start, 0, dict[SourceName, int]()
        statement: Statement | None = None
        refused: Refused | None = None
        for step in LogWalk(dump, captured.__contains__, texts).steps(until):
            if isinstance(step, Rows):
                mine[step.table] = mine.get(step.table, 0) + step.log_bytes
            elif isinstance(step, Refused):
                refused = step
            elif refused is not None:
                behind = dump.position
                return LogScan(begin, changed, _few(commits), log_bytes, behind=behind, refused=refused)
            elif isinstance(step, Statement):
                if statement is not None:
                    statement = replace(statement, changes=(*statement.changes, *step.changes))
                elif relevant(step):
                    if mine and not step.changes:
                        raise Unsupported(f"{step.text[:200]!r} in a transaction with rows, at {begin}")
                    statement = step
            elif statement is not None:
                if statement.changes:  # else the rows are those of a CREATE TABLE … SELECT
                    changes = (*statement.changes, *((name.database, name.table) for name in mine))
                    statement = replace(statement, changes=tuple(dict.fromkeys(changes)))
                return LogScan(begin, changed, _few(commits), log_bytes, statement, dump.position)
            else:
                for table, size in mine.items():
                    changed[table] = changed.get(table, 0) + size
                if mine:
                    commits[step.seconds] = commits.get(step.seconds, 0) + 1
                    mine = {}
                begin, log_bytes = dump.position, dump.log_bytes
                if (most_bytes is not None and log_bytes >= most_bytes) or (one_change and changed):
                    return LogScan(begin, changed, _few(commits), log_bytes)
        end = dump.position if by_gtid else replace(until, created=dump.created)
        return LogScan(end, changed, _few(commits), dump.log_bytes)


def first_rows(
    address: Address,
    *,
    start: LogPosition,
    until: LogPosition,
    wanted: Callable[[SourceName], bool],
    visit: Callable[[Statement], bool],
) -> TableMap | None:
    """How the first rows of a table that is `wanted` lie in the log; None if there are none up to `until`.

    `visit` is shown each statement before them, and says whether to go on.
    """
    if start.reaches(until):
        return None
    with Dump.open(address, start) as dump:
        walk = LogWalk(dump, wanted)
        for step in walk.steps(until):
            if isinstance(step, Rows):
                return events.table_map(step.wire)
            if isinstance(step, Statement):
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
