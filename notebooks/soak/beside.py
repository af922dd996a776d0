"""Two processes of a soak: one that writes a table with a log, one that reads all the time and looks closely.

    python -m notebooks.soak.beside write WAREHOUSE FOLDER ROWS
    python -m notebooks.soak.beside read WAREHOUSE FOLDER

They leave in FOLDER what was acknowledged, and a line for each reading. A reading is right by itself: money
is neither made nor lost in `accounts`, and of the rows that were written in turn each key has its newest.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tablestore as ts
from notebooks.soak.database import ACCOUNTS, CENTS
from tablestore.cli.door import ExitCode

EVENTS = "logs.events"
KEYS = 2_000
WRITTEN, READ = "written", "read.jsonl"
_WRITE_EVERY, _READ_EVERY = 0.5, 0.5


def create_events(lake: ts.Lake) -> ts.Table:
    """The table with a log, and a commit for each write."""
    schema = {"id": ts.BIGINT.not_null(), "n": ts.BIGINT, "note": ts.STRING}
    options = {"bucket": 2, "log.system": "embedded", "log.retention": "2 min", **BOUNDED}
    return lake.create_table(EVENTS, schema=schema, primary_key=["id"], options=options)


BOUNDED = {
    "write-only": True,
    "snapshot.num-retained.min": 5,
    "snapshot.num-retained.max": 20,
    "snapshot.time-retained": "1 min",
}
"""Options of the tables of a soak: maintenance has all the work, and history does not add up."""


def events(first: int, end: int) -> pa.Table:
    """The rows that are written in turn, from the number `first` to `end` without it."""
    numbers = np.arange(first, end, dtype=np.int64)
    notes = pc.binary_join_element_wise("event", pa.array(numbers).cast(pa.string()), " ")
    return pa.table({"id": numbers % KEYS, "n": numbers, "note": notes})


def newest(table: ts.Table, *, log: bool) -> int:
    """The newest number in the table of events, -1 without one."""
    numbers = table.scan(columns=["n"], log=log).to_arrow()["n"]
    return int(pc.max(numbers).as_py()) if len(numbers) else -1


def event_problem(rows: pa.Table) -> str:
    """What is wrong with all rows of the table of events; empty where nothing is."""
    if not rows.num_rows:
        return ""
    ids, numbers = rows["id"].to_numpy(), rows["n"].to_numpy()
    last = int(numbers.max())
    there = min(last + 1, KEYS)
    if len(ids) != there or len(np.unique(ids)) != there:
        return f"{EVENTS}: {len(ids):,} rows of {len(np.unique(ids)):,} keys, {there:,} expected"
    wrong = ids[numbers != last - (last - ids) % KEYS]
    notes = pc.binary_join_element_wise("event", rows["n"].cast(pa.string()), " ")
    if len(wrong):
        return f"{EVENTS}: keys {wrong[:5].tolist()} have an older row than {last} says"
    return "" if notes.equals(rows["note"]) else f"{EVENTS}: the notes of some rows are others'"


def account_problem(place: str, rows: pa.Table) -> str:
    """What is wrong with the accounts, all rows of this table and snapshot."""
    total = pc.sum(rows["cents"]).as_py()
    if rows.num_rows == ACCOUNTS and total == ACCOUNTS * CENTS:
        return ""
    return f"{place}: {rows.num_rows} accounts with {total} cents, {ACCOUNTS * CENTS} expected"


def write(warehouse: str, folder: Path, rows: int, turns: Iterator[None]) -> None:
    """Write so many events in each turn, from where the table ends."""
    table = ts.connect(warehouse).table(EVENTS)
    first = newest(table, log=True) + 1
    fresh = folder / f"{WRITTEN}.new"
    for _ in turns:
        table.write(events(first, first + rows))
        first += rows
        fresh.write_text(str(first - 1))
        fresh.replace(folder / WRITTEN)


def read(warehouse: str, folder: Path, turns: Iterator[None]) -> None:
    """Read the tables, merged and with the log, and write down how long it took and what was wrong. Where
    the snapshot expired meanwhile, as while the reader is frozen, the next turn reads again."""
    lake = ts.connect(warehouse)
    accounts = [name for name in lake.tables() if name.endswith(".accounts")]
    with (folder / READ).open("a") as out:
        for _ in turns:
            at, began = time.time(), time.perf_counter()
            try:
                problems = list(_reading(lake, accounts))
            except ts.SnapshotExpired:
                continue
            line = {"at": at, "seconds": time.perf_counter() - began, "wrong": [p for p in problems if p]}
            out.write(json.dumps(line) + "\n")
            out.flush()


def _reading(lake: ts.Lake, accounts: Sequence[str]) -> Iterator[str]:
    """What is wrong with each table, empty where nothing is."""
    for name in accounts:
        scan = lake.table(name).scan(columns=["id", "cents"])
        place = f"{name}, snapshot {scan.snapshot.id if scan.snapshot is not None else None}"
        yield account_problem(place, scan.to_arrow())
    for log in (False, True):
        yield event_problem(lake.table(EVENTS).scan(log=log).to_arrow())


def main(arguments: list[str]) -> int:
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    verb, warehouse, folder = arguments[:3]

    def turns(seconds: float) -> Iterator[None]:
        while not stopping.wait(seconds):
            yield

    work: dict[str, Callable[[], None]] = {
        "write": lambda: write(warehouse, Path(folder), int(arguments[3]), turns(_WRITE_EVERY)),
        "read": lambda: read(warehouse, Path(folder), turns(_READ_EVERY)),
    }
    work[verb]()
    return ExitCode.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
