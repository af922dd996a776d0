"""Damaged data files of every format are named. Sound ones are compared in tests/read/test_golden.py."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from tablestore.core.errors import Corrupt
from tablestore.format import datafile
from tablestore.format.data_format import FileRequest
from tablestore.io.fileio import LocalFileIO
from tests.read import golden


@pytest.mark.parametrize(
    "table", ["pk_orc", "pk_avro", "pk_levels", "pk_nested_avro", "pk_nested_orc", "pk_nested_parquet"]
)
def test_damage_is_reported_with_the_file(tmp_path: Path, seeds: tuple[int, ...], table: str) -> None:
    store = golden.java(table)
    e = store.manifests.live_entries(store.snapshots.latest())[0]
    sound = Path(store.file_path(e.partition, e.bucket, e.file)).read_bytes()
    path = tmp_path / e.file.file_name
    names = store.schema.names

    def read(data: bytes, size: int | None = None) -> int:
        path.write_bytes(data)
        batches = datafile.read(
            LocalFileIO(), str(path), store.schema, FileRequest(names, batch_rows=7), file_size=size
        )
        return sum(b.num_rows for b in batches)

    assert read(sound) == e.file.row_count
    for data in (b"", sound[:4], sound[: len(sound) // 2], sound[:-3]):
        with pytest.raises(Corrupt, match=path.name):
            read(data)
    with pytest.raises(Corrupt, match="the manifest says"):
        read(sound, len(sound) + 1)
    for seed in seeds:
        rng = random.Random(seed)
        for _ in range(10):
            at = rng.randrange(len(sound))
            data = sound[:at] + bytes([rng.randrange(256)]) + sound[at + 1 :]
            with contextlib.suppress(Corrupt):  # it may go unseen, but may not come out as another error
                read(data)
    path.unlink()
    with pytest.raises(Corrupt, match="the file is missing"):
        list(datafile.read(LocalFileIO(), str(path), store.schema, FileRequest(names)))
