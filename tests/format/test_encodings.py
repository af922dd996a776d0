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


@pytest.mark.parametrize("rows", [2_048, 7_500, 100_000])
@pytest.mark.parametrize("chunks", [1, 3])
def test_the_choice_follows_the_values_whatever_the_rows(rows: int, chunks: int) -> None:
    table = columns(rows)
    if chunks > 1:
        table = pa.Table.from_batches(table.to_batches(max_chunksize=-(-rows // chunks)))
    found = encodings.choose(table)
    assert found.other.get("_KEY_k") == found.other.get("k")
    assert {"few", "flag"} <= set(found.dictionary)
    assert {"_KEY_k", "k"} <= set(found.other)
    assert "text" not in (*found.dictionary, *found.other)
    if rows > 2500:
        assert "sorted" in found.dictionary
    assert "yes" not in (*found.dictionary, *found.other)


def test_small_files_have_no_dictionaries_but_those_that_come() -> None:
    table = columns(2_047)
    found = encodings.choose(table)
    assert found.dictionary == ()
    assert set(found.other) == {"_KEY_k", "k", "few", "sorted", "day"}
    flag = table.schema.get_field_index("flag")
    held = table.set_column(flag, "flag", table["flag"].dictionary_encode())
    assert encodings.choose(held).dictionary == ("flag",)


def test_few_rows_of_many_bytes_are_not_small() -> None:
    table = pa.table({"k": np.arange(2_000), "same": ["x" * 600] * 2_000})
    assert encodings.choose(table).dictionary == ("same",)
