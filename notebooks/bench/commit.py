"""what a commit costs on a table with 10 and with 1,000 snapshots: ours against pypaimon and Java Paimon

Each contender grows a table of its own (one bucket, write-only, nothing expires) by its own commits of ten
rows, one after another, each with a writer of its own as a small upsert would have. A commit includes writing
its file. Manifests must be merged as history grows, or the cost does; planning a scan shows the same from the
reader's side.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tablestore as ts
from notebooks.bench.contenders import registry
from notebooks.bench.contenders.contender import Contender, Measured, Refused
from notebooks.bench.parts import report

HEADER = ("snapshots", "contender", "ms", "least–most", "CPU ms", "of first", "time", "plan ms", "plan")
PLANS, WARM_UP = 5, 20
FOREVER = {"snapshot.num-retained.min": 1_000_000, "snapshot.num-retained.max": 1_000_000}


@dataclass(frozen=True, slots=True)
class Cost:
    """The last commits before a table had so many snapshots, and planning it then."""

    milliseconds: tuple[float, ...]
    cpu_milliseconds: float
    plans: tuple[Measured, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)

    @property
    def plan_milliseconds(self) -> float:
        return statistics.median(plan.seconds * 1000 for plan in self.plans)


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    others, missing = registry.peers(chosen.peers)
    called = report.command("commit", arguments)
    print(f"{called}\n{report.machine()}; {chosen.rows} rows a commit\n")
    costs: dict[str, dict[int, Cost]] = {}
    raw: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-commit-", dir=chosen.directory) as folder:
        for entry in [registry.ours(), *others]:
            with entry.start() as contender:
                costs[entry.name] = grow(
                    contender, chosen.snapshots, chosen.rows, Path(folder) / entry.name, raw
                )
    print(show(costs, chosen.snapshots))
    print("\n" + "\n".join([*missing, NOTES]))
    report.save(chosen.json, called, raw)
    return 0


NOTES = """\
ms: median of the last commits before the table had so many snapshots. of first: multiple of the same
contender's first line. time, plan: multiples of ours on as many snapshots; above 1 is slower than ours."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./workbench bench commit", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--snapshots", type=_sizes, default=(10, 1000), help="sizes of history, rising (default 10,1000)"
    )
    parser.add_argument("--rows", type=int, default=10, help="rows a commit (default 10)")
    parser.add_argument("--directory", help="where tables are made and removed (default: the temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every measured step, for later")
    parser.add_argument(
        "--peers", type=registry.chosen, default=registry.PEERS, help="by commas; all (default); none"
    )
    return parser


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(","))
    if sizes[0] < 2 or list(sizes) != sorted(set(sizes)):
        raise ValueError(f"{text!r} must rise, from 2 at least")
    return sizes


def grow(
    contender: Contender, sizes: Sequence[int], rows: int, folder: Path, raw: dict[str, list[Measured]]
) -> dict[int, Cost]:
    """The cost at each size of history."""
    contender.step("commits", _create(folder / "warm-up"), WARM_UP, rows)
    table = _create(folder / "table")
    costs: dict[int, Cost] = {}
    there = 0
    for size in sizes:
        last = min(50, (size - there + 1) // 2)
        if size - last > there:
            contender.step("commits", table, size - last - there, rows)
        measured = contender.step("commits", table, last, rows, table=Path(table))
        plans = tuple(contender.step("plan", table) for _ in range(PLANS))
        _require_history(contender.name, table, size)
        raw[f"{size}/{contender.name}"] = [measured, *plans]
        times = tuple(float(text) for text in measured.answer["ms"].split(","))
        costs[size] = Cost(times, measured.cpu_seconds * 1000 / last, plans)
        there = size
    return costs


def _create(folder: Path) -> str:
    table = ts.connect(str(folder)).create_table(
        "bench.small",
        schema={"k": ts.BIGINT, "v": ts.STRING},
        primary_key=["k"],
        options={"bucket": 1, "write-only": True, **FOREVER},
    )
    return table.location


def _require_history(name: str, table: str, size: int) -> None:
    """A figure for so many snapshots must stand on so many."""
    ids = ts.open(table).store.snapshots.ids()
    if len(ids) != size:
        raise Refused(f"{name}: {len(ids)} snapshots after {size} commits")


def show(results: dict[str, dict[int, Cost]], sizes: Sequence[int]) -> str:
    """Costs as a table, one group of lines a size."""
    lines = []
    for size in sizes:
        ours = results[registry.OURS][size]
        for name, costs in results.items():
            cost, first = costs[size], costs[sizes[0]]
            lines.append(
                (
                    f"{size:,}",
                    name,
                    f"{cost.median:.1f}",
                    report.spread(cost.milliseconds),
                    f"{cost.cpu_milliseconds:.1f}",
                    f"{cost.median / first.median:.2f}×",
                    report.ratio(cost.median, ours.median),
                    f"{cost.plan_milliseconds:.1f}",
                    report.ratio(cost.plan_milliseconds, ours.plan_milliseconds),
                )
            )
    return report.text(HEADER, lines)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refused as error:
        sys.exit(f"bench commit: {error}")
