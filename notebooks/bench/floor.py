"""where the time of a load goes, and the floor: decoding and encoding the same bytes with pyarrow alone

Stopwatches are put around the engine's own functions while one process loads the table; each second counts
for the innermost. The floor is what remains if routing, sorting, statistics and commits cost nothing: the
source decoded, and the rows that the load left in the table's files encoded again, file by file, by pyarrow.
Encoding is shown with the table's own settings and with pyarrow's defaults at the same compression.
"""

from __future__ import annotations

import argparse
import functools
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

import tablestore as ts
from notebooks.bench.contenders import line_items
from notebooks.bench.load import SHAPES, Shape, source
from notebooks.bench.parts import report
from tablestore.format.datafile import DataFileWriter
from tablestore.format.parquet import encodings
from tablestore.lsm.writing.writer import SortedRows, WriteBuffer
from tablestore.write import table_write
from tablestore.write.commit.committer import Committer
from tablestore.write.routing import routing as bucketing

HEADER = ("part", "of", "seconds", "CPU s", "share", "ns a row", "MB")
LOAD, REST = "load", "other: names, numbers, metadata"


@dataclass
class Clock:
    """Wall and CPU seconds by part; a part within another stops the outer one. One thread only: the CPU is
    that of the whole process, so that pyarrow's threads count."""

    seconds: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    _running: list[str] = field(default_factory=list)
    _since: tuple[float, float] = (0.0, 0.0)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._turn()
        self._running.append(name)
        try:
            yield
        finally:
            self._turn()
            self._running.pop()

    def _turn(self) -> None:
        now = time.perf_counter(), time.process_time()
        if self._running:
            name = self._running[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now[0] - self._since[0]
            self.cpu[name] = self.cpu.get(name, 0.0) + now[1] - self._since[1]
        self._since = now

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, timed."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        return timed

    def around_each(self, name: str, function: Callable[..., Iterable[Any]]) -> Callable[..., Iterator[Any]]:
        """A function that gives an iterator, timed while it makes the next item and not in between."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Iterator[Any]:
            return self.each(name, function(*args, **kwargs))

        return timed

    def each(self, name: str, items: Iterable[Any]) -> Iterator[Any]:
        iterator, end = iter(items), object()
        while True:
            with self.part(name):
                item = next(iterator, end)
            if item is end:
                return
            yield item


READ, CONFORM, ROUTE, HOLD, SORT, ENCODE, COMMIT = PARTS = (
    "read the source",
    "conform to the schema",
    "route to buckets",
    "copy into buffers",
    "sort and fold",
    "encode, statistics, write",
    "commit",
)


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    files = source(chosen.scale_factor).split(",")
    called = report.command("floor", arguments)
    print(f"{called}\n{report.machine()}; one process; medians of {chosen.rounds}\n")
    rounds: list[Round] = []
    shape = SHAPES[chosen.table]
    with tempfile.TemporaryDirectory(prefix="bench-floor-", dir=chosen.directory) as folder:
        small = source("0.01" if float(chosen.scale_factor) > 0.01 else "0.001")
        load(shape, small.split(","), Path(folder) / "warm-up")
        for number in range(chosen.rounds):
            rounds.append(once(shape, files, Path(folder) / str(number)))
    print(show(rounds))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./workbench bench floor", description=__doc__.partition("\n")[0])
    parser.add_argument("--scale-factor", default="1", help="of TPC-H (default 1: 6 million rows)")
    parser.add_argument("--rounds", type=int, default=3, help="medians of so many (default 3)")
    parser.add_argument("--table", choices=[*SHAPES], default="partitioned")
    parser.add_argument("--directory", help="where tables are made and removed (default: the temporary one)")
    return parser


@dataclass(frozen=True, slots=True)
class Round:
    """One load in parts, and the floor below it."""

    rows: int
    load_bytes: int
    source_bytes: int
    clock: Clock
    floor: Clock
    encoded: dict[str, int]


DECODE, OWN, DEFAULT = (
    "decode the source",
    "encode, the table's settings",
    "encode, pyarrow's defaults, zstd 1",
)


def once(shape: Shape, files: Sequence[str], folder: Path) -> Round:
    """Load, then measure the floor on what the load left."""
    table, clock = load(shape, files, folder)
    floor, encoded = Clock(), {OWN: 0, DEFAULT: 0}
    for path in files:
        with pq.ParquetFile(path) as parquet:
            for _ in floor.each(DECODE, parquet.iter_batches(line_items.BATCH_ROWS)):
                pass
    paths = sorted(Path(table.location).rglob("data-*.parquet"))
    rows = 0
    for file in paths:
        decoded = pq.read_table(file)
        rows += len(decoded)
        for name, settings in ((OWN, own_settings(decoded)), (DEFAULT, {})):
            with floor.part(name):
                size = encode(decoded, settings)
            encoded[name] += size
    load_bytes, source_bytes = (sum(Path(p).stat().st_size for p in some) for some in (paths, files))
    return Round(rows, load_bytes, source_bytes, clock, floor, encoded)


def encode(rows: pa.Table, settings: Mapping[str, Any]) -> int:
    """The rows as one Parquet file in memory; its bytes."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd", compression_level=1, store_schema=False, **settings)
    return sink.tell()


def own_settings(rows: pa.Table) -> dict[str, Any]:
    chosen = encodings.choose(rows, whole_bytes=rows.nbytes)
    return {
        "use_dictionary": list(chosen.dictionary),
        "column_encoding": dict(chosen.other),
        "store_decimal_as_integer": True,
    }


def load(shape: Shape, files: Sequence[str], folder: Path) -> tuple[ts.Table, Clock]:
    """The loaded table, and where the time went."""
    clock = Clock()
    table = shape.create(folder).with_options({"tablestore.write.threads": 0})  # a clock sees one thread
    with stopwatches(clock), clock.part(REST), table.writer() as w:
        for batch in clock.each(READ, line_items.read(files, months=shape.months)):
            w.write(batch)
    return table, clock


@contextmanager
def stopwatches(clock: Clock) -> Iterator[None]:
    """The engine's functions, timed while the block runs."""
    timed = clock.around, clock.around_each
    watched: list[tuple[Any, str, str, Callable[..., Any]]] = [
        (table_write, "conform", CONFORM, timed[0]),
        (bucketing, "route", ROUTE, timed[1]),
        (WriteBuffer, "settle", HOLD, timed[0]),
        (WriteBuffer, "drain", SORT, timed[0]),
        (SortedRows, "folded", SORT, timed[1]),
        (DataFileWriter, "write", ENCODE, timed[0]),
        (DataFileWriter, "close", ENCODE, timed[0]),
        (Committer, "commit", COMMIT, timed[0]),
    ]
    with ExitStack() as stack:
        for owner, name, part, wrap in watched:
            stack.enter_context(mock.patch.object(owner, name, wrap(part, getattr(owner, name))))
        yield


def show(rounds: Sequence[Round]) -> str:
    """Parts of the load, the floor, and what the load takes above it."""
    rows = rounds[0].rows

    def line(part: str, of: str, clocks: Sequence[Clock], parts: Sequence[str], size: int = 0) -> list[str]:
        seconds = statistics.median(sum(c.seconds.get(p, 0.0) for p in parts) for c in clocks)
        cpu = statistics.median(sum(c.cpu.get(p, 0.0) for p in parts) for c in clocks)
        figures = [f"{seconds:.2f}", f"{cpu:.2f}", f"{seconds / whole:.0%}", f"{seconds / rows * 1e9:.0f}"]
        return [part, of, *figures, f"{size / 1e6:.1f}" if size else ""]

    loads, floors = [r.clock for r in rounds], [r.floor for r in rounds]
    whole = statistics.median(sum(clock.seconds.values()) for clock in loads)
    first = rounds[0]
    lines = [line(part, LOAD, loads, [part]) for part in (*PARTS, REST)]
    lines.append(line("all", LOAD, loads, [*PARTS, REST], first.load_bytes))
    lines.append(line(DECODE, "floor", floors, [DECODE], first.source_bytes))
    lines.append(line(OWN, "floor", floors, [OWN], first.encoded[OWN]))
    lines.append(line(DEFAULT, "", floors, [DEFAULT], first.encoded[DEFAULT]))
    floor = [c.seconds[DECODE] + c.seconds[OWN] for c in floors]
    above = statistics.median(sum(c.seconds.values()) for c in loads) / statistics.median(floor)
    own_cpu = statistics.median(sum(c.cpu.values()) for c in loads)
    above_cpu = own_cpu / statistics.median(c.cpu[DECODE] + c.cpu[OWN] for c in floors)
    results = (
        f"\n{rows:,} rows: the load takes {above:.2f}× the time of the floor and {above_cpu:.2f}× its CPU."
    )
    return report.text(HEADER, lines) + "\n" + results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
