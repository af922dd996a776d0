"""The consumer-side normaliser: what a stream of upserts tells once it knows what was before."""

from __future__ import annotations

import gc
import random
import tempfile
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import InvalidOption, InvalidRequest, NotFound, Unsupported
from tablestore.read.changes.change import Change, StateSize
from tablestore.table import last_rows
from tablestore.table.table import Table

Row = dict[str, Any]


def made(path: Path, name: str = "t", *, partition_by: tuple[str, ...] = (), **options: Any) -> Table:
    return ts.connect(str(path)).create_table(
        f"d.{name}",
        schema={"k": ts.INT, "p": "INT NOT NULL", "v": ts.STRING, "n": ts.DOUBLE},
        primary_key=["k"],
        partition_by=partition_by,
        options={"bucket": 1} | options,
    )


KINDS = ("+I", "+U", "-D", "+I")


def some(rng: random.Random, rows: int, kinds: tuple[str, ...] = KINDS) -> list[Row]:
    return [
        {
            "k": rng.randrange(9),
            "p": rng.randrange(2),
            "v": rng.choice(["a", "b", None]),
            "n": rng.choice([0.5, None]),
            "kind": rng.choice(kinds),
        }
        for _ in range(rows)
    ]


def replay(state: dict[Any, Row], changes: Iterable[Row], *keys: str) -> None:
    """Take in changes, each of which must fit the state it meets."""
    before: Row | None = None
    for change in changes:
        kind = change.pop("rowkind")
        key = tuple(change[k] for k in keys)
        assert (before is not None) == (kind == "+U"), f"{kind} {change} after {before}"
        if kind in ("-D", "-U"):
            assert state.pop(key) == change
            before = change if kind == "-U" else None
            continue
        assert key not in state, change
        if kind == "+U":
            assert before is not None
            assert tuple(before[k] for k in keys) == key
            assert before != change, "an unchanged row is silent"
        state[key], before = change, None
    assert before is None


def rows(step: Change) -> list[Row]:
    return step.to_arrow().to_pylist()


def at(t: Table, snapshot: int) -> list[Row]:
    """The rows of a snapshot, with those that wait for deletion vectors."""
    seen = t.with_options({"deletion-vectors.merge-on-read": True})
    return seen.at(snapshot=snapshot).scan().to_arrow().to_pylist()


FORMS = [
    pytest.param({}, (), id="plain"),
    pytest.param({"bucket": 3, "num-sorted-run.compaction-trigger": 2}, (), id="compacting"),
    pytest.param({"write-only": True, "write-buffer-size": "1 kb"}, (), id="many flushes"),
    pytest.param({"bucket": -1}, ("p",), id="moving between partitions"),
    pytest.param({"bucket": 2}, ("p",), id="unique in each partition"),
    pytest.param({"sequence.field": "n"}, (), id="sequence field"),
    pytest.param({"ignore-delete": True}, (), id="ignore-delete"),
    pytest.param({"deletion-vectors.enabled": True}, (), id="deletion vectors"),
    pytest.param({"deletion-vectors.enabled": True, "lookup-wait": False}, (), id="rows that wait"),
]


@pytest.mark.parametrize(("options", "partition_by"), FORMS)
@pytest.mark.sample(3)
def test_replayed_steps_give_the_table_and_fit_what_came_before(
    tmp_path: Path, seeds: tuple[int, ...], options: dict[str, Any], partition_by: tuple[str, ...]
) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = made(tmp_path / str(seed), partition_by=partition_by, **options)
        keys = ("k", *partition_by)
        # a row that is older than a delete comes back or not by when compaction dropped the delete
        kinds = ("+I", "+U") if "sequence.field" in options else KINDS
        for _ in range(7):
            t.write(some(rng, rng.randrange(1, 12), kinds), row_kind_column="kind")
            if rng.random() < 0.2:
                t.compact(full=True)
        start = rng.randrange(1, 5)
        for how in ("earliest", {"snapshot": start, "full": True}):
            state: dict[Any, Row] = {}
            for step in t.stream(start=how, follow=False):
                replay(state, rows(step), *keys)
                wanted = {tuple(r[k] for k in keys): r for r in at(t, step.snapshot)}
                assert state == wanted, (seed, how, step)
                assert step.full or (step.state is not None and step.state.rows == len(wanted))


STATES = {
    "all in memory": {},
    "spilled after each step": {"_MEMORY_BYTES": 1},
    "spilled now and then": {"_MEMORY_BYTES": 500},
    "large steps": {"_SMALL_BYTES": 0},
    "small and large steps": {"_SMALL_BYTES": 120, "_MEMORY_BYTES": 500},
}


def test_changes_are_those_of_a_lookup_changelog_wherever_the_state_is(
    tmp_path: Path, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        with_lookup = {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": True}
        ours, other = made(tmp_path / str(seed)), made(tmp_path / str(seed), "l", **with_lookup)
        for _ in range(12):
            data = some(rng, rng.randrange(1, 8))
            ours.write(data, row_kind_column="kind")
            other.write(data, row_kind_column="kind")
        wanted = [r for r in map(rows, other.stream(start="earliest", follow=False)) if r]
        for where, limits in STATES.items():
            with monkeypatch.context() as m:
                for name, limit in limits.items():
                    m.setattr(last_rows, name, limit)
                steps = [rows(s) for s in ours.stream(start="earliest", follow=False)]
            assert steps == wanted, (seed, where)


def test_a_stream_goes_on_from_a_cursor_as_if_it_had_not_ended(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = made(tmp_path / str(seed))
        for _ in range(8):
            t.write(some(rng, 5), row_kind_column="kind")
        whole = [(s.snapshot, rows(s)) for s in t.stream(start=1, follow=False)]
        cursors = [s.cursor for s in t.stream(start=1, follow=False)]
        for i, cursor in enumerate(cursors):
            rest = [(s.snapshot, rows(s)) for s in t.stream(start=cursor, follow=False)]
            assert rest == whole[i + 1 :], (seed, i)


def test_a_filter_is_asked_of_what_comes_out(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    wheres = [col("v") == "a", (col("v") == "a") & (col("k") < 5), col("k") > 3, col("n").is_null()]
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = made(tmp_path / str(seed))
        for _ in range(8):
            t.write(some(rng, 6), row_kind_column="kind")
        for where in wheres:
            seen: Counter[Any] = Counter()
            for step in t.stream(start="earliest", follow=False, columns=["p"], where=where):
                step_rows = step.to_arrow()
                assert step_rows.column_names == ["rowkind", "p"]
                for kind, p in zip(*(c.to_pylist() for c in step_rows.columns), strict=True):
                    seen[p] += 1 if kind in ("+I", "+U") else -1
                    assert seen[p] >= 0
                rows = t.at(snapshot=step.snapshot).scan(["p"], where).to_arrow()
                assert +seen == Counter(rows["p"].to_pylist()), (seed, where)


def put(t: Table, *changes: tuple[int, str | None, str]) -> None:
    t.write([{"k": k, "p": 0, "v": v, "kind": kind} for k, v, kind in changes], row_kind_column="kind")


def brief(step: Change) -> list[tuple[Any, ...]]:
    return [(r["rowkind"], r["k"], r["v"]) for r in rows(step)]


def test_what_each_kind_of_change_becomes(tmp_path: Path) -> None:
    t = made(tmp_path)
    put(t, (1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I"))
    steps = t.stream()
    assert brief(next(steps)) == [("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c")]
    put(t, (1, "a", "+U"), (2, "x", "+I"), (3, None, "-D"), (4, "d", "+U"), (9, None, "-D"))
    assert brief(next(steps)) == [("-U", 2, "b"), ("+U", 2, "x"), ("-D", 3, "c"), ("+I", 4, "d")]
    put(t, (1, "a", "+I"), (9, None, "-D"))  # nothing to tell: no step
    put(t, (5, "e", "+I"))
    step = next(steps)
    assert (step.snapshot, brief(step)) == (4, [("+I", 5, "e")])


def test_columns_that_were_not_asked_for_change_silently(tmp_path: Path) -> None:
    t = made(tmp_path)
    put(t, (1, "a", "+I"))
    t.write([{"k": 1, "p": 7, "v": "a"}])
    t.write([{"k": 1, "p": 7, "v": "b"}])
    steps = t.stream(start="earliest", follow=False, columns=["v"])
    assert [(s.snapshot, s.to_arrow()["v"].to_pylist()) for s in steps] == [(1, ["a"]), (3, ["a", "b"])]
    steps = t.stream(start="earliest", follow=False, columns=["v"], where=col("p") >= 0)
    assert [s.to_arrow()["v"].to_pylist() for s in steps] == [["a"], [], ["a", "b"]]


def test_the_state_shows_its_size_and_goes_with_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    t = made(tmp_path / "lake")
    put(t, *((k, "a", "+I") for k in range(20)))
    steps = t.stream(follow=False)
    first = next(steps)
    assert first.state == steps.state == StateSize(0, 0)  # kept only if there is a next step
    put(t, *((k, None, "-D") for k in range(5)))
    second = next(steps)
    assert second.state == steps.state
    assert second.state is not None
    assert second.state.rows == 15
    assert second.state.bytes == second.state.in_memory > 0
    assert "state 15 rows, " in repr(steps)
    assert list(tmp_path.glob("tablestore-*")) == []
    assert len(brief(second)) == 5


def test_a_state_above_a_write_buffer_is_on_the_disk_and_goes_with_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(last_rows, "_SMALL_BYTES", 0)
    t = made(tmp_path / "lake", **{"write-buffer-size": "500 b"})
    put(t, *((k, "a", "+I") for k in range(20)))
    steps = t.stream(follow=False)
    first = next(steps)
    put(t, *((k, None, "-D") for k in range(5)))
    second = next(steps)
    assert second.state is not None
    assert second.state.rows == 15
    assert second.state.bytes > second.state.in_memory == 0
    (folder,) = tmp_path.glob("tablestore-*")
    del steps, first
    gc.collect()
    assert len(brief(second)) == 5  # a step that is held stays readable
    del second
    gc.collect()
    assert not folder.exists()


def test_of_the_state_only_what_pending_steps_need_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_rows, "_SMALL_BYTES", 0)
    t = made(tmp_path)
    for i in range(6):
        put(t, (1, str(i), "+I"))
    steps = t.stream(start="earliest", follow=False)
    second = list(islice(steps, 2))[1]
    assert [brief(s) for s in steps][-1] == [("-U", 1, "4"), ("+U", 1, "5")]
    assert brief(second) == [("-U", 1, "0"), ("+U", 1, "1")]
    assert steps._last is not None
    last = steps._last._scratch
    assert last is not None
    assert len(last.store.snapshots.ids()) > 5
    del second
    gc.collect()
    put(t, (1, "6", "+I"))
    last._expire()
    assert len(last.store.snapshots.ids()) == 1
    assert len([f for f in Path(last.store.paths.root).rglob("*") if f.is_file()]) < 30


def test_a_consumer_goes_on_though_the_snapshot_before_has_expired(tmp_path: Path) -> None:
    t = made(tmp_path, **{"write-only": True})
    for i in range(4):
        put(t, (1, str(i), "+I"))
    steps = t.stream(start=1, consumer="slow")
    assert [s.snapshot for s in islice(steps, 3)] == [1, 2, 3]  # asking for the third: two are done
    t.expire_snapshots(keep=1)
    assert t.store.snapshots.ids() == [3, 4]
    again = [brief(s) for s in t.stream(consumer="slow", follow=False)]
    assert again == [[("-U", 1, "1"), ("+U", 1, "2")], [("-U", 1, "2"), ("+U", 1, "3")]]


def test_a_state_that_has_expired_is_named(tmp_path: Path) -> None:
    t = made(
        tmp_path, **{"changelog.num-retained.max": 20, "changelog.num-retained.min": 20, "write-only": True}
    )
    for i in range(5):
        put(t, (1, str(i), "+I"))
    t = t.with_options({"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1})
    t.expire_snapshots()
    with pytest.raises(NotFound, match="the state before snapshot 3 has expired: start with latest-full"):
        next(t.stream(start=3))
    assert brief(next(t.stream(start=3, normalize=False))) == [("+I", 1, "2")]
    steps = t.stream(start="earliest", follow=False)  # nothing is known before the first step
    assert [brief(s) for s in steps][:2] == [[("+I", 1, "0")], [("-U", 1, "0"), ("+U", 1, "1")]]


def test_a_first_state_that_expired_meanwhile_is_found_in_the_snapshot_after(tmp_path: Path) -> None:
    t = made(tmp_path, **{"write-only": True})
    put(t, (1, "a", "+I"), (2, "b", "+I"))
    steps = t.stream()
    next(steps)
    put(t, (1, "x", "+I"))
    t.expire_snapshots(keep=1)
    assert brief(next(steps)) == [("-U", 1, "a"), ("+U", 1, "x")]


def test_after_a_failure_the_stream_does_not_pass_the_step_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = made(tmp_path)
    put(t, (1, "a", "+I"))
    put(t, (1, "b", "+I"))
    steps = t.stream(start="earliest", consumer="c", follow=False)
    next(steps)
    with monkeypatch.context() as m:
        m.setattr(last_rows.LastRows, "apply", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            next(steps)
    assert list(steps) == []
    assert [brief(s) for s in t.stream(consumer="c", follow=False)] == [[("-U", 1, "a"), ("+U", 1, "b")]]


def test_overwrites_give_the_differences_where_the_option_asks(tmp_path: Path) -> None:
    t = made(tmp_path)
    put(t, (1, "a", "+I"), (2, "b", "+I"))
    t.overwrite([{"k": 1, "p": 0, "v": "a"}, {"k": 3, "p": 0, "v": "c"}])
    asked = t.with_options({"streaming-read-overwrite": True})
    assert [brief(s) for s in asked.stream(start=2, follow=False)] == [[("-D", 2, "b"), ("+I", 3, "c")]]
    left_out = t.with_options({"streaming-read-overwrite": False})
    assert list(left_out.stream(start=2, follow=False)) == []


def test_rows_as_they_were_written_are_there_when_asked_for(tmp_path: Path) -> None:
    t = made(tmp_path)
    put(t, (1, "a", "+I"))
    put(t, (1, "a", "+I"), (2, None, "-D"))
    wanted = [("+I", 1, "a"), ("-D", 2, None)]
    assert brief(next(t.stream(start=2, normalize=False))) == wanted
    option = t.with_options({"scan.remove-normalize": True})
    assert brief(next(option.stream(start=2))) == wanted
    assert next(option.stream(start=2)).state is None


ENGINES = {
    "partial-update": "changelog-producer' = lookup or full-compaction",
    "aggregation": "changelog-producer' = lookup or full-compaction",
    "first-row": "changelog-producer' = lookup, look",
}


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_whose_rows_are_no_states_are_refused(tmp_path: Path, engine: str) -> None:
    t = made(tmp_path, **{"merge-engine": engine})
    t.write([{"k": 1, "p": 0, "v": "a"}])
    for chosen in (None, True):
        with pytest.raises(Unsupported, match=ENGINES[engine]):
            t.stream(normalize=chosen)
    assert list(t.stream(start=1, follow=False, normalize=False))
    with pytest.raises(InvalidOption, match="cannot be set for one use"):
        t.with_options({"changelog-producer": "lookup"})  # its stream would have no rows
    with_lookup = t.alter(ts.set_options({"changelog-producer": "lookup"}))
    assert list(with_lookup.stream(start=1, follow=False)) == []


def test_what_needs_no_normaliser_is_said(tmp_path: Path) -> None:
    lookup = made(tmp_path, "l", **{"changelog-producer": "lookup"})
    with pytest.raises(InvalidRequest, match="row-deduplicate"):
        lookup.stream(normalize=True)
    plain = ts.connect(str(tmp_path)).create_table("d.a", schema={"k": ts.INT})
    with pytest.raises(InvalidRequest, match="no key to go by"):
        plain.stream(normalize=True)
    with pytest.raises(InvalidRequest, match="must be True, False, None or 'lookup'"):
        plain.stream(normalize="yes")


def test_an_input_changelog_without_before_images_can_be_mended(tmp_path: Path) -> None:
    t = made(tmp_path, **{"changelog-producer": "input"})
    put(t, (1, "a", "+I"))
    put(t, (1, "b", "+I"), (1, "c", "+U"))
    assert [brief(s) for s in t.stream(start=2, follow=False)] == [[("+I", 1, "b"), ("+U", 1, "c")]]
    mended = t.stream(start=2, follow=False, normalize=True)
    assert [brief(s) for s in mended] == [[("-U", 1, "a"), ("+U", 1, "c")]]
