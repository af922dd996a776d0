"""what planning a scan of 10,000 files costs, and a commit on 10 and on 10,000 snapshots: ours and pypaimon

Tables are metadata alone, written by this engine's own commits: 10,000 data files in 100 partitions of 4
buckets, once with 1,000 manifests that were never merged, once as commits leave them. With more `--files` a
partition has 20 of them, so that 1,000,000 are in 50,000 partitions, written by 200 commits. Before each of
our plans decoded manifests are dropped, as in a process that has just started (`warm` keeps them). Commits
are real writes of ten rows.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from notebooks.bench.contenders import registry
from notebooks.bench.contenders.contender import Contender, Measured, Refused
from notebooks.bench.parts import metadata, report

PLANS = (
    ("never merged", "unmerged", ""),
    ("never merged, one partition", "unmerged", "p=37"),
    ("never merged, one key", "unmerged", "k=5000123"),
    ("as commits leave it", "merged", ""),
    ("as commits leave it, one partition", "merged", "p=37"),
)
PLAN_HEADER = ("table", "contender", "ms", "least–most", "CPU ms", "MB", "splits", "time")
COMMIT_HEADER = ("snapshots", "contender", "ms", "least–most", "CPU ms", "of first")
NOTES = """\
ms: median. CPU ms: median. MB: peak memory of the process. time: multiple of ours; above 1 is slower.
of first: multiple of the same contender's first line, by CPU, which other work disturbs least."""


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    others, missing = registry.peers(chosen.peers)
    called = report.command("format", arguments)
    print(f"{called}\n{report.machine()}; {chosen.files:,} files, {chosen.rounds} rounds\n")
    raw: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-format-", dir=chosen.directory) as folder:
        root = Path(folder)
        tables = {
            "unmerged": metadata.files(root / "u", files=chosen.files, merged=False),
            "merged": metadata.files(root / "m", files=chosen.files, merged=True),
        }
        lines = list[_Line]()
        for entry in [registry.ours(), *others]:
            with entry.start() as contender:
                lines += _plans(contender, tables, chosen.rounds, raw)
        print(report.text(PLAN_HEADER, _compared(lines)))
        histories = {n: metadata.snapshots(root / f"s{n}", n) for n in chosen.snapshots}
        with registry.ours().start() as contender:
            print("\n" + report.text(COMMIT_HEADER, _commits(contender, histories, raw)))
    print("\n" + "\n".join([*missing, NOTES]))
    report.save(chosen.json, called, raw)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./workbench bench format", description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=10_000, help="data files of a table (default 10000)")
    parser.add_argument("--rounds", type=int, default=5, help="plans measured of each kind (default 5)")
    parser.add_argument(
        "--snapshots",
        type=lambda text: tuple(map(int, text.split(","))),
        default=(10, 10_000),
        help="lengths of history (default 10,10000)",
    )
    parser.add_argument("--directory", help="where tables are made and removed (default: the temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every measured step, for later")
    parser.add_argument(
        "--peers", type=registry.chosen, default=("pypaimon",), help="by commas; pypaimon (default); none"
    )
    return parser


def _plans(
    contender: Contender, tables: dict[str, str], rounds: int, raw: dict[str, list[Measured]]
) -> list[_Line]:
    """Every kind of plan, by one contender."""
    lines = list[_Line]()
    kinds = [(*kind, "cold") for kind in PLANS]
    if contender.name == registry.OURS:
        kinds.append((*PLANS[3], "warm"))
    for title, table, where, state in kinds:
        contender.step("plan", tables[table], where, state)  # libraries are loaded, code is compiled
        steps = [contender.step("plan", tables[table], where, state) for _ in range(rounds)]
        shown = title if state == "cold" else f"{title}, warm"
        raw[f"{shown}/{contender.name}"] = steps
        lines.append(_Line(shown, contender.name, steps))
    return lines


@dataclass(frozen=True, slots=True)
class _Line:
    """The rounds of one kind of plan by one contender."""

    title: str
    contender: str
    steps: list[Measured]

    @property
    def times(self) -> list[float]:
        """Milliseconds of each round."""
        return [float(s.answer["ms"]) for s in self.steps]


def _compared(lines: list[_Line]) -> list[tuple[str, ...]]:
    ours = {line.title: statistics.median(line.times) for line in lines if line.contender == registry.OURS}
    order = list(dict.fromkeys(line.title for line in lines))
    shown: list[tuple[str, ...]] = []
    for line in sorted(lines, key=lambda line: order.index(line.title)):
        median = statistics.median(line.times)
        cpu = statistics.median(s.cpu_seconds for s in line.steps) * 1000
        memory = max(s.peak_bytes for s in line.steps) / 1e6
        measured = (
            f"{median:.1f}",
            f"{min(line.times):.0f}–{max(line.times):.0f}",
            f"{cpu:.0f}",
            f"{memory:.0f}",
        )
        splits, ratio = int(line.steps[0].answer["splits"]), report.ratio(median, ours[line.title])
        shown.append((line.title, line.contender, *measured, f"{splits:,}", ratio))
    return shown


def _commits(
    contender: Contender, histories: dict[int, str], raw: dict[str, list[Measured]]
) -> list[tuple[str, ...]]:
    """The cost of a write on each history: after one that is not counted, sixty that are."""
    lines, first = list[tuple[str, ...]](), 0.0
    for count, table in histories.items():
        contender.step("commits", table, 5, 10)
        measured = contender.step("commits", table, 60, 10)
        raw[f"{count} snapshots/{contender.name}"] = [measured]
        times = [float(text) for text in measured.answer["ms"].split(",")]
        cpu = measured.cpu_seconds * 1000 / len(times)
        first = first or cpu
        least = f"{min(times):.1f}–{max(times):.1f}"
        median = statistics.median(times)
        lines.append(
            (f"{count:,}", contender.name, f"{median:.1f}", least, f"{cpu:.1f}", f"{cpu / first:.2f}×")
        )
    return lines


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refused as error:
        sys.exit(f"bench format: {error}")
