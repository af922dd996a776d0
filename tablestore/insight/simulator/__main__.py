"""`python -m tablestore.insight.simulator --workload zipf --flushes 100000 --strategy leveled`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from tablestore.core import quantities
from tablestore.core.env import Env
from tablestore.core.errors import TablestoreError
from tablestore.core.options.table_options import memory_size
from tablestore.insight.simulator.simulator import FLUSH, Schedule, SimulatedStep
from tablestore.insight.simulator.workload import KINDS, Workload
from tablestore.insight.simulator.workload_run import Run, simulate
from tablestore.lsm.levels.sorted_run import Levels

_MOST_FILES = 8  # of one level that are named one by one
_POINTS = 20
_WIDTH = 24
_AFTER_SECONDS = 2.0


def levels_lines(levels: Levels) -> Iterator[str]:
    """A line for each level that holds files, newest first: `L4  [0, 995]  812 rows  79.3 KiB in 1 file`."""
    for level, files in enumerate((levels.level0, *(r.files for r in levels.upper))):
        if not files:
            continue
        if level == 0:
            sizes = " ".join(quantities.size(f.file_size) for f in files[:_MOST_FILES])
            more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
            yield f"  L0  {sizes}{more}"
            continue
        rows, size = sum(f.row_count for f in files), sum(f.file_size for f in files)
        deletes = sum(f.delete_count or 0 for f in files)
        many = "1 file" if len(files) == 1 else f"{len(files)} files"
        gone = f", {deletes:,} deletes" if deletes else ""
        low, high = files[0].min_key, files[-1].max_key
        yield f"  L{level}  {quantities.size(size)} in {many}, {rows:,} rows{gone}, keys {low!s}–{high!s}"


def step_lines(steps: Iterable[SimulatedStep], *, explain: bool = False) -> Iterator[str]:
    """Each step and the levels after it; with `explain` every rule of each compaction."""
    for step in steps:
        bucket = f" in bucket {step.bucket}" if step.bucket else ""
        if step.kind is FLUSH:
            yield f"flush {step.flush}{bucket}: {quantities.size(step.bytes_written)}"
        else:
            assert step.decision is not None
            stalled = "stalled, " if step.stalled else ""
            words = step.decision.explain() if explain else step.decision.text
            yield f"{stalled}compact{bucket}: {words}"
        yield from levels_lines(step.levels)


def amplification_table(run: Run, points: int = _POINTS) -> Iterator[str]:
    """Amplification over time as columns."""
    table = run.to_arrow()
    every = max(1, table.num_rows // points)
    yield (
        f"{'flush':>10}{'ingested':>12}{'compacted':>12}{'write amp':>11}{'runs':>6}{'files':>8}"
        f"{'live':>12}{'space amp':>11}{'stalls':>8}"
    )
    rows = table.to_pylist()  # a few hundred
    for r in (*rows[every - 1 : -1 : every], rows[-1]):
        space = "" if r["space_amplification"] is None else f"{r['space_amplification']:.2f}"
        yield (
            f"{r['flush']:>10,}{quantities.size(r['bytes_ingested']):>12}"
            f"{quantities.size(r['bytes_compacted']):>12}{r['write_amplification']:>11.2f}{r['runs']:>6.1f}"
            f"{r['files']:>8,}{quantities.size(r['live_bytes']):>12}{space:>11}{r['stalls']:>8,}"
        )


class TextBar:
    """Draws how far a run is as one line of a terminal, once it has taken a while; elsewhere nothing.

    A run calls `show` as its progress; `end` takes the line away.
    """

    def __init__(self, out: TextIO, env: Env) -> None:
        self.reached = 0
        self._out, self._env, self._shown = out, env, 0
        self._began = env.monotonic()

    def show(self, done: int, whole: int) -> None:
        """So many flushes of all are simulated."""
        self.reached = done
        spent = self._env.monotonic() - self._began
        if spent < _AFTER_SECONDS or not done or not self._out.isatty():
            return
        left = spent * (whole - done) / done
        bar = "#" * round(_WIDTH * done / whole)
        line = f"[{bar:{_WIDTH}}] {done:,} of {whole:,} flushes, {left:.0f} s left"
        self._out.write(f"\r{line:{self._shown}}")
        self._out.flush()
        self._shown = len(line)

    def end(self) -> None:
        """The run is over, or was interrupted."""
        if self._shown:
            self._out.write(f"\r{'':{self._shown}}\r")
            self._out.flush()


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
