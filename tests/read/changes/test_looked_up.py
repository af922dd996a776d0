"""Changes that are looked up in the snapshot before: of any merge engine, the same whoever asks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore import col
from tablestore.cdc.change_feed import ChangeFeed, SnapshotPiece
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.format import rowkind
from tablestore.meta import consumers
from tablestore.read.changes.looked_up import looked_up_changes, touched
from tablestore.table.table import Table
from tests.table.test_normalize import KINDS, at, made, replay, some

ADDED = {
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "max",
    "fields.p.aggregate-function": "sum",
}
DEDUPLICATE = [
    pytest.param({}, (), id="plain"),
    pytest.param({"bucket": 3, "num-sorted-run.compaction-trigger": 2}, (), id="compacting"),
    pytest.param({"write-only": True, "write-buffer-size": "1 kb"}, (), id="many flushes"),
    pytest.param({"bucket": -1}, ("p",), id="moving between partitions"),
    pytest.param({"bucket": 2}, ("p",), id="unique in each partition"),
    pytest.param({"ignore-delete": True}, (), id="ignore-delete"),
    pytest.param({"deletion-vectors.enabled": True}, (), id="deletion vectors"),
    pytest.param({"deletion-vectors.enabled": True, "lookup-wait": False}, (), id="rows that wait"),
]
OTHERS = [
    pytest.param({"sequence.field": "n"}, (), id="sequence field"),
    pytest.param({"merge-engine": "partial-update"}, (), id="partial-update"),
    pytest.param(ADDED, (), id="aggregation"),
    pytest.param({"merge-engine": "first-row"}, (), id="first-row"),
    pytest.param({"changelog-producer": "full-compaction"}, (), id="full-compaction"),
    pytest.param({"changelog-producer": "input"}, (), id="input"),
]


def lived(path: Path, rng: random.Random, options: dict[str, Any], partition_by: tuple[str, ...]) -> Table:
    t = made(path, partition_by=partition_by, **options)
    takes_deletes = "merge-engine" not in options and "sequence.field" not in options
    for _ in range(7):
        kinds = KINDS if takes_deletes else ("+I", "+U") if "merge-engine" not in options else ("+I",)
        t.write(some(rng, rng.randrange(1, 12), kinds), row_kind_column="kind")
        if rng.random() < 0.2:
            t.compact(full=True)
    return t


def rows(t: Table, snapshot: int, columns: tuple[str, ...] = (), **given: Any) -> list[dict[str, Any]]:
    value = t.store.snapshots.get(snapshot)
    reported = looked_up_changes(t.store, value, columns or t.schema.names, **given)
    return [row for batch in reported for row in batch.to_pylist()]


@pytest.mark.parametrize(("options", "partition_by"), [*DEDUPLICATE, *OTHERS])
@pytest.mark.sample(2)
def test_replayed_they_give_each_snapshot(
    tmp_path: Path, seeds: tuple[int, ...], options: dict[str, Any], partition_by: tuple[str, ...]
) -> None:
    for seed in seeds[:1]:
        t = lived(tmp_path / str(seed), random.Random(seed), options, partition_by)
        keys = ("k", *partition_by)
        state: dict[Any, Any] = {}
        for snapshot in t.store.snapshots.all():
            changes = rows(t, snapshot.id)
            assert changes == rows(t, snapshot.id), "whoever asks again is told the same"
            replay(state, changes, *keys)
            assert state == {tuple(r[k] for k in keys): r for r in at(t, snapshot.id)}, (seed, snapshot.id)
        for start in (1, {"snapshot": 2, "full": True}):
            seen: dict[Any, Any] = {}
            for step in t.stream(start=start, follow=False, normalize="lookup"):
                replay(seen, step.to_arrow().to_pylist(), *keys)
                assert step.full or step.to_arrow().to_pylist() == rows(t, step.snapshot)
            assert seen == state, (seed, start)


@pytest.mark.parametrize(("options", "partition_by"), DEDUPLICATE)
@pytest.mark.sample(3)
def test_they_are_the_changes_of_a_normaliser(
    tmp_path: Path, seeds: tuple[int, ...], options: dict[str, Any], partition_by: tuple[str, ...]
) -> None:
    for seed in seeds[:1]:
        t = lived(tmp_path / str(seed), random.Random(seed), options, partition_by)
        for columns, where in ((["k", "v"], None), (["p"], col("v") == "a")):
            for step in t.stream(start="earliest", follow=False, columns=columns, where=where):
                reported = rows(t, step.snapshot, tuple(columns), where=where)
                assert sorted(map(repr, reported)) == sorted(map(repr, step.to_arrow().to_pylist())), seed


def test_a_row_that_moves_is_deleted_before_it_is_inserted(tmp_path: Path) -> None:
    t = made(tmp_path, partition_by=("p",), bucket=-1)
    t.write([{"k": k, "p": k % 2} for k in range(4)])
    t.write([{"k": k, "p": 1 - k % 2} for k in range(4)])
    kinds = [r["rowkind"] for r in rows(t, 2)]
    assert kinds == ["-D"] * 4 + ["+I"] * 4
    [piece] = pieces(t, "2")
    assert len(piece.places or ()) == 2, "in one piece, as their order counts"
    [step] = t.stream(start=2, follow=False)
    assert step.to_arrow()["rowkind"].to_pylist() == kinds


def pieces(t: Table, start: str, **given: Any) -> list[SnapshotPiece]:
    feed = ChangeFeed(t.location, start, **given)
    return feed.pieces(feed.initial(), feed.next(feed.initial(), limit=None))


def read(t: Table, some_pieces: list[SnapshotPiece]) -> list[tuple[Any, ...]]:
    return [
        (rowkind.TEXTS[kind], *values)
        for piece in some_pieces
        for batch, kinds in piece.read(t.location, ["k", "v"])
        for kind, values in zip(kinds.to_pylist(), zip(*batch.to_pydict().values(), strict=True), strict=True)
    ]


def put(t: Table, *changes: tuple[int, str | None, str]) -> None:
    t.write([{"k": k, "p": 0, "v": v, "kind": kind} for k, v, kind in changes], row_kind_column="kind")


def test_a_feed_looks_up_for_upserts_and_not_where_a_changelog_is(tmp_path: Path) -> None:
    t, logged = made(tmp_path), made(tmp_path, "l", **{"changelog-producer": "lookup"})
    for table in (t, logged):
        put(table, (1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I"))
        put(table, (1, "a", "+I"), (2, "x", "+I"), (3, None, "-D"), (9, None, "-D"))
    reported = [("-U", 2, "b"), ("+U", 2, "x"), ("-D", 3, "c")]
    assert read(t, pieces(t, "2")) == reported
    assert read(t, pieces(t, "2", normalize=False)) == [
        ("+I", 1, "a"), ("+I", 2, "x"), ("-D", 3, None), ("-D", 9, None)
    ]  # fmt: skip
    plain = t.with_options({"scan.remove-normalize": True})
    assert plain.options["scan.remove-normalize"] == "true"
    assert [p.places for p in pieces(logged, "2")] == [None, None]
    assert ("-U", 1, "a") in read(logged, pieces(logged, "2")), "not deduplicated unless asked for"
    assert [row for row in read(logged, pieces(logged, "2", normalize=True)) if row[1] > 1] == reported


def test_a_feed_of_any_engine_is_looked_up_when_asked_for(tmp_path: Path) -> None:
    t = made(tmp_path, **ADDED)
    put(t, (1, "a", "+I"), (2, "b", "+I"))
    put(t, (1, "c", "+I"), (2, "a", "+I"))
    with pytest.raises(Unsupported, match="aggregation without a changelog"):
        pieces(t, "2")
    assert read(t, pieces(t, "2", normalize=True)) == [("-U", 1, "a"), ("+U", 1, "c")]


def test_pieces_are_cut_by_bucket(tmp_path: Path) -> None:
    t = made(tmp_path, bucket=8)
    put(t, *((k, "a", "+I") for k in range(200)))
    put(t, *((k, "b", "+I") for k in range(200)))
    actual = pieces(t, "2")
    assert 2 <= len(actual) < 8
    assert sorted(p for piece in actual for p in piece.places or ()) == sorted(
        touched(t.store, t.store.snapshots.get(2))
    )
    assert len(read(t, actual)) == 400


def test_the_first_state_of_a_feed_is_what_later_changes_leave_out(tmp_path: Path) -> None:
    waiting = {"deletion-vectors.enabled": True, "lookup-wait": False}
    t = made(tmp_path, **waiting)
    put(t, (1, "a", "+I"))
    assert t.scan().count() == 0
    assert read(t, pieces(t, "latest-full")) == [("+I", 1, "a")], (
        "told when it came, not when it is looked up"
    )
    later = made(tmp_path, "l", **{"changelog-producer": "lookup", "write-only": True})
    put(later, (1, "a", "+I"))
    assert later.scan().count() == 1
    assert read(later, pieces(later, "latest-full")) == [], "the compaction that looks it up will tell it"
    later.alter(ts.add("more", ts.INT))
    assert pieces(ts.open(later.location), "latest-full") == []


def test_a_consumer_keeps_what_was_before_the_next_snapshot(tmp_path: Path) -> None:
    t = made(tmp_path)
    for v in "abcd":
        put(t, (1, v, "+I"))
    feed = ChangeFeed(t.location, "2", consumer="mine")
    first = feed.next(feed.initial(), limit=1)
    feed.done(first)
    assert consumers.next_snapshot(t.store, "mine") == 2
    t.expire_snapshots(keep=1)
    rest = feed.pieces(first, feed.next(first, limit=None))
    assert read(t, rest) == [("-U", 1, "b"), ("+U", 1, "c"), ("-U", 1, "c"), ("+U", 1, "d")]
    t.consumers.delete("mine")
    t.expire_snapshots(keep=1)
    with pytest.raises(NotFound, match="start the stream again with latest-full"):
        feed.pieces(first, feed.next(first, limit=None))
    [last] = pieces(t, "4")
    with pytest.raises(
        NotFound, match=r"what was before snapshot 4 has expired.*consumer-id.*normalize=false"
    ):
        read(t, [last])


def test_what_cannot_be_looked_up_is_refused(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    plain = lake.create_table("d.p", schema={"k": ts.INT})
    with pytest.raises(InvalidRequest, match="there is no key to go by"):
        pieces(plain, "1", normalize=True)
    aging = {"record-level.expire-time": "1 d", "record-level.time-field": "p"}
    with pytest.raises(Unsupported, match="expire by age"):
        pieces(made(tmp_path, "aging", **aging), "1", normalize=True)
    with pytest.raises(Unsupported, match="bucket-postpone"):
        pieces(made(tmp_path, "later", bucket=-2), "1", normalize=True)


def test_an_overwrite_gives_changes_where_its_option_asks_for_it(tmp_path: Path) -> None:
    t = made(tmp_path, **{"streaming-read-overwrite": True})
    put(t, (1, "a", "+I"), (2, "b", "+I"))
    t.overwrite([{"k": 2, "p": 0, "v": "c"}, {"k": 3, "p": 0, "v": "d"}])
    reported = [("-D", 1, "a"), ("-U", 2, "b"), ("+U", 2, "c"), ("+I", 3, "d")]
    assert read(t, pieces(t, "2")) == reported
    assert rows(t.with_options({"streaming-read-overwrite": False}), 2) == []


def test_rows_that_an_overwrite_brings_to_other_buckets_are_no_changes(tmp_path: Path) -> None:
    t = made(tmp_path, bucket=2, **{"streaming-read-overwrite": True})
    put(t, *((k, "a", "+I") for k in range(20)))
    t.rescale(5)
    t = t.refresh()
    assert rows(t, 2) == []
    assert read(t, pieces(t, "2")) == []
    t.overwrite([{"k": k, "p": 0, "v": "b" if k else "a"} for k in range(20)])
    reported = rows(t.refresh(), 3)
    assert [(r["rowkind"], r["k"]) for r in reported] == [
        (kind, k) for k in range(1, 20) for kind in ("-U", "+U")
    ]
