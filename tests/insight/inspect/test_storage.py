"""Attribution of bytes: what lies on disk, all of it, and who needs it, against the engine's slow twin."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import Snapshot
from tablestore.io.fileio import FileStatus, LocalFileIO
from tablestore.meta import refs
from tablestore.meta.store import Store
from tablestore.write.retention import reachable
from tablestore.write.retention.reachable import Files
from tests.read import golden
from tests.write.lives import Life, born, lived, on_disk


def by_path(t: ts.Table) -> dict[str, dict[str, Any]]:
    return {row["path"]: row for row in t.inspect.storage().files.to_pylist()}


def local(t: ts.Table, paths: Any) -> set[str]:
    return {p.removeprefix(f"{t.location}/") for p in paths}


def named_by(store: Store, snapshot: Snapshot) -> set[str]:
    """Every file of one snapshot, entry by entry."""
    actual = set(reachable.metadata_files(store, snapshot))
    for entry in store.manifests.live_entries(snapshot):
        actual |= set(reachable.entry_paths(store, entry))
    listed = reachable.lenient(Files(), reachable.changelog_files, store, snapshot)
    return actual | set(listed.data) | set(listed.metadata)


def spans(t: ts.Table) -> dict[str, tuple[int, int]]:
    actual: dict[str, list[int]] = defaultdict(list)
    for snapshot in t.store.snapshots.all():
        for path in {*named_by(t.store, snapshot), t.store.paths.snapshot(snapshot.id)}:
            actual[path].append(snapshot.id)
    return {p.removeprefix(f"{t.location}/"): (min(ids), max(ids)) for p, ids in actual.items()}


def writers(t: ts.Table) -> dict[str, int]:
    """Data files that a delta there is adds and does not move."""
    collected = {}
    for snapshot in t.store.snapshots.all():
        entries = list(t.store.manifests.delta_entries(snapshot))
        gone = {e.file.file_name for e in entries if e.kind != ADD}
        for e in entries:
            if e.kind == ADD and e.file.file_name not in gone:
                path = t.store.file_path(e.partition, e.bucket, e.file)
                collected[path.removeprefix(f"{t.location}/")] = snapshot.id
    return collected


def test_every_byte_of_a_random_life_is_attributed(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        life = lived(tmp_path / str(seed), seed)
        t = life.table
        actual, disk = by_path(t), on_disk(t)
        assert {p: row["bytes"] for p, row in actual.items()} == disk, seed
        assert t.inspect.storage().bytes == sum(disk.values())
        assert {p for p, row in actual.items() if row["state"] in ("missing", "foreign")} == set(), seed
        orphans = local(t, (p for p, _ in t.remove_orphans("0 ms", force=True).files))
        assert {p for p, row in actual.items() if row["state"] == "free"} == orphans, seed
        wanted = spans(t)
        got = {p: (r["first_needed"], r["last_needed"]) for p, r in actual.items() if r["last_needed"]}
        assert got == wanted, seed
        assert_holders(t, actual)
        assert_writers(life, actual)


def assert_holders(t: ts.Table, actual: dict[str, dict[str, Any]]) -> None:
    tags: dict[str, list[str]] = defaultdict(list)
    for tag in refs.all_tags(t.store):
        for path in local(t, {*named_by(t.store, tag.snapshot), t.store.paths.tag(tag.name)}) & set(actual):
            tags[path].append(tag.name)
    assert {p: sorted(r["tags"]) for p, r in actual.items() if r["tags"]} == tags
    branches: dict[str, set[str]] = defaultdict(set)
    for other in refs.other_branches(t.store):
        states = [*other.snapshots.all(), *refs.tags(other).values()]
        for path in local(t, {p for s in states for p in named_by(other, s)}) & set(actual):
            branches[path].add(other.paths.branch)
    shown = {p: set(r["branches"]) for p, r in actual.items() if r["branches"] and "branch/" not in p}
    assert shown == branches
    newest = t.store.snapshots.latest_id()
    live = {p for p, r in actual.items() if r["state"] == "live" and r["last_needed"] is not None}
    assert live == {p for p, r in actual.items() if r["last_needed"] == newest and newest is not None}


def assert_writers(life: Life, actual: dict[str, dict[str, Any]]) -> None:
    writers_of = writers(life.table)
    for path, row in actual.items():
        if row["kind"] == "data" and path in writers_of:
            assert row["written_by"] == writers_of[path], path
        if row["written_by"] is not None and row["kind"] != "snapshot" and not row["branches"]:
            assert row["written_by"] in life.written[path], path


def test_a_branch_sees_the_rest_as_another_branch(tmp_path: Path) -> None:
    life = born(tmp_path, 0)
    life._write()
    life.table.tags.create("v", 1)
    life.table.branches.create("dev", "v")
    life._write()
    dev = life.table.branch("dev")
    dev.write(life._rows())
    actual = by_path(dev)
    assert {p: r["bytes"] for p, r in actual.items()} == on_disk(dev)
    own = [r for r in actual.values() if r["kind"] == "data"]
    assert {tuple(r["branches"]) for r in own} == {("main",), ()}
    assert actual["snapshot/snapshot-1"]["branches"] == ["main"]
    assert actual["branch/branch-dev/snapshot/snapshot-2"]["state"] == "live"


def test_files_that_nothing_names_are_classified_by_their_place(tmp_path: Path) -> None:
    life = born(tmp_path, 0)
    life._write()
    t = life.table
    bucket = next(p for p, r in by_path(t).items() if r["kind"] == "data").rpartition("/")[0]
    laid = {
        f"{bucket}/data-lost.parquet": ("data", "free"),
        "manifest/manifest-lost": ("manifest", "free"),
        "snapshot/.snapshot-9.x.tmp": ("temporary", "free"),
        "snapshot/notes": ("unknown", "free"),
        "README": ("unknown", "foreign"),
        "tablestore/history/x": ("history", "live"),
        "branch/branch-b/tablestore/history/x": ("history", "kept"),
    }
    for name in laid:
        path = Path(t.location, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"123")
    actual = by_path(t)
    assert {p: (actual[p]["kind"], actual[p]["state"]) for p in laid} == laid
    assert "remove_orphans()" in actual["manifest/manifest-lost"]["freed"]
    Path(t.location, bucket, "data-lost.parquet").unlink()
    gone = next(p for p, r in actual.items() if r["kind"] == "data" and "lost" not in p)
    Path(t.location, gone).unlink()
    assert (by_path(t)[gone]["state"], by_path(t)[gone]["bytes"]) == ("missing", 0)


def test_a_file_goes_when_its_row_says_and_no_earlier(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": 1, "snapshot.time-retained": "10 min", "bucket": 1}
    life = born(tmp_path, 0)
    t = life.table.alter(ts.set_options(options | {"write-only": True}))
    t.write(life._rows())
    t.compact(full=True)
    t.write(life._rows())
    t.compact(full=True)
    first = min((r for r in by_path(t).values() if r["kind"] == "data"), key=lambda r: r["last_needed"])
    assert (first["state"], first["freed_after_snapshot"]) == ("kept", first["last_needed"] + 1)
    wait = first["freed_after"].timestamp() - life.env.now_ms() / 1000
    life.env.sleep(wait - 1)
    assert first["path"] not in local(t, t.expire_snapshots(dry_run=True).files)
    life.env.sleep(1)
    assert t.inspect.storage().released()[0] >= first["bytes"]
    assert first["path"] in local(t, t.expire_snapshots().files)


@pytest.mark.parametrize("holder", ["tag", "consumer", "branch"])
def test_who_holds_a_file_is_named(tmp_path: Path, holder: str) -> None:
    life = born(tmp_path, 0)
    t = life.table
    life._write()
    t.tags.create("v1", 1)
    if holder == "branch":
        t.branches.create("dev", "v1")
        t.tags.delete("v1")
    if holder == "consumer":
        t.consumers.reset("slow", 1)
        t.tags.delete("v1")
    life._write()
    t.compact(full=True)
    (row,) = [r for r in by_path(t).values() if r["kind"] == "data" and r["first_needed"] == 1][:1]
    wanted = {"tag": "tag v1 is deleted", "consumer": "consumer slow", "branch": "branch dev is deleted"}
    assert row["state"] == "kept"
    assert wanted[holder] in row["freed"]
    assert row["freed_after"] is None
    assert (row["tags"] == ["v1"]) == (holder == "tag")
    assert (row["consumers"] == ["slow"]) == (holder == "consumer")
    shown = [h.split()[0] for h in t.inspect.storage().holders()["holder"].to_pylist()]
    assert holder in shown
    assert "snapshots" in shown


def test_the_screen_adds_up(tmp_path: Path) -> None:
    t = lived(tmp_path, 3, steps=20).table
    storage = t.inspect.storage()
    assert sum(storage.summary()["bytes"].to_pylist()) == sum(on_disk(t).values())
    assert sum(storage.summary()["files"].to_pylist()) == storage.files.num_rows == pa.table(storage).num_rows
    kept = sum(r["bytes"] for r in storage.files.to_pylist() if r["state"] == "kept")
    for row in storage.holders().to_pylist():
        assert (row["alone_bytes"] or 0) <= row["bytes"] <= kept
    assert sum(storage.released()) == kept
    assert repr(storage) == storage.text
    assert len(storage.text.splitlines()) < 50


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_tag_frees_what_only_it_holds(tmp_path: Path, file_format: str) -> None:
    life = born(tmp_path, 0)
    t = life.table.alter(ts.set_options({"write-only": True, "file.format": file_format}))
    t.write(life._rows())
    t.tags.create("v1", 1)
    t.write(life._rows())
    t.compact(full=True)
    t.expire_snapshots(keep=1)
    alone = {r["holder"]: r["alone_bytes"] for r in t.inspect.storage().holders().to_pylist()}
    before = sum(on_disk(t).values())
    gone = t.tags.delete("v1")
    assert before - sum(on_disk(t).values()) == alone["tag v1"] > 0
    checksums = [path for path in gone.files if "/tablestore/checksums/" in path]
    assert bool(checksums) == (file_format != "parquet")


def test_checksum_files_belong_to_their_data_files(tmp_path: Path) -> None:
    life = born(tmp_path, 0)
    t = life.table.alter(ts.set_options({"write-only": True, "file.format": "orc"}))
    t.write(life._rows())
    t.write(life._rows())
    t.compact(full=True)
    lost = Path(t.location, "tablestore/checksums/data-lost.orc")
    lost.write_bytes(b"123")
    actual = by_path(t)
    data = {p.rpartition("/")[2]: r for p, r in actual.items() if r["kind"] == "data"}
    checksums = {p.rpartition("/")[2]: r for p, r in actual.items() if r["kind"] == "checksum"}
    orphan = checksums.pop(lost.name)
    assert orphan["state"] == "free"
    same = ("state", "partition", "bucket", "written_by", "first_needed", "last_needed", "freed")
    assert {n: [r[c] for c in same] for n, r in checksums.items()} == {
        n: [r[c] for c in same] for n, r in data.items()
    }
    assert {r["state"] for r in checksums.values()} == {"live", "kept"}
    kinds = {kind: n for kind, n, _ in t.expire_snapshots(keep=1, dry_run=True).kinds}
    assert kinds["checksum"] == kinds["data"]


class Busy(LocalFileIO):
    """Commits whenever the table's directory is about to be listed, so many times."""

    def __init__(self, table: ts.Table, rows: pa.Table, times: int) -> None:
        super().__init__()
        self.table, self.rows, self.times = table, rows, times

    def list(self, path: str, *, hidden: bool = False) -> list[FileStatus]:
        if path == self.table.location and self.times:
            self.times -= 1
            self.table.write(self.rows)
        return super().list(path, hidden=hidden)


@pytest.mark.parametrize("commits", [1, 9])
def test_commits_in_between_make_no_file_missing(tmp_path: Path, commits: int) -> None:
    life = born(tmp_path, 0)
    life._write()
    busy = Busy(life.table, life._rows(), commits)
    rows = ts.open(life.table.location, io=busy).inspect.storage().files.to_pylist()
    states = {r["state"] for r in rows if not r["path"].startswith("snapshot/")}
    assert "missing" not in states
    assert ("free" in states) == (commits > 3)  # looked at three times, then said what there is


def test_an_empty_table_holds_its_schema(tmp_path: Path) -> None:
    t = born(tmp_path, 0).table
    (row,) = t.inspect.storage().files.to_pylist()
    assert (row["path"], row["state"], row["freed"]) == ("schema/schema-0", "live", "with the table")


@pytest.mark.parametrize("name", [*golden.java_tables(), *golden.python_tables()])
@pytest.mark.sample(12)
def test_every_byte_of_a_table_of_others_is_attributed(name: str) -> None:
    store = golden.java(name) if name in golden.java_tables() else golden.python(name)
    t = ts.open(store.paths.root)
    actual = by_path(t)
    assert {p: r["bytes"] for p, r in actual.items()} == on_disk(t)
    assert t.inspect.storage().bytes == sum(on_disk(t).values())
    orphans = local(t, (p for p, _ in t.remove_orphans("0 ms", force=True).files))
    assert {p for p, r in actual.items() if r["state"] == "free"} == orphans
    assert {r["state"] for r in actual.values()} <= {"live", "kept", "free"}
    assert {p: (r["first_needed"], r["last_needed"]) for p, r in actual.items() if r["last_needed"]} == spans(
        t
    )


KEYLESS = {"deletion-vectors.enabled": True, "bucket": -1, "target-file-size": "1 kb"}
OTHERS: dict[str, dict[str, Any]] = {
    "append": {"options": KEYLESS},
    "avro": {"options": KEYLESS | {"file.format": "avro"}},
    "buckets": {"options": {"bucket": 2, "bucket-key": "k"}},
    "postponed": {"primary_key": ["k"], "options": {"bucket": -2}},
    "crossing": {"primary_key": ["k"], "partition_by": ["p"], "options": {"bucket": -1}},
    "first-row": {"primary_key": ["k"], "options": {"merge-engine": "first-row", "bucket": 1}},
}


@pytest.mark.parametrize("kind", OTHERS)
def test_tables_of_other_kinds_are_attributed_too(tmp_path: Path, kind: str) -> None:
    schema = {"k": ts.BIGINT, "p": ts.INT, "v": ts.STRING}
    given = OTHERS[kind]
    t = ts.connect(str(tmp_path)).create_table("d.t", schema=schema, **given)
    life = born(tmp_path / "rows", 0)
    for _ in range(4):
        t.write(life._rows())
    if kind in ("append", "avro"):
        t.delete(ts.col("k") < 20)
    t.compact(full=True)
    t.write(life._rows())
    actual = by_path(t)
    assert {p: r["bytes"] for p, r in actual.items()} == on_disk(t)
    assert {r["state"] for r in actual.values()} <= {"live", "kept"}
    asked = t.expire_snapshots(keep=1, dry_run=True)
    before = sum(on_disk(t).values())
    t.expire_snapshots(keep=1)
    left = by_path(t)
    new = sum(r["bytes"] for p, r in left.items() if p not in actual)  # the history, the hint
    changed = sum(r["bytes"] - actual[p]["bytes"] for p, r in left.items() if p in actual)
    assert before - asked.bytes + new + changed == sum(on_disk(t).values())
    assert {r["state"] for r in left.values()} == {"live"}


def test_files_at_other_roots_are_shown_beside(tmp_path: Path) -> None:
    options = {"bucket": 1, "data-file.external-paths": f"file:{tmp_path}/far"}
    options |= {"data-file.external-paths.strategy": "round-robin"}
    lake = ts.connect(str(tmp_path / "lake"), roots=[tmp_path / "far"])
    t = lake.create_table("d.t", schema={"k": ts.BIGINT}, primary_key=["k"], options=options)
    t.write(pa.table({"k": pa.array([1, 2], pa.int64())}))
    storage = t.inspect.storage()
    assert storage.bytes == sum(on_disk(t).values())
    (data,) = [r for r in storage.files.to_pylist() if r["kind"] == "data"]
    assert (data["outside"], data["state"], data["written_by"]) == (True, "live", 1)
    assert data["bytes"] == Path(data["path"]).stat().st_size
    assert "at other roots" in storage.text
