"""measures change capture from a private MariaDB: rows and images a second beside peers, a whole ingest

`lineitem` is loaded into the server. Rows are read over one connection; inserts, updates and deletes of some
of them are read from the binlog; then the table is ingested into `dwd_lineitem` by two tasks at a time. Each
contender is a process of its own that has done every step once; the server's work and memory are not theirs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from notebooks.bench.contenders import registry
from notebooks.bench.contenders.contender import Contender, Measured
from notebooks.bench.parts import report
from notebooks.demo import tpch_database
from notebooks.demo.mariadb import FAST, MariaDb, missing

GOAL_IMAGES, GOAL_SECONDS, GOAL_SCALE, GOAL_BYTES = 30, 150, 10, 6 << 30
ROWS, INGEST = "rows, one connection", "ingest into dwd_lineitem"
KINDS = ("inserts", "updates", "deletes")
_SHARE = 10  # peers of the binlog read one image in so many, in a table of their own
_WARM_ROWS = 5_000
Found = dict[tuple[str, str], list[Measured]]


class Differs(SystemExit):
    """Contenders found other rows."""


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    if absent := missing():
        print(f"bench cdc needs a private MariaDB: {absent}", file=sys.stderr)
        return 2
    print(f"{report.command('cdc', arguments)}\n{report.machine()}", flush=True)
    others, lines = registry.peers(registry.chosen(chosen.peers, registry.SOURCES))
    entries = [registry.ours_of_mysql(), *others]
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-cdc-"))
        server = stack.enter_context(MariaDb(FAST, memory=chosen.server_memory))
        rounds = measure(entries, server, chosen, Path(place))
    print(show(rounds, chosen), *lines, sep="\n")
    report.save(
        chosen.json,
        report.command("cdc", arguments),
        {f"{step}/{who}": some for (step, who), some in rounds.items()},
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./workbench bench cdc", description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", default="0.1", help="scale factor of lineitem (default 0.1)")
    parser.add_argument("--images", type=int, default=200_000, help="rows that change (default 200,000)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each reading (default 3)")
    parser.add_argument("--chunk-rows", type=int, default=500_000, help="rows of a chunk of the ingest")
    parser.add_argument("--peers", default="all", help=f"{', '.join(registry.SOURCES)}, all or none")
    parser.add_argument("--no-ingest", action="store_true", help="leave the ingest out, which needs Spark")
    parser.add_argument("--server-memory", default="512M", help="buffer pool of the server (default 512M)")
    parser.add_argument("--json", type=Path, help="a file for every round")
    return parser


def measure(
    entries: Sequence[registry.Entry], server: MariaDb, chosen: argparse.Namespace, place: Path
) -> Found:
    """Every step of every contender, by step and name."""
    rows = tpch_database.load(server.connect, chosen.scale, tables=["lineitem"])
    print(f"{rows:,} rows of lineitem in the server", flush=True)
    ranges = {
        "images": _changed(server, "images", chosen.images),
        "sample": _changed(server, "sample", -(-chosen.images // _SHARE)),
        "warm": _changed(server, "warm", min(_WARM_ROWS, chosen.images)),
    }
    rounds: Found = {}
    with ExitStack() as stack:
        there = [(entry, stack.enter_context(entry.start())) for entry in entries]
        for turn in range(chosen.rounds + 1):  # the first warms up
            for entry, contender in there:
                for step, run in _steps(entry, contender, server, ranges, warm=not turn):
                    measured = run()
                    if turn:
                        rounds.setdefault((step, entry.name), []).append(measured)
            _require_same(rounds)
        if not chosen.no_ingest:
            ours = there[0][1]
            ours.step("spark")
            for table in ("warm", "lineitem"):
                source, lake = f"{server.url}/{tpch_database.DATABASE}.{table}", place / table
                request = ("ingest", source, server.password_file, lake, chosen.chunk_rows)
                rounds[INGEST, registry.OURS] = [ours.step(*request, table=lake)]
            if int(rounds[INGEST, registry.OURS][0].answer["rows"]) != rows:
                raise Differs(f"the ingest: {rounds[INGEST, registry.OURS][0].answer}, not {rows} rows")
    return rounds


def _steps(
    entry: registry.Entry, contender: Contender, server: MariaDb, ranges: dict[str, list[Any]], *, warm: bool
) -> list[tuple[str, Callable[[], Measured]]]:
    url, secret = f"{server.url}/{tpch_database.DATABASE}", server.password_file
    steps: list[tuple[str, Callable[[], Measured]]] = []
    if "rows" not in entry.lacks:
        table = "sample" if warm else "lineitem"
        steps.append((ROWS, partial(contender.step, "rows", url, secret, table)))
    if "images" not in entry.lacks:
        table = "warm" if warm else ("images" if entry.name == registry.OURS else "sample")
        for kind, (start, end) in zip(KINDS, ranges[table], strict=True):
            request = ("images", url, secret, table, json.dumps(start), json.dumps(end))
            steps.append((kind, partial(contender.step, *request)))
    return steps


def _changed(server: MariaDb, table: str, rows: int) -> list[tuple[list[Any], list[Any]]]:
    """Rows of lineitem that come into a table, change and go, and come again: where in the binlog each of
    the first three lies."""
    name = f"{tpch_database.DATABASE}.{table}"
    source = f"SELECT * FROM {tpch_database.DATABASE}.lineitem ORDER BY l_orderkey LIMIT {rows}"
    server.run(f"CREATE TABLE {name} LIKE {tpch_database.DATABASE}.lineitem", "FLUSH BINARY LOGS")
    statements = (f"INSERT INTO {name} {source}", f"UPDATE {name} SET l_tax = 0.5", f"DELETE FROM {name}")
    places = [_position(server)]
    for statement in statements:
        server.run(statement)
        places.append(_position(server))
    server.run(statements[0])
    return list(pairwise(places))


def _position(server: MariaDb) -> list[Any]:
    file, offset, *_ = server.run("SHOW MASTER STATUS")[0]
    return [file, offset, ""]


def _require_same(rows: Found) -> None:
    read = {name: some[0].answer for (step, name), some in rows.items() if step == ROWS}
    if len({tuple(answer.items()) for answer in read.values()}) > 1:
        raise Differs(f"the rows differ: {read}")


def show(results: Found, chosen: argparse.Namespace) -> str:
    """A line for each step and contender, and how it stands to ours; below, the goals."""
    lines, rates = [], {}
    for (step, name), some in results.items():
        count = int(some[0].answer.get("images", some[0].answer.get("rows", 0)))
        seconds = report.median(some, lambda measured: measured.seconds)
        cpu = report.median(some, lambda measured: measured.cpu_seconds)
        rates[step, name] = count / seconds, count / max(cpu, 1e-9)
        ours = rates.get((step, registry.OURS), (1.0, 1.0))
        peak = max(measured.peak_bytes for measured in some) / 2**20
        lines.append(
            [
                step,
                name,
                f"{count:,}",
                f"{seconds:.2f}",
                report.spread([measured.seconds for measured in some]),
                f"{count / seconds:,.0f}",
                f"{cpu:.2f}",
                f"{peak:,.0f}",
                *(f"{mine / theirs:.2f}×" for mine, theirs in zip(ours, rates[step, name], strict=True)),
            ]
        )
    header = ["step", "contender", "count", "seconds", "least–most", "a second", "CPU s", "peak MB"]
    text = [report.text([*header, "ours faster", "in CPU"], lines)]
    peer = "mysql-replication"
    ratios = [rates[k, registry.OURS][0] / rates[k, peer][0] for k in KINDS if (k, peer) in rates]
    if ratios:
        least, mean = min(ratios), statistics.geometric_mean(ratios)
        text.append(f"images: {mean:.0f} × {peer}, {least:.0f} × at the least (goal {GOAL_IMAGES} ×)")
    if (INGEST, registry.OURS) in results:
        whole = results[INGEST, registry.OURS][0]
        limits = f"goal at scale {GOAL_SCALE}: {GOAL_SECONDS} s, {GOAL_BYTES >> 30} GiB"
        text.append(
            f"ingest at scale {chosen.scale}: {whole.seconds:.1f} s, {whole.cpu_seconds:.1f} s of CPU, "
            f"{whole.peak_bytes / 2**30:.2f} GiB beside the server ({limits})"
        )
    return "\n".join(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
