"""how many rows a second each merge engine and aggregate function folds in memory, beside a polars group_by

A batch of random rows, four a key, is merged once a round by each function in turn: what is timed is the
merge, sorting into groups included. The floor is what no merge can do without: numpy sorts the keys, and the
column is gathered in that order. "−D" is the same with a fifth of the rows retracted, where a function allows
it. The peer groups the same column by the same keys, for functions that polars has; it uses both cores, so
CPU is what compares. Values are those of tests/peers/merge_space.py, and one in ten is NULL.
"""

from __future__ import annotations

import argparse
import logging
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars
import pyarrow as pa

from notebooks.bench.parts import report
from tablestore.core.options.table_options import TableOptions
from tablestore.format import rowkind
from tablestore.format.parquet.schema import kv_schema
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField, to_arrow
from tablestore.format.types.type_text import parse_type
from tablestore.lsm.merge.aggregation import Aggregation
from tablestore.lsm.merge.groups import MergeFunction, grouped
from tablestore.lsm.merge.merge_function import Deduplicate, merge_function
from tests.peers.merge_space import FUNCTIONS

HEADER = ("function", "column", "rows/s", "CPU s / 1M", "floor", "with −D", "polars CPU s / 1M", "CPU")
ROWS_A_KEY = 4
ENGINES = ("deduplicate", "first-row", "partial-update", "partial-update sequence group")
PEERS: dict[str, Callable[[polars.Expr], polars.Expr]] = {
    "sum": polars.Expr.sum,
    "product": polars.Expr.product,
    "max": polars.Expr.max,
    "min": polars.Expr.min,
    "bool_and": lambda e: e.all(),
    "bool_or": lambda e: e.any(),
    "first_value": polars.Expr.first,
    "last_value": polars.Expr.last,
    "first_non_null_value": lambda e: e.drop_nulls().first(),
    "last_non_null_value": lambda e: e.drop_nulls().last(),
    "listagg": lambda e: e.str.join(",", ignore_nulls=True),
    "collect": lambda e: e.explode(),
    "deduplicate": polars.Expr.last,
    "first-row": polars.Expr.first,
}


@dataclass(frozen=True)
class Task:
    """One table's merge: its options, and the column that is folded."""

    name: str
    column: pa.Array
    options: dict[str, str]

    @property
    def schema(self) -> TableSchema:
        kinds = {"k": "BIGINT NOT NULL", "s": "BIGINT"}
        fields = [DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(kinds.items())]
        return TableSchema(0, (*fields, self.field), 200, primary_keys=("k",), options=self.options)

    field: DataField = DataField(2, "a", parse_type("BIGINT"))


def tasks(rows: int, wanted: str) -> Iterator[Task]:
    """Every engine and function whose name begins with `wanted`."""
    rng, chance = random.Random(1), np.random.default_rng(1)
    numbers = pa.array(chance.integers(0, 1000, rows), mask=chance.random(rows) < 0.1)
    for name in ENGINES:
        options = {"merge-engine": name.partition(" ")[0]}
        if "group" in name:
            options["fields.s.sequence-group"] = "a"
        if name.startswith(wanted):
            yield Task(name, numbers, options)
    for function in FUNCTIONS:
        if not function.title.startswith(wanted):
            continue
        t = parse_type(function.type)
        pool = pa.array(function.pool(rng, t), to_arrow(t))
        column = pool.take(pa.array(chance.integers(0, len(pool), rows), mask=chance.random(rows) < 0.1))
        options = {"merge-engine": "aggregation", "fields.a.aggregate-function": function.name}
        options |= {f"fields.a.{key}": value for key, value in function.options}
        yield Task(function.title, column, options, DataField(2, "a", t))


def merger(task: Task) -> MergeFunction:
    """Its merge function; keys that cannot be merged are left out, since small types overflow."""
    options = TableOptions.parse({**task.options, "tablestore.merge.on-error": "skip"})
    return merge_function(task.schema, options, reading=True)


def takes_deletes(task: Task) -> bool:
    """Whether rows may be retracted."""
    function = merger(task)
    if isinstance(function, Aggregation):
        return all(f.takes_retracts for f in function.functions if f.field.name == "a")
    return isinstance(function, Deduplicate) or "fields.s.sequence-group" in task.options


def merged_once(task: Task, keys: np.ndarray, kinds: np.ndarray) -> tuple[float, float]:
    """Wall and CPU seconds of one merge."""
    columns = [np.arange(len(keys)), kinds, keys, np.arange(len(keys))]
    rows = pa.RecordBatch.from_arrays([*map(pa.array, columns), task.column], schema=kv_schema(task.schema))
    function = merger(task)
    wall, cpu = time.perf_counter(), time.process_time()
    merged = function.merge(rows, grouped(keys, function.sequence.numbers(rows)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert 0 < merged.num_rows <= len(np.unique(keys))
    return wall, cpu


def floor_once(task: Task, keys: np.ndarray) -> float:
    """CPU seconds of sorting the keys and gathering the column."""
    cpu = time.process_time()
    order = np.argsort(keys, kind="stable")
    task.column.take(pa.array(order))
    return time.process_time() - cpu


def polars_once(task: Task, keys: np.ndarray) -> float | None:
    """CPU seconds of the peer; None where it has no such function."""
    fold = PEERS.get(task.name.partition(" ")[0])
    if fold is None or any(key.endswith((".distinct", ".delimiter")) for key in task.options):
        return None
    frame = polars.DataFrame({"k": keys, "a": polars.from_arrow(task.column)})
    cpu = time.process_time()
    try:
        frame.group_by("k").agg(fold(polars.col("a")))
    except polars.exceptions.PolarsError:
        return None
    return time.process_time() - cpu


def measure(task: Task, keys: np.ndarray, rounds: int) -> tuple[str, ...]:
    """The line of a task."""
    scale = 1e6 / len(keys)
    plain = np.zeros(len(keys), np.int8)
    deleted = np.where(np.random.default_rng(3).random(len(keys)) < 0.2, rowkind.DELETE, plain).astype(
        np.int8
    )
    ours = [merged_once(task, keys, plain) for _ in range(rounds)]
    wall, cpu = (statistics.median(figures[n] for figures in ours) for n in (0, 1))
    floor = statistics.median(floor_once(task, keys) for _ in range(rounds))
    taken = ""
    if takes_deletes(task):
        taken = f"{statistics.median(merged_once(task, keys, deleted)[1] for _ in range(rounds)) * scale:.3f}"
    theirs = [p for p in (polars_once(task, keys) for _ in range(rounds)) if p is not None]
    peer = statistics.median(theirs) if theirs else None
    shown = ("", "") if peer is None else (f"{peer * scale:.3f}", report.ratio(peer, cpu))
    name, _, column = task.name.partition(" ")
    rate = f"{len(keys) / wall:,.0f}" if wall else ""
    return name, column[:60], rate, f"{cpu * scale:.3f}", f"{floor * scale:.3f}", taken, *shown


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./workbench bench merge", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="functions whose name begins so")
    chosen = parser.parse_args(list(arguments))
    logging.disable(logging.WARNING)  # keys that overflow are left out, and logged
    print(report.command("merge", arguments))
    print(report.machine())
    keys = np.random.default_rng(2).integers(0, max(1, chosen.rows // ROWS_A_KEY), chosen.rows)
    print(f"{chosen.rows:,} rows, {len(np.unique(keys)):,} keys; medians of {chosen.rounds}\n")
    lines = [measure(task, keys, chosen.rounds) for task in tasks(chosen.rows, chosen.only)]
    print(report.text(HEADER, lines))
    logging.disable(logging.NOTSET)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
