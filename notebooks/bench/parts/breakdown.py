"""Where the time of our own steps goes, and the floor of each: the second half of `bench lsm`.

One process, one thread, stopwatches around the engine's own functions; each second counts for the innermost.
The floor decodes and encodes with pyarrow what the step has to decode and encode: the source and the files
of a load; every file of the table for a scan; both that and the new files for a compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

import tablestore as ts
from notebooks.bench import floor
from notebooks.bench.contenders import line_items
from notebooks.bench.floor import Clock
from notebooks.bench.parts import report
from notebooks.bench.parts.changes import Changes
from tablestore.format import datafile
from tablestore.lsm.merge import merge_reader

DECODE_FILES, MERGE, OTHER = "decode data files", "merge", "other: plans, names, numbers"
DECODED, ENCODED = "floor: decode", "floor: encode"
ONE_THREAD = {"tablestore.write.threads": 0, "tablestore.scan.threads": 1}
HEADER = ("step", "part", "seconds", "CPU s", "share")


@dataclass(frozen=True, slots=True)
class Parts:
    """One step: seconds by part, and the floor below it."""

    step: str
    clock: Clock = field(default_factory=Clock)
    floor: Clock = field(default_factory=Clock)


def measure(table: ts.Table, files: Sequence[str], changes: Changes) -> list[Parts]:
    """Every step once on an empty `table`, on one thread."""
    table = table.with_options(ONE_THREAD)
    return [
        _load(table, files),
        _writes("ten upserts", table, changes.upserts, None),
        _writes("ten deletes", table, changes.deletes, "-D"),
        _scan("full scan after them", table),
        _compact(table),
        _scan("full scan, compacted", table),
    ]


def _timed(parts: Parts, step: Callable[[], object]) -> None:
    """`step` under the stopwatches of loads and of reads."""
    with ExitStack() as stack:
        stack.enter_context(floor.stopwatches(parts.clock))
        for owner, name, part in ((datafile, "read", DECODE_FILES), (merge_reader, "merge", MERGE)):
            timed = parts.clock.around_each(part, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, timed))
        stack.enter_context(parts.clock.part(OTHER))
        step()


def _load(table: ts.Table, files: Sequence[str]) -> Parts:
    parts = Parts("load")

    def load() -> None:
        with table.writer() as w:
            for batch in parts.clock.each(floor.READ, line_items.read(files, months=False)):
                w.write(batch)

    _timed(parts, load)
    for path in files:
        with pq.ParquetFile(path) as source:
            for _ in parts.floor.each(DECODED, source.iter_batches(line_items.BATCH_ROWS)):
                pass
    _floor_of_files(parts, [], _data_files(table))
    return parts


def _writes(step: str, table: ts.Table, files: Sequence[str], kind: str | None) -> Parts:
    parts, before = Parts(step), _data_files(table)
    for path in files:
        rows = pa.Table.from_batches(line_items.read([path], months=False))
        if kind is None:
            _timed(parts, partial(table.write, rows))
        else:
            rows = rows.append_column("kind", pa.repeat(kind, len(rows)))
            _timed(parts, partial(table.write, rows, row_kind_column="kind"))
    _floor_of_files(parts, [], _data_files(table) - before)
    return parts


def _scan(step: str, table: ts.Table) -> Parts:
    parts = Parts(step)
    live = _live(table)

    def scan() -> None:
        for _ in table.scan().to_batches():
            pass

    _timed(parts, scan)
    _floor_of_files(parts, live, [])
    return parts


def _compact(table: ts.Table) -> Parts:
    parts, before = Parts("full compaction"), _live(table)
    _timed(parts, lambda: table.compact(full=True))
    _floor_of_files(parts, before, _live(table) - before)
    return parts


def _data_files(table: ts.Table) -> set[Path]:
    return set(Path(table.location).rglob("data-*.parquet"))


def _live(table: ts.Table) -> set[Path]:
    names = set(table.inspect.files()["file_path"].to_pylist())
    return {path for path in _data_files(table) if any(str(name).endswith(path.name) for name in names)}


def _floor_of_files(parts: Parts, decoded: set[Path] | list[Path], encoded: set[Path] | list[Path]) -> None:
    for path in sorted(decoded):
        with pq.ParquetFile(path) as file:
            for _ in parts.floor.each(DECODED, file.iter_batches(line_items.BATCH_ROWS)):
                pass
    for path in sorted(encoded):
        table = pq.read_table(path)
        settings = floor.own_settings(table)
        with parts.floor.part(ENCODED):
            floor.encode(table, settings)


def show(results: Sequence[Parts]) -> str:
    """Parts of each step, its floor, and how far above it the step is."""
    lines, above = [], []
    for parts in results:
        whole, whole_cpu = sum(parts.clock.seconds.values()), sum(parts.clock.cpu.values())
        for clock in (parts.clock, parts.floor):
            for name, seconds in clock.seconds.items():
                share = f"{seconds / whole:.0%}" if clock is parts.clock else ""
                lines.append([parts.step, name, f"{seconds:.3f}", f"{clock.cpu[name]:.3f}", share])
        lines.append([parts.step, "all", f"{whole:.3f}", f"{whole_cpu:.3f}", "100%"])
        least, least_cpu = sum(parts.floor.seconds.values()), sum(parts.floor.cpu.values())
        above.append(
            f"{parts.step}: {whole / least:.2f}× its floor ({whole_cpu / max(least_cpu, 1e-9):.2f}× the CPU)"
        )
    head = "Ours once more, one process on one thread, each second given to the innermost part:\n"
    return head + report.text(HEADER, lines) + "\n\n" + "\n".join(above)
