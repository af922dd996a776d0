"""Contender: this engine without Spark, in one process or in several that share the work.

With several, each loads a chunk of its own through `open_writer(sequence_base=…)`, and one commit takes
all of their messages; buckets are compacted and splits read by whoever is free.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tablestore as ts
from notebooks.bench.contenders import line_items
from notebooks.bench.contenders.serve import Answer, serve
from tablestore.meta import manifest_cache

Map = Callable[..., Iterable[Any]]


class _Pool(ProcessPoolExecutor):
    """Worker processes, and how many they are."""

    def __init__(self, processes: int) -> None:
        super().__init__(processes, mp_context=get_context("spawn"))
        self.processes = processes


def main(processes: int) -> None:
    if processes == 1:
        serve(_steps(None))
        return
    with _Pool(processes) as pool:
        list(pool.map(_warm, range(processes)))
        serve(_steps(pool))


def _steps(pool: _Pool | None) -> dict[str, Callable[..., Answer]]:
    steps: dict[str, Callable[..., Answer]]
    steps = {"read": _read, "load": _load, "update": _update, "scan": _scan, "compact": _compact}
    all_steps: dict[str, Callable[..., Answer]] = {n: functools.partial(s, pool) for n, s in steps.items()}
    all_steps |= {"upserts": _upserts, "deletes": _deletes, "gets": _gets, "get_many": _get_many}
    return all_steps | {"commits": _commits, "plan": _plan}


def _warm(_: int) -> int:
    time.sleep(0.2)  # long enough that every process of the pool takes one
    return ts.BIGINT is not None


def _files(text: str) -> list[str]:
    return text.split(",")


def _has_months(table: ts.Table) -> bool:
    return "l_year" in table.schema.names


def _read(pool: _Pool | None, files: str, months: str) -> Answer:
    halves = _shares(_files(files), 1 if pool is None else pool.processes)
    run: Map = map if pool is None else pool.map
    return _sums(run(_read_files, halves, [months == "true"] * len(halves)))


def _read_files(files: Sequence[str], months: bool) -> dict[str, int]:
    return line_items.total(line_items.read(files, months=months))


def _load(pool: _Pool | None, path: str, files: str) -> Answer:
    table = ts.open(path)
    if pool is None:
        with table.writer() as w:
            for batch in line_items.read(_files(files), months=_has_months(table)):
                w.write(batch)
        return {}
    shares = _shares(_files(files), pool.processes)
    bases = np.cumsum([0, *(sum(pq.read_metadata(f).num_rows for f in share) for share in shares)])
    jobs = [pool.submit(_load_chunk, path, s, int(b)) for s, b in zip(shares, bases, strict=False)]
    messages = [m for job in jobs for m in job.result()]
    table.commit(messages, user="bench", identifier=1)
    return {}


def _load_chunk(path: str, files: Sequence[str], sequence_base: int) -> list[bytes]:
    table = ts.open(path)
    writer = table.open_writer(sequence_base=sequence_base)
    for batch in line_items.read(files, months=_has_months(table)):
        writer.write(batch)
    return writer.prepare()


def _update(_: ProcessPoolExecutor | None, path: str, files: str) -> Answer:
    table = ts.open(path)
    with table.writer() as w:
        for batch in line_items.changed(_files(files), months=_has_months(table)):
            w.write(batch)
    return {}


def _scan(pool: _Pool | None, path: str) -> Answer:
    table = ts.open(path)
    if pool is None:
        return line_items.total(table.scan().to_batches())
    splits = table.scan().plan().splits
    parts = 4 * pool.processes
    return _sums(pool.map(_scan_splits, [path] * parts, [splits[n::parts] for n in range(parts)]))


def _scan_splits(path: str, splits: Sequence[Any]) -> dict[str, int]:
    table = ts.open(path)
    return line_items.total(batch for split in splits for batch in table.read_split(split))


def _compact(pool: _Pool | None, path: str) -> Answer:
    table = ts.open(path)
    if pool is None:
        table.compact(full=True)
        return {}
    tasks = table.buckets_to_compact(full=True)
    done = pool.map(ts.compact_bucket, [path] * len(tasks), tasks)
    table.commit([m for m in done if m is not None], user="bench-compaction", identifier=1)
    return {}


def _commits(path: str, count: str, rows: str) -> Answer:
    table = ts.open(path)
    times = []
    for batch in line_items.small(int(count), int(rows)):
        began = time.perf_counter()
        table.write(batch)
        times.append(time.perf_counter() - began)
    return {"ms": ",".join(f"{t * 1000:.3f}" for t in times)}


def _upserts(path: str, files: str) -> Answer:
    """One commit a file."""
    table = ts.open(path)
    return line_items.timed(_files(files), lambda batches: table.write(batches))


def _deletes(path: str, files: str) -> Answer:
    table = ts.open(path)

    def delete(batches: list[pa.RecordBatch]) -> None:
        rows = pa.Table.from_batches(batches)
        kinds = pa.repeat("-D", len(rows))
        table.write(rows.append_column("kind", kinds), row_kind_column="kind")

    return line_items.timed(_files(files), delete)


def _gets(path: str, file: str) -> Answer:
    """One call a key."""
    table = ts.open(path)
    return line_items.looked_up(file, table.get)


def _get_many(path: str, file: str) -> Answer:
    return line_items.total(ts.open(path).get_many(pq.read_table(file)).to_batches())


def _plan(path: str, where: str = "", state: str = "cold") -> Answer:
    """`where` is `column=number` or nothing; `cold` drops decoded manifests first."""
    if state == "cold":
        manifest_cache.LOCAL.clear()
    column, _, value = where.partition("=")
    began = time.perf_counter()
    scan = ts.open(path).scan(where=(ts.col(column) == int(value)) if where else None)
    splits = scan.plan().splits
    return {"ms": f"{(time.perf_counter() - began) * 1000:.3f}", "splits": len(splits)}


def _shares(files: Sequence[str], parts: int) -> list[list[str]]:
    """`files` in at most `parts` runs of neighbours."""
    step = -(-len(files) // parts)
    return [list(files[at : at + step]) for at in range(0, len(files), step)]


def _sums(rows: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {"rows": 0, "quantity": 0}
    for answer in rows:
        total = {name: total[name] + answer[name] for name in total}
    return total


if __name__ == "__main__":
    main(int(sys.argv[1]))
