"""Change tracking switched off, of a table or of one partition: no changelog files, nothing else changes, and
whoever reads changes is refused exactly where some are missing."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest, Unsupported
from tablestore.core.options.table_options import TableOptions
from tablestore.format.change_tracking import ChangeTracking, partition_at, path_of
from tablestore.format.manifests.manifest import ADD
from tablestore.lsm.compaction.rewriter import Mode
from tests.tables import KEEP_ALL, TableSpec

OFF = {"change-tracking": False}
DAYS = TableSpec(
    {"dt": ts.DATE, "region": ts.STRING, "k": ts.INT, "v": ts.INT},
    primary_key=("dt", "region", "k"),
    partition_by=("dt", "region"),
    options=KEEP_ALL,
)
FIRST, SECOND = dt.date(2026, 1, 1), dt.date(2026, 1, 2)
OF_FIRST = {"dt": FIRST, "region": "e/u"}
OPTION = "tablestore.change-tracking.dt=2026-01-01/region=e%2Fu"
PRODUCERS = ("input", "lookup", "full-compaction")
ENGINES: dict[str, dict[str, Any]] = {
    "lookup": {"changelog-producer": "lookup"},
    "lookup with vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": True},
    "lookup of first rows": {"changelog-producer": "lookup", "merge-engine": "first-row"},
    "lookup of sums": {
        "changelog-producer": "lookup",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
    },
    "lookup of partial updates": {"changelog-producer": "lookup", "merge-engine": "partial-update"},
    "full compaction": {"changelog-producer": "full-compaction", "full-compaction.delta-commits": 2},
    "input": {"changelog-producer": "input"},
}


def rows(day: dt.date, keys: range, value: int) -> list[dict[str, Any]]:
    return [{"dt": day, "region": "e/u", "k": k, "v": value} for k in keys]


def both(keys: range, value: int) -> list[dict[str, Any]]:
    return rows(FIRST, keys, value) + rows(SECOND, keys, value)


def days_with_changelog(t: ts.Table) -> dict[int, set[str]]:
    """The partitions that each snapshot has changelog files of."""
    collected = {}
    for snapshot in t.store.snapshots.all():
        entries = t.store.manifests.changelog_entries(snapshot)
        collected[snapshot.id] = {t.store.partition_text(e.partition)[3:13] for e in entries if e.kind == ADD}
    return {k: v for k, v in collected.items() if v}


def content(t: ts.Table) -> list[dict[str, Any]]:
    return sorted(t.scan().to_arrow().to_pylist(), key=lambda r: (r["dt"], r["k"]))


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_partition_stops_and_starts_again_while_others_go_on(tmp_path: Path, producer: str) -> None:
    t = DAYS.create(tmp_path, {"changelog-producer": producer})
    t.write(both(range(3), 1))
    off = t.alter(ts.set_options(OFF, partition=OF_FIRST))
    assert off.options[OPTION] == "false"
    off.write(both(range(3), 2))
    off.compact(full=True)
    on = off.alter(ts.reset_options("change-tracking", partition=OF_FIRST))
    assert OPTION not in on.options
    on.write(both(range(3), 3))
    days = list(days_with_changelog(on).values())
    assert days == [{"2026-01-01", "2026-01-02"}, {"2026-01-02"}, {"2026-01-01", "2026-01-02"}]
    assert content(on) == both(range(3), 3)
    assert on.check() == []


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.sample(2)
def test_rows_are_those_of_a_table_that_tracks(tmp_path: Path, name: str) -> None:
    collected = {}
    for tracks in (True, False):
        t = DAYS.create(tmp_path / str(tracks), {**ENGINES[name], "tablestore.change-tracking": tracks})
        for n in range(4):
            t.write(both(range(n, n + 6), n))
        if "merge-engine" not in ENGINES[name]:
            t.delete(ts.col("k") == 4)
        t.compact(full=True)
        t.write(both(range(2, 9), 9))
        collected[tracks] = content(t)
        assert bool(days_with_changelog(t)) == tracks
        assert t.check() == []
    assert collected[True] == collected[False]


def test_a_compaction_writes_none_either(tmp_path: Path) -> None:
    t = DAYS.create(tmp_path, {"changelog-producer": "lookup", "write-only": True})
    for n in range(3):
        t.write(both(range(3), n))
    t = t.alter(ts.set_options(OFF, partition=OF_FIRST))
    messages = [ts.compact_bucket(t.location, task) for task in t.buckets_to_compact(full=True)]
    t.commit(messages, user="compactor")
    assert list(days_with_changelog(t).values()) == [{"2026-01-02"}]
    assert t.check() == []


def test_lookups_that_serve_the_changelog_alone_are_left_out() -> None:
    def mode(options: dict[str, str]) -> Mode:
        return Mode.of(TableOptions.parse({**options, "tablestore.change-tracking": "false"}))

    assert mode({"changelog-producer": "lookup"}) is Mode.MERGE
    assert mode({"changelog-producer": "full-compaction"}) is Mode.MERGE
    assert mode({"changelog-producer": "lookup", "merge-engine": "aggregation"}) is Mode.LOOKUP
    assert mode({"changelog-producer": "lookup", "deletion-vectors.enabled": "true"}) is Mode.LOOKUP
    assert mode({"changelog-producer": "lookup", "merge-engine": "first-row"}) is Mode.FIRST_ROW


@pytest.mark.parametrize("producer", ["none", *PRODUCERS])
def test_a_stream_of_it_is_refused_by_name(tmp_path: Path, producer: str) -> None:
    t = DAYS.create(tmp_path, {"changelog-producer": producer})
    t.write(both(range(3), 1))
    t = t.alter(ts.set_options(OFF, partition=OF_FIRST))
    with pytest.raises(Unsupported, match=r"partition dt=2026-01-01/region=e/u of table .*d\.db/t.*reset"):
        t.stream(follow=False)
    assert [a.works for a in t.abilities() if a.verb == "stream"] == [False]
    kept = list(t.stream(follow=False, where="dt = '2026-01-02'"))
    assert sum(b.num_rows for step in kept for b in step.batches) == 3
    assert len(list(t.stream(follow=False, normalize="lookup"))) == 1
    t = t.alter(ts.set_options(OFF), ts.reset_options("change-tracking", partition=OF_FIRST))
    with pytest.raises(Unsupported, match=r"changes of table .*d\.db/t, whose change tracking is off"):
        t.stream(follow=False)


@pytest.mark.parametrize("producer", PRODUCERS)
def test_changes_of_the_time_without_are_refused_by_partition(tmp_path: Path, producer: str) -> None:
    t = DAYS.create(tmp_path, {"changelog-producer": producer})
    t.write(both(range(3), 1))
    before = t.store.snapshots.latest_id()
    t = t.alter(ts.set_options(OFF, partition=OF_FIRST))
    t.write(both(range(3), 2))
    gap = t.store.snapshots.latest_id()
    t = t.alter(ts.reset_options("change-tracking", partition=OF_FIRST))
    t.write(both(range(3), 3))
    with pytest.raises(Unsupported, match=rf"dt=2026-01-01/region=e/u .*was off in snapshot {gap}"):
        t.changes(since=0)
    with pytest.raises(Unsupported, match=f"was off in snapshot {gap}"):
        list(t.stream(start="earliest", follow=False))
    assert t.changes(since=0, until=before).num_rows == 6
    assert t.changes(since=gap).num_rows >= 6
    assert t.changes(since=before, until=gap, mode="diff").num_rows > 0
    of_second = t.with_options({"incremental-between": f"0,{gap}"}).scan(where="dt = '2026-01-02'")
    assert of_second.to_arrow().num_rows > 0
    steps = t.stream(start="earliest", follow=False, where="dt = '2026-01-02'")
    assert sum(b.num_rows for step in steps for b in step.batches) > 0


def test_a_running_stream_ends_where_changes_are_missing(tmp_path: Path) -> None:
    t = DAYS.create(tmp_path, {"changelog-producer": "input"})
    t.write(both(range(3), 1))
    steps = iter(t.stream(follow=False, start="earliest"))
    assert next(steps).snapshot == 1
    t.alter(ts.set_options(OFF, partition=OF_FIRST)).write(both(range(3), 2))
    with pytest.raises(Unsupported, match="was off in snapshot 2"):
        next(steps)


def test_a_writer_from_before_the_alter_is_judged_by_its_own_schema(tmp_path: Path) -> None:
    tracking = DAYS.create(tmp_path, {"changelog-producer": "input"})
    tracking.write(both(range(1), 1))
    silent = tracking.alter(ts.set_options(OFF))
    tracking.write(both(range(2), 2))
    assert tracking.changes(since=1).num_rows == 4, "its changelog is there"
    on = silent.alter(ts.reset_options("change-tracking"))
    silent.write(both(range(3), 3))
    with pytest.raises(Unsupported, match="was off in snapshot 3"):
        on.changes(since=2)


def test_expired_snapshots_whose_changelogs_live_longer_are_refused_too(tmp_path: Path) -> None:
    given = {"changelog-producer": "input", "snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1}
    t = DAYS.create(tmp_path, {**given, "changelog.num-retained.max": 100, "changelog.num-retained.min": 100})
    t.write(both(range(3), 1))
    t = t.alter(ts.set_options(OFF, partition=OF_FIRST))
    t.write(both(range(3), 2))
    t = t.alter(ts.reset_options("change-tracking", partition=OF_FIRST))
    t.write(both(range(3), 3))
    assert t.store.snapshots.earliest_id() == 3
    with pytest.raises(Unsupported, match="was off in snapshot 2"):
        t.changes(since=0)
    assert t.changes(since=0, until=1).num_rows == 6
    assert t.check() == []


def test_values_in_paths_are_escaped_and_come_back(tmp_path: Path) -> None:
    t = DAYS.create(tmp_path)
    for region in ("e/u", "a=b", "50% ö", "", None):
        created = t.alter(ts.set_options(OFF, partition={"dt": FIRST, "region": region})) if region else t
        path = path_of(t.store.schema, t.store.options, (20454, region))
        place = partition_at(t.store.schema, path)
        assert place is not None
        assert t.store.partition_values(place) == (20454, region)
        assert (
            region is None or region == "" or ChangeTracking.of(created.options).of_partitions[path] is False
        )


def test_what_names_no_partition_is_refused(tmp_path: Path) -> None:
    t = DAYS.create(tmp_path)
    refusals: list[tuple[Any, type[Exception], str]] = [
        (ts.set_options(OFF, partition={"dt": FIRST}), InvalidRequest, "one value for each of dt, region"),
        (ts.set_options(OFF, partition={**OF_FIRST, "k": 1}), InvalidRequest, "one value for each of"),
        (ts.set_options(OFF, partition={**OF_FIRST, "dt": "x"}), InvalidRequest, "'dt'.*not a date"),
        (ts.set_options({"bucket": 2}, partition=OF_FIRST), InvalidOption, "'bucket' is of whole tables"),
        (ts.set_options({"change-tracking": "maybe"}, partition=OF_FIRST), InvalidOption, "true or false"),
        (
            ts.set_options({"tablestore.change-tracking.region=e": "false"}),
            InvalidOption,
            "a partition is dt=",
        ),
        (ts.reset_options("bucket", partition=OF_FIRST), InvalidOption, "of whole tables"),
    ]
    for change, error, text in refusals:
        with pytest.raises(error, match=text):
            t.alter(change)
    with pytest.raises(InvalidOption, match="is stored, as the table's rows"):
        t.with_options(OFF)
    plain = TableSpec({"k": ts.INT}, primary_key=("k",)).create(tmp_path / "plain")
    with pytest.raises(InvalidRequest, match="no partitions"):
        plain.alter(ts.set_options(OFF, partition=OF_FIRST))
    with pytest.raises(InvalidOption, match="the table has no partitions"):
        plain.alter(ts.set_options({OPTION: "false"}))
