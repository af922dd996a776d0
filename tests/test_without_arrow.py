"""The rules without Arrow, numpy and Avro: a browser has none of them, and picks as the engine does.

Runs in a process of its own, where an import hook refuses the packages.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICKS = ROOT / "tests" / "golden" / "picks"
REPLAY = """
import gzip, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyarrow", "numpy", "fastavro", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
from tablestore.lsm.compaction import loop, universal, leveled
from tablestore.lsm.compaction.recorded import check_picks
from tablestore.lsm.levels import sorted_run
for path in sys.argv[1:]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        checked = check_picks(lines)
    print(checked.cases - checked.wrong, "of", checked.cases)
"""


def test_recorded_picks_and_sections_agree_without_arrow_numpy_and_avro() -> None:
    paths = [PICKS / "universal-picks.jsonl.gz", PICKS / "interval-partition.jsonl.gz"]
    command = [sys.executable, "-c", REPLAY, *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (["3000 of 3000", "500 of 500"], "")
