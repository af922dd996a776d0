"""Java Paimon lives with our checksums: it reads such files, and what it writes anew has none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.insight.check.check import examine
from tests.peers.java_paimon import JavaPaimon


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
@pytest.mark.sample(1)
def test_java_reads_tags_and_compacts_files_with_checksums(
    java: JavaPaimon, tmp_path: Path, form: str
) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.INT, "v": ts.STRING},
        primary_key=["k"],
        options={
            "bucket": 1,
            "file.format": form,
            "write-only": True,
            "file-index.bloom-filter.columns": "v",
            "file-index.in-manifest-threshold": "0 b",
        },
    )
    for i in range(3):
        t.write(
            pa.table(
                {"k": pa.array(range(i, 30_000), pa.int32()), "v": [f"{i} {n}" for n in range(i, 30_000)]}
            )
        )
    ours = t.scan().to_arrow().sort_by("k").to_pydict()
    read = java.rows(t.location)
    assert {row[0]: row[1] for row in read} == dict(zip(ours["k"], ours["v"], strict=True))
    java.create_tag(t.location, "theirs")
    java.compact(t.location, full=True, options={"write-only": "false"})
    again = ts.open(t.location)
    assert again.scan().to_arrow().sort_by("k").to_pydict() == ours
    assert again.at(tag="theirs").scan().to_arrow().sort_by("k").to_pydict() == ours
    assert again.check() == []
    (note,) = examine(again.store).notes
    assert "files have no checksum" in note
    again.compact(full=True)
    assert again.refresh().check() == []
