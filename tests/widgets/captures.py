"""Reports as a capture of a shop gives them: a snapshot in chunks while a writer works, a schema change in
the middle of it, a table that is swapped, one that is emptied; seeded.
"""

from __future__ import annotations

import threading

import numpy as np

from tablestore.cdc.capture.report import BatchProgress, BatchReport, ChunkReport, EventReport, TableReport

BEGAN = 1_795_366_800.0  # 2026-11-22 17:00:00 UTC
TABLES = {"orders": 150_000, "lineitem": 600_000, "customer": 15_000, "nation": 25}
CHUNK = 25_000


def position(offset: int) -> str:
    """A place in the log of a server."""
    return f"binlog.{4 + offset // 60_000_000:06}:{offset % 60_000_000}"


def reports(
    *, batches: int = 60, seed: int = 7, tables: dict[str, int] | None = None, database: str = "shop"
) -> list[BatchReport]:
    """The reports of the first `batches` batches, one about each second."""
    random = np.random.default_rng(seed)
    tables = TABLES if tables is None else tables
    todo = {name: (0, rows) for name, rows in tables.items()}
    now, log, snapshots, actual = BEGAN, 4_000_000, dict.fromkeys(tables, 0), list[BatchReport]()
    names = list(tables)
    for number in range(batches):
        planned, before = now, log
        log += int(random.integers(200_000, 900_000)) if number else 0
        chunks, rows = _chunks(todo, random, planned, database)
        took = 0.25 + 0.0000045 * sum(rows.values()) + float(random.random()) * 0.3
        ended = planned + took
        changes = {name: int(random.integers(0, 900)) for name in names[:3]} if number else {}
        events = _events(number, names, tables, position(log - 40_000), planned, database)
        if any(event.kind == "altered" and "MODIFY" in event.statement for event in events):
            todo[names[0]] = (0, tables[names[0]])
        done = []
        for name in names:
            if name in changes or name in rows:
                snapshots[name] += 1
                bad = 3 if number == 41 and name == names[0] else 0
                done.append(
                    TableReport(f"ods.{name}", rows.get(name, 0), changes.get(name, 0), bad, snapshots[name])
                )
        seconds = range(int(planned - 1.2), int(planned) + 1) if number else ()
        commits = tuple((second, int(random.integers(1, 60))) for second in seconds)
        actual.append(
            BatchReport(
                number,
                planned,
                planned + 0.04,
                ended,
                position(log),
                log_bytes=log - before,
                bytes_behind=int(random.integers(0, 80_000)) * (9 if 20 < number < 26 else 1),
                commits=commits,
                snapshotting=tuple(f"{database}.{name}" for name, (at, of) in todo.items() if at < of),
                tables=tuple(done),
                chunks=tuple(chunks),
                events=tuple(events),
            )
        )
        now = max(planned + 1.0, ended)
    return actual


def _chunks(
    todo: dict[str, tuple[int, int]], random: np.random.Generator, planned: float, database: str
) -> tuple[list[ChunkReport], dict[str, int]]:
    """The next chunks of the first table that is not read, at most four."""
    name = next((name for name, (at, of) in todo.items() if at < of), None)
    chunks, rows = list[ChunkReport](), dict[str, int]()
    while name is not None and len(chunks) < 4 and todo[name][0] < todo[name][1]:
        at, of = todo[name]
        count = min(CHUNK, of - at)
        last = at + count >= of
        low, high = (str(at * 4) if at else None), (None if last else str((at + count) * 4))
        read = count - int(random.integers(0, 5))
        began = planned + 0.05 + 0.02 * len(chunks)
        ended = began + 0.15 + float(random.random()) * 0.2
        chunks.append(ChunkReport(f"{database}.{name}", low, high, last, read, began, ended))
        rows[name] = rows.get(name, 0) + read
        todo[name] = (at + count, of)
    return chunks, rows


def _events(
    number: int, names: list[str], tables: dict[str, int], at: str, planned: float, database: str
) -> list[EventReport]:
    def event(kind: str, name: str, statement: str, done: str, rows: int | None = None) -> EventReport:
        source, table = f"{database}.{name}", f"ods.{name}"
        return EventReport(kind, source, table, statement, at, int(planned - 0.4), done, rows)

    if number == 0:
        return [event("captured", name, "", "created", rows + rows // 50) for name, rows in tables.items()]
    if number == 12:
        statement = f"ALTER TABLE {names[0]} ADD COLUMN note VARCHAR(40)"
        return [event("altered", names[0], statement, "added column note")]
    if number == 23:
        statement = f"ALTER TABLE {names[0]} MODIFY o_totalprice DECIMAL(18, 2) NOT NULL"
        done = "changed column o_totalprice, read again"
        return [event("altered", names[0], statement, done, tables[names[0]])]
    if number == 38:
        old, new = f"`_{names[2]}_del`", f"`_{names[2]}_gho`"
        statement = f"RENAME TABLE `{names[2]}` TO {old}, {new} TO `{names[2]}`"
        return [event("altered", names[2], statement, "added column tier, dropped column fax")]
    if number == 47:
        return [event("emptied", names[3], f"TRUNCATE TABLE {names[3]}", "emptied")]
    return []


class ScriptedCapture:
    """A capture that gives its reports one by one, as `lake.ingest` does; `advance` is a batch."""

    name = "shop → ods"

    def __init__(self, given: list[BatchReport], *, shown: int = 1) -> None:
        self._given, self._shown = given, shown
        self.running, self.state, self.error = True, "running", None
        self.under_way: BatchProgress | None = None
        self.asked: list[str] = []
        self.ended = threading.Event()

    def reports(self) -> list[BatchReport]:
        """Those of the batches that are done."""
        return self._given[: self._shown]

    def progress(self) -> BatchProgress | None:
        """The batch under way."""
        return self.under_way

    def advance(self, batches: int = 1) -> None:
        """So many batches more are done."""
        self._shown += batches

    def pause(self) -> None:
        """No batch begins."""
        self.asked.append("pause")
        self.state = "paused"

    def resume(self) -> None:
        """Batches begin again."""
        self.asked.append("resume")
        self.state = "running"

    def stop(self) -> None:
        """The end."""
        self.asked.append("stop")
        self.running, self.state = False, "stopped"
        self.ended.set()
