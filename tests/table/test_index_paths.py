"""Index files beside the data (`index-file-in-data-file-dir`): written, read, compacted, expired there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col

BESIDE = {"index-file-in-data-file-dir": True, "deletion-vectors.enabled": True}


def rows(*keys: int, v: int = 0) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": [v] * len(keys)})


@pytest.mark.parametrize(
    ("key", "options"),
    [(["k"], {"bucket": 1, "num-levels": 4}), (["k"], {"bucket": -1}), ([], {"bucket": -1})],
)
def test_index_files_lie_in_the_bucket_of_their_rows(tmp_path: Path, key: list[str], options: dict) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.BIGINT}, primary_key=key, options={**BESIDE, **options}
    )
    t.write(rows(*range(2000)))
    t.delete(col("k").is_in([3, 5, 7]))
    named = {e.file.file_name for e in t.store.manifests.index_entries(t.store.snapshots.latest())}
    assert named
    assert named <= {p.name for p in Path(t.location, "bucket-0").iterdir()}
    assert not Path(t.location, "index").exists()
    t.write(rows(3, 4000))
    t = ts.open(t.location)
    assert t.scan().to_arrow().num_rows == 1999
    assert t.check() == []
    t.compact(full=True)
    t.expire_snapshots(keep=1)
    assert ts.open(t.location).scan().to_arrow().num_rows == 1999
    there = {p.name for p in Path(t.location, "bucket-0").iterdir() if p.name.startswith("index-")}
    live = t.store.manifests.index_entries(t.store.snapshots.latest())
    assert there == {e.file.file_name for e in live}
    assert t.check() == []
