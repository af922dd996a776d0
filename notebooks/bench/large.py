"""writes a table of many generated rows, merges, scans and compacts it, and shows the memory of each step

Rows come in four commits that each spread over all keys, then one row in twenty once more: every bucket has
runs that overlap, so scan and compaction really merge. Each step is a process of its own, so that its peak is
its own; rows and sums are checked after each scan.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tablestore as ts
from notebooks.bench.contenders import large_rows, registry
from notebooks.bench.contenders.contender import Contender, Measured, Refused
from notebooks.bench.parts import report

MEANING = {
    "write": "write, five commits",
    "scan": "scan, merging",
    "compact": "full compaction",
    "rescan": "scan, compacted",
}
HEADER = ("step", "process", "seconds", "CPU s", "Mrows/s", "new files", "new MB", "peak MB")
ROWS_A_BUCKET = 6_000_000


class Wrong(Exception):
    """The table does not hold what was written."""


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    called = report.command("large", arguments)
    print(f"{called}\n{report.machine()}")
    options = {"write-buffer-size": chosen.write_buffer} if chosen.write_buffer else {}
    if chosen.threads is not None:
        options |= {f"tablestore.{verb}.threads": chosen.threads for verb in ("write", "scan")}
    with tempfile.TemporaryDirectory(prefix="bench-large-", dir=chosen.directory) as folder:
        steps = dict(measure(Path(folder), chosen.rows, options))
    print(f"\n{chosen.rows:,} rows\n{show(steps, chosen.rows)}\n\n{NOTES}")
    report.save(chosen.json, called, {step: [measured] for step, measured in steps.items()})
    peak = max(measured.peak_bytes for measured in steps.values())
    if chosen.most_mb is not None and peak > chosen.most_mb << 20:
        print(f"bench large: {peak >> 20} MB is more than the {chosen.most_mb} MB allowed", file=sys.stderr)
        return 1
    return 0


NOTES = """\
peak MB: resident memory of the step's process, interpreter and libraries included. new MB: bytes of the files
that appeared. Rows, the sum of keys and the sum of values were as they should be in both scans."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./workbench bench large", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--rows", type=int, default=100_000_000, help="rows of the table (default 100 million)"
    )
    parser.add_argument(
        "--write-buffer", metavar="SIZE", help="write-buffer-size of the table (default 256 mb)"
    )
    parser.add_argument("--threads", type=int, help="of a write and of a scan (default: one a CPU)")
    parser.add_argument("--most-mb", type=int, metavar="MB", help="exit 1 if a step takes more memory")
    parser.add_argument(
        "--directory", help="where the table is made and removed (default: the temporary one)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the steps, for later")
    return parser


def measure(folder: Path, rows: int, options: Mapping[str, Any]) -> Iterator[tuple[str, Measured]]:
    """The steps in their order. Raises Wrong."""
    wanted = {"bucket": max(2, rows // ROWS_A_BUCKET), "write-only": True, **options}
    table = ts.connect(str(folder)).create_table(
        "bench.large", schema=large_rows.SCHEMA, primary_key=["k"], options=wanted
    )
    path, right = Path(table.location), large_rows.expected(rows)
    for step in MEANING:
        with _process() as process:
            if step in ("write", "compact"):
                fields = (path, rows) if step == "write" else (path,)
                yield step, process.step(step, *fields, table=path)
                continue
            scanned = process.step("scan", path)
            if {name: int(scanned.answer[name]) for name in right} != right:
                raise Wrong(f"{MEANING[step]}: found {dict(scanned.answer)}, wrote {right}")
            yield step, scanned


def _process() -> Contender:
    return Contender(
        registry.OURS,
        registry.python(sys.executable, "notebooks.bench.contenders.large_rows"),
        folder=registry.ROOT,
    )


def show(results: Mapping[str, Measured], rows: int) -> str:
    """The steps as a table."""
    lines = [
        [
            MEANING[step],
            registry.OURS,
            f"{measured.seconds:.1f}",
            f"{measured.cpu_seconds:.1f}",
            f"{rows / measured.seconds / 1e6:.2f}",
            str(measured.files) if measured.files else "",
            f"{measured.written_bytes / 1e6:.1f}" if measured.written_bytes else "",
            f"{measured.peak_bytes / 1e6:.0f}",
        ]
        for step, measured in results.items()
    ]
    return report.text(HEADER, lines)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Refused, Wrong) as error:
        sys.exit(f"bench large: {error}")
