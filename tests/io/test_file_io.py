"""What every FileIO promises, tried on the local file system and on an object store in memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import obstore.store
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablestore.io import fileio
from tablestore.io.fileio import FileIO, LocalFileIO, Sync
from tablestore.io.object_store import ObjectStoreFileIO
from tablestore.io.routed import RoutedFileIO


@dataclass(frozen=True)
class FilePlace:
    """A FileIO and an empty directory of it."""

    io: FileIO
    root: str

    def at(self, *parts: str) -> str:
        return "/".join([self.root, *parts])


def memory_io(**named: Any) -> ObjectStoreFileIO:
    """An object store of this process; buckets come into being when they are named."""
    buckets: dict[str, Any] = {}
    return ObjectStoreFileIO(
        open_bucket=lambda name, _: buckets.setdefault(name, obstore.store.MemoryStore()), **named
    )


@pytest.fixture(params=["local", "objects", "routed"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> FilePlace:
    if request.param == "local":
        return FilePlace(LocalFileIO(), str(tmp_path / "root"))
    if request.param == "objects":
        return FilePlace(memory_io(), "s3://bucket/some/root")
    return FilePlace(RoutedFileIO(LocalFileIO(), memory_io()), "s3://bucket/some/root")


def names(place: FilePlace, *parts: str, **named: bool) -> list[str]:
    return [s.name for s in place.io.list(place.at(*parts) if parts else place.root, **named)]


def test_a_name_is_taken_once(place: FilePlace) -> None:
    assert place.io.write_new(place.at("snapshot", "snapshot-1"), b"mine")
    assert not place.io.write_new(place.at("snapshot", "snapshot-1"), b"yours")
    assert place.io.read(place.at("snapshot", "snapshot-1")) == b"mine"
    assert names(place, "snapshot") == ["snapshot-1"], "nothing else is left behind"


def test_of_many_takers_one_wins(place: FilePlace) -> None:
    place.io.write(place.at("x", "there"), b"")
    won: list[int] = []
    start = threading.Barrier(8)

    def take(i: int) -> None:
        start.wait()
        if place.io.write_new(place.at("x", "name"), str(i).encode()):
            won.append(i)

    threads = [threading.Thread(target=take, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(won) == 1
    assert place.io.read(place.at("x", "name")) == str(won[0]).encode()


def test_what_is_absent_says_so(place: FilePlace) -> None:
    for verb in (place.io.read, place.io.open_input, place.io.size):
        with pytest.raises(FileNotFoundError):
            verb(place.at("no", "such"))
    assert place.io.list(place.at("no")) == []
    assert not place.io.is_dir(place.at("no"))
    place.io.delete(place.at("no", "such"))
    place.io.delete_tree(place.at("no"))


def test_a_listing_shows_files_and_directories_by_name(place: FilePlace) -> None:
    place.io.write(place.at("b"), b"12")
    place.io.write(place.at("a", "deep", "file"), b"1")
    place.io.write(place.at(".hidden.tmp"), b"1")
    place.io.make_dir(place.at("empty"))
    actual = place.io.list(place.root)
    assert [(s.name, s.is_dir) for s in actual] == [("a", True), ("b", False), ("empty", True)]
    assert actual[1].size == 2
    assert actual[1].modified_ms > 1_600_000_000_000
    assert names(place, "empty", hidden=True) == []
    assert names(place, hidden=True) == [".hidden.tmp", "a", "b", "empty"]
    assert names(place, "a") == ["deep"]
    assert [place.io.is_dir(place.at(n)) for n in ("a", "b", "empty", "c")] == [True, False, True, False]
    assert [place.io.exists(place.at(n)) for n in ("b", "c")] == [True, False]


def test_a_prefix_is_not_a_directory(place: FilePlace) -> None:
    place.io.write(place.at("orders", "f"), b"1")
    place.io.write(place.at("orders_old", "f"), b"2")
    assert not place.io.is_dir(place.at("order"))
    place.io.delete_tree(place.at("orders"))
    assert names(place) == ["orders_old"]


@pytest.mark.parametrize("name", ["a=x%2Fy%3A", "ä中[z]", "a b&+~,;@!$()", "q=|<>'\"", "%09", "-"])
def test_any_partition_name_can_be_a_directory(place: FilePlace, name: str) -> None:
    place.io.write(place.at(name, "f"), b"1")
    assert names(place) == [name]
    assert place.io.read(place.at(name, "f")) == b"1"
    assert place.io.size(place.at(name, "f")) == 1


def test_replace_changes_a_whole_file(place: FilePlace) -> None:
    place.io.replace(place.at("LATEST"), b"10")
    place.io.replace(place.at("LATEST"), b"9")
    assert place.io.read(place.at("LATEST")) == b"9"


def test_an_empty_directory_can_be_removed(place: FilePlace) -> None:
    place.io.make_dir(place.at("d"))
    place.io.write(place.at("full", "f"), b"1")
    assert not place.io.delete_empty(place.at("full"))
    assert place.io.delete_empty(place.at("d"))
    assert names(place) == ["full"]


def test_a_directory_moves_with_all_it_holds(place: FilePlace) -> None:
    place.io.write(place.at("t", "schema", "schema-0"), b"s")
    place.io.write(place.at("t", "bucket-0", "f"), b"f")
    place.io.move(place.at("t"), place.at("elsewhere", "u"))
    assert not place.io.is_dir(place.at("t"))
    assert place.io.read(place.at("elsewhere", "u", "schema", "schema-0")) == b"s"
    assert place.io.read(place.at("elsewhere", "u", "bucket-0", "f")) == b"f"


def test_a_file_moves(place: FilePlace) -> None:
    place.io.write(place.at("d", ".f.coming"), b"f")
    place.io.move(place.at("d", ".f.coming"), place.at("d", "f"))
    assert names(place, "d", hidden=True) == ["f"]
    assert place.io.read(place.at("d", "f")) == b"f"
    with pytest.raises(FileNotFoundError):
        place.io.move(place.at("d", ".f.coming"), place.at("d", "g"))


def test_a_parquet_file_goes_out_and_comes_back(place: FilePlace) -> None:
    rows = pa.table({"k": np.arange(200_000), "v": np.random.default_rng(7).random(200_000)})
    with place.io.open_output(place.at("bucket-0", "f.parquet")) as sink:
        pq.write_table(rows, sink, row_group_size=20_000)
        written = sink.tell()
    assert place.io.size(place.at("bucket-0", "f.parquet")) == written
    with place.io.open_input(place.at("bucket-0", "f.parquet")) as source:
        file = pq.ParquetFile(source, pre_buffer=True)
        assert (
            file.read_row_group(3, columns=["v"]).column("v").equals(rows.column("v").slice(60_000, 20_000))
        )
        assert file.read().equals(rows)


def test_a_file_is_there_only_once_it_is_closed() -> None:
    place = FilePlace(memory_io(), "s3://bucket/root")
    sink = place.io.open_output(place.at("f"))
    sink.write(b"x" * 1000)
    assert not place.io.exists(place.at("f"))
    sink.close()
    assert place.io.size(place.at("f")) == 1000


def test_an_empty_file_can_be_opened(place: FilePlace) -> None:
    place.io.write(place.at("e"), b"")
    with place.io.open_input(place.at("e")) as source:
        assert (source.size(), source.read()) == (0, b"")


def test_each_path_goes_to_its_own_store(tmp_path: Path) -> None:
    objects = memory_io()
    io = RoutedFileIO(LocalFileIO(), objects)
    io.write("s3://one/a", b"1")
    io.write("s3://two/a", b"2")
    io.write(str(tmp_path / "a"), b"3")
    assert [io.read("s3://one/a"), io.read("s3://two/a"), (tmp_path / "a").read_bytes()] == [b"1", b"2", b"3"]
    assert objects.read("s3://two/a") == b"2"


def test_local_files_are_synced_before_an_object_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(fileio, "sync_files", lambda what: done.extend(what.paths) or [])
    io, local = RoutedFileIO(LocalFileIO(), memory_io()), f"{tmp_path}/data"
    io.write(local, b"1")
    assert io.write_new("s3://bucket/name", b"2", after=Sync("s3://bucket", ("s3://bucket/other", local)))
    io.replace("s3://bucket/name", b"3", after=Sync("s3://bucket", (local,)))
    assert (done, io.sync(Sync("s3://bucket", ("s3://bucket/name",)))) == ([local, local], [])
    assert io.write_new(f"{tmp_path}/new", b"4", after=Sync(str(tmp_path), ("s3://bucket/other", local)))
    assert done[2] == local
    assert "s3://bucket/other" not in done
