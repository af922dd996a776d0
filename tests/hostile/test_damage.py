"""Damaged tables: whatever the bytes of a file of the table are, readers say which file is damaged, or read
the right rows; they never hang, never die, never believe a length that is not there.

Every case is reproduced by the seed that is printed: `python -m tests.hostile.worker …` as in the failure.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt
from tablestore.format import binary_row
from tablestore.format.manifests import manifest
from tablestore.format.types.arrow_types import INT
from tests.hostile.limits import FEW_THREADS

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "paimon-java" / "warehouse" / "j.db"
ROOT = Path(__file__).resolve().parents[2]
NULL_KEY = binary_row.encode([None], [INT])
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
    count = CASES * len(seeds) // 5 or 1
    assert _damage(GOLDEN / table, tmp_path / "t", kinds, seeds[0], count) == []


def test_a_key_that_is_null_is_named_with_its_manifest(tmp_path: Path) -> None:
    root = shutil.copytree(GOLDEN / "part_types", tmp_path / "t")
    for path in root.glob("manifest/manifest-[0-9a-f]*"):
        entries = manifest.decode_entries(path.read_bytes(), str(path))
        files = [replace(e.file, min_key=NULL_KEY) for e in entries]
        damaged = [replace(e, file=f) for e, f in zip(entries, files, strict=True)]
        path.write_bytes(manifest.encode_entries(damaged, "none"))
    table = ts.open(str(root))
    for act in (table.scan().to_arrow, partial(table.compact, full=True)):
        with pytest.raises(Corrupt, match=r"/manifest/manifest-\S+: field 0 of a key is NULL"):
            act()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"timeMillis" : 1', b'"timeMillis" : 1e400, "_" : 1'),
        (b'"options" : {', b'"options" : {"a\\ud800" : "b",'),
        (b'"version" : 3', b'"version" : 3, "comment" : "\\udc00"'),
        (b'"version" : 3', b'"version" : 3, "comment" : []'),
        (b'"fields" : [', b'"fields" : [' + b"[" * 3000),
    ],
    ids=[
        "endless time",
        "surrogate in options",
        "surrogate in the comment",
        "comment of another type",
        "depth",
    ],
)
def test_a_schema_of_values_that_no_column_holds_is_named(tmp_path: Path, old: bytes, new: bytes) -> None:
    root = shutil.copytree(GOLDEN / "schema_evolution", tmp_path / "t")
    path = root / "schema" / "schema-0"
    assert old in path.read_bytes()
    table = ts.open(str(root))
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(Corrupt, match="schema-0"):
        table.inspect.schemas()
    if b"\\ud" in new:
        with pytest.raises(Corrupt, match="schema-0"):
            ts.open(str(root)).store.schema_of(0)


def _damage(
    table: Path, scratch: Path, kinds: tuple[str, ...], seed: int, count: int
) -> list[dict[str, object]]:
    """Of `count` cases of each kind those that went wrong; one worker does all of them."""
    arguments = [str(table), str(scratch), ",".join(kinds), str(seed), str(count)]
    command = [sys.executable, "-m", "tests.hostile.worker", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=FEW_THREADS)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    cases = [case for case in said if case.get("wrong")]
    finished = sum("wrong" in case for case in said)
    if done.returncode or finished != count * len(kinds):
        last = said[-1] if said else {}
        cases.append({"died": done.returncode, "at": last, "stderr": done.stderr[-2000:]})
    return [{**case, "again": " ".join(command[1:])} for case in cases]
