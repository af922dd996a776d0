"""`python -m tablestore.insight.simulator --workload zipf --flushes 100000 --strategy leveled`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tablestore.core.env import Env
from tablestore.core.errors import TablestoreError
from tablestore.core.options.table_options import memory_size
from tablestore.insight.simulator.simulator import Schedule
from tablestore.insight.simulator.text import TextBar, amplification_table, step_lines
from tablestore.insight.simulator.workload import KINDS, Workload
from tablestore.insight.simulator.workload_run import simulate


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tablestore.insight.simulator",
        description="Simulate flushes and compactions of a table over metadata alone: a million flushes take "
        "less than a minute. Memory grows with the files that live, about 1 kB each.",
    )
    workload = parser.add_argument_group("what is written")
    workload.add_argument("--workload", choices=KINDS, default="uniform")
    workload.add_argument("--flushes", type=int, default=1_000, help="flushes a bucket")
    workload.add_argument("--rows", type=int, default=10_000, help="rows a flush")
    workload.add_argument("--row-bytes", type=memory_size, default=100, help="bytes a row in a file")
    workload.add_argument("--keys", type=int, help="key space of uniform and zipf")
    workload.add_argument("--updates", type=float, default=0.0, help="share of rows that exist")
    workload.add_argument("--deletes", type=float, default=0.0, help="share of rows that are deletes")
    workload.add_argument("--skew", type=float, default=0.99, help="exponent of zipf")
    workload.add_argument("--lag", type=float, help="rows by which late rows of a time-series are late")
    workload.add_argument("--seed", type=int, default=0)
    workload.add_argument(
        "--samples",
        type=int,
        help="rows drawn a flush, each for as many others; 0: none, sizes are expected values",
    )
    table = parser.add_argument_group("the table")
    table.add_argument("--strategy", choices=("universal", "leveled"), default="universal")
    table.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="a table option")
    table.add_argument("--buckets", type=int, default=1)
    table.add_argument("--flushes-per-commit", type=int, default=1)
    table.add_argument("--write-only", action="store_true", help="writers do not compact")
    table.add_argument("--compact-every", type=int, default=0, help="commits between two picks of a job")
    table.add_argument("--full-every", type=int, default=0, help="commits between full compactions")
    shown = parser.add_argument_group("what is shown")
    shown.add_argument("--steps", action="store_true", help="each step with the levels after it")
    shown.add_argument("--explain", action="store_true", help="with every rule of each compaction")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a run; 0, or 2 for what cannot be simulated."""
    asked = _parser().parse_args(arguments)
    bar = TextBar(sys.stderr, Env())
    pairs = [pair.partition("=") for pair in asked.option]
    try:
        for key, sign, _ in pairs:
            if not sign:
                raise TablestoreError(f"--option {key}: give KEY=VALUE")
        options = {"tablestore.compaction.strategy": asked.strategy} | {k: v for k, _, v in pairs}
        workload = Workload(
            asked.workload,
            rows=asked.rows,
            row_bytes=float(asked.row_bytes),
            keys=asked.keys,
            updates=asked.updates,
            deletes=asked.deletes,
            skew=asked.skew,
            lag=asked.lag,
        )
        schedule = Schedule(
            flushes_per_commit=asked.flushes_per_commit,
            write_only=asked.write_only,
            compact_every=asked.compact_every,
            full_every=asked.full_every,
        )
        run = simulate(
            workload,
            options,
            flushes=asked.flushes,
            buckets=asked.buckets,
            schedule=schedule,
            seed=asked.seed,
            samples=asked.samples,
            progress=bar.show,
        )
    except TablestoreError as e:
        print(e, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        bar.end()
        print(f"interrupted after {bar.reached:,} of {asked.flushes:,} flushes", file=sys.stderr)
        return 130
    bar.end()
    if asked.steps or asked.explain:
        for line in step_lines(run.steps(), explain=asked.explain):
            print(line)
    print(*amplification_table(run), "", run, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
