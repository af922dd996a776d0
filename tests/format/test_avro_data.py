"""Avro data files: the encoder's bytes mean what the schema says, for any reader; old and damaged files."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.errors import Corrupt, InvalidOption
from tablestore.core.options.table_options import TableOptions
from tablestore.format.avro import data as avro_data
from tablestore.format.avro import encode as avro_encode
from tablestore.format.avro.data import AvroEncoder
from tablestore.format.data_format import FileSpec
from tablestore.format.types.arrow_types import BIGINT, STRING, DataField, DataType, parse_type
from tablestore.io.fileio import LocalFileIO
from tests.format import samples

IO = LocalFileIO()


def columns_of(types: dict[str, DataType]) -> tuple[DataField, ...]:
    return tuple(DataField(i, name, t) for i, (name, t) in enumerate(types.items()))


def write(path: Path, columns: tuple[DataField, ...], rows: pa.Table, **options: str) -> Path:
    encoder = AvroEncoder(IO, str(path), columns, FileSpec.of(TableOptions.parse(options)))
    for batch in rows.to_batches():
        encoder.write(batch)
    assert encoder.close() == path.stat().st_size
    return path


def test_integers_take_as_many_bytes_as_they_need(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        numbers = [rng.randrange(-(2 ** rng.randrange(1, 64)), 2 ** rng.randrange(1, 64)) for _ in range(300)]
        numbers += [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 2**31, 2**63 - 1, -(2**63)]
        actual = avro_encode.varints(np.array(numbers, dtype=np.int64))
        out = io.BytesIO()
        for number in numbers:
            fastavro.schemaless_writer(out, "long", number)
        assert actual.data.tobytes() == out.getvalue()
        assert actual.lengths.sum() == len(out.getvalue())
    assert len(avro_encode.varints(np.array([], dtype=np.int64)).lengths) == 0


def test_another_reader_finds_the_values(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    types = samples.types_of(samples.PRIMITIVES, samples.NESTED)
    columns = (DataField(99, "k", BIGINT), *columns_of(types))
    for seed in seeds:
        rows = samples.table(types, 70, seed, years=(1, 9999))
        path = write(tmp_path / f"{seed}.avro", columns, rows.slice(3))
        with path.open("rb") as f:
            records = list(fastavro.reader(f))
        assert len(records) == 67
        plain = [
            n
            for n, t in types.items()
            if t.root in ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "VARCHAR", "VARBINARY")
        ]
        for name in ("k", *plain, "n_arr", "n_arr2"):
            assert [r[name] for r in records] == rows.column(name).slice(3).to_pylist(), name
        decimals = [None if v is None else Decimal(v) for v in rows.column("f_dec38").slice(3).to_pylist()]
        assert [r["f_dec38"] for r in records] == decimals
        maps = [None if v is None else dict(v) for v in rows.column("n_multi").slice(3).to_pylist()]
        assert [r["n_multi"] for r in records] == maps


def test_schemas_are_those_of_java() -> None:
    golden = Path(__file__).parents[1] / "golden" / "paimon-java" / "warehouse" / "j.db"
    for table in ("pk_nested_avro", "pk_all_types_avro"):
        fields = json.loads((golden / table / "schema" / "schema-0").read_bytes())["fields"]
        schema = avro_encode.file_schema(
            [DataField(f["id"], f["name"], parse_type(f["type"])) for f in fields]
        )
        with next((golden / table / "bucket-0").glob("*.avro")).open("rb") as f:
            theirs = json.loads(fastavro.reader(f).metadata["avro.schema"])
        names = [f["name"] for f in fields]
        assert schema == theirs | {"fields": [f for f in theirs["fields"] if f["name"] in names]}


@pytest.mark.parametrize("codec", ["zstd", "null", "none", "deflate", "gzip", "bzip2", "snappy"])
def test_codecs(tmp_path: Path, codec: str) -> None:
    columns = columns_of({"s": STRING})
    rows = pa.table({"s": ["word " * 9] * 20_000})
    path = write(tmp_path / "x.avro", columns, rows, **{"file.compression": codec})
    actual = pa.Table.from_batches(avro_data.read(IO, str(path), columns, batch_rows=3000))
    assert actual.equals(rows)
    assert (path.stat().st_size < rows.nbytes / 3) == (codec not in ("null", "none"))


def test_unknown_codecs_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"'lz4'; for Avro files it must be one of zstd"):
        AvroEncoder(IO, str(tmp_path / "x"), (), FileSpec.of(TableOptions.parse({"file.compression": "lz4"})))


def test_older_files_with_a_union_on_top(tmp_path: Path) -> None:
    columns = columns_of({"k": BIGINT, "s": STRING})
    schema = ["null", avro_encode.file_schema(columns)]
    path = tmp_path / "old.avro"
    with path.open("wb") as f:
        fastavro.writer(f, schema, [{"k": i, "s": None} for i in range(5)], codec="deflate")
    for some in (columns, columns[:1]):
        rows = pa.Table.from_batches(avro_data.read(IO, str(path), some, batch_rows=2))
        assert rows.column("k").to_pylist() == [0, 1, 2, 3, 4]


def test_huge_lengths_of_a_damaged_file_are_not_believed(tmp_path: Path) -> None:
    columns = columns_of({"s": STRING})
    sound = write(
        tmp_path / "x.avro", columns, pa.table({"s": ["a"]}), **{"file.compression": "null"}
    ).read_bytes()
    sync = sound[-16:]
    head = sound[: sound.index(sync) + 16]
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    for body in (b"\x02" + huge, huge + huge, b"\x02\x14\x02" + huge):
        path = tmp_path / "damaged.avro"
        path.write_bytes(head + body + b"abc")
        with pytest.raises(Corrupt, match="damaged"):
            list(avro_data.read(IO, str(path), columns, batch_rows=10))
