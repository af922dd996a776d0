"""A handle writes only into the table that it opened; nothing is made at the place of one that has gone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import obstore.store
import pytest

import tablestore as ts
from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.io import outcomes
from tablestore.io.object_store import ObjectStoreFileIO
from tablestore.io.paths import DROPPED
from tablestore.meta.snapshots import SnapshotStore
from tablestore.table.table import Table

ROW = [{"k": 1, "v": 1}]


def made(path: Path, name: str = "d.t") -> Table:
    t = ts.connect(str(path)).create_table(
        name, schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 1}
    )
    t.write(ROW)
    return t


def foreign(t: Table) -> Table:
    """The same without an id of ours, as other engines make tables."""
    path = Path(t.location) / "schema" / "schema-0"
    schema = json.loads(path.read_bytes())
    del schema["options"]["tablestore.uuid"]
    path.write_text(json.dumps(schema))
    return ts.open(t.location)


def dropped(lake: ts.Lake, t: Table) -> str:
    lake.drop_table("d.t")
    return "was dropped since"


def renamed(lake: ts.Lake, t: Table) -> str:
    lake.create_database("e")
    lake.rename_table("d.t", "e.other")
    return "was renamed to .*/e.db/other since"


def made_anew(lake: ts.Lake, t: Table) -> str:
    lake.drop_table("d.t")
    lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options=t.options)
    return "was dropped and created again"


def put_back(lake: ts.Lake, t: Table) -> str:
    lake.rename_table("d.t", "d.other")
    lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"])
    return "was renamed to .*/d.db/other, and another table created in its place, since"


VERBS: dict[str, Callable[[Table], object]] = {
    "write": lambda t: t.write(ROW),
    "delete": lambda t: t.delete(ts.col("k") == 1),
    "update": lambda t: t.update({"v": 2}, where=ts.col("k") == 1),
    "overwrite": lambda t: t.overwrite(ROW),
    "truncate": lambda t: t.truncate(),
    "rescale": lambda t: t.rescale(2),
    "commit": lambda t: t.commit([], user="u", identifier=1, position="p"),
    "open_writer": lambda t: t.open_writer(),
    "alter": lambda t: t.alter(ts.add("c", ts.INT)),
    "compact": lambda t: t.compact(full=True),
    "expire": lambda t: t.expire_snapshots(keep=1),
    "rollback": lambda t: t.rollback(snapshot=1),
    "analyze": lambda t: t.analyze(),
    "tag": lambda t: t.tags.create("x"),
    "branch": lambda t: t.branches.create("x"),
    "consumer": lambda t: t.consumers.reset("x", 1),
}


def tree(path: Path) -> dict[str, bytes | None]:
    return {str(p): p.read_bytes() if p.is_file() else None for p in path.rglob("*")}


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("happens", [dropped, renamed, made_anew, put_back])
def test_no_verb_writes_into_another_table(
    tmp_path: Path, happens: Callable[[ts.Lake, Table], str], ours: bool
) -> None:
    t = made(tmp_path) if ours else foreign(made(tmp_path))
    what = happens(ts.connect(str(tmp_path)), t)
    before = tree(tmp_path)
    for name, act in VERBS.items():
        with pytest.raises(NotFound, match=what):
            act(t)
        assert tree(tmp_path) == before, name


@pytest.mark.parametrize("happens", [dropped, renamed, made_anew])
@pytest.mark.parametrize("moment", ["after it was opened", "after a flush", "before", "after"])
def test_a_table_that_goes_during_a_commit_is_not_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: Callable[[ts.Lake, Table], str], moment: str
) -> None:
    t = made(tmp_path)
    messages: list[str] = []
    publish = SnapshotStore.publish

    def publishing(self: SnapshotStore, snapshot: Snapshot) -> bool:
        if moment == "before" and not messages:
            messages.append(happens(ts.connect(str(tmp_path)), t))
        created = publish(self, snapshot)
        if moment == "after" and not messages:
            messages.append(happens(ts.connect(str(tmp_path)), t))
        return created

    monkeypatch.setattr(SnapshotStore, "publish", publishing)
    options = {"write-buffer-size": "1 kb"} if moment == "after a flush" else {}
    rows = [{"k": k, "v": 2} for k in range(2000 if options else 1)]

    def write() -> None:
        with t.with_options(options).writer() as writer:
            if options:
                writer.write(rows)
            if moment in ("after it was opened", "after a flush"):
                messages.append(happens(ts.connect(str(tmp_path)), t))
            writer.write(rows)

    with pytest.raises(NotFound) as refused:
        write()
    assert re.search(messages[0], str(refused.value))
    lake = ts.connect(str(tmp_path))
    if happens is made_anew:
        assert not [p for p in Path(t.location).rglob("*") if p.parent.name in ("bucket-0", "manifest")]
        assert lake.table("d.t").scan().count() == 0
        assert lake.table("d.t").check() == []
    else:
        assert not Path(t.location).exists()
    if happens is renamed:
        assert lake.table("e.other").check() == []


def test_a_table_that_is_being_dropped_takes_no_commit() -> None:
    """In an object store, where its snapshots are there until the drop has removed them."""
    memory = obstore.store.MemoryStore()
    lake = ts.connect("s3://b/lake", io=ObjectStoreFileIO(open_bucket=lambda *_: memory))
    t = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"])
    t.write(ROW)
    outcomes.put(t.store.io, f"{t.store.paths.schema_dir}/{DROPPED}", b"")
    with pytest.raises(NotFound, match="is being dropped"):
        t.write(ROW)
    assert t.store.snapshots.ids() == [1]
    lake.drop_table("d.t")
    assert t.store.io.list(t.location, hidden=True) == []


def test_a_branch_that_was_deleted_is_not_made_anew(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.branches.create("b")
    branch = t.branch("b")
    t.branches.delete("b")
    with pytest.raises(NotFound, match=r"branch b of .* was dropped"):
        branch.write(ROW)
    assert not (Path(t.location) / "branch" / "branch-b").exists()
    t.write(ROW)


@pytest.mark.parametrize("ours", [True, False])
def test_a_table_whose_oldest_schema_is_damaged_is_the_same(tmp_path: Path, ours: bool) -> None:
    t = made(tmp_path) if ours else foreign(made(tmp_path))
    t.alter(ts.add("c", ts.INT))
    (Path(t.location) / "schema" / "schema-0").write_text("")
    t = ts.open(t.location)
    t.tags.create("x")
    with pytest.raises(ts.Corrupt, match="schema-0"):
        t.write(ROW)


def test_a_table_that_was_altered_is_the_same(tmp_path: Path) -> None:
    t = foreign(made(tmp_path))
    t.alter(ts.add("c", ts.INT))
    t.write(ROW)
    t.refresh().write(ROW)
    assert t.check() == []


def test_what_is_left_in_a_directory_is_not_taken_for_a_table(tmp_path: Path) -> None:
    t, lake = made(tmp_path), ts.connect(str(tmp_path))
    shutil.rmtree(Path(t.location) / "schema")
    with pytest.raises(InvalidRequest, match="is not a table but holds bucket-0, manifest, snapshot"):
        lake.create_table("d.t", schema={"k": ts.INT}, if_not_exists=True)
    shutil.rmtree(t.location)
    (Path(t.location) / "schema").mkdir(parents=True)  # a creation that was killed
    (Path(t.location) / "schema" / ".schema-0.x.tmp").write_text("{")
    lake.create_table("d.t", schema={"k": ts.INT})
    with pytest.raises(AlreadyExists):
        lake.create_table("d.t", schema={"k": ts.INT})


def test_tables_made_of_one_another_s_options_are_two(tmp_path: Path) -> None:
    t = made(tmp_path)
    other = ts.connect(str(tmp_path)).create_table(
        "d.u", schema=t.schema, primary_key=["k"], options=t.options
    )
    assert other.options["tablestore.uuid"] != t.options["tablestore.uuid"]
