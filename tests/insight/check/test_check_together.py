"""`check` looks at small files together: it reads each once, and says of each what it says of it alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablestore as ts
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.insight.check import data
from tablestore.insight.check.check import examine
from tablestore.io.fileio import LocalFileIO
from tablestore.table.table import Table
from tests.insight.check.test_check import delta, without_checksums

__all__ = ["without_checksums"]  # a fixture of every test here

COMMITS = 3


def small_files(folder: Path, io: LocalFileIO | None = None) -> Table:
    """Two partitions of two buckets, a file in each for every commit."""
    table = ts.connect(str(folder), io=io).create_table(
        "d.t",
        schema={"p": ts.STRING, "k": ts.INT, "v": ts.DOUBLE, "t": ts.STRING},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": 2, "write-only": True},
    )
    for n in range(COMMITS):
        table.write([{"p": p, "k": k, "v": k / 7, "t": f"t{n}"} for p in ("a", "b") for k in range(20)])
    return table


class CountingReads(LocalFileIO):
    """Counts how often each file is read or opened."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = Counter[str]()

    def read(self, path: str) -> bytes:
        self.reads[path] += 1
        return super().read(path)

    def open_input(self, path: str) -> pa.NativeFile:
        self.reads[path] += 1
        return super().open_input(path)


def test_each_small_file_is_read_once(tmp_path: Path) -> None:
    io = CountingReads()
    table = small_files(tmp_path, io)
    table.compact(full=True)
    files = {str(p) for p in Path(table.location).rglob("*.parquet")}
    io.reads.clear()
    assert table.check() == []
    assert len(files) == 4 * (COMMITS + 1)
    newest = {f for f in files if "-0.parquet" in f}
    assert newest == files
    assert {f: io.reads[f] for f in files} == dict.fromkeys(files, 1)


def changed(rows: pa.Table, name: str, change: Callable[[np.ndarray], Any]) -> pa.Table:
    """The rows with other values in a column."""
    at = rows.schema.names.index(name)
    values = change(rows.column(name).to_numpy(zero_copy_only=False).copy())
    return rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))


def twice(keys: np.ndarray) -> np.ndarray:
    keys[1] = keys[0]
    return keys


def shifted(numbers: np.ndarray) -> np.ndarray:
    return numbers + 1_000


DAMAGE: dict[str, tuple[str, Callable[[pa.Table], pa.Table]]] = {
    "order": ("I3", lambda rows: rows.take(list(reversed(range(rows.num_rows))))),
    "key twice": ("I3", lambda rows: changed(rows, "k", twice)),
    "another partition": ("I10", lambda rows: changed(rows, "p", lambda p: ["z", *p[1:]])),
    "no partition": ("I10", lambda rows: changed(rows, "p", lambda p: ["", *p[1:]])),
    "other keys": ("I10", lambda rows: changed(rows, "k", lambda k: np.arange(1_000, 1_000 + len(k)))),
    "value": ("I8", lambda rows: changed(rows, "v", lambda v: [*v[1:], 1e9])),
    "text": ("I8", lambda rows: changed(rows, "t", lambda t: ["zz", *t[1:]])),
    "a null": ("I8", lambda rows: changed(rows, "v", lambda v: [None, *v[1:]])),
    "not a number": ("", lambda rows: changed(rows, "v", lambda v: [float("nan"), *v[1:]])),
    "numbers": ("I8", lambda rows: changed(rows, "_SEQUENCE_NUMBER", shifted)),
    "deletes": ("I8", lambda rows: changed(rows, "_VALUE_KIND", lambda kinds: [3, *kinds[1:]])),
    "no such kind": ("I2", lambda rows: changed(rows, "_VALUE_KIND", lambda kinds: [7, *kinds[1:]])),
    "a row less": ("I2", lambda rows: rows.slice(1)),
    "no column": ("I2", lambda rows: rows.drop_columns(["t"])),
}


def damage(table: Table, rng: Random) -> dict[str, str]:
    """Change some files, each in its own way; what must be reported of each by its path."""
    store, expected = table.store, dict[str, str]()
    for number in range(1, COMMITS + 1):

        def change(entries: list[ManifestEntry]) -> list[ManifestEntry]:
            for at in rng.sample(range(len(entries)), rng.randint(0, 3)):
                e = entries[at]
                path = store.file_path(e.partition, e.bucket, e.file)
                invariant, alter = DAMAGE[rng.choice(sorted(DAMAGE))]
                pq.write_table(alter(pq.ParquetFile(path).read()), path)
                entries[at] = replace(e, file=replace(e.file, file_size=Path(path).stat().st_size))
                expected[path] = invariant
                if rng.random() < 0.1:
                    Path(path).unlink()
                    expected[path] = "I2"
            return entries

        delta(table, number, change)
    return expected


def test_each_file_is_reported_as_if_it_were_alone(
    tmp_path: Path, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds:
        table = small_files(tmp_path / str(seed))
        expected = damage(table, Random(seed))
        together = examine(ts.open(table.location).store).holders
        with monkeypatch.context() as patched:
            patched.setattr(data, "_TOGETHER", 1)
            assert examine(ts.open(table.location).store).holders == together
        reported = {(v.where, v.invariant) for v in together}
        assert {(path, i) for path, i in expected.items() if i} <= reported
        named = {v.where for v in together if v.where.endswith(".parquet")}
        assert named == {path for path, i in expected.items() if i}
