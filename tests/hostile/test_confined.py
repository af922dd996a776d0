"""Tables one does not trust: nothing outside the table's directory and the caller's roots is reached."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt, InvalidOption, InvalidRequest
from tablestore.io.confined import ConfinedFileIO, deletes
from tablestore.io.fileio import LocalFileIO

ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int64())})
OLD = "data-00000000-0000-0000-0000-000000000000-0.parquet"
Verb = Callable[[ts.Table], Any]
READS: dict[str, Verb] = {
    "scan": lambda t: t.scan().to_arrow(),
    "write": lambda t: t.write(ROWS),
    "compact": lambda t: t.compact(full=True),
    "orphans": lambda t: t.remove_orphans(older_than="1d", dry_run=False),
}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Another's directory in the same database, old enough to be an orphan."""
    precious = tmp_path / "lake/d.db/victim/bucket-0" / OLD
    precious.parent.mkdir(parents=True)
    precious.write_text("precious")
    os.utime(precious, (1, 1))
    return precious


def keyed(lake: ts.Lake, name: str = "d.t", **options: Any) -> ts.Table:
    return lake.create_table(name, schema=ROWS.schema, primary_key=["k"], options=options)


def with_stored_options(t: ts.Table, **options: str) -> str:
    """The table's location, after somebody wrote other options into its newest schema."""
    path = Path(t.store.paths.schema(t.store.schema.id))
    stored = json.loads(path.read_text())
    stored["options"] |= options
    path.write_text(json.dumps(stored))
    return t.location


@pytest.mark.parametrize("away", ["../victim", "/victim", "a/../../victim", "file:/victim", "a//b", "."])
def test_a_data_directory_elsewhere_is_refused_when_set_and_when_stored(
    lake: ts.Lake, victim: Path, away: str
) -> None:
    options = {"data-file.path-directory": away}
    with pytest.raises(InvalidOption, match="a path inside the table's directory"):
        keyed(lake, **options)
    location = with_stored_options(keyed(lake), **options)
    with pytest.raises(InvalidOption, match="a path inside the table's directory"):
        ts.open(location).remove_orphans(older_than="1d", dry_run=False)
    assert victim.read_text() == "precious"


def test_names_of_files_that_begin_elsewhere_are_refused(lake: ts.Lake) -> None:
    for key in ("data-file.prefix", "changelog-file.prefix"):
        with pytest.raises(InvalidOption, match="the start of a file name"):
            keyed(lake, **{key: "../../x-"})


@pytest.mark.parametrize("verb", READS)
def test_a_linked_bucket_is_not_followed(lake: ts.Lake, victim: Path, verb: str) -> None:
    t = keyed(lake)
    t.write(ROWS)
    t.write(ROWS)
    bucket = Path(t.location, "bucket-0")
    bucket.rename(victim.parent.parent / "bucket-1")
    bucket.symlink_to(victim.parent.parent / "bucket-1")
    before = sorted(victim.parent.parent.rglob("*"))
    with pytest.raises(Corrupt, match="symbolic link below the table's directory"):
        READS[verb](ts.open(t.location))
    assert sorted(victim.parent.parent.rglob("*")) == before
    assert any("symbolic link" in violation.text for violation in ts.open(t.location).check())


@pytest.mark.parametrize("folder", ["snapshot", "schema", "manifest", "index", "tag", "consumer"])
def test_a_linked_directory_of_metadata_is_not_followed(lake: ts.Lake, tmp_path: Path, folder: str) -> None:
    t = keyed(lake)
    t.write(ROWS)
    outside, inside = tmp_path / "outside", Path(t.location, folder)
    inside.rename(outside) if inside.exists() else outside.mkdir()
    (outside / "mine").write_text("precious")
    os.utime(outside / "mine", (1, 1))
    inside.symlink_to(outside)
    with pytest.raises(Corrupt, match="symbolic link"):
        ts.open(t.location).remove_orphans(older_than="1d", dry_run=False)
    assert lake.tables() == ["d.t"]
    assert (outside / "mine").read_text() == "precious"
    lake.drop_table("d.t")
    assert (outside / "mine").read_text() == "precious"


def test_an_expiry_that_would_meet_a_link_removes_nothing(lake: ts.Lake, tmp_path: Path) -> None:
    t = keyed(lake)
    t.write(ROWS)
    t.compact(full=True)
    t.write(ROWS)
    t.compact(full=True)
    bucket = Path(t.location, "bucket-0")
    bucket.rename(tmp_path / "outside")
    bucket.symlink_to(tmp_path / "outside")
    before = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    with pytest.raises(Corrupt, match="symbolic link"):
        ts.open(t.location).expire_snapshots(keep=1)
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == before


def test_a_file_that_is_a_link_or_a_pipe_is_not_opened(lake: ts.Lake, tmp_path: Path) -> None:
    t = keyed(lake)
    t.write(ROWS)
    (data,) = Path(t.location, "bucket-0").iterdir()
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Corrupt, match="symbolic link"):
        ts.open(t.location).scan().to_arrow()
    data.unlink()
    os.mkfifo(data)
    with pytest.raises(Corrupt, match="neither a file nor a directory"):
        ts.open(t.location).scan().to_arrow()


def test_warehouses_databases_and_tables_may_be_links(tmp_path: Path) -> None:
    real = ts.connect(tmp_path / "real")
    keyed(real, "d.t").write(ROWS)
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    (tmp_path / "other/e.db").mkdir(parents=True)
    (tmp_path / "other/e.db/t").symlink_to(tmp_path / "real/d.db/t")
    (tmp_path / "other/d.db").symlink_to(tmp_path / "real/d.db")
    for at, name in ((tmp_path / "lake", "d.t"), (tmp_path / "other", "e.t"), (tmp_path / "other", "d.t")):
        t = ts.connect(at).table(name)
        t.write(ROWS)
        t.compact(full=True)
        t.expire_snapshots(keep=1)
        t.remove_orphans(older_than="1d", dry_run=False)
        assert t.scan().to_arrow().to_pylist() == ROWS.to_pylist()
        assert t.check() == []


def test_a_directory_that_becomes_a_link_is_not_followed_by_a_delete(tmp_path: Path) -> None:
    root, outside = tmp_path / "t", tmp_path / "outside"
    for folder in (root / "bucket-0", outside):
        folder.mkdir(parents=True)
        (folder / "f").write_text("x")
    io = ConfinedFileIO(LocalFileIO(), str(root))
    assert io.read(f"{root}/bucket-0/f") == b"x"  # looked at, and known from now on
    (root / "bucket-0").rename(root / "moved")
    (root / "bucket-0").symlink_to(outside)
    for undone in (io.delete, io.delete_empty, io.list):
        with pytest.raises(Corrupt, match="link"):
            undone(f"{root}/bucket-0/f")
    assert (outside / "f").exists()
    io.delete(f"{root}/moved/f")
    assert not (root / "moved" / "f").exists()


def test_many_deletes_follow_no_link_that_is_made_between_them(tmp_path: Path) -> None:
    root, outside = tmp_path / "t", tmp_path / "outside"
    for folder in (root / "bucket-0", root / "bucket-1", outside):
        folder.mkdir(parents=True)
        for name in "fgh":
            (folder / name).write_text("x")
    io = ConfinedFileIO(LocalFileIO(), str(root))
    with deletes(io) as delete:
        delete(f"{root}/bucket-0/f")
        (root / "bucket-0").rename(root / "moved")
        (root / "bucket-0").symlink_to(outside)
        delete(f"{root}/bucket-0/g")  # of the directory that was opened
        delete(f"{root}/bucket-1/f")
        delete(f"{root}/bucket-1/absent")
        with pytest.raises(Corrupt, match="link"):
            delete(f"{root}/bucket-0/h")
        with pytest.raises(Corrupt, match="points outside"):
            delete(f"{outside}/h")
        delete(f"{root}/bucket-1/g")
    left = {
        folder.name: sorted(p.name for p in folder.iterdir())
        for folder in tmp_path.glob("*/*")
        if folder.is_dir()
    }
    assert left == {"bucket-0": ["f", "g", "h"], "bucket-1": ["h"], "moved": ["h"]}


@pytest.mark.parametrize("away", ["{root}/../x", "{root}x/f", "/etc/passwd", "{root}/a/../f", "{root}//f"])
def test_no_verb_leaves_the_directory(tmp_path: Path, away: str) -> None:
    io = ConfinedFileIO(LocalFileIO(), str(tmp_path / "t"))
    path = away.format(root=tmp_path / "t")
    for verb in ("read", "open_input", "open_output", "delete", "delete_tree", "delete_empty", "list"):
        with pytest.raises(Corrupt, match="points outside"):
            getattr(io, verb)(path)
    for verb in ("exists", "is_dir", "size", "make_dir"):
        with pytest.raises(Corrupt, match="points outside"):
            getattr(io, verb)(path)
    for verb in ("write", "write_new", "replace"):
        with pytest.raises(Corrupt, match="points outside"):
            getattr(io, verb)(path, b"")
    with pytest.raises(Corrupt, match="points outside"):
        io.move(f"{tmp_path}/t/a", path)


def test_roots_are_the_callers_and_travel_with_the_table(tmp_path: Path) -> None:
    far = tmp_path / "far"
    options = {"data-file.external-paths": f"file:{far}", "data-file.external-paths.strategy": "round-robin"}
    with pytest.raises(InvalidRequest, match=r"roots=\["):
        keyed(ts.connect(tmp_path / "lake"), **options)
    t = keyed(ts.connect(tmp_path / "lake", roots=[far]), **options)
    t.write(ROWS)
    t.write(ROWS)
    for verb in ("scan", "write", "compact"):
        with pytest.raises(InvalidRequest, match=r"roots=\["):
            READS[verb](ts.open(t.location))
    assert ts.open(t.location, roots=[far]).scan().to_arrow().to_pylist() == ROWS.to_pylist()
    assert pickle.loads(pickle.dumps(t)).scan().to_arrow().to_pylist() == ROWS.to_pylist()
    tasks = t.buckets_to_compact(full=True)
    messages = [ts.compact_bucket(t.location, task, roots=[far]) for task in tasks]
    t.commit([m for m in messages if m], user="worker")
    assert t.refresh().expire_snapshots(keep=1).files
    assert t.check() == []
    for wrong in (str(far), 5, [5], [None]):
        with pytest.raises(InvalidRequest):
            ts.open(t.location, roots=wrong)
