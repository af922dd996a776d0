"""Tags, branches, rollback, expiry, statistics and time travel beside Java Paimon 2.0.0: either engine makes
them, the other reads them and goes on."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon
from tests.peers.travels import TABLE, of, rows

pytestmark = pytest.mark.peer


def files_of(path: str) -> set[str]:
    """Every file but hints, schemas and what only our expiry keeps, relative to the table."""
    actual = set()
    for folder, _, names in os.walk(path):
        actual |= {os.path.relpath(os.path.join(folder, n), path) for n in names if not n.startswith(".")}
    ours = (os.path.join("tablestore", "history"), os.path.join("tablestore", "synced"))
    actual = {f for f in actual if not f.startswith(ours)}
    return {f for f in actual if os.path.basename(f) not in ("LATEST", "EARLIEST")}


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
    created = t.analyze()
    actual = java.statistics(t.location)
    assert (actual["snapshotId"], actual["mergedRecordCount"]) == (2, 3)
    assert java.snapshots(t.location)[-1]["commit_kind"] == "ANALYZE"
    assert ts.open(t.location).inspect.snapshots()["commit_kind"][-1].as_py() == "ANALYZE"
    assert created.snapshots == (3,)
    columns = actual["colStats"]
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


def test_java_writes_on_after_an_analyze_of_new_columns(java: JavaPaimon, tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    t.write(rows(0, 3, "a"))
    t = t.alter(ts.add("n", ts.INT))
    t.analyze()
    assert java.statistics(t.location)["colStats"]["n"]["nullCount"] == 3
    java.write(t.location, [(7, "b", 1)])
    assert java.rows(t.location) == of(ts.open(t.location))
    assert len(of(ts.open(t.location))) == 4


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
    ids = fresh.store.snapshots.ids()
    assert ids[0] > 1
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
