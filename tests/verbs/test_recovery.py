"""Damaged tables: reads name what is sound, `mend` goes back to it and loses nothing in silence."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt, NotFound, TablestoreError
from tablestore.io.fileio import FileIO
from tablestore.meta import manifest_cache
from tests.faults import FaultyIO, Killed
from tests.tables import KEYED, WRITE_ONLY

SNAPSHOTS = 5


def streamed(warehouse: Path) -> ts.Table:
    """Snapshot n holds the keys 1 to n, committed by a stream as identifier n."""
    table = KEYED.create(warehouse, WRITE_ONLY | {"changelog-producer": "input"})
    for k in range(1, SNAPSHOTS + 1):
        table.write(row(k), user="loader", identifier=k)
    return table


def row(k: int) -> pa.Table:
    return pa.table({"k": pa.array([k], pa.int64()), "v": ["x"]})


def opened(table: ts.Table) -> ts.Table:
    """The table as another process opens it."""
    manifest_cache.LOCAL.clear()
    return ts.open(table.location)


def keys(table: ts.Table) -> list[int]:
    return sorted(opened(table).scan().to_arrow()["k"].to_pylist())


def file_of(table: ts.Table, what: str, snapshot_id: int) -> Path:
    """The file of a snapshot that is to be damaged."""
    store = table.store
    snapshot = store.snapshots.get(snapshot_id)
    (manifest,) = store.manifests.read_list(snapshot.delta_manifest_list)
    (entry,) = store.manifests.delta_entries(snapshot)
    return Path(
        {
            "snapshot": store.paths.snapshot(snapshot_id),
            "manifest list": store.paths.manifest(snapshot.delta_manifest_list),
            "manifest": store.paths.manifest(manifest.file_name),
            "data file": store.file_path(entry.partition, entry.bucket, entry.file),
        }[what]
    )


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def all_files(root: Path) -> list[str]:
    return sorted(p.name for p in root.rglob("*") if p.is_file())


KINDS = ["snapshot", "manifest list", "manifest", "data file"]


@pytest.mark.parametrize(
    ("what", "damage"),
    [*((what, damage) for what in KINDS for damage in (empty, Path.unlink)), ("data file", zeros)],
)
@pytest.mark.sample(3)
def test_reads_name_the_newest_sound_snapshot_and_mend_goes_back_to_it(
    tmp_path: Path, what: str, damage: Callable[[Path], None]
) -> None:
    created = streamed(tmp_path)
    broken = file_of(created, what, 4)
    damage(broken)
    alone = what in ("snapshot", "manifest list")  # of no use to snapshot 5, which names what 4 named
    lost_history = alone and damage is Path.unlink
    if alone and damage is empty:
        empty(file_of(created, what, 5))
    table = opened(created)
    if not lost_history:
        for read in (
            lambda: table.scan().to_arrow(),
            lambda: table.get({"k": 4}),
            lambda: table.scan().count(),
        ):
            with pytest.raises(Corrupt, match=r"table\.at\(snapshot=3\) reads it, table\.mend\(\)") as caught:
                read()
            assert caught.value.sound == 3
        assert table.at(snapshot=3).scan().count() == 3
    before = all_files(tmp_path)
    preview = opened(created).mend()
    assert "a preview: nothing was changed" in repr(preview)
    assert all_files(tmp_path) == before
    done = opened(created).mend(dry_run=False).repair
    assert done is not None
    assert done.newest == (5 if lost_history else 3)
    assert opened(created).check() == []
    assert keys(created) == list(range(1, 6 if lost_history else 4))
    tags = {f"tag-{text.rpartition(' ')[2]}" for text in done.tagged}
    assert set(all_files(tmp_path)) == {*before, *tags}, "nothing is deleted"
    for text in done.tagged:
        number = int(text.split()[1])
        assert opened(created).at(tag=text.rpartition(" ")[2]).scan().count() == number
    if not lost_history:
        assert any("stream 'loader'" in text or "streams of commits" in text for text in done.lost)
        again = opened(created).write(row(4), user="loader", identifier=4)
        assert (again.replayed, again.snapshots) == (False, (4,))
        assert opened(created).check() == []
    aside = Path(created.location, "tablestore", "damaged")
    opened(created).remove_orphans("1 ms", dry_run=False, force=True)
    assert {Path(b).name for _, b in done.moved} >= set(all_files(aside))
    assert not opened(created).mend(dry_run=False).repair


def test_streams_and_writers_meet_the_same_words(tmp_path: Path) -> None:
    created = streamed(tmp_path)
    empty(file_of(created, "snapshot", 5))
    for verb in (
        lambda t: list(t.stream(follow=False)),
        lambda t: t.write(row(9)),
        lambda t: t.expire_snapshots(keep=1),
        lambda t: t.inspect.doctor(),
    ):
        with pytest.raises(Corrupt, match=r"at\(snapshot=4\)"):
            verb(opened(created))


def test_a_stream_ends_where_its_snapshot_was_put_aside(tmp_path: Path) -> None:
    created = streamed(tmp_path)
    cursor = [c.cursor for c in created.stream(follow=False, start="earliest")][-1]
    empty(file_of(created, "manifest list", 5))
    opened(created).mend(dry_run=False)
    opened(created).write(row(5))
    opened(created).write(row(6))
    with pytest.raises(NotFound, match="rolled back"):
        next(iter(opened(created).stream(start=cursor, follow=False)))


def test_an_older_damaged_snapshot_costs_history_alone(tmp_path: Path) -> None:
    created = streamed(tmp_path)
    empty(file_of(created, "manifest list", 2))
    done = opened(created).mend(dry_run=False).repair
    assert done is not None
    assert done.lost == ("time travel to snapshot 2; rows of the present are not concerned",)
    assert done.tagged == ("snapshot 1 as tag mended-1",)
    assert opened(created).at(tag="mended-1").scan().to_arrow()["k"].to_pylist() == [1]
    with pytest.raises(NotFound, match="tag 'mended-1' keeps it"):
        opened(created).at(snapshot=1)
    assert opened(created).store.snapshots.ids() == [3, 4, 5]
    assert opened(created).store.snapshots.earliest_id() == 3
    assert keys(created) == [1, 2, 3, 4, 5]
    assert opened(created).check() == []


def test_a_snapshot_is_made_again_from_its_tag(tmp_path: Path) -> None:
    created = streamed(tmp_path)
    created.tags.create("kept", 5, retain="1 d")
    whole = file_of(created, "snapshot", 5).read_bytes()
    empty(file_of(created, "snapshot", 5))
    done = opened(created).mend(dry_run=False).repair
    assert done is not None
    assert (done.newest, done.restored, done.lost) == (5, ("snapshot 5 from tag kept",), ())
    assert Path(created.store.paths.snapshot(5)).read_bytes() == whole
    assert opened(created).check() == []


def test_damaged_tags_consumers_and_branches_are_reported(tmp_path: Path) -> None:
    created = streamed(tmp_path)
    created.tags.create("bad", 2)
    created.tags.create("base", 3)
    created.branches.create("b", "base")
    created.branch("b").write(row(9))
    empty(Path(created.location, "tag", "tag-bad"))
    empty(Path(created.location, "branch", "branch-b", "snapshot", "snapshot-4"))
    Path(created.location, "consumer").mkdir()
    Path(created.location, "consumer", "consumer-c").write_text("{")
    done = opened(created).mend(dry_run=False).repair
    assert done is not None
    assert done.lost[:2] == (
        "tag bad, which cannot be read",
        "the place of consumer c: its stream starts again",
    )
    assert any(text.startswith("branch b: snapshot 4") for text in done.lost)
    assert keys(created) == [1, 2, 3, 4, 5]
    assert sorted(opened(created).branch("b").scan().to_arrow()["k"].to_pylist()) == [1, 2, 3]
    assert opened(created).tags.names() == ["base"]
    assert opened(created).check() == []


def test_a_table_that_cannot_be_opened_loses_the_alter_that_nothing_used(tmp_path: Path) -> None:
    created = streamed(tmp_path)
    created.alter(ts.add("w", ts.INT))
    empty(Path(created.location, "schema", "schema-1"))
    with pytest.raises(Corrupt, match=r"tablestore\.mend\('.*d\.db/t'\)"):
        opened(created)
    assert ts.mend(created.location).lost == (
        "ALTERs of schema 1: the columns and options are those of schema 0",
    )
    with pytest.raises(Corrupt):
        opened(created)
    ts.mend(created.location, dry_run=False)
    assert opened(created).schema.names == ["k", "v"]
    assert opened(created).check() == []


def test_a_used_schema_takes_its_snapshots_along(tmp_path: Path) -> None:
    created = streamed(tmp_path)
    created.alter(ts.add("w", ts.INT)).write([{"k": 9, "v": "y", "w": 1}])
    empty(Path(created.location, "schema", "schema-1"))
    done = ts.mend(created.location, dry_run=False)
    assert done.newest == 5
    assert [text.split(":")[0] for text in done.lost[:1]] == ["snapshot 6 with what it changed"]
    assert keys(created) == [1, 2, 3, 4, 5]
    assert opened(created).check() == []


def test_what_cannot_be_mended_is_refused_by_name_and_nothing_changes(tmp_path: Path) -> None:
    created = streamed(tmp_path)
    created.alter(ts.add("w", ts.INT))
    empty(Path(created.location, "schema", "schema-0"))
    before = all_files(tmp_path)
    with pytest.raises(Corrupt, match=r"schema-0.*no older snapshot and no tag is sound: put back a copy"):
        ts.mend(created.location, dry_run=False)
    Path(created.location, "schema", "schema-1").unlink()
    with pytest.raises(Corrupt, match=r"schema-0.*put back a copy"):
        ts.mend(created.location, dry_run=False)
    assert all_files(tmp_path) == [name for name in before if name != "schema-1"]
    with pytest.raises(NotFound, match="no table at"):
        ts.mend(tmp_path)


def test_wrong_hints_are_put_right(tmp_path: Path) -> None:
    created = streamed(tmp_path)
    for hint in ("LATEST", "EARLIEST"):
        Path(created.location, "snapshot", hint).write_text("99")
    opened(created).mend(dry_run=False)
    hints = [Path(created.location, "snapshot", hint).read_text() for hint in ("EARLIEST", "LATEST")]
    assert hints == ["1", "5"]


@pytest.mark.large
def test_mending_survives_any_kill(tmp_path: Path) -> None:
    created = streamed(tmp_path / "lake")
    created.tags.create("kept", 4)
    for n, what in ((5, "manifest list"), (4, "snapshot"), (1, "manifest list")):
        empty(file_of(created, what, n))
    counting = FaultyIO()

    def mend(name: str, io: FileIO) -> None:
        manifest_cache.LOCAL.clear()
        ts.mend(tmp_path / name / "d.db" / "t", dry_run=False, io=io)

    shutil.copytree(tmp_path / "lake", tmp_path / "count")
    mend("count", counting)
    changing = ("put", "write", "replace", "delete", "move", "mkdir")
    steps = [i for i, line in enumerate(counting.log) if line.startswith(changing)]
    assert len(steps) > 5
    for step in steps:
        for mode in ("kill before", "kill after", "error before"):
            shutil.copytree(tmp_path / "lake", tmp_path / "try")
            with contextlib.suppress(Killed, TablestoreError):
                mend("try", FaultyIO(step, mode))
            mend("try", FaultyIO())
            table = ts.connect(tmp_path / "try").table("d.t")
            assert keys(table) == [1, 2, 3, 4], (step, mode)
            assert opened(table).check() == [], (step, mode)
            shutil.rmtree(tmp_path / "try")


def test_branches_without_a_sound_state_go_as_a_whole(tmp_path: Path) -> None:
    created = streamed(tmp_path)
    created.tags.create("v", 3)
    for name in ("a", "b"):
        created.branches.create(name, tag="v")
        created.branch(name).tags.delete("v")
        empty(Path(created.branch(name).store.paths.snapshot(3)))
    before = all_files(tmp_path)
    done = opened(created).mend(dry_run=False).repair
    assert done.remaining == ()
    assert [text.partition(":")[0] for text in done.lost] == ["branch a", "branch b"]
    assert all_files(tmp_path) == before, "nothing is deleted"
    assert opened(created).branches.names() == []
    assert opened(created).check() == []
    assert keys(created) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("damage", [empty, Path.unlink])
def test_what_rows_do_not_need_costs_no_snapshot(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """An index beside a data file, statistics, and the changes of the newest snapshot."""
    options = {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}
    table = KEYED.create(tmp_path, WRITE_ONLY | {"changelog-producer": "input", **options})
    for k in range(1, 4):
        table.write(row(k))
    table.analyze()
    table.write(row(4))
    root = Path(table.location)
    (index, *_), (statistics,) = root.glob("bucket-*/*.index"), root.glob("statistics/*")
    whole = index.read_bytes()
    damage(index)
    damage(statistics)
    newest = table.store.snapshots.latest()
    (changes,) = table.store.manifests.changelog_entries(newest)
    damage(Path(table.store.file_path(changes.partition, changes.bucket, changes.file)))
    assert opened(table).scan(where=ts.col("v") == "x").count() == 4, "read without the index"
    done = opened(table).mend(dry_run=False).repair
    assert done.remaining == ()
    assert opened(table).check() == []
    assert keys(table) == [1, 2, 3, 4]
    assert index.read_bytes() == whole
    assert sorted(opened(table).tags.names()) == [f"mended-{n}" for n in range(1, 6)]
    assert [opened(table).at(tag=f"mended-{n}").scan().count() for n in (1, 2, 3, 5)] == [1, 2, 3, 4]
    with pytest.raises(NotFound):
        list(opened(table).stream(start={"snapshot": 5}, follow=False))
    opened(table).write(row(5))
    assert keys(table) == [1, 2, 3, 4, 5]
    assert not opened(table).mend(dry_run=False).repair


def test_a_lost_hash_index_is_made_again_of_the_keys(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path, {"bucket": -1, "dynamic-bucket.target-row-num": 3})
    for k in range(1, 7):
        table.write(row(k))
    for path in Path(table.location, "index").iterdir():
        path.unlink()
    done = opened(table).mend(dry_run=False).repair
    assert (done.newest, done.remaining, done.lost) == (6, (), ())
    assert opened(table).check() == []
    for k in range(1, 9):
        opened(table).write(row(k))
    assert keys(table) == [*range(1, 9)], "each key in the bucket that has it"
    assert opened(table).check() == []


@pytest.mark.parametrize("content", [None, b"", b"zeros"], ids=["removed", "empty", "other bytes"])
def test_a_lost_manifest_of_hash_indexes_costs_no_snapshot(tmp_path: Path, content: bytes | None) -> None:
    table = KEYED.create(tmp_path, {"bucket": -1, "dynamic-bucket.target-row-num": 3})
    for k in range(1, 7):
        table.write(row(k))
        if k == 4:
            table.tags.create("four")
            table.branches.create("side", "four")
    for path in Path(table.location, "manifest").glob("index-manifest-*"):
        path.unlink() if content is None else path.write_bytes(content)
    done = opened(table).mend(dry_run=False).repair
    assert (done.newest, done.remaining, done.lost) == (6, (), ())
    assert opened(table).store.snapshots.ids() == [*range(1, 7)]
    assert opened(table).at(tag="four").scan().count() == 4
    assert opened(table).check() == []
    opened(table).branch("side").write(row(1))
    opened(table).rollback(tag="four")
    for k in range(1, 9):
        opened(table).write(row(k))
    assert keys(table) == [*range(1, 9)], "each key in the bucket that has it"
    assert opened(table).branch("side").scan().count() == 4
    assert opened(table).check() == []


def test_a_lost_index_manifest_of_deletion_vectors_costs_its_snapshots(tmp_path: Path) -> None:
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 3, "deletion-vectors.enabled": True}
    table = KEYED.create(tmp_path, options)
    table.write(row(1))
    table.write(row(2))
    newest = opened(table).store.snapshots.latest()
    assert newest is not None
    assert newest.index_manifest is not None
    Path(table.location, "manifest", newest.index_manifest).unlink()
    done = opened(table).mend(dry_run=False).repair
    assert done.newest is not None
    assert done.newest < newest.id
    assert opened(table).check() == []
