"""Damaged footers are refused before Arrow, which would end the process, is asked for their chunks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablestore.format.parquet.checked_file import sound_metadata

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"


def test_no_damaged_footer_ends_the_process(seeds: tuple[int, ...]) -> None:
    command = [sys.executable, "-m", "tests.format.flipped_footers", str(seeds[0])]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, f"seed {seeds[0]}: {outcome.stderr[:500]}"
    passed, tried = map(int, outcome.stdout.split())
    assert 0 < passed < tried


def test_footers_of_other_writers_are_sound() -> None:
    files = sorted(GOLDEN.rglob("*.parquet"))
    assert len(files) > 50
    for path in files:
        with pa.OSFile(str(path)) as source:
            assert sound_metadata(source).num_rows == pq.read_metadata(path).num_rows, path


def test_what_is_no_parquet_file_is_said_to_be_none() -> None:
    for data in (b"", b"PAR1", b"PAR1" + bytes(20) + b"PAR1"):
        with pytest.raises((ValueError, OSError, pa.ArrowException)):
            sound_metadata(pa.BufferReader(data))
