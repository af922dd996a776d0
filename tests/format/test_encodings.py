"""Which encoding a column gets, from a part of the rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tablestore.format.parquet import encodings


def columns(rows: int) -> pa.Table:
    places = np.arange(rows)
    return pa.table(
        {
            "_KEY_k": places,
            "k": places,
            "few": pa.array((places % 7).astype(np.int32)),
            "sorted": places // 8,  # neighbours are alike: eight rows stand for a value
            "flag": pa.array(["ANR"[i % 3] for i in places]),
            "text": pa.array([f"value {i}" for i in places]),
            "day": pa.array((places * 13 % 2500).astype(np.int32)).cast(pa.date32()),
            "yes": pa.array(places % 2 == 0),
        }
    )


@pytest.mark.parametrize("rows", [1, 100, 750, 7_500, 100_000])
@pytest.mark.parametrize("chunks", [1, 3])
def test_the_choice_is_the_same_for_small_and_large_files(rows: int, chunks: int) -> None:
    table = columns(rows)
    if chunks > 1:
        table = pa.Table.from_batches(table.to_batches(max_chunksize=-(-rows // chunks)))
    found = encodings.choose(table)
    assert found.other.get("_KEY_k") == found.other.get("k")
    if rows > 1:
        assert {"few", "flag"} <= set(found.dictionary)
        assert {"_KEY_k", "k"} <= set(found.other)
        assert "text" not in (*found.dictionary, *found.other)
    if rows > 2500:
        assert "sorted" in found.dictionary
    assert "yes" not in (*found.dictionary, *found.other)
