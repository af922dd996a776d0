"""Where files of a cluster may lie, and what a hostile server can name in their place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tablestore.core.errors import Corrupt, TablestoreError, Unavailable, Unsupported
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.kv import snapshot_rows
from tablestore.fluss.messages import pb
from tablestore.fluss.remote_files import KEYS, LOG, bucket_files, segment_files
from tablestore.fluss.tables import KvSnapshot, KvSnapshotFiles, TableBucket
from tests.fluss.stranger import END, KEYED, PARTS, ROWS, SNAPSHOT, Stranger
from tests.fluss.stranger import LOG as LOGGED

BUCKET = TableBucket(8, None, 0)


@pytest.fixture
def remote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, Cluster, KvSnapshotFiles]]:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    server = Stranger(tmp_path / "remote")
    files = tuple((file.remote_path, file.local_file_name) for file in server.files)
    with Cluster(f"127.0.0.1:{server.port}", timeout=240) as cluster:
        yield tmp_path, cluster, KvSnapshotFiles(KvSnapshot(BUCKET, SNAPSHOT, 10), files)
    server.close()


def refused(cluster: Cluster, files: KvSnapshotFiles, error: type[TablestoreError], match: str) -> None:
    with pytest.raises(error, match=match):
        list(snapshot_rows(cluster, KEYED, files))
    assert os.listdir(tempfile.gettempdir()) == []


def test_a_snapshot_is_read_and_its_copy_goes(remote) -> None:
    _, cluster, files = remote
    (rows,) = snapshot_rows(cluster, KEYED, files)
    assert rows.sort_by("id").equals(ROWS.cast(rows.schema))
    assert os.listdir(tempfile.gettempdir()) == []


@pytest.mark.parametrize(
    "name",
    ["../../outside/x", "/tmp/x", "..", "", "LOG", "rocksdict-config.json", "a.sst", "1.sst/x", "1.sst\n"],
)
def test_a_copy_has_the_name_of_a_file_of_rocksdb(remote, name: str) -> None:
    folder, cluster, files = remote
    before = sorted(folder.rglob("*"))
    named = (*files.files, (files.files[0][0], name))
    refused(cluster, replace(files, files=named), Corrupt, "is no name of a file of a snapshot")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "kind", ["elsewhere", "above", "device", "of another bucket", "link", "folder link", "pipe"]
)
def test_a_snapshot_is_read_from_its_own_place_alone(remote, kind: str) -> None:
    folder, cluster, files = remote
    place = folder / "remote" / "kv" / "shop" / "keyed-8" / "0" / "shared"
    (folder / "secret").mkdir()
    (folder / "secret" / "000012.sst").write_text("secret")
    place.mkdir()
    path = str(place / "000012.sst")
    if kind == "elsewhere":
        path = str(folder / "secret" / "000012.sst")
    elif kind == "above":
        path = str(place / ".." / ".." / ".." / ".." / ".." / ".." / "secret" / "000012.sst")
    elif kind == "device":
        path = "/dev/zero"
    elif kind == "of another bucket":
        path = path.replace("keyed-8/0", "keyed-8/1")
    elif kind == "link":
        os.symlink(folder / "secret" / "000012.sst", path)
    elif kind == "folder link":
        place.rmdir()
        place.symlink_to(folder / "secret")
    else:
        os.mkfifo(path)
    named = replace(files, files=(*files.files, (path, "000012.sst")))
    refused(
        cluster, named, Corrupt, "is no place of its kv files|symbolic link|neither a file nor a directory"
    )


def test_a_snapshot_without_room_is_refused_before_it_is_copied(
    remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, cluster, files = remote
    monkeypatch.setattr("tablestore.fluss.kv.scratch_room", lambda _: 100)
    refused(cluster, files, Unavailable, "has room for 100: free some, or set TMPDIR")


def test_a_file_that_grows_while_it_is_copied_is_refused(remote, monkeypatch: pytest.MonkeyPatch) -> None:
    _, cluster, files = remote
    monkeypatch.setattr("tablestore.io.confined.ConfinedFileIO.size", lambda *_: 3)
    refused(cluster, files, Corrupt, "it had 3 bytes, and has more now")


@pytest.mark.parametrize("damage", ["CURRENT", "MANIFEST", "empty"])
def test_files_that_rocksdb_cannot_read_are_one_error(remote, damage: str) -> None:
    _, cluster, files = remote
    for path, name in files.files:
        if name.startswith(damage) or damage == "empty":
            Path(path).write_bytes(b"" if damage == "empty" else b"../../../../secret\n")
    refused(cluster, files, Corrupt, "shop.keyed.*snapshot 5: RocksDB cannot read it")


def test_the_partition_is_a_part_of_the_place() -> None:
    bucket = TableBucket(9, 31, 1)
    right = "/r/log/shop/parts-9/a-p31/1"
    assert bucket_files(LOG, right, PARTS, bucket)[0] == right
    for wrong in (
        "/r/log/shop/parts-9/1",
        "/r/log/shop/parts-9/a-p32/1",
        "/r/kv/shop/parts-9/a-p31/1",
        right + "2",
    ):
        with pytest.raises(Corrupt, match=r"shop\.parts: table 9 partition 31 bucket 1: the server names"):
            bucket_files(LOG, wrong, PARTS, bucket)
    with pytest.raises(Unsupported, match="oss://"):
        bucket_files(KEYS, "oss://b/kv/shop/keyed-8/0", KEYED, BUCKET)
    for nowhere in ("", "a\0b", "s3://b/../kv/shop/keyed-8/0"):
        with pytest.raises(Corrupt, match="whose place is none"):
            bucket_files(KEYS, nowhere, KEYED, BUCKET)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"segment_id": name} for name in ("..", "../../x", "a/b", "", "a\0b")),
        *({"start_offset": -1}, {"end_offset": 0}, {"end_offset": -5}, {"start_offset": END}),
    ],
)
def test_a_list_of_segments_that_can_be_none_is_refused(wrong: dict[str, object]) -> None:
    right = {"segment_id": "seg", "start_offset": 0, "end_offset": 10, "size_in_bytes": 1}
    bucket, folder = TableBucket(7, None, 1), "/r/log/shop/log-7/1"

    def listed(**segment: object) -> object:
        segments = [pb.RemoteLogSegment(**{**right, **segment})]
        return pb.RemoteLog(tablet_dir=folder, segments=segments, first_start_pos=0)

    files, at, _ = segment_files(listed(), LOGGED, bucket)
    assert (files, at) == ([(f"{folder}/seg/{0:020d}.log", 10)], 0)
    with pytest.raises(Corrupt, match=r"shop\.log: table 7 bucket 1: segments"):
        segment_files(listed(**wrong), LOGGED, bucket)
