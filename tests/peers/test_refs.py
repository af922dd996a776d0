"""Tags, branches, rollback, expiry, statistics and time travel beside Java Paimon 2.0.0: either engine makes
them, the other reads them and goes on."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import NotFound, TablestoreError
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaError, JavaPaimon
from tests.read import golden
from tests.tables import KEEP_ALL, KEYED

pytestmark = pytest.mark.peer


TABLE = KEYED.with_options(KEEP_ALL)


def rows(first: int, n: int, v: str) -> pa.Table:
    return pa.table({"k": pa.array(range(first, first + n), pa.int64()), "v": [v] * n})


def of(table: ts.Table) -> list[list[Any]]:
    return in_order(cells(table.scan().to_arrow()))


def copied(tmp_path: Path, name: str) -> str:
    path = tmp_path / "j.db" / name
    shutil.copytree(golden.JAVA / "warehouse" / "j.db" / name, path)
    return str(path)


def files_of(path: str) -> set[str]:
    """Every file but hints, schemas and what only our expiry keeps, relative to the table."""
    found = set()
    for folder, _, names in os.walk(path):
        found |= {os.path.relpath(os.path.join(folder, n), path) for n in names if not n.startswith(".")}
    ours = (os.path.join("tablestore", "history"), os.path.join("tablestore", "synced"))
    found = {f for f in found if not f.startswith(ours)}
    return {f for f in found if os.path.basename(f) not in ("LATEST", "EARLIEST")}


def test_tags_of_either_engine_are_read_by_the_other(java: JavaPaimon, tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    for i in range(3):
        t.write(rows(i * 5, 5, f"v{i}"))
    t.tags.create("ours", 1, retain="1 d")
    t.tags.create("plain")
    java.create_tag(t.location, "2026-11-21 10:00", snapshot=2, retain_ms=90_061_001)
    for name in ("ours", "plain", "2026-11-21 10:00"):
        assert java.rows(t.location, options={"scan.tag-name": name}) == of(t.at(tag=name)), name
    assert t.tags.names() == ["2026-11-21 10:00", "ours", "plain"]
    kept = {r["tag_name"]: r["time_retained"] for r in t.tags.list().to_pylist()}
    assert kept == {"ours": "PT24H", "plain": None, "2026-11-21 10:00": "PT25H1M1.001S"}
    java.delete_tag(t.location, "ours")
    t.tags.delete("2026-11-21 10:00")
    assert t.tags.names() == ["plain"]
    assert [r["tag_name"] for r in java.read(t.location, suffix="tags").named()] == ["plain"]


def test_a_tag_keeps_its_files_whoever_expires(java: JavaPaimon, tmp_path: Path) -> None:
    for who in ("java", "us"):
        t = TABLE.create(tmp_path / who, {"num-sorted-run.compaction-trigger": 2})
        for i in range(6):
            t.write(rows(i, 5, f"v{i}"))
        t.tags.create("kept", 2)
        wanted = of(t.at(tag="kept"))
        if who == "java":
            java.expire(t.location, max=1, min=1, time_ms=0)
        else:
            t.expire_snapshots(keep=1)
        assert len(t.store.snapshots.ids()) == 1
        assert of(ts.open(t.location).at(tag="kept")) == wanted
        assert java.rows(t.location, options={"scan.tag-name": "kept"}) == wanted
        assert java.rows(t.location) == of(ts.open(t.location))
        before = files_of(t.location)
        if who == "java":
            t.tags.delete("kept")
        else:
            java.delete_tag(t.location, "kept")
        assert files_of(t.location) < before
        assert java.rows(t.location) == of(ts.open(t.location))
        assert ts.open(t.location).remove_orphans("1 ms", force=True).files == (), who


def test_both_delete_the_same_files_when_a_tag_goes(java: JavaPaimon, tmp_path: Path) -> None:
    t = TABLE.create(tmp_path / "a", {"num-sorted-run.compaction-trigger": 2})
    for i in range(6):
        t.write(rows(i, 5, f"v{i}"))
    for name, snapshot in (("early", 1), ("middle", 3)):
        t.tags.create(name, snapshot)
    t.expire_snapshots(keep=1)
    other = str(tmp_path / "b")
    shutil.copytree(t.location, other)
    t.tags.delete("early")
    java.delete_tag(other, "early")
    assert files_of(t.location) == files_of(other)


def test_both_expire_the_same_files(java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        producer = rng.choice(["none", "input"])
        t = TABLE.create(
            tmp_path / f"{seed}a", {"num-sorted-run.compaction-trigger": 3, "changelog-producer": producer}
        )
        for i in range(8):
            t.write(rows(rng.randrange(20), rng.randrange(1, 9), f"v{i}"))
        t.tags.create("kept", rng.randrange(1, 6))
        other, keep = str(tmp_path / f"{seed}b"), rng.randrange(1, 4)
        shutil.copytree(t.location, other)
        t.expire_snapshots(keep=keep)
        java.expire(other, max=keep, min=keep, time_ms=0)
        ours, theirs = files_of(t.location), files_of(other)
        tagged = {f for f in ours - theirs if "changelog" in f or "manifest" in f}
        assert theirs <= ours, f"seed {seed}"
        assert ours - theirs == tagged, f"seed {seed}: a tag keeps the changelog of its snapshot, no more"
        assert java.rows(t.location) == of(ts.open(t.location)), f"seed {seed}"


def test_a_branch_of_ours_is_java_s(java: JavaPaimon, tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    t.write(rows(0, 5, "main"))
    t.tags.create("base")
    t.branches.create("b", "base")
    t.branches.create("empty")
    t.branch("b").write(rows(3, 4, "branch"))
    java.write(t.location, [[9, "java on b"]], branch="b", user="j", identifier=1)
    java.write(t.location, [[1, "java on empty"]], branch="empty", user="j", identifier=1)
    t.write(rows(20, 1, "later"))
    for name in ("b", "empty"):
        assert java.rows(t.location, branch=name) == of(t.branch(name)), name
    assert java.rows(t.location) == of(t)
    assert sorted(r["branch_name"] for r in java.read(t.location, suffix="branches").named()) == [
        "b",
        "empty",
    ]
    assert ts.connect(str(tmp_path)).table("d.t$branch_b").scan().count() == 8
    java.fast_forward(t.location, "b")
    fresh = ts.open(t.location)
    assert of(fresh) == of(t.branch("b"))
    fresh.write(rows(40, 1, "after"))
    assert java.rows(t.location) == of(ts.open(t.location))
    assert ts.open(t.location).check() == []


def test_a_branch_of_java_s_is_ours(java: JavaPaimon, tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    java.write(t.location, [[1, "a"], [2, "b"]], user="j", identifier=1)
    java.create_tag(t.location, "base")
    java.create_branch(t.location, "b", tag="base")
    java.write(t.location, [[3, "c"]], branch="b", user="j", identifier=2)
    java.write(t.location, [[4, "main"]], user="j", identifier=2)
    t.branch("b").write(rows(5, 1, "ours"))
    assert java.rows(t.location, branch="b") == of(t.branch("b"))
    t.branches.fast_forward("b")
    assert java.rows(t.location) == of(ts.open(t.location))
    assert [r[0] for r in java.rows(t.location)] == [1, 2, 3, 5]
    java.write(t.location, [[6, "on"]], user="j", identifier=9)
    assert java.rows(t.location) == of(ts.open(t.location))
    t.branches.delete("b")
    assert java.read(t.location, suffix="branches").rows == []
    assert ts.open(t.location).check() == []


def test_either_engine_rolls_back_and_the_other_goes_on(java: JavaPaimon, tmp_path: Path) -> None:
    for who in ("java", "us"):
        t = TABLE.create(tmp_path / who)
        for i in range(5):
            t.write(rows(i * 3, 4, f"v{i}"))
        t.tags.create("late", 4)
        t.tags.create("two", 2)
        wanted = of(t.at(snapshot=2))
        if who == "java":
            java.rollback(t.location, snapshot=2)
            t.write(rows(50, 1, "on"))
        else:
            t.rollback(tag="two")
            java.write(t.location, [[50, "on"]], user="j", identifier=1)
        fresh = ts.open(t.location)
        assert of(fresh.at(snapshot=2)) == wanted
        assert fresh.store.snapshots.ids() == [1, 2, 3]
        assert fresh.tags.names() == ["two"]
        assert java.rows(t.location) == of(fresh)
        assert fresh.check() == []


def test_statistics_go_both_ways(java: JavaPaimon, tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.s",
        schema={
            "k": ts.BIGINT,
            "v": ts.STRING,
            "d": ts.DECIMAL(10, 2),
            "day": ts.DATE,
            "at": ts.TIMESTAMP(3),
        },
        primary_key=["k"],
    )
    t.write(
        pa.table(
            {
                "k": [1, 2, 3],
                "v": ["a", None, "éé"],
                "d": pa.array(["1.50", "-2.25", None]).cast(pa.decimal128(10, 2)),
                "day": pa.array([19724, None, 3], pa.int32()).cast(pa.date32()),
                "at": pa.array([1704164645678, 0, None], pa.timestamp("ms")),
            }
        )
    )
    t.write(pa.table({"k": [1], "v": ["a"]}))
    made = t.analyze()
    found = java.statistics(t.location)
    assert (found["snapshotId"], found["mergedRecordCount"]) == (2, 3)
    assert java.snapshots(t.location)[-1]["commit_kind"] == "ANALYZE"
    assert ts.open(t.location).inspect.snapshots()["commit_kind"][-1].as_py() == "ANALYZE"
    assert made.snapshots == (3,)
    columns = found["colStats"]
    assert (columns["k"]["min"], columns["k"]["max"], columns["k"]["distinctCount"]) == ("1", "3", 3)
    assert (columns["v"]["nullCount"], columns["v"]["maxLen"], columns["v"]["distinctCount"]) == (1, 2, 2)
    assert columns["d"]["min"] == columns["d"]["max"] == "-2.25"
    assert columns["day"]["max"] == "3"
    assert columns["at"]["min"] == "1970-01-01 00:00:00.000"
    java.analyze(
        t.location,
        {"snapshotId": 3, "schemaId": 0, "mergedRecordCount": 7, "mergedRecordSize": 1, "colStats": {}},
    )
    assert ts.open(t.location).inspect.statistics()["mergedRecordCount"].to_pylist() == [7]
    assert java.rows(t.location) == of(ts.open(t.location))


TRAVELS: list[dict[str, Any]] = [
    {"scan.snapshot-id": 2},
    {"scan.tag-name": "t1"},
    {"scan.version": "t1"},
    {"scan.version": "3"},
    {"scan.version": "9"},
    {"scan.version": "no such"},
    {"scan.tag-name": "no such"},
    {"scan.snapshot-id": 77},
    {"scan.timestamp-millis": 1},
    {"scan.timestamp-millis": 9_999_999_999_999},
    {"scan.timestamp": "2026-11-21 00:31:06.990"},
    {"scan.watermark": 3},
    {"scan.mode": "latest"},
    {"scan.mode": "full"},
    {"scan.mode": "compacted-full"},
    {"scan.mode": "from-snapshot-full", "scan.snapshot-id": 2},
    {"scan.mode": "from-snapshot"},
    {"scan.mode": "latest-full", "scan.snapshot-id": 2},
    {"scan.mode": "from-timestamp", "scan.timestamp-millis": 1_795_221_066_990},
    {"scan.file-creation-time-millis": 1_795_221_067_000},
    {"scan.creation-time-millis": 1_795_221_066_950},
    {"scan.creation-time-millis": 1},
    {"incremental-between": "1,3"},
    {"incremental-between": "0,6"},
    {"incremental-between": "kept,t1"},
    {"incremental-between": "t1,nix"},
    {"incremental-between": "3,1"},
    {"incremental-between": "2,2"},
    {"incremental-between": "0,99"},
    {"incremental-between": "t1,kept", "incremental-between-tag-to-snapshot": True},
    {"incremental-between": "2,6", "incremental-between-scan-mode": "changelog"},
    {"incremental-between": "0,3", "incremental-between-scan-mode": "delta"},
    {"incremental-between-timestamp": "1795221066940,1795221067100"},
    {"incremental-between-timestamp": "2026-11-21 00:31:06.950,2026-11-21 00:31:07.001"},
]


def _both(java: JavaPaimon, path: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """What both say; a refusal is the word "refused"."""
    try:
        found = ts.open(path).with_options(options).system("audit_log").to_arrow()
        ours: Any = in_order(cells(found))
    except TablestoreError:
        ours = "refused"
    try:
        theirs: Any = in_order(java.read(path, suffix="audit_log", options=options).rows)
    except JavaError:
        theirs = "refused"
    return ours, theirs


@pytest.mark.parametrize("options", TRAVELS, ids=str)
@pytest.mark.sample(12)
def test_where_a_read_starts_is_where_java_s_does(
    java: JavaPaimon, tmp_path: Path, options: dict[str, Any]
) -> None:
    ours, theirs = _both(java, copied(tmp_path, "branch_tags"), options)
    assert ours == theirs


def test_watermarks_are_travelled_to_alike(java: JavaPaimon, tmp_path: Path) -> None:
    path = copied(tmp_path, "analyzed")
    marks = sorted({s.watermark for s in ts.open(path).store.snapshots.all() if s.watermark is not None})
    assert marks
    for mark in (marks[0] - 1, *marks, marks[-1] + 1):
        ours, theirs = _both(java, path, {"scan.watermark": mark})
        assert ours == theirs, mark


@pytest.mark.parametrize("name", ["overwrite", "pk_changelog_input", "pk_changelog_lookup", "pk_levels"])
@pytest.mark.sample(2)
def test_differences_are_those_of_the_states(java: JavaPaimon, tmp_path: Path, name: str) -> None:
    """Java compares by files: it also tells rows that were written again as they were, and of a tombstone its
    own values, be the key new or not. Of rows that really differ both tell the same."""
    path = copied(tmp_path, name)
    table = ts.open(path)
    ids, keys = table.store.snapshots.ids(), table.primary_key
    for start, end in ((ids[0], ids[-1]), (ids[1], ids[3 % len(ids)]), (ids[-2], ids[-1])):
        if start >= end:
            continue
        options = {"incremental-between": f"{start},{end}", "incremental-between-scan-mode": "diff"}
        ours, theirs = _both(java, path, options)
        before, after = ({tuple(r[k] for k in keys): r for r in state(table, s)} for s in (start, end))
        expected = {(*("+I",), *map(str, r.values())) for k, r in after.items() if before.get(k) != r}
        expected |= {(*("-D",), *map(str, r.values())) for k, r in before.items() if k not in after}
        diff = table.changes(since=start, until=end, mode="diff").to_pylist()
        assert {(r.pop("rowkind").replace("+U", "+I"), *map(str, r.values())) for r in diff} == expected
        there = [r for r in theirs if r[0][0] == "+"]
        assert [r for r in there if r in ours] == [r for r in ours if r[0][0] == "+"], options
        again = [r[1:] for r in there if r not in ours]
        assert all(r in in_order(cells(table.at(snapshot=start).scan().to_arrow())) for r in again), options
        gone, theirs_gone = ({str(r[1 : 1 + len(keys)]) for r in x if r[0] == "-D"} for x in (ours, theirs))
        assert gone <= theirs_gone, options
        assert table.with_options(options).scan().count() == len([r for r in ours if r[0][0] == "+"])


def state(table: ts.Table, snapshot: int) -> list[dict[str, Any]]:
    return table.at(snapshot=snapshot).scan().to_arrow().to_pylist()


STREAMS: list[dict[str, Any]] = [
    {},
    {"scan.mode": "latest"},
    {"scan.mode": "from-snapshot", "scan.snapshot-id": 2},
    {"scan.snapshot-id": 4},
    {"scan.mode": "from-snapshot-full", "scan.snapshot-id": 3},
    {"scan.mode": "compacted-full"},
    {"scan.timestamp-millis": 1},
    {"streaming-read-overwrite": True, "scan.snapshot-id": 1},
    {"scan.tag-name": "t1"},
]


@pytest.mark.parametrize("options", STREAMS, ids=str)
@pytest.mark.parametrize("name", ["overwrite", "pk_changelog_lookup", "branch_tags"])
@pytest.mark.sample(9)
def test_streams_begin_and_go_on_as_java_s(
    java: JavaPaimon, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    path = copied(tmp_path, name)
    try:
        steps: object = [
            in_order(cells(c.to_arrow()))
            for c in ts.open(path).with_options(options).stream(follow=False, normalize=False)
        ]
    except TablestoreError:
        steps = "refused"
    try:
        theirs: object = [in_order(p["changes"]) for p in java.stream(path, start=None, options=options)]
    except JavaError:
        theirs = "refused"
    assert steps == theirs


def test_a_consumer_of_java_s_is_gone_on_with(java: JavaPaimon, tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    t.write(rows(0, 2, "a"))
    java.stream(t.location, start=None, done=True, options={"consumer-id": "job"})
    assert t.consumers.list().to_pylist() == [{"consumer_id": "job", "next_snapshot_id": 2}]
    t.write(rows(5, 1, "b"))
    (step,) = t.with_options({"consumer-id": "job"}).stream(follow=False)
    assert step.to_arrow().to_pylist() == [{"rowkind": "+I", "k": 5, "v": "b"}]
    assert java.read(t.location, suffix="consumers").named() == [
        {"consumer_id": "job", "next_snapshot_id": 3}
    ]
    t.write(rows(6, 1, "c"))
    t.expire_snapshots(keep=1)
    assert t.store.snapshots.ids() == [3]
    java.expire(t.location, max=1, min=1, time_ms=0)
    assert t.store.snapshots.ids() == [3]
    t.consumers.delete("job")
    with pytest.raises(NotFound, match="no consumer 'job'"):
        t.consumers.delete("job")


@pytest.mark.parametrize("producer", ["none", "input"])
@pytest.mark.parametrize("who", ["java", "us"])
@pytest.mark.sample(2)
def test_changelogs_outlive_their_snapshots(
    java: JavaPaimon, tmp_path: Path, producer: str, who: str
) -> None:
    t = TABLE.create(
        tmp_path,
        {
            "changelog-producer": producer,
            "changelog.num-retained.min": 6,
            "changelog.num-retained.max": 6,
            "write-only": True,
            "snapshot.num-retained.min": 2,
            "snapshot.num-retained.max": 2,
        },
    )
    for i in range(5):
        t.write(rows(i, 2, f"v{i}"))
    t.with_options({"write-only": False}).compact(full=True)
    wanted = [in_order(p["changes"]) for p in java.stream(t.location, start=1)]
    if who == "java":
        java.expire(
            t.location, max=2, min=2, time_ms=0, changelog_max=6, changelog_min=6, changelog_time_ms=0
        )
    else:
        t.expire_snapshots(keep=2)
    fresh = ts.open(t.location)
    known = fresh.store.snapshots.ids()
    assert known[0] > 1
    assert [
        in_order(cells(c.to_arrow())) for c in fresh.stream(start=1, follow=False, normalize=False)
    ] == wanted
    assert [in_order(p["changes"]) for p in java.stream(t.location, start=1)] == wanted
    assert in_order(cells(fresh.changes(since=0))) == in_order([r for step in wanted for r in step])
    assert fresh.check() == []
    assert fresh.remove_orphans("1 ms", force=True).files == ()
    for i in range(4):
        fresh.write(rows(i, 1, "w"))
    fresh.expire_snapshots(keep=2)
    assert java.rows(t.location) == of(ts.open(t.location))
    oldest = fresh.stream(start="earliest", follow=False, normalize=False)
    assert next(iter(oldest)).snapshot > 1
    assert fresh.remove_orphans("1 ms", force=True).files == ()


def test_automatic_tags_are_named_alike(java: JavaPaimon, tmp_path: Path) -> None:
    options = {
        "tag.automatic-creation": "watermark",
        "tag.creation-period": "hourly",
        "tag.num-retained-max": 3,
    }
    for formatter in ("with_dashes", "without_dashes", "without_dashes_and_spaces"):
        chosen = options | {"tag.period-formatter": formatter, "tag.default-time-retained": "9999 d"}
        ours, theirs = (TABLE.create(tmp_path / f"{formatter}{who}", chosen) for who in "ab")
        hour, begin = 3_600_000, 1_700_006_400_000
        for i, moment in enumerate((5, 7, hour, hour + 1, 4 * hour - 1, 4 * hour, 6 * hour, 6 * hour + 9)):
            ours.write(rows(i, 1, "v"), watermark=begin + moment)
            java.write(
                theirs.location, [[i, "v"]], user="j", identifier=i, watermark=begin + moment, expire=True
            )
        tags = [
            {n: ts.open(x.location).at(tag=n).scan().count() for n in x.tags.names()} for x in (ours, theirs)
        ]
        assert tags[0] == tags[1]
        assert len(tags[0]) == 3


@pytest.mark.parametrize("producer", ["none", "input"])
@pytest.mark.sample(1)
def test_both_expire_the_same_changelogs(java: JavaPaimon, tmp_path: Path, producer: str) -> None:
    t = TABLE.create(
        tmp_path / "a",
        {
            "changelog-producer": producer,
            "changelog.num-retained.min": 5,
            "changelog.num-retained.max": 5,
            "write-only": True,
            "snapshot.num-retained.min": 2,
            "snapshot.num-retained.max": 2,
        },
    )
    for i in range(6):
        t.write(rows(i, 2, f"v{i}"))
    t.compact(full=True)
    t.write(rows(9, 1, "w"))
    other = str(tmp_path / "b")
    shutil.copytree(t.location, other)
    t.expire_snapshots(keep=2)
    limits = {"changelog_max": 5, "changelog_min": 5, "changelog_time_ms": 0}
    java.expire(other, max=2, min=2, time_ms=0, **limits)
    java.expire_changelog(other, max=2, min=2, time_ms=0, **limits)
    kept = [sorted(f for f in files_of(p) if f.startswith("changelog/")) for p in (t.location, other)]
    assert kept[0] == kept[1] == ["changelog/changelog-4", "changelog/changelog-5", "changelog/changelog-6"]
    data = [sorted(f for f in files_of(p) if "bucket-" in f) for p in (t.location, other)]
    assert data[0] == data[1]
    assert files_of(t.location) <= files_of(other)
    more = files_of(other) - files_of(t.location)
    assert all(os.path.basename(f).startswith("manifest-") for f in more)


def test_both_find_the_same_orphans(java: JavaPaimon, tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"num-sorted-run.compaction-trigger": 2, "changelog-producer": "input"})
    for i in range(5):
        t.write(rows(i, 2, f"v{i}"))
    t.tags.create("kept", 2)
    t.branches.create("b", "kept")
    t.branch("b").write(rows(9, 1, "w"))
    t.analyze()
    t.expire_snapshots(keep=2)
    later = 4_000_000_000_000
    assert java.clean_orphans(t.location, older_than_ms=later, dry_run=True) == 0
    for name in (
        "bucket-0/data-x.parquet",
        "manifest/manifest-x-0",
        "index/index-x-0",
        "statistics/stat-x-0",
    ):
        path = Path(t.location, name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"1234")
    assert java.clean_orphans(t.location, older_than_ms=later, dry_run=True) == 4
    assert len(t.remove_orphans("0 ms", force=True).files) == 4
    assert java.clean_orphans(t.location, older_than_ms=later, dry_run=False) == 4
    assert t.remove_orphans("0 ms", force=True).files == ()
    assert java.rows(t.location, branch="b") == of(t.branch("b"))
