"""One batch that is larger than `write-buffer-size` is flushed piece by piece, as the same rows in small
batches are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts

BUFFER = 256 << 10


@pytest.mark.parametrize("producer", ["none", "input"])
def test_one_batch_above_the_write_buffer(lake: ts.Lake, seeds: range, producer: str) -> None:
    by = np.random.default_rng(seeds[0])
    rows = int(by.integers(60_000, 120_000))
    data = pa.table({"k": by.permutation(rows), "v": by.integers(0, 1 << 60, rows), "w": np.arange(rows)})
    table = lake.create_table(
        "t",
        schema={"k": ts.BIGINT, "v": ts.BIGINT, "w": ts.BIGINT},
        primary_key=["k"],
        options={
            "bucket": 1,
            "write-buffer-size": f"{BUFFER} b",
            "write-only": True,
            "changelog-producer": producer,
        },
    )
    table.write(data)
    table = table.refresh()
    files = table.inspect.files()
    counts = files["record_count"].to_pylist()
    assert sum(counts) == rows
    assert max(counts) * data.nbytes // rows <= 2 * BUFFER
    assert table.scan().to_arrow().sort_by("k").equals(data.sort_by("k").cast(table.scan().to_arrow().schema))


def test_the_newest_row_of_a_key_in_one_batch_counts(lake: ts.Lake, seeds: range) -> None:
    """Also where its rows are in several pieces."""
    keys = np.random.default_rng(seeds[0]).integers(0, 5_000, 80_000)
    options = {"bucket": 1, "write-buffer-size": f"{BUFFER} b", "write-only": True}
    schema = {"k": ts.BIGINT, "w": ts.BIGINT}
    table = lake.create_table("t", schema=schema, primary_key=["k"], options=options)
    table.write(pa.table({"k": keys, "w": np.arange(len(keys))}))
    rows = table.refresh().scan().to_arrow()
    newest = dict(zip(keys.tolist(), range(len(keys)), strict=True))
    assert dict(zip(rows["k"].to_pylist(), rows["w"].to_pylist(), strict=True)) == newest
    assert table.refresh().inspect.files().num_rows > 1


def test_a_buffer_of_no_bytes_that_another_engine_stored_is_one_of_a_byte(lake: ts.Lake) -> None:
    table = lake.create_table("t", schema={"k": ts.BIGINT}, primary_key=["k"], options={"bucket": 1})
    schema = replace(table.store.schema.with_options({"write-buffer-size": "0 b"}), id=1)
    assert table.store.schemas.commit(schema)
    table = ts.open(table.location)
    table.write([{"k": 1}, {"k": 2}])
    assert table.scan().count() == 2
    with pytest.raises(ts.InvalidRequest, match=r"'write-buffer-size' is '0'; it must be at least 1"):
        table.alter(ts.set_options({"write-buffer-size": 0}))
