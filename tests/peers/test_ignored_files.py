"""Scans pass over damaged and lost files as Java Paimon does."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import tablestore as ts
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("keys", [[], ["k"]])
def test_the_same_rows_are_left(java: JavaPaimon, tmp_path: Path, keys: list[str]) -> None:
    rng, path = random.Random(len(keys)), str(tmp_path / "d.db" / "t")
    options = {"bucket": 1 if keys else -1}
    java.create(path, {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=keys, options=options)
    for step in range(6):
        some = [(rng.randrange(20), f"{step}-{i}") for i in range(5)]
        java.write(path, some, identifier=step, write_only=True)
    t = ts.open(path)
    files = [t.store.file_path(s.partition, s.bucket, f) for s in t.scan().plan().splits for f in s.files]
    lost, harmed = rng.sample(files, 2)
    os.remove(lost)
    with open(harmed, "r+b") as file:
        file.write(b"\0" * 16)
        file.seek(-40, os.SEEK_END)
        file.write(b"\0" * 40)
    both = {"scan.ignore-corrupt-files": True, "scan.ignore-lost-files": True}
    assert in_order(cells(t.with_options(both).scan().to_arrow())) == java.rows(path, options=both)
