"""Checksums of a table's files: where they are, who looks at them, and when they go."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt
from tablestore.format import checksums
from tablestore.insight.check.check import examine
from tablestore.meta import manifest_cache
from tablestore.table.table import Table
from tests.tables import TableSpec

UNVERIFIED = {"tablestore.read.verify-checksums": "false"}


TABLE = TableSpec(
    {"k": ts.INT, "p": ts.INT, "v": ts.BIGINT},
    primary_key=("k", "p"),
    partition_by=("p",),
    options={"num-sorted-run.compaction-trigger": 4},
)


def written(path: Path, form: str, **options: str) -> Table:
    """A table after three commits to both of its partitions."""
    table = TABLE.create(path, {"file.format": form} | options)
    for i in range(3):
        table.write(rows(i))
    return table


def rows(salt: int) -> pa.Table:
    k = pa.array(range(60), pa.int32())
    p = pa.array([i % 2 for i in range(60)], pa.int32())
    return pa.table({"k": k, "p": p, "v": pa.array([1_000_003 * i + salt for i in range(60)], pa.int64())})


def data_names(t: Table) -> list[str]:
    return sorted(p.name for p in Path(t.location).glob("p=*/bucket-0/*"))


def checksum_names(t: Table) -> list[str]:
    return sorted(p.name for p in Path(t.location).glob("tablestore/checksums/*"))


def damage(path: Path) -> None:
    """Flip a bit of the values, which are not compressed."""
    data = bytearray(path.read_bytes())
    at = data.index((1_000_003 * 20).to_bytes(3, "little")) if path.suffix == ".parquet" else len(data) // 3
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_checksum_files_go_with_their_data_files(tmp_path: Path, form: str) -> None:
    t = written(tmp_path, form, **{"changelog-producer": "input"})
    assert checksum_names(t) == data_names(t) != []
    t.compact(full=True)
    t.tags.create("kept", snapshot=2)
    t.expire_snapshots(keep=1)
    assert checksum_names(t) == data_names(t)
    t.tags.delete("kept")
    assert examine(t.store).notes == []
    assert t.check() == []


def test_parquet_files_hold_their_own(tmp_path: Path) -> None:
    t = written(tmp_path, "parquet")
    assert checksum_names(t) == []
    for path in Path(t.location).rglob("*.parquet"):
        assert pl.read_parquet(path).height == 30
    assert examine(t.store).notes == []


def test_checksums_without_a_file_are_orphans(tmp_path: Path) -> None:
    t = written(tmp_path, "orc")
    folder = Path(t.location) / "tablestore" / "checksums"
    left = folder / "data-0a1b2c3d-4e5f-4a6b-8c7d-001122334455-0.orc"
    left.write_bytes(b"{}")
    os.utime(left, (0, 0))
    removed = t.remove_orphans(older_than="1 d", dry_run=False)
    assert [path for path, _ in removed.files] == [str(left)]
    assert checksum_names(t) == data_names(t)


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_damage_is_named_by_reads_by_compaction_and_by_check(tmp_path: Path, form: str) -> None:
    t = written(tmp_path, form, **{"file.compression": {"orc": "none", "avro": "null"}[form]})
    path = next(Path(t.location).glob(f"p=0/bucket-0/data-*.{form}"))
    damage(path)
    looks = (t.scan().to_arrow, t.scan(["p"]).to_arrow, lambda: t.get({"k": 4, "p": 0}))
    for act in (*looks, lambda: t.compact(full=True)):
        with pytest.raises(Corrupt, match=path.name):
            act()
    with pytest.raises(Corrupt) as e:
        t.with_options(UNVERIFIED).scan().to_arrow()
    assert "its bytes have the checksum" not in str(e.value)
    assert [path.name in str(v) for v in t.check()] == [True] * len(t.check()) != []


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_a_block_of_zeros_never_reaches_a_decoder(tmp_path: Path, form: str) -> None:
    """Decoders may give other rows then, or end the process."""
    t = written(tmp_path, form)
    sound = t.scan().to_arrow()
    path = next(Path(t.location).glob(f"p=0/bucket-0/data-*.{form}"))
    data = path.read_bytes()
    for at in range(0, len(data) - 64, 64):
        path.write_bytes(data[:at] + bytes(64) + data[at + 64 :])
        for act in (t.scan().to_arrow, lambda: t.get({"k": 4, "p": 0})):
            if data[at : at + 64] != bytes(64):
                with pytest.raises(Corrupt, match=r"its bytes have the checksum"):
                    act()
    path.write_bytes(data)
    assert t.scan().to_arrow() == sound


def test_a_damaged_page_is_named_by_every_read(tmp_path: Path) -> None:
    t = written(tmp_path, "parquet", **{"file.compression": "none"})
    sound = t.scan().to_arrow()
    path = next(Path(t.location).glob("p=0/bucket-0/data-*.parquet"))
    data = path.read_bytes()
    for at in range(4, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(Corrupt, match=path.name):
            t.scan().to_arrow()
        with pytest.raises(Corrupt, match=path.name):
            t.get({"k": 4, "p": 0})
    path.write_bytes(data)
    assert t.scan().to_arrow() == sound


def test_a_file_without_a_checksum_is_read_and_counted(tmp_path: Path) -> None:
    t = written(tmp_path, "orc")
    sound, folder = t.scan().to_arrow(), Path(t.location) / "tablestore" / "checksums"
    first, second, *_ = sorted(folder.iterdir())
    first.unlink()
    second.write_bytes(b"")  # as a power failure leaves it
    assert t.scan().to_arrow() == sound
    assert t.check() == []
    (note,) = examine(t.store).notes
    assert note.startswith("2 of ")


def test_a_damaged_checksum_file_is_named_by_check_alone(tmp_path: Path) -> None:
    t = written(tmp_path, "avro")
    sound = t.scan().to_arrow()
    path = next((Path(t.location) / "tablestore" / "checksums").iterdir())
    path.write_bytes(path.read_bytes().replace(b'"size"', b'"sizE"'))
    assert t.scan().to_arrow() == sound
    (violation,) = t.check()
    assert str(path) in violation.text


def shortened(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def exchanged(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("damage", [shortened, exchanged])
@pytest.mark.parametrize("form", ["orc", "avro"])
def test_a_wrong_checksum_file_goes_and_its_data_file_stays(
    tmp_path: Path, form: str, damage: Callable[[Path, Path], None]
) -> None:
    t = written(tmp_path, form, **{"changelog-producer": "input"})
    sound, files = t.scan().to_arrow(), data_names(t)
    for prefix in ("data-", "changelog-"):
        first, second, *_ = sorted((Path(t.location) / "tablestore" / "checksums").glob(f"{prefix}*"))
        damage(first, second)
        assert t.scan().to_arrow() == sound
        (violation,) = t.check()
        assert violation.where == str(first)
        assert first.name in t.mend(dry_run=False).text
        assert first.name not in checksum_names(t)
        assert t.check() == []
    assert (t.refresh().scan().to_arrow(), data_names(t)) == (sound, files)
    assert t.store.snapshots.ids() == [1, 2, 3]
    assert t.tags.names() == []


def test_a_checksum_file_of_an_older_version_names_no_file(tmp_path: Path) -> None:
    t = written(tmp_path, "avro", **{"file.compression": "null"})
    path = next(Path(t.location).glob("p=0/bucket-0/data-*.avro"))
    beside = Path(t.location) / "tablestore" / "checksums" / path.name
    body = json.loads(beside.read_bytes())
    assert body.pop("file") == path.name
    del body["tablestore.crc32"]
    beside.write_bytes(checksums.sealed(json.dumps(body).encode()))
    assert t.check() == []
    damage(path)
    with pytest.raises(Corrupt, match=path.name):
        t.scan().to_arrow()


def test_metadata_that_other_engines_write_anew_have_none(tmp_path: Path) -> None:
    t = written(tmp_path, "parquet")
    path = Path(t.location) / "snapshot" / "snapshot-3"
    body = json.loads(path.read_bytes())
    assert body.pop("tablestore.crc32")
    path.write_text(json.dumps(body, indent=2))  # as a program that knows its own fields alone
    assert ts.open(t.location).check() == []
    (note,) = examine(ts.open(t.location).store).notes
    assert note.startswith("1 of ")


@pytest.mark.parametrize(
    "kind", ["manifest/manifest-[0-9a-f]*", "manifest/manifest-list-*", "snapshot/snapshot-3"]
)
def test_a_damaged_metadata_file_is_named_whatever_bit_it_is(tmp_path: Path, kind: str) -> None:
    t = written(tmp_path, "parquet", **{"manifest.compression": "none"})
    for path in sorted(Path(t.location).glob(kind)):
        data = path.read_bytes()
        path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    manifest_cache.LOCAL.clear()
    with pytest.raises(Corrupt):
        ts.open(t.location).scan().to_arrow()
