"""Tags, branches and consumers as files: odd names of others, damaged files, what was cut short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import AlreadyExists, Corrupt, InvalidRequest, NotFound
from tablestore.meta import changelogs, consumers, refs, statistics
from tests.faults import SimEnv
from tests.tables import KEEP_ALL, KEYED

TABLE = KEYED.with_options(KEEP_ALL, new_env=SimEnv)


def row(k: int) -> pa.Table:
    return pa.table({"k": pa.array([k], pa.int64()), "v": ["x"]})


@pytest.mark.parametrize("name", ["2026-11-21 10:00", "a@b", "tag-", "é中", "..x", "1"])
def test_names_of_others_are_read_and_stop_nothing(tmp_path: Path, name: str) -> None:
    t = TABLE.create(tmp_path)
    for k in range(4):
        t.write(row(k))
    path = Path(t.location, "tag", f"tag-{name}")
    path.parent.mkdir()
    path.write_bytes(Path(t.location, "snapshot", "snapshot-2").read_bytes())
    consumer = Path(t.location, "consumer", f"consumer-{name}")
    consumer.parent.mkdir()
    consumer.write_text('{"nextSnapshot": 4}')
    t.compact(full=True)
    t.expire_snapshots(keep=1)
    assert t.tags.names() == [name]
    assert t.at(tag=name).scan().count() == 2
    assert t.store.snapshots.ids() == [4, 5]
    assert consumers.next_snapshot(t.store, name) == 4
    t.consumers.delete(name)
    t.tags.delete(name)
    assert t.tags.names() == []
    assert t.check() == []


@pytest.mark.parametrize("name", ["", "a/b", "..", "x\\y", "a:b", "$b", 7])
def test_names_of_ours_are_checked(tmp_path: Path, name: Any) -> None:
    t = TABLE.create(tmp_path)
    t.write(row(1))
    with pytest.raises(InvalidRequest, match="name"):
        t.tags.create(name)
    with pytest.raises(InvalidRequest, match="name"):
        t.branches.create(name)
    with pytest.raises(InvalidRequest, match="name"):
        t.consumers.reset(name, 1)


@pytest.mark.parametrize("name", ["main", "123"])
def test_a_branch_is_not_named_main_or_by_digits(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest, match="not 'main', and not digits only"):
        TABLE.create(tmp_path).branches.create(name)


def test_what_is_taken_or_missing_is_named(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    with pytest.raises(NotFound, match="no snapshot to tag yet"):
        t.tags.create("one")
    t.write(row(1))
    t.tags.create("one")
    t.branches.create("side", "one")
    with pytest.raises(AlreadyExists, match="'one' exists, of snapshot 1"):
        t.tags.create("one")
    with pytest.raises(AlreadyExists, match="'side'"):
        t.branches.create("side")
    with pytest.raises(NotFound, match="did you mean one"):
        t.tags.delete("onee")
    with pytest.raises(NotFound, match="did you mean side"):
        t.branch("sidee")
    with pytest.raises(NotFound, match="no tag 'zz'"):
        t.branches.create("other", "zz")
    with pytest.raises(NotFound, match=r"no snapshot 9; have 1\.\.1"):
        t.tags.create("nine", 9)
    t.tags.create("one", replace=True)


def test_a_tag_can_be_renamed_and_replaced(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    t.write(row(1))
    t.tags.create("a", retain="2 h")
    t.write(row(2))
    t.tags.rename("a", "b")
    assert t.tags.names() == ["b"]
    assert t.at(tag="b").scan().count() == 1
    t.tags.create("b", replace=True)
    assert t.at(tag="b").scan().count() == 2
    assert "b: snapshot_id 2" in repr(t.tags)
    assert repr(t.branches) == "no branches"
    assert ("b" in t.tags, len(t.tags), list(t.tags)) == (True, 1, ["b"])


def test_a_tag_of_an_expired_snapshot_can_be_tagged_again(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    for k in range(3):
        t.write(row(k))
    t.tags.create("a", 1)
    t.expire_snapshots(keep=1)
    with pytest.raises(NotFound, match=r"no snapshot 1; have 3\.\.3; tag 'a' keeps it"):
        t.at(snapshot=1)
    t.tags.create("b", 1)
    t.tags.delete("a")
    assert t.at(tag="b").scan().to_arrow().to_pylist() == [{"k": 0, "v": "x"}]


def test_tags_whose_time_is_over_go_with_a_commit(tmp_path: Path) -> None:
    env = SimEnv()
    t = TABLE.create(tmp_path, {"tag.default-time-retained": "1 h"}, env=env)
    t.write(row(1))
    t.tags.create("hour")
    t.tags.create("day", retain="1 d")
    env.sleep(3500)
    t.write(row(2))
    assert t.tags.names() == ["day", "hour"]
    env.sleep(200)
    t.write(row(3))
    assert t.tags.names() == ["day"]
    env.sleep(86_400)
    t.with_options({"tag.time-expire-enabled": False}).write(row(4))
    assert t.tags.names() == ["day"]
    t.tags.expire()
    assert t.tags.names() == []


def test_consumers_that_stand_still_are_forgotten(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"consumer.expiration-time": "1 h", "write-only": True})
    for k in range(3):
        t.write(row(k))
    t.consumers.reset("idle", 1)
    moved = Path(t.location, "consumer", "consumer-idle").stat().st_mtime_ns // 1_000_000
    early, late = SimEnv(now_ms=moved + 3_500_000), SimEnv(now_ms=moved + 3_700_000)
    assert ts.open(t.location, env=early).expire_snapshots(keep=1).snapshots == ()
    assert ts.open(t.location, env=late).expire_snapshots(keep=1).snapshots == (1, 2)
    assert t.consumers.names() == []


@pytest.mark.parametrize(
    ("where", "content"),
    [
        ("tag/tag-x", b"{}"),
        ("tag/tag-x", b"\xff"),
        ("consumer/consumer-x", b'{"nextSnapshot": "7"}'),
        ("consumer/consumer-x", b'{"nextSnapshot": true}'),
        ("changelog/changelog-1", b"[]"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, where: str, content: bytes) -> None:
    t = TABLE.create(tmp_path)
    t.write(row(1))
    path = Path(t.location, where)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)

    def look() -> None:
        refs.all_tags(t.store)
        consumers.all_next(t.store)
        changelogs.all_of(t.store)

    with pytest.raises(Corrupt, match=path.name):
        look()
    t.write(row(2))  # a commit goes on: its expiry only logs
    assert t.scan().count() == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("tagCreateTime", [2026, 13, 1]), ("tagCreateTime", 5), ("tagTimeRetained", "1 h")],
)
def test_a_tag_with_odd_times_is_damaged(tmp_path: Path, field: str, value: Any) -> None:
    t = TABLE.create(tmp_path)
    t.write(row(1))
    body = json.loads(Path(t.location, "snapshot", "snapshot-1").read_bytes()) | {field: value}
    Path(t.location, "tag").mkdir()
    Path(t.location, "tag", "tag-x").write_text(json.dumps(body))
    with pytest.raises(Corrupt, match=field):
        refs.tag(t.store, "x")


def test_a_branch_that_was_not_finished_is_none_and_can_be_made(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    t.write(row(1))
    t.tags.create("base")
    t.branches.create("b", "base")
    Path(t.location, "branch", "branch-b", "schema", "schema-0").unlink()
    assert t.branches.names() == []
    with pytest.raises(NotFound):
        t.branch("b")
    t.branches.create("b", "base")
    assert t.branch("b").scan().count() == 1


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[1]",
        b'{"snapshotId": 1}',
        b'{"snapshotId": true, "schemaId": 0}',
        b'{"snapshotId": 1, "schemaId": 0, "colStats": {"a": {}}}',
        b'{"snapshotId": 1, "schemaId": 0, "colStats": {"a": {"colId": 0, "min": 3}}}',
        b'{"snapshotId": 1, "schemaId": 0, "mergedRecordCount": "x"}',
    ],
)
def test_damaged_statistics_are_named(body: bytes) -> None:
    with pytest.raises(Corrupt, match="stat-1"):
        statistics.from_json(body, "stat-1")


def test_statistics_survive_a_round_trip() -> None:
    actual = statistics.Statistics(
        3, 1, 7, None, {"a": statistics.ColumnStatistics(2, 5, "-3", "9", 1, 8, 8)}
    )
    assert statistics.from_json(statistics.to_json(actual), "stat") == actual


def test_a_tag_has_a_success_file_where_the_table_wants_one(tmp_path: Path) -> None:
    t = ts.connect(tmp_path).create_table(
        "d.s", schema={"k": ts.INT}, primary_key=["k"], options={"tag.create-success-file": True}
    )
    t.write([{"k": 1}])
    folder = Path(t.location) / "tag" / "tag-success-file"
    t.tags.create("a")
    assert set(json.loads((folder / "a_SUCCESS").read_text())) == {"creationTime", "modificationTime"}
    t.tags.rename("a", "b")
    assert [p.name for p in folder.iterdir()] == ["b_SUCCESS"]
    assert (t.tags.names(), t.check()) == (["b"], [])
    t.tags.delete("b")
    assert [*folder.iterdir()] == []
