"""loads line items, then upserts, deletes, scans, looks up and compacts: ours against four others

One table of line items with the key (l_orderkey, l_linenumber) in 8 buckets, write-only: compaction is a
step of its own. Ten upserts change one row in 200 and add as many, ten deletes take one in 1,000; each is a
commit. Every contender works on a table of its own and must end with the same rows and sums. Afterwards one
process of ours does the steps once more under stopwatches, beside the floor: decoding and encoding the same
bytes with pyarrow alone.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

import tablestore as ts
from datasets.tpch.schema import LINEITEM
from notebooks.bench.contenders import registry
from notebooks.bench.contenders.contender import Contender, Measured, Refused
from notebooks.bench.load import KEY, Differs, source
from notebooks.bench.parts import breakdown, report
from notebooks.bench.parts.changes import Changes, make_changes

KIND = "l_kind"  # pypaimon deletes by a column of row kinds only
BUCKETS = 8
MEANING = {
    "read": "read the source only",
    "load": "load, one commit",
    "upserts": "ten upserts",
    "deletes": "ten deletes",
    "scan": "full scan after them",
    "gets": "100 lookups, a call each",
    "get_many": "100 lookups, one call",
    "compact": "full compaction",
    "rescan": "full scan, compacted",
}
HEADER = (
    "step",
    "contender",
    "seconds",
    "least–most",
    "ms each",
    "CPU s",
    "new MB",
    "peak MB",
    "time",
    "CPU",
)
Found = dict[tuple[str, str], list[Measured]]


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    others, missing = registry.peers(chosen.peers)
    entries = [registry.ours(), registry.ours_synced(), *others]
    called = report.command("lsm", arguments)
    print(f"{called}\n{report.machine()}; medians of {chosen.rounds}")
    with tempfile.TemporaryDirectory(prefix="bench-lsm-", dir=chosen.directory) as name:
        folder = Path(name)
        rows, by_step = measure(entries, chosen.scale_factor, chosen.rounds, folder)
        print(f"\n{rows:,} rows, scale factor {chosen.scale_factor}\n{show(by_step, entries)}")
        print("\n" + "\n".join([*missing, NOTES]))
        files = source(chosen.scale_factor).split(",")
        table = create(folder / "parts", by_kind=False)
        parts = breakdown.measure(table, files, make_changes(files, folder / "parts-changes"))
        print("\n" + breakdown.show(parts))
    report.save(chosen.json, called, {f"{step}/{who}": some for (step, who), some in by_step.items()})
    return 0


NOTES = """\
time, CPU: how many times what ours takes; more than 1 is slower than ours. ms each: median of the commits
or calls of a step. new MB: bytes of the files that appeared. peak MB: resident memory of all processes.
tablestore, synced: tables with tablestore.durability = commit, which wait for the disk, as the others of ours
do not. Loading includes reading the source, which is also shown alone. pypaimon has no compaction; a delta
table has no key, so nothing checks its load; duckdb keeps one file, for one process at a time, without
history."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./workbench bench lsm", description=__doc__.partition("\n")[0])
    parser.add_argument("--scale-factor", default="1", help="of TPC-H (default 1: 6 million rows)")
    parser.add_argument("--rounds", type=int, default=5, help="medians of so many (default 5)")
    parser.add_argument("--directory", help="where tables are made and removed (default: the temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every round, for later")
    parser.add_argument(
        "--peers",
        type=functools.partial(registry.chosen, there=registry.LAKES),
        default=registry.LAKES,
        help=f"of {', '.join(registry.LAKES)}, by commas; all (default); none",
    )
    return parser


def create(folder: Path, *, by_kind: bool, synced: bool = False) -> ts.Table:
    """The table of line items; `by_kind`: with the column that says what a row does; `synced`: its commits
    outlast a loss of power."""
    options: dict[str, object] = {"bucket": BUCKETS, "write-only": True}
    options |= {"tablestore.durability": "commit"} if synced else {}
    fields = list(LINEITEM)
    if by_kind:
        fields.append(pa.field(KIND, pa.string(), nullable=False))
        options["rowkind.field"] = KIND
    return ts.connect(str(folder)).create_table(
        "bench.lineitem", schema=pa.schema(fields), primary_key=KEY, options=options
    )


def measure(entries: Sequence[registry.Entry], scale: str, rounds: int, folder: Path) -> tuple[int, Found]:
    """Rows of the source, and the rounds of each (step, contender), which take turns. Scales up to 0.01 go
    without a warm-up: they show that it works, and no more."""
    scales = (["0.01"] if float(scale) > 0.01 else []) + [scale]
    inputs = []
    for number, small_or_whole in enumerate(scales):
        files = source(small_or_whole)
        inputs.append((files, make_changes(files.split(","), folder / f"changes-{number}")))
    for path in inputs[-1][0].split(","):
        Path(path).read_bytes()  # so that nobody has to fetch it from the disk for the others
    by_step: Found = {}
    facts: dict[str, str] = {}
    for _ in range(rounds):
        for entry in entries:
            with entry.start() as contender:
                for files, changes in inputs[:-1]:
                    for _ in _steps(entry, contender, files, changes, folder):
                        pass  # classes loaded, code compiled, libraries opened
                for step, measured in _steps(entry, contender, *inputs[-1], folder):
                    _agree(facts, step, measured, entry.name)
                    by_step.setdefault((step, entry.name), []).append(measured)
    return int(facts["read rows"]), by_step


def _steps(
    entry: registry.Entry, contender: Contender, files: str, changes: Changes, folder: Path
) -> Iterator[tuple[str, Measured]]:
    warehouse = folder / entry.name
    if entry.name in ("delta", "duckdb"):
        table = warehouse / "lineitem"
    else:
        synced, by_kind = entry.name == registry.SYNCED, entry.name.startswith("pypaimon")
        table = Path(create(warehouse, by_kind=by_kind, synced=synced).location)
    requests: dict[str, tuple[str, *tuple[object, ...]]] = {
        "read": ("read", files, "false"),
        "load": ("load", table, files),
        "upserts": ("upserts", table, ",".join(changes.upserts)),
        "deletes": ("deletes", table, ",".join(changes.deletes)),
        "scan": ("scan", table),
        "gets": ("gets", table, changes.keys),
        "get_many": ("get_many", table, changes.keys),
        "compact": ("compact", table),
        "rescan": ("scan", table),
    }
    try:
        for step, request in requests.items():
            if step in entry.lacks or (step == "rescan" and "compact" in entry.lacks):
                continue
            changing = step in ("load", "upserts", "deletes", "compact")
            yield step, contender.step(*request, table=table if changing else None)
    finally:
        shutil.rmtree(warehouse, ignore_errors=True)


_SAME = {"rescan": "scan", "get_many": "gets"}


def _agree(facts: dict[str, str], step: str, each: Measured, name: str) -> None:
    """Raises Differs when rows or sums of a step differ from those of the first contender."""
    for fact in ("rows", "quantity"):
        if fact in each.answer:
            first = facts.setdefault(f"{_SAME.get(step, step)} {fact}", each.answer[fact])
            if first != each.answer[fact]:
                raise Differs(f"{name}, {MEANING[step]}: {fact} {each.answer[fact]}, the others have {first}")


def show(results: Found, entries: Sequence[registry.Entry]) -> str:
    """Medians as a table."""
    lines = [
        _line(step, entry.name, results[step, entry.name], results[step, registry.OURS])
        for step in MEANING
        for entry in entries
        if (step, entry.name) in results
    ]
    return report.text(HEADER, lines)


def _line(step: str, name: str, rounds: Sequence[Measured], ours: Sequence[Measured]) -> list[str]:
    seconds, own = _seconds(rounds), _seconds(ours)
    cpu, own_cpu = (report.median(some, lambda measured: measured.cpu_seconds) for some in (rounds, ours))
    written = report.median(rounds, lambda measured: measured.written_bytes)
    return [
        MEANING[step],
        name,
        f"{seconds:.2f}",
        report.spread([_step_seconds(measured) for measured in rounds]),
        f"{statistics.median(_each(rounds)):.1f}" if _each(rounds) else "",
        f"{cpu:.2f}",
        f"{written / 1e6:.1f}" if written else "",
        f"{report.median(rounds, lambda measured: measured.peak_bytes) / 1e6:.0f}",
        report.ratio(seconds, own),
        report.ratio(cpu, own_cpu),
    ]


def _each(rounds: Sequence[Measured]) -> list[float]:
    return [float(ms) for measured in rounds for ms in measured.answer.get("ms", "").split(",") if ms]


def _step_seconds(step: Measured) -> float:
    """What the commits or calls of a step took together, where it reports them; else the whole step."""
    each = _each([step])
    return sum(each) / 1000 if each else step.seconds


def _seconds(rounds: Sequence[Measured]) -> float:
    return statistics.median(_step_seconds(measured) for measured in rounds)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Refused, Differs) as error:
        sys.exit(f"bench lsm: {error}")
