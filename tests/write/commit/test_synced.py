"""What is synced, and when: as little as keeps one snapshot on the disk, and before anything goes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt, InvalidOption
from tablestore.io.fileio import LocalFileIO, Sync
from tablestore.io.routed import RoutedFileIO
from tablestore.table.compaction import run_task
from tests.crash.disk import DiskIO
from tests.io.test_file_io import memory_io
from tests.tables import WRITE_ONLY, TableSpec

PLACE = "/lake/d.db/t"


UNCOMPACTED = TableSpec(
    {"k": ts.INT}, primary_key=("k",), options=WRITE_ONLY | {"tablestore.write.threads": 0}
)


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32())})


def synced(disk: DiskIO) -> list[str]:
    """Paths of the files that were synced since the log was cleared."""
    actual = [c.path.removeprefix(PLACE + "/") for c in disk.log if c.what == "sync"]
    disk.log.clear()
    return actual


def data(paths: list[str]) -> int:
    return sum(path.startswith("bucket-0/") for path in paths)


def test_nothing_is_synced_for_a_commit_unless_asked_for() -> None:
    t = UNCOMPACTED.create("/lake", io=(disk := DiskIO()))
    t.write(rows(1))
    assert synced(disk) == []


def test_an_expiry_syncs_what_came_since_the_last_synced_snapshot() -> None:
    t = UNCOMPACTED.create("/lake", io=(disk := DiskIO()))
    for k in range(6):
        t.write(rows(k))
    t.expire_snapshots(keep=3)
    assert data(first := synced(disk)) == 6
    assert {"snapshot/snapshot-6", "schema/schema-0"} < set(first)
    t.write(rows(6))
    t.write(rows(7))
    t.expire_snapshots(keep=3)  # of 6, 7 and 8 one is synced
    assert synced(disk) == []
    t.write(rows(8))
    t.expire_snapshots(keep=3)
    assert data(second := synced(disk)) == 3
    assert {"snapshot/snapshot-7", "snapshot/snapshot-8", "snapshot/snapshot-9"} < set(second)
    assert not set(first) & set(second)
    assert t.check() == []


def test_what_a_table_with_process_left_unsynced_is_synced_by_the_first_commit_that_must_last() -> None:
    t = UNCOMPACTED.create("/lake", io=(disk := DiskIO()))
    t.write(rows(1))
    t.write(rows(2))
    t = t.alter(ts.set_options({"tablestore.durability": "commit"}))
    synced(disk)
    t.write(rows(3))
    assert data(synced(disk)) == 3
    t.write(rows(4))
    assert data(synced(disk)) == 1


def test_tasks_of_engines_sync_their_files_before_they_name_them() -> None:
    t = UNCOMPACTED.create("/lake", io=(disk := DiskIO()), options={"tablestore.durability": "commit"})
    t.write(rows(1))
    t.write(rows(1))
    synced(disk)
    writer = t.open_writer(sequence_base=1 << 40)
    writer.write(rows(2))
    writer.prepare()
    assert data(synced(disk)) == 1
    for task in t.buckets_to_compact(full=True):
        assert run_task(t.store, task) is not None
    assert data(synced(disk)) == 1


def test_a_copy_of_a_table_does_not_count_as_synced() -> None:
    t = UNCOMPACTED.create("/lake", io=(disk := DiskIO()))
    for k in range(3):
        t.write(rows(k))
    t.expire_snapshots(keep=2)
    for path, file in list(disk.names.files.items()):
        if path.startswith(PLACE + "/"):
            disk.write(f"/copy/d.db/t/{path.removeprefix(PLACE + '/')}", file.data)
    synced(disk)
    ts.open("/copy/d.db/t", io=disk).remove_orphans("0 s", dry_run=False, force=True)
    copy = ts.open("/copy/d.db/t", io=disk)
    copy.expire_snapshots(keep=1)
    assert len([c for c in disk.log if c.what == "sync" and "/bucket-0/" in c.path]) == 3


def test_nothing_goes_where_the_newest_snapshot_lacks_a_file() -> None:
    t = UNCOMPACTED.create("/lake", io=(disk := DiskIO()))
    for k in range(3):
        t.write(rows(k))
    newest = t.inspect.files().to_pylist()[-1]["file_path"]
    disk.delete(newest)
    before = dict(disk.names.files)
    with pytest.raises(Corrupt, match="nothing was removed"):
        ts.open(PLACE, io=disk).expire_snapshots(keep=1)
    after = dict(disk.names.files)
    assert after.pop(f"{PLACE}/snapshot/EARLIEST").data == b"1", "true, whatever goes"
    assert after == before


def test_object_stores_need_no_sync_and_no_record() -> None:
    io = RoutedFileIO(LocalFileIO(), memory_io())
    t = UNCOMPACTED.create("s3://bucket/lake", {"tablestore.durability": "commit"}, io=io)
    for k in range(3):
        t.write(rows(k))
    t.expire_snapshots(keep=1)
    assert io.sync(Sync("s3://bucket", ("s3://bucket/gone",))) == []
    assert not io.exists(t.store.paths.synced)
    assert t.check() == []


def test_other_durabilities_are_refused() -> None:
    with pytest.raises(InvalidOption, match="one of process, commit"):
        UNCOMPACTED.create("/lake", {"tablestore.durability": "disk"}, io=DiskIO())
