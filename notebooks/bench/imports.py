"""what importing costs before anything is done: CPU seconds, beside pyarrow and numpy alone

Each program runs in a fresh Python, once unmeasured (bytecode is cached then, as in an installed package),
then some rounds in turns. The CPU is that of the whole process, starting Python included; the least counts,
as noise only adds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from notebooks.bench.parts import report
from notebooks.cli.places import ROOT

HEADER = ("what", "program", "CPU s", "least–most", "× pyarrow and numpy")
PYARROW = "pyarrow and numpy"
PROGRAMS = {
    "Python": "pass",
    PYARROW: "import pyarrow, numpy",
    "the package": "import tablestore",
    "a lake": "import tablestore as ts; ts.connect('lake')",
    "the engine": "import tablestore; tablestore.Table",
    "what looks at tables, too": "import tablestore; tablestore.Table; tablestore.what_if",
    "the module of a Spark worker": "import tablestore.spark.datasource",
    "the widgets": "import widgets",
}
_MEASURED = "import time; {program}\nprint(time.process_time())"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./workbench bench imports", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(list(arguments))
    print(report.command("imports", arguments))
    print(report.machine())
    print(f"least of {chosen.rounds}\n")
    rounds = [
        {what: seconds(program) for what, program in PROGRAMS.items()} for _ in range(chosen.rounds + 1)
    ]
    by_program = {what: [figures[what] for figures in rounds[1:]] for what in PROGRAMS}
    base = min(by_program[PYARROW])
    lines = [
        (what, PROGRAMS[what], f"{min(some):.2f}", report.spread(some), f"{min(some) / base:.2f}")
        for what, some in by_program.items()
    ]
    print(report.text(HEADER, lines))
    return 0


def seconds(program: str) -> float:
    """CPU seconds of a fresh Python that runs the program, its end left out."""
    command = [sys.executable, "-E", "-c", _MEASURED.format(program=program)]  # -E: bytecode may be cached
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return float(done.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
