"""The deletion vectors of one bucket: marked, dropped, written anew only if something changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tablestore.core.errors import Unavailable
from tablestore.format.manifests.index_manifest import HASH, IndexFileMeta
from tablestore.io.fileio import LocalFileIO
from tablestore.lsm.compaction.deletions import BucketDeletions
from tests.faults import FaultyIO
from tests.lsm.bucket import LiveBucket


def of(path: Path, *live: IndexFileMeta, io: object = None) -> BucketDeletions:
    def where(file: IndexFileMeta | str) -> str:
        return str(path / (file if isinstance(file, str) else file.file_name))

    bucket = LiveBucket(str(path), io=io or LocalFileIO()).value
    return BucketDeletions(replace(bucket, index_path=where, index_files=live))


def test_marks_are_read_back_from_the_container(tmp_path: Path) -> None:
    first = of(tmp_path)
    first.mark("a", np.array([3, 1]))
    first.mark("a", np.array([1, 9]))
    first.mark("b", np.array([0]))
    (new,), replaced = first.flush()
    assert (replaced, new.row_count, new.file_size) == ((), 2, (tmp_path / new.file_name).stat().st_size)
    again = of(tmp_path, new)
    assert again.names() == {"a", "b"}
    assert again.vector("a").positions.tolist() == [1, 3, 9]
    assert again.vector("c") is None


def test_nothing_changed_writes_nothing(tmp_path: Path) -> None:
    first = of(tmp_path)
    first.mark("a", np.array([3]))
    (new,), _ = first.flush()
    again = of(tmp_path, new)
    again.mark("a", np.array([3]))
    again.drop(["never marked"])
    assert again.flush() == ((), ())
    assert len(list(tmp_path.iterdir())) == 1


def test_a_changed_container_replaces_the_live_one(tmp_path: Path) -> None:
    first = of(tmp_path)
    first.mark("a", np.array([3]))
    first.mark("b", np.array([4]))
    (old,), _ = first.flush()
    again = of(tmp_path, old, IndexFileMeta(HASH, "hashes", 4, 1))
    again.drop(["a"])
    (new,), replaced = again.flush()
    assert replaced == (old,)
    assert [r.data_file for r in new.dv_ranges] == ["b"]
    again.drop(["b"])
    assert again.flush() == ((), (new,)), "without deleted rows there is no container"


def test_a_container_that_cannot_be_written_is_deleted(tmp_path: Path) -> None:
    some = of(tmp_path, io=FaultyIO(0, "error after"))
    some.mark("a", np.array([3]))
    with pytest.raises(Unavailable):
        some.flush()
    assert list(tmp_path.iterdir()) == []
