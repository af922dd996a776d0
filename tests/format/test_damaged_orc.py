"""Damaged ORC files that no checksum vouches for: their rows or `Corrupt`, never the end of the process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tablestore.core.errors import Corrupt
from tablestore.format import datafile
from tablestore.format.data_format import FileRequest
from tablestore.format.types.arrow_types import parse_type
from tablestore.io.fileio import LocalFileIO
from tests.hostile.limits import FEW_THREADS
from tests.read import golden

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


def test_a_column_of_another_type_than_its_schema_says_is_damage(tmp_path: Path) -> None:
    store = golden.python("pk_all_types_orc")
    e = next(e for e in store.manifests.live_entries(store.snapshots.latest()))
    sound = Path(store.file_path(e.partition, e.bucket, e.file)).read_bytes()
    schema = store.schema_of(e.file.schema_id)
    path = tmp_path / e.file.file_name
    path.write_bytes(sound)
    boolean = parse_type("BOOLEAN")
    fields = tuple(replace(f, type=boolean) if f.name == "f_str" else f for f in schema.fields)
    column = FileRequest(["f_str"])
    with pytest.raises(Corrupt, match="column 'f_str' is string, its schema says bool"):
        list(datafile.read(LocalFileIO(), str(path), replace(schema, fields=fields), column))
    assert list(datafile.read(LocalFileIO(), str(path), schema, column))
