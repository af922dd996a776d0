"""Which encoding a column gets, from a part of the rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablestore.core.options.table_options import TableOptions
from tablestore.format.data_format import FileSpec
from tablestore.format.parquet import encodings
from tablestore.format.parquet.data import ParquetEncoder
from tablestore.format.types.arrow_types import DataField
from tablestore.format.types.type_text import parse_type
from tablestore.io.fileio import LocalFileIO


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
    actual = encodings.choose(table, whole_bytes=table.nbytes)
    assert actual.other.get("_KEY_k") == actual.other.get("k")
    assert {"few", "flag"} <= set(actual.dictionary)
    assert {"_KEY_k", "k"} <= set(actual.other)
    assert "text" not in (*actual.dictionary, *actual.other)
    if rows > 2500:
        assert "sorted" in actual.dictionary
    assert "yes" not in (*actual.dictionary, *actual.other)


def test_small_files_have_no_dictionaries_but_those_that_come() -> None:
    table = columns(2_047)
    actual = encodings.choose(table, whole_bytes=table.nbytes)
    assert actual.dictionary == ()
    assert set(actual.other) == {"_KEY_k", "k", "few", "sorted", "day"}
    flag = table.schema.get_field_index("flag")
    encoded = table.set_column(flag, "flag", table["flag"].dictionary_encode())
    assert encodings.choose(encoded, whole_bytes=encoded.nbytes).dictionary == ("flag",)


def test_of_small_files_what_is_packed_already_is_not_compressed() -> None:
    assert encodings.choose(columns(500), whole_bytes=50_000).compressed == ("flag", "text", "yes")
    assert encodings.choose(columns(5_000), whole_bytes=500_000).compressed is None
    more_follow = encodings.choose(columns(500), whole_bytes=None)
    assert more_follow.compressed is None
    assert "flag" in more_follow.dictionary


@pytest.mark.parametrize(
    ("codec", "expected"), [("zstd", "ZSTD"), ("snappy", "SNAPPY"), ("none", "UNCOMPRESSED")]
)
def test_a_small_file_has_its_codec_where_values_are_plain(tmp_path: Path, codec: str, expected: str) -> None:
    inner = pa.struct({"a": pa.int64(), "m": pa.map_(pa.string(), pa.int32())})
    rows = pa.table(
        {
            "k": [1, 2],
            "d": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
            "t": ["x" * 99, None],
            "n": pa.array([[{"a": 1, "m": [("y", 2)]}], None], pa.list_(inner)),
        }
    )
    packed = {"k": "UNCOMPRESSED", "d": "UNCOMPRESSED"}
    assert written(tmp_path / "some", rows.select(["k", "d"]), codec) == packed
    leaves = ("a", "m.key_value.key", "m.key_value.value")
    plain = {"t": expected, **{f"n.list.element.{leaf}": expected for leaf in leaves}}
    assert written(tmp_path / "all", rows, codec) == packed | plain


def written(path: Path, rows: pa.Table, codec: str) -> dict[str, str]:
    """The codec of each column of a file that holds these rows."""
    kinds = {
        "k": "BIGINT",
        "d": "DECIMAL(9, 2)",
        "t": "STRING",
        "n": "ARRAY<ROW<a BIGINT, m MAP<STRING, INT>>>",
    }
    fields = [DataField(i, name, parse_type(kinds[name])) for i, name in enumerate(rows.column_names)]
    spec = FileSpec.of(TableOptions.parse({"file.compression": codec}))
    encoder = ParquetEncoder(LocalFileIO(), str(path), tuple(fields), spec)
    encoder.write(rows.to_batches()[0])
    encoder.close()
    assert pq.read_table(path).to_pylist() == rows.to_pylist()
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return {chunk.path_in_schema: chunk.compression for chunk in chunks}


def test_few_rows_of_many_bytes_are_not_small() -> None:
    table = pa.table({"k": np.arange(2_000), "same": ["x" * 600] * 2_000})
    assert encodings.choose(table, whole_bytes=table.nbytes).dictionary == ("same",)
