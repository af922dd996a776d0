"""runs the 22 queries of TPC-H on our tables, compacted and with changes unmerged, beside DuckDB on Parquet

Eight keyed tables are loaded and compacted; a copy of them gets ten rounds of changes that nobody merges.
Their
rows are also written as plain Parquet files, which DuckDB reads without us. Contenders take turns query by
query; each figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

import tablestore as ts
from datasets import tpch
from datasets.tpch.queries import QUERIES
from datasets.tpch.tables import changed, loaded
from notebooks.bench.parts import report

COMPACTED, CHANGED = "compacted", "changes unmerged"
_ROUNDS_OF_CHANGES = 10
_ROW_GROUP = 122_880
Seconds = tuple[float, float]  # on the clock, of all CPUs


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    print(f"{report.command('sql', arguments)}\n{report.machine()}")
    with ExitStack() as stack:
        folder = chosen.directory or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-sql-"))
        )
        prepare(folder, chosen.scale)
        numbers = [int(n) for n in chosen.queries.split(",")] if chosen.queries else list(QUERIES)
        figures = measure(folder, numbers, chosen.rounds, stack)
        print(show(figures, numbers))
        print(f"\npoint query by key, warm: {point(folder, chosen.rounds * 10):.1f} ms (median)")
        print(grouped(folder, chosen.rounds))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./workbench bench sql", description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", default="1", help="scale factor (default 1)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each query (default 3)")
    parser.add_argument("--queries", help="numbers, separated by commas (default all)")
    parser.add_argument(
        "--directory", type=Path, help="where tables are made, and found again by a later run"
    )
    return parser


def prepare(folder: Path, scale: str) -> None:
    """Tables and Parquet files, unless a run before made them."""
    if (folder / "complete").exists():
        return
    for state in (COMPACTED, CHANGED):
        lake = ts.connect(str(_lake(folder, state)))
        loaded(lake, scale)
        for name in tpch.TABLES:
            lake.table(f"tpch.{name}").compact(full=True)
        for number in range(1, _ROUNDS_OF_CHANGES + 1) if state == CHANGED else ():
            changed(lake, scale, number)
        for name in tpch.TABLES:
            _plain(
                lake.table(f"tpch.{name}"), folder / f"plain-{_lake(folder, state).name}" / f"{name}.parquet"
            )
    (folder / "complete").touch()


def _lake(folder: Path, state: str) -> Path:
    return folder / state.partition(" ")[0]


def _plain(table: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = table.scan().to_arrow()
    pq.write_table(rows, path, compression="zstd", row_group_size=_ROW_GROUP)


def measure(
    folder: Path, numbers: list[int], rounds: int, stack: ExitStack
) -> dict[tuple[str, int], Seconds]:
    """Median seconds of each contender and query. Raises SystemExit if their answers differ in rows."""
    contenders: dict[str, Callable[[str], int]] = {}
    for state in (COMPACTED, CHANGED):
        session = ts.sql_session(ts.connect(str(_lake(folder, state))))
        session.sql("USE tpch")
        contenders[f"ours, {state}"] = lambda text, s=session: len(s.sql(text).to_arrow())  # type: ignore[misc]  # its default is the session
        plain = stack.enter_context(duckdb.connect())
        for name in tpch.TABLES:
            path = folder / f"plain-{_lake(folder, state).name}" / f"{name}.parquet"
            plain.execute(f"CREATE VIEW {name} AS FROM read_parquet('{path}')").fetchall()
        contenders[f"plain, {state}"] = lambda text, p=plain: p.sql(text).to_arrow_table().num_rows  # type: ignore[misc]  # likewise
    times: dict[tuple[str, int], list[Seconds]] = {}
    for number in numbers:
        for turn in range(rounds + 1):  # the first warms up
            counts = {}
            for name, run in contenders.items():
                began = time.perf_counter(), time.process_time()
                counts[name] = run(QUERIES[number])
                took = time.perf_counter() - began[0], time.process_time() - began[1]
                if turn:
                    times.setdefault((name, number), []).append(took)
            for state in (COMPACTED, CHANGED):
                if counts[f"ours, {state}"] != counts[f"plain, {state}"]:
                    raise SystemExit(f"query {number}, {state}: the answers differ: {counts}")
    return {key: (_median(t[0] for t in some), _median(t[1] for t in some)) for key, some in times.items()}


def _median(values: Iterator[float]) -> float:
    return statistics.median(values)


def show(results: dict[tuple[str, int], Seconds], numbers: list[int]) -> str:
    """A line a query, totals and ratios below."""
    names = list(dict.fromkeys(name for name, _ in results))
    lines = ["query  " + "  ".join(f"{name:>25}" for name in names) + "   (seconds, CPU seconds)"]
    for number in numbers:
        lines.append(f"{number:>5}  " + "  ".join(_cell(results[name, number]) for name in names))
    totals = {n: tuple(sum(results[n, q][i] for q in numbers) for i in (0, 1)) for n in names}
    lines.append("total  " + "  ".join(_cell(totals[name]) for name in names))  # type: ignore[arg-type]  # two
    for state, goal in ((COMPACTED, 1.2), (CHANGED, 2)):
        ours, plain = totals[f"ours, {state}"], totals[f"plain, {state}"]
        ratios = f"{ours[0] / plain[0]:.2f} × the time, {ours[1] / plain[1]:.2f} × the CPU"
        lines.append(f"{state}: {ratios} of DuckDB on plain Parquet (goal {goal} ×)")
    return "\n".join(lines)


def _cell(seconds: Seconds) -> str:
    return f"{seconds[0]:>14.3f} {seconds[1]:>10.3f}"


def point(folder: Path, times: int) -> float:
    """Milliseconds of a row by its key, of the table with changes, once everything is warm."""
    session = ts.sql_session(ts.connect(str(_lake(folder, CHANGED))))
    took = []
    for number in range(times + 3):
        began = time.perf_counter()
        session.sql("SELECT * FROM tpch.orders WHERE o_orderkey = ?", [1 + number % 7]).to_arrow()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took[3:])


_GROUPED = """SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS price,
    sum(l_extendedprice * (1 - l_discount)) AS discounted, avg(l_quantity) AS mean, count(*) AS n
    FROM lineitem GROUP BY l_returnflag, l_linestatus"""


def grouped(folder: Path, rounds: int) -> str:
    """A GROUP BY as a stream, its state kept for what may come, beside DuckDB's own over the same rows."""
    session = ts.sql_session(ts.connect(str(_lake(folder, COMPACTED))))
    session.sql("USE tpch; SET 'execution.runtime-mode' = 'streaming'")
    path = folder / f"plain-{_lake(folder, COMPACTED).name}" / "lineitem.parquet"
    rows = pq.ParquetFile(path).metadata.num_rows

    def streamed() -> int:
        result = session.sql(_GROUPED)
        count = next(result.to_batches()).num_rows
        result.stop()
        return count

    def plain() -> int:
        with duckdb.connect() as duck:
            return (
                duck.sql(_GROUPED.replace("lineitem G", f"read_parquet('{path}') G"))
                .to_arrow_table()
                .num_rows
            )

    times: dict[str, list[Seconds]] = {"stream": [], "plain": []}
    for turn in range(min(rounds, 2) + 1):  # the first warms up
        results = {}
        for name, run in (("stream", streamed), ("plain", plain)):
            began = time.perf_counter(), time.process_time()
            results[name] = run()
            if turn:
                times[name].append((time.perf_counter() - began[0], time.process_time() - began[1]))
        if results["stream"] != results["plain"]:
            raise SystemExit(f"the stream has other groups: {results}")
    (ours, cpu), (theirs, their_cpu) = (
        [_median(t[i] for t in some) for i in (0, 1)] for some in times.values()
    )
    return (
        f"GROUP BY as a stream: {rows / ours / 1e6:.1f} million rows/s, DuckDB on plain Parquet "
        f"{rows / theirs / 1e6:.1f}: {ours / theirs:.1f} × the time, {cpu / their_cpu:.1f} × the CPU"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
