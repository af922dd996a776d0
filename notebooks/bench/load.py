"""loads line items, updates 1 %, scans, compacts, scans: ours against pypaimon and Java Paimon

Two tables: `partitioned` is the demo's (84 partitions by year and month, 2 buckets each), `keyed` the plain
one (8 buckets). Both write-only, so that compaction is a step of its own; the update makes it a real one:
each bucket then has overlapping runs, and all of its rows are merged and rewritten.
Every contender works on a table of its own, created alike, and must end with the same rows and sums.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import tablestore as ts
from datasets import tpch
from datasets.tpch.schema import LINEITEM
from notebooks.bench.contenders import registry
from notebooks.bench.contenders.contender import Contender, Measured, Refused
from notebooks.bench.parts import report

STEPS = ("read", "load", "update", "scan", "compact", "rescan")
MEANING = {
    "read": "read the source only",
    "load": "load, one commit",
    "update": "update 1 row in 100",
    "scan": "scan, merging",
    "compact": "full compaction",
    "rescan": "scan, compacted",
}
HEADER = (
    "step",
    "contender",
    "seconds",
    "least–most",
    "CPU s",
    "Mrows/s",
    "new files",
    "new MB",
    "peak MB",
    "time",
    "CPU",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A table of line items."""

    name: str
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    buckets: int

    @property
    def months(self) -> bool:
        return bool(self.partition_by)

    def create(self, folder: Path) -> ts.Table:
        added = [pa.field(name, pa.int64(), nullable=False) for name in self.partition_by]
        return ts.connect(str(folder)).create_table(
            f"bench.{self.name}",
            schema=pa.schema([*LINEITEM, *added]),
            primary_key=self.key,
            partition_by=self.partition_by,
            options={"bucket": self.buckets, "write-only": True},
        )


KEY, MONTHS = ("l_orderkey", "l_linenumber"), ("l_year", "l_month")
SHAPES = {
    "partitioned": Shape("partitioned", (*KEY, *MONTHS), MONTHS, 2),
    "keyed": Shape("keyed", KEY, (), 8),
}


class Differs(Exception):
    """A contender holds other rows than the rest."""


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    names = [*SHAPES] if chosen.table == "both" else [chosen.table]
    others, missing = registry.peers(chosen.peers)
    entries = [registry.ours(), registry.ours_twice(), *others]
    called = report.command("load", arguments)
    print(f"{called}\n{report.machine()}; medians of {chosen.rounds}")
    by_name: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-load-", dir=chosen.directory) as folder:
        for name in names:
            rows, own = measure(SHAPES[name], entries, chosen.scale_factor, chosen.rounds, Path(folder))
            print(f"\n{name}: {rows:,} rows, scale factor {chosen.scale_factor}\n{show(own, entries, rows)}")
            by_name |= {f"{name}/{step}/{who}": rounds for (step, who), rounds in own.items()}
    print("\n" + "\n".join([*missing, NOTES]))
    report.save(chosen.json, called, by_name)
    return 0


NOTES = """\
time, CPU: how many times what one process of ours takes; more than 1 is slower than ours.
new MB: bytes of the files that appeared below the table. peak MB: resident memory of all processes.
Loading includes reading the source, which is also shown alone. pypaimon has no compaction."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./workbench bench load", description=__doc__.partition("\n")[0])
    parser.add_argument("--scale-factor", default="1", help="of TPC-H (default 1: 6 million rows)")
    parser.add_argument("--rounds", type=int, default=3, help="medians of so many (default 3)")
    parser.add_argument("--table", choices=[*SHAPES, "both"], default="both")
    parser.add_argument("--directory", help="where tables are made and removed (default: the temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every round, for later")
    parser.add_argument(
        "--peers",
        type=registry.chosen,
        default=("pypaimon-rust", "java"),
        help=f"of {', '.join(registry.PEERS)}, by commas; all; none (default pypaimon-rust,java: "
        "pypaimon alone is a hundred times slower)",
    )
    return parser


Found = dict[tuple[str, str], list[Measured]]


def measure(
    shape: Shape, entries: Sequence[registry.Entry], scale: str, rounds: int, folder: Path
) -> tuple[int, Found]:
    """Rows of the source, and the rounds of each (step, contender).

    Contenders take turns in each round, so that a busy moment of the machine does not hit one alone. Scales
    up to 0.01 go without a warm-up: they show that it works, and no more.
    """
    small = source("0.01") if float(scale) > 0.01 else ""
    files = source(scale)
    for path in files.split(","):
        Path(path).read_bytes()  # so that nobody has to fetch it from the disk for the others
    rounds_of: Found = {}
    facts: dict[str, str] = {}
    for _ in range(rounds):
        for entry in entries:
            with entry.start() as contender:
                for _ in _steps(shape, entry, contender, small, folder) if small else ():
                    pass  # classes loaded, code compiled, libraries opened
                for step, measured in _steps(shape, entry, contender, files, folder):
                    _agree(facts, step, measured, entry.name)
                    rounds_of.setdefault((step, entry.name), []).append(measured)
    return int(facts["read rows"]), rounds_of


def _steps(
    shape: Shape, entry: registry.Entry, contender: Contender, files: str, folder: Path
) -> Iterator[tuple[str, Measured]]:
    warehouse = folder / entry.name.replace(" ", "-")
    table = Path(shape.create(warehouse).location)
    try:
        for step in STEPS:
            if step in entry.lacks or (step == "rescan" and "compact" in entry.lacks):
                continue
            if step == "read":
                yield step, contender.step(step, files, str(shape.months).lower())
            elif step in ("load", "update"):
                yield step, contender.step(step, table, files, table=table)
            elif step == "compact":
                yield step, contender.step(step, table, table=table)
            else:
                yield step, contender.step("scan", table)
    finally:
        shutil.rmtree(warehouse)


def _agree(facts: dict[str, str], step: str, each: Measured, name: str) -> None:
    """Raises Differs when rows or sums of a step differ from those of the first contender."""
    reference = "scan" if step == "rescan" else step
    for fact in ("rows", "quantity"):
        if fact in each.answer:
            first = facts.setdefault(f"{reference} {fact}", each.answer[fact])
            if first != each.answer[fact]:
                raise Differs(f"{name}, {MEANING[step]}: {fact} {each.answer[fact]}, the others have {first}")


def show(results: Found, entries: Sequence[registry.Entry], rows: int) -> str:
    """Medians as a table."""
    lines = []
    for step in STEPS:
        ours = results[step, registry.OURS]
        for entry in entries:
            if (step, entry.name) in results:
                lines.append(_line(step, entry.name, results[step, entry.name], ours, rows))
    return report.text(HEADER, lines)


def _line(step: str, name: str, rounds: Sequence[Measured], ours: Sequence[Measured], rows: int) -> list[str]:
    seconds, cpu = (report.median(rounds, f) for f in (_seconds, _cpu))
    own_seconds, own_cpu = (report.median(ours, f) for f in (_seconds, _cpu))
    written = report.median(rounds, lambda measured: measured.written_bytes)
    files = report.median(rounds, lambda measured: measured.files)
    return [
        MEANING[step],
        name,
        f"{seconds:.2f}",
        report.spread([measured.seconds for measured in rounds]),
        f"{cpu:.2f}",
        "" if step == "update" else f"{rows / seconds / 1e6:.2f}",
        f"{files:.0f}" if files else "",
        f"{written / 1e6:.1f}" if written else "",
        f"{report.median(rounds, lambda measured: measured.peak_bytes) / 1e6:.0f}",
        report.ratio(seconds, own_seconds),
        report.ratio(cpu, own_cpu),
    ]


def _seconds(each: Measured) -> float:
    return each.seconds


def _cpu(each: Measured) -> float:
    return each.cpu_seconds


def source(scale: str) -> str:
    """The Parquet files of line items at a scale factor, separated by commas."""
    parts = 16 if float(scale) >= 10 else 4
    return ",".join(map(str, tpch.base(scale, ("lineitem",), parts=parts)["lineitem"]))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Refused, Differs) as error:
        sys.exit(f"bench load: {error}")
