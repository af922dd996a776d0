"""What is collected depends on the checkout alone: not on chance, time, hash seeds or what is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = sorted(str(path) for path in (ROOT / "tests").iterdir() if path.is_dir() or path.stem[:5] == "test_")


@pytest.mark.large
def test_collections_are_equal(tmp_path: Path) -> None:
    """In two processes, apart by the hash seed, the seed of the run, what the machine has, the time zone."""
    here = dict(os.environ)
    bare = {**here, "PATH": "/nowhere", "HOME": str(tmp_path), "JAVA_HOME": "/nowhere", "TZ": "Asia/Tokyo"}
    bare |= {"WORKBENCH_CHROMIUM": "/nowhere", "XDG_CACHE_HOME": str(tmp_path)}
    bare.pop("WORKBENCH_CI", None)
    running = [collecting(here, "1"), collecting(bare, "2")]
    outputs = [process.communicate(timeout=900)[0].splitlines() for process in running]
    tests, others = ([line for line in output if "::" in line] for output in outputs)
    assert len(tests) > 10_000
    assert set(tests) ^ set(others) == set()
    assert others == tests, "in the same order"


def collecting(environment: dict[str, str], hash_seed: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *NAMED]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**environment, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
    )
