"""Files of one table, or of one place, put in the place of another's: one clear error, never other rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt
from tablestore.format import deletion_vector
from tablestore.lsm.lookup import cache as lookup_cache
from tablestore.meta import manifest_cache


def made(lake: ts.Lake, name: str, **options: Any) -> ts.Table:
    return lake.create_table(
        f"d.{name}",
        schema={"p": ts.INT, "k": ts.INT, "v": ts.INT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": 1, **options},
    )


def exchange(left: Path, right: Path) -> None:
    shutil.move(left, left.with_name("aside"))
    shutil.move(right, left)
    shutil.move(left.with_name("aside"), right)


@pytest.fixture(autouse=True)
def _read_anew() -> None:
    for forget in (manifest_cache.LOCAL.clear, lookup_cache.LOCAL.clear, deletion_vector.forget_verified):
        forget()


def test_exchanged_deletion_vectors(tmp_path: Path) -> None:
    t = made(ts.connect(tmp_path), "t", **{"deletion-vectors.enabled": True})
    for p in (1, 2):
        t.write([{"p": p, "k": k, "v": k} for k in range(10)])
        t.delete(f"p = {p} AND k = {p}")
    sound = t.scan().to_arrow()
    first, second = sorted(Path(t.location, "index").iterdir())[-2:]
    assert first.stat().st_size == second.stat().st_size
    exchange(first, second)
    deletion_vector.forget_verified()
    looks: tuple[Callable[[], Any], ...] = (t.scan().to_arrow, lambda: t.get({"p": 1, "k": 2}))
    for look in looks:
        with pytest.raises(Corrupt, match="its bytes have the checksum"):
            look()
    exchange(first, second)
    assert t.scan().to_arrow() == sound


def test_the_position_of_another_consumer_or_table(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    t, other = made(lake, "t"), made(lake, "other")
    for table in (t, other):
        table.write([{"p": 1, "k": 1, "v": 1}])
        table.consumers.reset("a", 1)
        table.consumers.reset("b", 2)
    own, foreign = (Path(x.location, "consumer", "consumer-a") for x in (t, other))
    shutil.copy(own.with_name("consumer-b"), own)
    with pytest.raises(Corrupt, match=r"it is the position of consumer 'b'"):
        list(t.stream(consumer="a", follow=False))
    shutil.copy(foreign, own)
    with pytest.raises(Corrupt, match=r"table\.consumers\.delete\('a'\)") as e:
        list(t.stream(consumer="a", follow=False))
    assert str(own) in str(e.value)
    t.consumers.delete("a")
    assert len(list(t.stream(consumer="a", follow=False))) == 1


def test_a_position_of_another_engine_says_not_whose_it_is(tmp_path: Path) -> None:
    t = made(ts.connect(tmp_path), "t")
    t.write([{"p": 1, "k": 1, "v": 1}])
    t.consumers.reset("a", 1)
    Path(t.location, "consumer", "consumer-a").write_text('{"nextSnapshot": 2}')
    assert list(t.stream(consumer="a", follow=False)) == []


@pytest.mark.parametrize("place", ["schema/schema-1", "branch/branch-b/schema/schema-0"])
def test_the_schema_of_another_table(tmp_path: Path, place: str) -> None:
    lake = ts.connect(tmp_path)
    t, other = made(lake, "t"), made(lake, "other")
    for table in (t, other):
        table.write([{"p": 1, "k": 1, "v": 1}])
        table.branches.create("b")
        table.alter(ts.add("w", ts.INT))
    assert ts.open(t.location).branch("b").scan().count() == 0
    shutil.copy(Path(other.location, place), Path(t.location, place))
    with pytest.raises(Corrupt, match="it is of another table") as e:
        ts.open(t.location).branch("b").scan().to_arrow()
    assert place in str(e.value)


def test_an_older_schema_of_another_table(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    t, other = made(lake, "t"), made(lake, "other")
    for table in (t, other):
        table.write([{"p": 1, "k": 1, "v": 1}])
        for name in ("w", "x"):
            table = table.alter(ts.add(name, ts.INT))
            table.write([{"p": 1, "k": 2, "v": 1}])
    shutil.copy(Path(other.location, "schema/schema-1"), Path(t.location, "schema/schema-1"))
    with pytest.raises(Corrupt, match="it is of another table"):
        ts.open(t.location).scan().to_arrow()


def two(tmp_path: Path, **options: Any) -> tuple[ts.Table, ts.Table]:
    """Two tables of the same columns, each with three snapshots, the tag v and the branch b."""
    lake = ts.connect(tmp_path)
    both = made(lake, "t", **options), made(lake, "other", **options)
    for n, table in enumerate(both):
        for k in range(3):
            table.write([{"p": 1, "k": k, "v": n}])
        table.tags.create("v")
        table.branches.create("b", "v")
        table.branch("b").write([{"p": 1, "k": 9, "v": n}])
    return both


def laid_over(place: str, t: ts.Table, other: ts.Table) -> Path:
    """The file of `other` in the place of that of `t`, with all files that it names."""
    for folder in ("manifest", "p=1/bucket-0"):
        shutil.copytree(Path(other.location, folder), Path(t.location, folder), dirs_exist_ok=True)
    shutil.copy(Path(other.location, place), Path(t.location, place))
    return Path(t.location, place)


def looks(t: ts.Table, place: str) -> tuple[Callable[[], Any], ...]:
    """All that reads the file at a place of the table."""
    if place.startswith("tag"):
        return (lambda: t.at(tag="v").scan().to_arrow(), t.tags.list, lambda: t.rollback(tag="v"))
    if place.startswith("changelog"):
        return (lambda: t.changes(since=0, until=1), lambda: t.changes(since=0, until=2))
    table = t.branch("b") if place.startswith("branch") else t
    write = [{"p": 1, "k": 5, "v": 5}]
    return (lambda: table.scan().to_arrow(), lambda: table.get({"p": 1, "k": 0}), lambda: table.write(write))


@pytest.mark.parametrize("place", ["snapshot/snapshot-3", "tag/tag-v", "branch/branch-b/snapshot/snapshot-4"])
def test_the_snapshot_of_another_table(tmp_path: Path, place: str) -> None:
    t, other = two(tmp_path)
    rows = t.scan().to_arrow()
    path = laid_over(place, t, other)
    t = ts.open(t.location)
    for look in looks(t, place):
        with pytest.raises(Corrupt, match="it is of another table") as e:
            look()
        assert str(path) in str(e.value)
    assert any("it is of another table" in str(v) for v in t.check())
    t.mend(dry_run=False)
    t = ts.open(t.location)
    assert t.check() == []
    assert t.scan().to_arrow() == rows, "all else says what it said, of snapshot 3 by its tag"


def test_the_changelog_of_another_table(tmp_path: Path) -> None:
    kept = {
        "changelog-producer": "input",
        "snapshot.num-retained.min": 1,
        "snapshot.num-retained.max": 5,
        "changelog.num-retained.min": 9,
        "changelog.num-retained.max": 9,
    }
    t, other = two(tmp_path, **kept)
    for table in (t, other):
        table.expire_snapshots(keep=1)
    path = laid_over("changelog/changelog-1", t, other)
    t = ts.open(t.location)
    for look in looks(t, "changelog"):
        with pytest.raises(Corrupt, match="it is of another table") as e:
            look()
        assert str(path) in str(e.value)
    assert any("it is of another table" in str(v) for v in t.check())


def test_snapshots_without_a_table_are_anybodys(tmp_path: Path) -> None:
    """Those of other engines and of older versions."""
    t = made(ts.connect(tmp_path), "t")
    t.write([{"p": 1, "k": 1, "v": 1}])
    path = Path(t.location, "snapshot", "snapshot-1")
    body = json.loads(path.read_bytes())
    assert body["properties"].pop("tablestore.table") == t.options["tablestore.uuid"]
    del body["tablestore.crc32"]
    path.write_text(json.dumps(body))
    t = ts.open(t.location)
    assert t.scan().count() == 1
    t.write([{"p": 1, "k": 2, "v": 1}])
    assert t.check() == []


def test_a_branch_without_its_only_snapshot(tmp_path: Path) -> None:
    t = made(ts.connect(tmp_path), "t")
    for k in range(3):
        t.write([{"p": 1, "k": k, "v": 1}])
    t.tags.create("v", 2)
    t.branches.create("b", "v")
    lost = Path(t.location, "branch/branch-b/snapshot/snapshot-2")
    whole = lost.read_bytes()
    lost.unlink()
    branch = ts.open(t.location).branch("b")
    row = [{"p": 1, "k": 9, "v": 1}]
    for look in (lambda: branch.scan().to_arrow(), lambda: branch.write(row), branch.compact):
        with pytest.raises(Corrupt, match="its snapshots are missing, although tag-v is there"):
            look()
    assert "its snapshots are missing" in ts.open(t.location).check().text
    assert "snapshot" in repr(ts.open(t.location).mend())
    ts.open(t.location).mend(dry_run=False)
    branch = ts.open(t.location).branch("b")
    assert (branch.scan().count(), branch.check(), t.check()) == (2, [], [])
    assert lost.read_bytes() == whole


def test_a_branch_without_its_snapshots_and_tags_goes_as_a_whole(tmp_path: Path) -> None:
    t = made(ts.connect(tmp_path), "t")
    t.write([{"p": 1, "k": 1, "v": 1}])
    t.branches.create("b")
    assert t.branch("b").check() == []
    t.branch("b").write([{"p": 1, "k": 2, "v": 1}])
    Path(t.location, "branch/branch-b/snapshot/snapshot-1").unlink()
    with pytest.raises(Corrupt, match="although LATEST names snapshot 1"):
        ts.open(t.location).branch("b").scan().to_arrow()
    ts.open(t.location).mend(dry_run=False)
    t = ts.open(t.location)
    assert (t.branches.names(), t.check(), t.scan().count()) == ([], [], 1)


@pytest.mark.parametrize("tagged", [True, False])
def test_a_table_without_its_snapshots(tmp_path: Path, tagged: bool) -> None:
    t = made(ts.connect(tmp_path), "t")
    for k in range(3):
        t.write([{"p": 1, "k": k, "v": 1}])
    if tagged:
        t.tags.create("v", 2)
    for path in Path(t.location, "snapshot").glob("snapshot-*"):
        path.unlink()
    t = ts.open(t.location)
    assert "at snapshot None" in repr(t)
    for look in (lambda: t.scan().to_arrow(), lambda: t.write([{"p": 1, "k": 9, "v": 1}])):
        with pytest.raises(Corrupt, match="its snapshots are missing, although LATEST names snapshot 3"):
            look()
    assert "its snapshots are missing" in t.check().text
    if not tagged:
        with pytest.raises(Corrupt, match="put back a copy of the newest snapshot's file"):
            t.mend(dry_run=False)
        return
    t.mend(dry_run=False)
    t = ts.open(t.location)
    assert (t.scan().count(), t.check()) == (2, [])
