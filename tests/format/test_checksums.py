"""Checksums of metadata, and of the parts of Parquet files that Parquet's own leave out."""

from __future__ import annotations

import contextlib
import io
import json
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablestore.core.errors import Corrupt
from tablestore.format import checksums
from tablestore.format.parquet import thrift_compact
from tablestore.format.parquet.checked_file import (
    CheckedFile,
    CheckedSink,
    PageHeaders,
    ending,
    joined_content,
    open_checked,
    open_pages,
)
from tablestore.format.parquet.pages import PageLayout
from tablestore.io.fileio import LocalFileIO

UUID = "0a1b2c3d-4e5f-4a6b-8c7d-001122334455"


def parquet(rows: int, **options: object) -> bytes:
    """A file as the encoder makes it: numbers, text with nulls, lists; a dictionary for `kind`."""
    ids = range(rows)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"name {i * 7919 % 1009}" if i % 7 else None for i in ids]),
            "kind": pa.array(["abc"[i % 3] for i in ids]),
            "list": pa.array([[i, i + 1] for i in ids]),
        }
    )
    target = io.BytesIO()
    target.close = lambda: None  # type: ignore[method-assign]  # it is read afterwards
    sink = CheckedSink(target)
    settings = {"max_rows_per_page": 1_000, "use_dictionary": ["kind"], "write_page_checksum": True}
    writer = pq.ParquetWriter(sink, table.schema, **(settings | options))
    writer.write_table(table, row_group_size=max(rows // 2, 1))
    sink.ends()
    writer.close()
    assert sink.finish() == len(target.getvalue())
    return target.getvalue()


def read(path: Path) -> pa.Table:
    with open_checked(LocalFileIO(), str(path)) as source:
        return pq.ParquetFile(source, page_checksum_verification=True).read()


@pytest.mark.parametrize("text", [b'{\n  "a": 1\n}', b'{"nextSnapshot": 5}'])
def test_a_sealed_text_is_the_same_json_with_one_more_field(text: bytes) -> None:
    sealed = checksums.sealed(text)
    assert json.loads(sealed).keys() - json.loads(text).keys() == {"tablestore.crc32"}
    assert json.loads(checksums.unsealed(sealed)) == json.loads(text)
    assert checksums.sealed(sealed) == sealed
    assert checksums.require_intact(sealed, "here") == sealed
    assert checksums.is_sealed(sealed)
    assert not checksums.is_sealed(text)


def test_no_flipped_bit_of_a_sealed_text_changes_what_it_says() -> None:
    text = b'{\n  "id": 3,\n  "properties": {\n    "tablestore.position.me": "7"\n  }\n}'
    sealed, said = checksums.sealed(text), json.loads(text)
    for at in range(len(sealed)):
        for bit in range(8):
            flipped = sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :]
            try:
                document = json.loads(checksums.require_intact(flipped, "here"))
            except (Corrupt, ValueError):
                continue
            assert {key: document.get(key) for key in said} == said


def test_every_flipped_bit_of_a_checksum_itself_is_named() -> None:
    """Also one that makes a digit something else: `a` a grave accent, `f` a `g`."""
    data = checksums.sealed(b'{\n  "id" : 1\n}')
    first = len(data) - len('89abcdef"\n}')
    for at in range(first, first + 8):
        for bit in range(8):
            flipped = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            with pytest.raises(Corrupt):
                checksums.require_intact(flipped, "/snapshot-1")


def test_a_text_that_another_program_wrote_anew_has_no_checksum() -> None:
    body = json.loads(checksums.sealed(b'{\n  "id": 3\n}'))
    again = json.dumps(body | {"id": 4}, separators=(",", " : ")).encode()
    assert json.loads(checksums.require_intact(again, "here"))["id"] == 4


def test_a_name_holds_the_checksum_of_its_file() -> None:
    name = f"manifest-{checksums.named(UUID, b'some bytes')}-12"
    assert name == f"manifest-0a1b2c3d-4e5f-8c32-8c7d-0011{zlib.crc32(b'some bytes'):08x}-12"
    assert checksums.require_named(f"/t/manifest/{name}", b"some bytes") == b"some bytes"
    with pytest.raises(Corrupt, match="checksum"):
        checksums.require_named(f"/t/manifest/{name}", b"some byteS")
    beside = checksums.beside("/t/bucket-0/data-1.parquet", b"x", ".index")
    assert checksums.is_named(beside)
    with pytest.raises(Corrupt, match="checksum"):
        checksums.require_named(beside, b"y")


def test_other_names_hold_none() -> None:
    for name in (f"manifest-{UUID}-0", f"{checksums.named(UUID, b'x')}/manifest-{UUID}-0", "data-1.parquet"):
        assert not checksums.is_named(name)
        assert checksums.require_named(name, b"any") == b"any"


@pytest.mark.parametrize("rows", [50, 20_000])
def test_other_programs_read_checked_files(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet(rows))
    assert pq.read_table(path) == read(path)
    assert read(path).num_rows == rows


def test_every_flip_in_a_page_header_or_the_footer_is_named(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    path, data = tmp_path / "a.parquet", parquet(20_000, compression="none")
    path.write_bytes(data)
    with open_pages(LocalFileIO(), str(path)) as opened:
        assert isinstance(opened, CheckedFile)
        headers = opened.pages
    length = int.from_bytes(data[-8:-4], "little")
    spans = [range(s, s + n) for s, n in zip(headers.starts.tolist(), headers.lengths.tolist(), strict=True)]
    assert len(spans) > 80
    places = [at for span in spans for at in span][:: max(1, 60 // len(seeds))]
    places += [*range(len(data) - 8 - length, len(data), max(1, 50 // len(seeds)))]
    for at in places:
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        with pytest.raises((ValueError, OSError, pa.ArrowException)):
            read(path)


def test_every_flip_in_a_small_file_is_named_or_changes_nothing(tmp_path: Path) -> None:
    path, data = tmp_path / "a.parquet", parquet(20)
    path.write_bytes(data)
    sound = read(path)
    for at in range(0, len(data), 3):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        try:
            content = read(path)
        except (ValueError, OSError, pa.ArrowException):
            continue
        assert content == sound


def test_files_of_others_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"a": np.arange(100_000)})
    pq.write_table(table, path, compression="none")
    assert read(path) == table
    pq.write_table(read(path), path)  # metadata of one file in another tell nothing of its bytes
    assert read(path) == table


def test_headers_with_a_checksum_are_parsed_the_short_way_too() -> None:
    for checked in (False, True):
        target = pa.BufferOutputStream()
        table = pa.table({"a": np.arange(10), "b": [f"x{i}" for i in range(10)]})
        pq.write_table(table, target, write_page_checksum=checked, use_dictionary=False)
        data = target.getvalue().to_pybytes()
        for column in range(2):
            at = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(column).data_page_offset
            short, whole = thrift_compact.usual(data[at : at + 512]), thrift_compact.any_header(data[at:])
            assert short == whole
            assert thrift_compact.page_sizes(data[at:]) == (whole.size, whole.values)


def uncounted(data: bytes) -> bytes:
    """The same file as earlier versions made it: its checksums do not say how many values a page has."""
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    length = int.from_bytes(data[footer - 20 : footer - 16], "little")
    begin = footer - 20 - length
    assert data[begin : begin + 1] == b"r"
    pages = PageHeaders.of(b"r", data[begin + 1 : begin + length])
    content = b"p" + pages.numbers(counted=False)
    old = data[:begin] + ending(content, data[footer:])
    assert joined_content([PageHeaders.of(b"p", content[1:]), pages])[:1] == b"p"
    assert joined_content([pages]) == data[begin : begin + length]
    return old


def test_the_pages_of_rows_are_known_without_reading_a_header_and_by_reading_them_in_older_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, reads = parquet(20_000), []
    paths = {"new": tmp_path / "new.parquet", "old": tmp_path / "old.parquet"}
    paths["new"].write_bytes(data)
    paths["old"].write_bytes(uncounted(data))
    assert read(paths["old"]) == read(paths["new"])
    read_at = CheckedFile.read_at
    monkeypatch.setattr(CheckedFile, "read_at", lambda f, n, at: reads.append(at) or read_at(f, n, at))
    names, places = ["kind", "name", "id"], np.array([7_777, 9_001])
    stretches, rows, counts = {}, {}, {}
    for age, path in paths.items():
        with contextlib.closing(open_pages(LocalFileIO(), str(path))) as source:
            layout = PageLayout(source)
            reads.clear()
            stretches[age] = [part.tolist() for part in layout.stretches(source, 1, places, names)]
            counts[age] = len(reads)
            rows[age] = layout.read(source, 1, tuple(map(np.array, stretches[age])), names)
    assert stretches["new"] == stretches["old"] == [[7_000, 9_000], [8_000, 10_000]]
    assert rows["new"] == rows["old"]
    assert rows["new"].column("id").to_pylist() == [*range(17_000, 18_000), *range(19_000, 20_000)]
    assert counts == {"new": 0, "old": 3 * 10 + 1}  # one for each page, one more for the dictionary
