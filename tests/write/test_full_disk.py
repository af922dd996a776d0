"""A full disk can be freed: expiry, orphan removal, rollback and drop go on without what has no room, and say
so."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.faults import FaultyIO
from tests.tables import KEEP_ALL, KEYED, WRITE_ONLY, keys

CHANGELOGS = {
    "changelog-producer": "input",
    "snapshot.num-retained.min": 1,
    "snapshot.num-retained.max": 10,
    "changelog.num-retained.min": 20,
    "changelog.num-retained.max": 20,
}


def compacted(warehouse: Path, options: Mapping[str, Any] | None = None) -> ts.Table:
    """A table after four commits and their compaction."""
    table = KEYED.create(warehouse, WRITE_ONLY | KEEP_ALL | (options or {}))
    for k in range(4):
        table.write([{"k": k, "v": "x"}])
    table.compact(full=True)
    return table


def full(root: Path) -> ts.Table:
    """The table on a disk that takes no byte more."""
    return ts.connect(root, io=FaultyIO(0, "full")).table("d.t")


def test_expiry_goes_on_without_its_history_and_says_so(tmp_path: Path) -> None:
    created = compacted(tmp_path)
    done = full(tmp_path).expire_snapshots(keep=1)
    assert (done.snapshots, created.store.snapshots.ids()) == ((1, 2, 3, 4), [5])
    assert done.problems == ("no space left to keep what snapshots 1..4 did (tablestore/history)",)
    assert done.problems[0] in repr(done)
    assert len(done.files) > 4
    assert not any(os.path.exists(path) for path in done.files)
    assert created.check() == []
    assert keys(created) == [0, 1, 2, 3]


def test_snapshots_become_changelogs_where_copies_have_no_room(tmp_path: Path) -> None:
    created = compacted(tmp_path, CHANGELOGS)
    done = full(tmp_path).expire_snapshots(keep=2)
    assert done.snapshots == (1, 2, 3)
    assert "changelogs" not in " ".join(done.problems)
    assert created.refresh().check() == []
    assert created.changes(since=1, until=4).num_rows == 3, "told by the changelogs that the snapshots became"


def test_an_expiry_after_a_commit_reports_what_it_left_out(tmp_path: Path) -> None:
    compacted(tmp_path)

    class Full(FaultyIO):
        """No room in the history's folder alone, so that the commit gets through."""

        def _run(self, what: str, path: str, action: Any, *, writes: bool) -> Any:
            return super()._run(what, path, action, writes=writes and "/history/" in path)

    table = ts.connect(tmp_path, io=Full(0, "full")).table("d.t")
    table = table.with_options(
        {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1, "write-only": False}
    )
    committed = table.write([{"k": 9, "v": "y"}])
    assert committed.expired is not None
    assert any("no space left" in text for text in committed.expired.problems)
    assert keys(table) == [0, 1, 2, 3, 9]
    assert table.refresh().check() == []


def test_orphans_a_rollback_and_a_drop_need_no_space(tmp_path: Path) -> None:
    created = compacted(tmp_path)
    stray = Path(created.location, "bucket-0", "data-left-0.parquet")
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    assert full(tmp_path).remove_orphans("1 ms", dry_run=False, force=True).removed
    assert not stray.exists()
    assert full(tmp_path).rollback(snapshot=2).snapshots == (3, 4, 5)
    assert keys(created) == [0, 1]
    assert created.check() == []
    ts.connect(tmp_path, io=FaultyIO(0, "full")).drop_table("d.t")
    assert not Path(created.location).exists()
    assert [p.name for p in Path(tmp_path, "d.db").rglob("*")] == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own takes the right to mount one")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def _fill(file: Path) -> None:
    with open(file, "ab", buffering=0) as ballast:
        while ballast.write(b"x" * 4096):
            pass


def test_a_disk_that_is_really_full_is_freed(small_disk: Path) -> None:
    created = compacted(small_disk, CHANGELOGS)
    with pytest.raises(OSError, match="No space"):
        _fill(small_disk / "ballast")
    with pytest.raises(ts.Unavailable, match="free some space"):
        created.write([{"k": 7, "v": "y"}])
    before = created.store.snapshots.ids()
    expired = created.expire_snapshots(keep=1)
    assert (expired.snapshots, created.store.snapshots.ids()) == (tuple(before[:-1]), before[-1:])
    assert created.refresh().check() == []
    assert keys(created) == [0, 1, 2, 3]
    created.write([{"k": 7, "v": "y"}])
    assert keys(created) == [0, 1, 2, 3, 7]
    ts.connect(small_disk).drop_table("d.t")
    assert list((small_disk / "d.db").iterdir()) == []
