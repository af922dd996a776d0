"""Damaged ORC files that no checksum vouches for: their rows or `Corrupt`, never the end of the process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.hostile.limits import FEW_THREADS

ROOT = Path(__file__).resolve().parents[2]
CASES = 40  # a seed


def test_damage_ends_neither_the_process_nor_in_rows_that_statistics_deny(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        scratch = tmp_path / str(seed)
        scratch.mkdir()
        command = [sys.executable, "-m", "tests.format.damaged_orc", str(scratch), str(seed), str(CASES)]
        run = subprocess.run(command, cwd=ROOT, env=FEW_THREADS, capture_output=True, text=True, check=False)
        cases = [json.loads(line) for line in run.stdout.splitlines()]
        assert run.returncode == 0, f"{cases[-1:]} ended its process: {run.returncode}\n{run.stderr[-2000:]}"
        assert [c for c in cases if c.get("wrong")] == []
        outcomes = Counter(c["outcome"] for c in cases if "outcome" in c)
        assert outcomes.total() == CASES
        assert outcomes["named"] > CASES // 4
