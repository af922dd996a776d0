"""Rows by their pages: whatever the pages' sizes, versions, codecs and indexes, the rows of a plain read."""

from __future__ import annotations

import random
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablestore.format.parquet import thrift_compact as thrift
from tablestore.format.parquet.pages import PageLayout, _indexed, _walked
from tablestore.format.parquet.thrift_compact import any_header, usual

GOLDEN = Path(__file__).parents[1] / "golden"
ROWS = 5_000


def table(rng: random.Random) -> pa.Table:
    numbers = range(ROWS)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "few": pa.array([f"é{rng.randrange(5)}" for _ in numbers]),
            "text": pa.array([None if rng.random() < 0.1 else "x" * rng.randrange(60) for _ in numbers]),
            "d": pa.array([Decimal(rng.randrange(-999, 999)) / 100 for _ in numbers], pa.decimal128(30, 2)),
            "b": pa.array([rng.random() < 0.5 for _ in numbers]),
            "nested": pa.array([[n, n] for n in numbers], pa.list_(pa.int32())),
            "f": pa.array([rng.random() for _ in numbers], pa.float32()),
        }
    )


FLAT = ["f", "few", "text", "d", "b", "k"]
FORMS: dict[str, dict[str, Any]] = {
    "as we write": {"max_rows_per_page": 300, "compression": "zstd"},
    "with an index": {"max_rows_per_page": 300, "write_page_index": True, "compression": "zstd"},
    "without index": {"max_rows_per_page": 300},
    "pages of version 2": {"max_rows_per_page": 200, "data_page_version": "2.0", "compression": "gzip"},
    "pages of many sizes": {"data_page_size": 900, "write_batch_size": 50, "write_page_index": True},
    "one page a column": {"compression": "none", "write_page_index": True},
    "no dictionary": {"use_dictionary": False, "max_rows_per_page": 64, "compression": "lz4"},
    "delta": {
        "use_dictionary": ["few"],
        "column_encoding": {"k": "DELTA_BINARY_PACKED"},
        "max_rows_per_page": 500,
        "write_page_index": True,
        "store_decimal_as_integer": True,
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_pages_are_those_of_a_plain_read(tmp_path: Path, seeds: tuple[int, ...], form: str) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        rows, path = table(rng), f"{tmp_path}/{seed}.parquet"
        pq.write_table(rows, path, row_group_size=rng.choice([ROWS, 1_700]), **FORMS[form])
        with pa.OSFile(path) as source:
            layout = PageLayout(source)
            assert layout.rows == ROWS
            for _ in range(12):
                group = rng.randrange(layout.footer.num_row_groups)
                names = rng.sample(FLAT, rng.randrange(1, len(FLAT) + 1))
                count = layout.group_rows(group)
                places = np.sort(rng.sample(range(count), rng.choice([1, 1, 3, 40])))
                begins, ends = layout.stretches(source, group, places, names)
                encoded = ["few"] if "few" in names and rng.random() < 0.5 else []
                content = layout.read(source, group, (begins, ends), names, dictionary=encoded)
                wanted = np.concatenate([np.arange(b, e) for b, e in zip(begins, ends, strict=True)])
                assert set(places) <= set(wanted)
                plain = rows.slice(int(layout.starts[group]), count).select(names).take(wanted)
                assert pa.Table.from_batches([content]).cast(plain.schema).equals(plain)
                last = int(places[-1] - begins[-1] + 1)
                fewer = layout.read(source, group, (begins, ends), names, last=last)
                assert fewer.num_rows == len(wanted) - (ends[-1] - begins[-1]) + last


def test_few_rows_cost_few_pages(tmp_path: Path) -> None:
    path = f"{tmp_path}/x.parquet"
    pq.write_table(table(random.Random(1)), path, max_rows_per_page=100, write_page_index=True)
    with pa.OSFile(path) as source:
        begins, ends = PageLayout(source).stretches(source, 0, np.array([0, 99, 4_250]), ["k", "text"])
    assert (begins.tolist(), ends.tolist()) == ([0, 4_200], [100, 4_300])


def test_the_offset_index_agrees_with_the_page_headers(tmp_path: Path) -> None:
    path = f"{tmp_path}/x.parquet"
    for rows_a_page in (64, 700, ROWS):
        pq.write_table(table(random.Random(2)), path, max_rows_per_page=rows_a_page, write_page_index=True)
        with pa.OSFile(path) as source:
            layout = PageLayout(source)
            for name in FLAT:
                chunk = layout._known.groups[0][name]
                by_index, by_header = _indexed(source, chunk), _walked(source, chunk)
                assert by_index is not None
                assert by_index.dictionary == by_header.dictionary
                assert by_index.firsts.tolist() == by_header.firsts.tolist()
                assert by_index.offsets.tolist() == by_header.offsets.tolist()


def test_columns_that_are_nested_or_of_96_bits_are_left_to_others(tmp_path: Path) -> None:
    path = f"{tmp_path}/x.parquet"
    times = pa.array([1, 2, 3], pa.timestamp("ns"))
    nested = pa.array([{"a": 1}] * 3)
    rows = pa.table({"s": nested, "t": times, "k": [1, 2, 3], "l": [[1], [], [2]]})
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True)
    with pa.OSFile(path) as source:
        layout = PageLayout(source)
        assert [layout.reads([n]) for n in ("s", "t", "k", "l", "a")] == [
            False,
            False,
            True,
            False,
            False,
        ]
        stretch = layout.stretches(source, 0, np.array([1]), ["k"])
        assert layout.read(source, 0, stretch, ["k"]).to_pydict() == {"k": [1, 2, 3]}


def test_files_of_the_original_are_read_by_their_pages() -> None:
    seen = 0
    for path in sorted(GOLDEN.rglob("*.parquet"))[::7]:
        whole = pq.read_table(path)
        with pa.OSFile(str(path)) as source:
            layout = PageLayout(source)
            names = [n for n in whole.schema.names if layout.reads([n])]
            if not names or not layout.rows:
                continue
            count = layout.group_rows(0)
            stretches = layout.stretches(source, 0, np.array([count - 1]), names)
            content = layout.read(source, 0, stretches, names)
            plain = whole.select(names).slice(int(stretches[0][0]), content.num_rows)
            assert pa.Table.from_batches([content]).cast(plain.schema).equals(plain), path
            seen += 1
    assert seen > 10


def test_damaged_footers_and_pages_are_no_endless_walk(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    path = f"{tmp_path}/x.parquet"
    pq.write_table(table(random.Random(3)).select(FLAT), path, max_rows_per_page=100, write_page_index=True)
    data = Path(path).read_bytes()
    for seed in seeds:
        rng, read, refused = random.Random(seed), 0, 0
        for _ in range(60):
            broken = bytearray(data)
            (footer,) = struct.unpack("<I", data[-8:-4])
            start = rng.choice([4, len(data) - 8 - footer - 2_000])
            for _ in range(rng.randrange(1, 4)):
                broken[rng.randrange(start, len(data) - 8)] = rng.randrange(256)
            source = pa.BufferReader(bytes(broken))
            try:
                layout = PageLayout(source)
                stretches = layout.stretches(source, 0, np.array([1_234]), FLAT)
                content = layout.read(source, 0, stretches, FLAT)
            except Exception:  # as anything: `complaints` makes Corrupt of it
                refused += 1
                continue
            read += content.num_rows <= ROWS
        assert read + refused == 60, seed
        assert refused > 5, seed


def test_structs_are_written_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(table(random.Random(4)), path, write_page_index=True)
    data = path.read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    with pa.OSFile(str(path)) as source:
        assert thrift.footer_bytes(thrift.parquet_footer(source)) == data[-8 - length :]


def test_usual_headers_are_read_as_any_others(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    rng = random.Random(seeds[0])
    texts = [None, "", "é" * 30, "z" * 63, "z" * 64, "z" * 65, "y" * 200, "y" * 20_000]
    columns = {
        "text": [rng.choice(texts) for _ in range(ROWS)],
        "full": [rng.choice(texts[1:4]) for _ in range(ROWS)],
        "k": range(ROWS),
        "few": [n % 3 if n % 2 else None for n in range(ROWS)],
        "f": pa.array([rng.choice([0.0, -0.0, 1.5]) for _ in range(ROWS)], pa.float32()),
    }
    count = 0
    for number, form in enumerate(FORMS.values()):
        form = {k: v for k, v in form.items() if k not in ("column_encoding", "use_dictionary")}
        path = str(tmp_path / f"{number}.parquet")
        pq.write_table(pa.table(columns), path, use_dictionary=rng.choice([True, ["few"]]), **form)
        with pa.OSFile(path) as source:
            layout = PageLayout(source)
            for name in columns:
                for at in layout._of(source, 0, name).offsets[:-1].tolist():
                    data = source.read_at(1 << 16, at)
                    actual = usual(data)
                    count += actual is not None
                    assert actual in (None, any_header(data)), (name, at)
                    try:
                        short = usual(data[: rng.randrange(80)])
                    except IndexError:  # who asks reads more
                        continue
                    assert short in (None, actual), (name, at)
    assert count > 100
