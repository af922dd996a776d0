"""Damaged tables: whatever the bytes of a file of the table are, readers say which file is damaged, or read
the right rows; they never hang, never die, never believe a length that is not there.

Every case is reproduced by the seed that is printed: `python -m tests.hostile.worker …` as in the failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.limits import FEW_THREADS

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "paimon-java" / "warehouse" / "j.db"
ROOT = Path(__file__).resolve().parents[2]
CASES = 6  # damages of one kind of file in one table, a seed

# Which kinds of files are damaged in which tables.
TARGETS = [
    ("part_types", ("manifest", "manifest-list", "data")),
    ("pk_many_keys", ("manifest", "schema", "snapshot", "hint")),
    ("pk_deletion_vectors", ("index", "index-manifest")),
    ("append_deletion_vectors", ("index", "index-manifest", "manifest")),
    ("pk_dynamic_bucket", ("index", "index-manifest")),
    ("branch_tags", ("tag", "branch", "snapshot")),
    ("analyzed", ("statistics", "snapshot")),
    ("schema_evolution", ("schema",)),
    ("file_index", ("data", "manifest")),
    ("pk_orc", ("data",)),
    ("pk_avro", ("data",)),
    ("pk_nested_parquet", ("data",)),
    ("pk_nested_orc", ("data",)),
    ("pk_nested_avro", ("data",)),
]


@pytest.mark.parametrize(("table", "kinds"), TARGETS, ids=[t for t, _ in TARGETS])
@pytest.mark.sample(1, all=8)
def test_damage_of_any_file_is_named_and_never_believed(
    table: str, kinds: tuple[str, ...], tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    wrong = []
    for kind in kinds:
        wrong += _damage(GOLDEN / table, tmp_path / kind, kind, seeds[0], CASES * len(seeds) // 5 or 1)
    assert wrong == []


def _damage(table: Path, scratch: Path, kind: str, seed: int, count: int) -> list[dict[str, object]]:
    """The cases of one worker that went wrong."""
    arguments = [str(table), str(scratch), kind, str(seed), str(count)]
    command = [sys.executable, "-m", "tests.hostile.worker", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=FEW_THREADS)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    found = [case for case in said if case.get("wrong")]
    finished = sum("wrong" in case for case in said)
    if done.returncode or finished != count:
        last = said[-1] if said else {}
        found.append({"died": done.returncode, "at": last, "stderr": done.stderr[-2000:]})
    return [{**case, "again": " ".join(command[1:])} for case in found]
