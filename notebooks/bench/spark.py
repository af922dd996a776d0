"""runs queries of TPC-H by Spark on our tables, compacted and with changes unmerged, beside plain Parquet

The same tables as of `sql`, each also as one plain Parquet file that Spark reads by itself. Three ways to
our rows: by name through `lake.register`, by `format("tablestore")`, and as frames of `Table.to_spark`. The
CPU seconds are of all processes: this one, the JVM and its Python workers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

import tablestore as ts
from datasets import tpch
from datasets.tpch.queries import QUERIES
from notebooks.bench import sql
from notebooks.bench.parts import report
from tablestore.spark import session

SMALL = {
    "two columns": "SELECT sum(l_quantity) AS n, max(l_orderkey) AS k FROM lineitem",
    "point filter": "SELECT l_quantity FROM lineitem WHERE l_orderkey = 34 AND l_linenumber = 1",
    "count": "SELECT count(*) AS n FROM lineitem",
}
PLAIN = "plain Parquet"
WAYS = ("by name", "format", "to_spark")
Run = Callable[[str], list[Any]]
Seconds = tuple[float, float]  # on the clock, of all CPUs


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./workbench bench spark", description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", default="1", help="scale factor (default 1)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each query (default 3)")
    parser.add_argument("--queries", default="1", help="numbers, separated by commas, or all (default 1)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="to our rows (default all)")
    parser.add_argument("--memory", default="2g", help="heap of the JVM (default 2g)")
    parser.add_argument("--directory", type=Path, help="where tables are made, and found by a later run")
    chosen = parser.parse_args(arguments)
    print(f"{report.command('spark', arguments)}\n{report.machine()}")
    with ExitStack() as stack:
        tables = chosen.directory or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-"))
        )
        sql.prepare(tables, chosen.scale)
        spark = session("bench-spark", memory=chosen.memory, log_file=str(tables / "spark.log"))
        stack.callback(spark.stop)
        numbers = list(QUERIES) if chosen.queries == "all" else [int(n) for n in chosen.queries.split(",")]
        queries = {f"Q{n}": QUERIES[n] for n in numbers} | SMALL
        took = measure(spark, tables, queries, chosen.rounds, (PLAIN, *chosen.ways))
        print(show(took))
        if len(numbers) > 1:
            print(medians(took, list(queries)[: len(numbers)]))
    return 0


def contenders(spark: Any, folder: Path, state: str) -> dict[str, Run]:
    """By name, what runs a query over the tables of a state."""
    name = state.partition(" ")[0]
    lake = ts.connect(str(folder / name))
    lake.register(spark, name)

    def over(frame_of: Callable[[str], Any]) -> Run:
        def run(text: str) -> list[Any]:
            for table in tpch.TABLES:
                frame_of(table).createOrReplaceTempView(table)
            results: list[Any] = spark.sql(text).collect()
            for table in tpch.TABLES:
                spark.catalog.dropTempView(table)
            return results

        return run

    def by_name(text: str) -> list[Any]:
        spark.catalog.setCurrentCatalog(name)
        spark.catalog.setCurrentDatabase("tpch")
        results: list[Any] = spark.sql(text).collect()
        return results

    plain = {t: spark.read.parquet(str(folder / f"plain-{name}" / f"{t}.parquet")) for t in tpch.TABLES}
    named = {t: lake.table(f"tpch.{t}") for t in tpch.TABLES}
    loaded = {t: spark.read.format("tablestore").load(named[t].location) for t in tpch.TABLES}
    by_way = by_name, over(loaded.__getitem__), over(lambda t: named[t].to_spark(spark))
    return {PLAIN: over(plain.__getitem__), **dict(zip(WAYS, by_way, strict=True))}


def measure(
    spark: Any, folder: Path, queries: dict[str, str], rounds: int, names: Sequence[str]
) -> dict[tuple[str, str, str], Seconds]:
    """Median seconds by state, query and contender, of those in `names`. Raises SystemExit if their answers
    differ."""
    took: dict[tuple[str, str, str], Seconds] = {}
    for state in (sql.COMPACTED, sql.CHANGED):
        there = contenders(spark, folder, state)
        runs = {name: there[name] for name in names}
        for query, text in queries.items():
            times: dict[str, list[Seconds]] = {name: [] for name in runs}
            for turn in range(rounds + 1):  # the first warms up
                answers = {}
                for name, run in runs.items():
                    began = time.perf_counter(), _cpu()
                    answers[name] = run(text)
                    if turn:
                        times[name].append((time.perf_counter() - began[0], _cpu() - began[1]))
                if len(set(map(_values, answers.values()))) != 1:
                    raise SystemExit(f"{query}, {state}: the answers differ")
            print(f"{query}, {state}: measured", file=sys.stderr, flush=True)
            for name, some in times.items():
                took[state, query, name] = (
                    statistics.median(t[0] for t in some),
                    statistics.median(t[1] for t in some),
                )
    return took


def _values(rows: list[Any]) -> tuple[str, ...]:
    """The rows in one order, sums of floats without the digits that the order of addition decides."""
    plain = [[round(v, 6) if isinstance(v, float) else v for v in row] for row in rows]
    return tuple(sorted(map(repr, plain)))


def _cpu() -> float:
    """CPU seconds so far of this process, the JVM and its workers, those that ended included."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            used = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total


def show(took: dict[tuple[str, str, str], Seconds]) -> str:
    """A line for each state, query and contender, with multiples of plain Parquet."""
    rows = []
    for (state, query, name), (seconds, cpu) in took.items():
        times = [f"{ratio:.2f} ×" for ratio in _ratios(took, state, query, name)]
        rows.append((state, query, name, f"{seconds:.2f}", f"{cpu:.2f}", *times))
    return report.text(("tables", "query", "rows from", "seconds", "CPU s", "time", "CPU"), rows)


def medians(took: dict[tuple[str, str, str], Seconds], queries: list[str]) -> str:
    """A line for each state and contender: the medians of the multiples of these queries of TPC-H."""
    lines = []
    for state, name in dict.fromkeys((state, name) for state, _, name in took if name != PLAIN):
        some = [_ratios(took, state, query, name) for query in queries]
        time, cpu = (statistics.median(ratios) for ratios in zip(*some, strict=True))
        lines.append(f"{state}, {name}, median of {len(some)} of TPC-H: {time:.2f} × time, {cpu:.2f} × CPU")
    return "\n".join(lines)


def _ratios(took: dict[tuple[str, str, str], Seconds], state: str, query: str, name: str) -> Seconds:
    """Multiples of plain Parquet: of the clock and of the CPU, whose clock ticks every 0.01 s."""
    ours, plain = took[state, query, name], took[state, query, PLAIN]
    return ours[0] / plain[0], ours[1] / max(plain[1], 0.01)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
