"""Overwrites and deletes of whole partitions leave what they leave in Java Paimon."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore import col
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("bucket", [1, -1, -2])
@pytest.mark.sample(1)
def test_overwrites_and_dropped_partitions(java: JavaPaimon, tmp_path: Path, bucket: int) -> None:
    rng, path = random.Random(bucket), str(tmp_path / "d.db" / "t")
    fields = {"p": "INT NOT NULL", "q": "STRING NOT NULL", "k": "INT NOT NULL"}
    java.create(
        path, fields, primary_keys=["p", "q", "k"], partition_keys=["p", "q"], options={"bucket": bucket}
    )

    def some(n: int) -> list[tuple[int, str, int]]:
        return [(rng.randrange(3), rng.choice("ab"), rng.randrange(9)) for _ in range(n)]

    java.write(path, some(20))
    if bucket == -2:
        ts.open(path).compact()
    steps: list[tuple[dict[str, Any], list[tuple[int, str, int]], bool]] = [
        ({"p": 1, "q": "a"}, [(1, "a", 50)], False),
        ({"p": 2}, [(2, "b", 51)], False),
        ({}, [(0, "b", 52)], True),
        ({"p": 0, "q": "b"}, [], True),
        ({"p": 0, "q": "b"}, [], False),
    ]
    for number, (partition, rows, dynamic) in enumerate(steps):
        copy = f"{path}-{number}"
        shutil.copytree(path, copy)
        options = {"dynamic-partition-overwrite": dynamic}
        spec = {k: str(v) for k, v in partition.items()}
        java.write(copy, rows, overwrite=spec, identifier=number + 1, options=options)
        data = [dict(zip(fields, r, strict=True)) for r in rows]
        ts.open(path).with_options(options).overwrite(data, partition=partition or None)
        assert java.rows(path) == java.rows(copy) == of(ts.open(path)), (partition, dynamic)
        assert len(java.snapshots(path)) == len(java.snapshots(copy))
    shutil.copytree(path, f"{path}-deleted")
    java.truncate(f"{path}-deleted", [{"p": "2"}, {"q": "a"}])
    done = ts.open(path).delete((col("p") == 2) | (col("q") == "a"))
    assert len(done.snapshots) == 1
    assert java.rows(path) == java.rows(f"{path}-deleted") == of(ts.open(path))
    assert ts.open(path).check() == []


def of(t: ts.Table) -> list[list[Any]]:
    return in_order(cells(t.scan().to_arrow()))
