"""Lookup joins: any cache answers as a scan of its snapshot would, and keeps up by what changed."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.env import Env
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.table.table import Table
from tests.table.dimensions import FACTS, GIVEN, KINDS, in_order, made, names, one_change, plainly, some_facts

FORMS = [
    pytest.param({}, {}, KINDS, id="plain"),
    pytest.param({"sequence.field": "n"}, {}, KINDS, id="sequence field"),
    pytest.param({"merge-engine": "partial-update"}, {}, ("+I",), id="partial-update"),
    pytest.param(
        {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}, {}, ("+I",), id="aggregation"
    ),
    pytest.param({"merge-engine": "first-row"}, {}, ("+I",), id="first-row"),
    pytest.param({"changelog-producer": "lookup"}, {}, KINDS, id="lookup changelog"),
    pytest.param({"deletion-vectors.enabled": True}, {}, KINDS, id="deletion vectors"),
    pytest.param({"deletion-vectors.enabled": True, "lookup-wait": False}, {}, KINDS, id="rows that wait"),
    pytest.param({"write-only": True}, {}, KINDS, id="many runs"),
    pytest.param({}, {"key": ("p", "k"), "by": ("p",)}, KINDS, id="partitions"),
    pytest.param({}, {"by": ("p",)}, KINDS, id="unique in each partition"),
    pytest.param({"bucket": -1}, {"by": ("p",)}, KINDS, id="moving between partitions"),
    pytest.param({}, {"key": ()}, ("+I",), id="append-only"),
    pytest.param({"write-mode": "change-log"}, {"key": ()}, ("+I", "-D"), id="counted"),
]


@pytest.mark.parametrize(("options", "form", "kinds"), FORMS)
@pytest.mark.sample(2, all=7)
def test_every_cache_answers_as_a_scan_would_after_any_commit(
    tmp_path: Path, seeds: tuple[int, ...], options: dict, form: dict, kinds: tuple[str, ...]
) -> None:
    for seed in seeds[:3]:
        rng = random.Random(seed)
        t = made(tmp_path / str(seed), **form, **options)
        tight = t.with_options({"lookup.cache-max-memory-size": 0, "lookup.cache-rows": 5})
        key = {n: n for n in t.primary_key}
        others = [{"k": "k"}, {"v": "v"}, {"v": "v", "n": "n"}, {"k": "k", "v": "v"}]
        wheres = (None, col("n") > 1)
        asked = [
            (on, source.lookup(on, columns=GIVEN, where=wheres[which], cache=cache, follow=False), which)
            for on in (rng.choice(others), key)
            for which, (source, cache) in enumerate(rng.sample([(t, "full"), (tight, "full")], 2))
            if on
        ]
        asked += [(key, tight.lookup(columns=GIVEN, cache="partial", follow=False), 0)] if key else []
        for step in range(5):
            for _ in range(rng.randrange(3)):
                one_change(t, rng, kinds)
            rows = [t.scan(where=where).to_arrow().to_pylist() for where in wheres]
            for on, join, which in asked:
                refreshed = join.refresh()
                facts = some_facts(rng)
                for how in ("left", "inner"):
                    got = join.join(pa.Table.from_pylist(facts, FACTS), how=how).to_pylist()
                    want = plainly(facts, rows[which], on, GIVEN, how)
                    assert in_order(got) == in_order(want), (seed, step, on, how, join, refreshed)
                    assert [r["id"] for r in got] == sorted(r["id"] for r in got), "in the order of the facts"


@dataclass(frozen=True)
class MovedClock(Env):
    """Time that a test moves."""

    now: list[float] = field(default_factory=lambda: [1000.0])

    def monotonic(self) -> float:
        return self.now[0]

    def now_ms(self) -> int:
        return int(self.now[0] * 1000)


def on_a_clock(t: Table) -> tuple[Table, list[float]]:
    clock = MovedClock()
    return Table(replace(t.store, env=clock), t.name), clock.now


@pytest.mark.parametrize("cache", ["full", "partial"])
def test_later_changes_of_the_table_affect_later_facts_only(tmp_path: Path, cache: str) -> None:
    t, now = on_a_clock(made(tmp_path))
    t.write([{"k": 1, "p": 0, "v": "old"}])
    join = t.lookup(columns=["v"], cache=cache)
    assert names(join, 1, 2) == ["old", None]
    t.write([{"k": 1, "p": 0, "v": "new"}, {"k": 2, "p": 0, "v": "two"}])
    now[0] += 9.9
    assert names(join, 1, 2) == ["old", None], "continuous.discovery-interval is 10 s"
    now[0] += 0.1
    assert names(join, 1, 2) == ["new", "two"]
    t.delete(col("k") == 1)
    assert join.refresh().changed == 1
    assert names(join, 1, 2) == [None, "two"]


def test_the_interval_of_lookups_goes_before_that_of_streams(tmp_path: Path) -> None:
    t, now = on_a_clock(made(tmp_path))
    often = t.with_options({"lookup.continuous.discovery-interval": "1 s"}).lookup(columns=["v"])
    never = t.lookup(columns=["v"], follow=False)
    t.write([{"k": 1, "p": 0, "v": "a"}])
    now[0] += 1
    assert names(often, 1) == ["a"]
    now[0] += 1000
    assert names(never, 1) == [None]
    assert never.refresh().why == "there was no snapshot"
    assert names(never, 1) == ["a"]


def test_a_refresh_reads_what_changed_and_no_more(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write([{"k": k, "p": 0, "v": "v"} for k in range(30)])
    full, partial = (t.lookup(cache=c, follow=False) for c in ("full", "partial"))
    partial.join({"k": [1, 2, 99]})
    t.write([{"k": 1, "p": 0, "v": "w"}, {"k": 99, "p": 0, "v": "w"}])
    t.compact(full=True)
    for join in (full, partial):
        refreshed = join.refresh()
        assert (refreshed.changed, refreshed.why) == (2, "")
        assert join.state.loads == 1
    assert partial.state.keys_read == 3
    partial.join({"k": [1, 2, 99]})
    assert partial.state.keys_read == 5, "the two that changed"
    assert full.state.rows == 31


def test_many_changes_expired_or_overwritten_snapshots_are_read_anew_and_said(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write([{"k": 1, "p": 0, "v": "a"}])
    join = t.lookup(follow=False)
    t.overwrite([{"k": 2, "p": 0, "v": "b"}])
    assert "is an OVERWRITE" in join.refresh().why
    t.write([{"k": 3, "p": 0, "v": "c"}])
    t.write([{"k": 4, "p": 0, "v": "d"}])
    t.expire_snapshots(keep=1)
    assert "has expired" in join.refresh().why
    threshold = t.with_options({"lookup.refresh.full-load-threshold": 1}).lookup(follow=False)
    t.write([{"k": 5, "p": 0, "v": "d"}])
    assert threshold.refresh().why == ""
    t.write([{"k": 5, "p": 0, "v": "d"}])
    t.write([{"k": 5, "p": 0, "v": "d"}])
    assert "snapshots behind (lookup.refresh.full-load-threshold)" in threshold.refresh().why
    here = t.store.snapshots.latest_id()
    t.tags.create("here")
    t.write([{"k": 6, "p": 0, "v": "e"}])
    join.refresh()
    t.rollback(tag="here")
    assert "rolled back" in join.refresh().why
    assert join.state.snapshot == here


def test_partitions_that_may_be_null_are_read_anew(tmp_path: Path) -> None:
    schema = {"k": ts.INT, "p": ts.INT, "v": ts.STRING}
    t = ts.connect(str(tmp_path)).create_table("d.t", schema=schema, primary_key=["k"], partition_by=["p"])
    t.write([{"k": 1, "p": None, "v": "a"}])
    joins = [t.lookup(columns=["v"], cache=c, follow=False) for c in ("full", "partial")]
    assert [names(j, 1) for j in joins] == [["a"], ["a"]]
    t.write([{"k": 1, "p": None, "v": "b"}])
    assert [j.refresh().why for j in joins] == ["partition column 'p' may be NULL, which no index finds", ""]
    assert [names(j, 1) for j in joins] == [["b"], ["b"]]


def test_a_partial_cache_goes_on_after_its_snapshot_has_expired(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write([{"k": 1, "p": 0, "v": "a"}, {"k": 2, "p": 0, "v": "a"}])
    join = t.lookup(columns=["v"], cache="partial", follow=False)
    t.write([{"k": 2, "p": 0, "v": "b"}])
    t.compact(full=True)
    t.expire_snapshots(keep=1)
    assert names(join, 1, 2) == ["a", "b"]
    assert join.state.snapshot == t.store.snapshots.latest_id()


def test_a_partial_cache_keeps_the_keys_that_were_asked_for_last(tmp_path: Path) -> None:
    t, now = on_a_clock(made(tmp_path))
    t.write([{"k": k, "p": 0, "v": str(k)} for k in range(9)])
    join = t.with_options({"lookup.cache-rows": 3}).lookup(columns=["v"], cache="partial", follow=False)
    for keys in ((0, 1, 2), (0,), (7,), (8,)):
        now[0] += 1
        assert names(join, *keys) == [str(k) for k in keys]
    assert join.state.keys_read == 5
    assert names(join, 0) == ["0"]
    assert join.state.keys_read == 5, "0 was asked for after 1 and 2"
    assert names(join, *range(9)) == [str(k) for k in range(9)], "more keys than it keeps"
    assert join.state.rows == 3


@pytest.mark.parametrize(
    ("option", "read"), [("expire-after-write", 2), ("expire-after-access", 1)], ids=["write", "access"]
)
def test_keys_of_a_partial_cache_have_a_time_to_live(tmp_path: Path, option: str, read: int) -> None:
    t, now = on_a_clock(made(tmp_path))
    t.write([{"k": 1, "p": 0, "v": "a"}])
    brief = t.with_options({f"lookup.partial-cache.{option}": "10 s"})
    join = brief.lookup(columns=["v"], cache="partial", follow=False)
    for wait in (0, 6, 6):
        now[0] += wait
        assert names(join, 1) == ["a"]
    assert join.state.keys_read == read
    now[0] += 11
    names(join, 1)
    assert join.state.keys_read == read + 1


def test_a_full_cache_beyond_its_memory_lies_on_disk_until_it_is_closed(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write([{"k": k, "p": 0, "v": "x" * 100} for k in range(500)])
    small = t.with_options({"lookup.cache-max-memory-size": "1 kb"})
    with small.lookup(columns=["v"], cache="full") as join:
        assert join.state.disk_bytes > 50_000 > join.state.memory_bytes
        assert "MB on disk" in repr(join)
        assert names(join, 3, 600) == ["x" * 100, None]
        t.write([{"k": 3, "p": 0, "v": "new"}])
        assert join.refresh().changed == 1
        assert names(join, 4, 3) == ["x" * 100, "new"]
    assert join.state.rows == 0
    with pytest.raises(InvalidRequest, match=r"lookup\.cache-max-disk-size.*cache='partial'"):
        small.with_options({"lookup.cache-max-disk-size": "2 kb"}).lookup(cache="full")
    memory = small.with_options({"lookup.cache": "memory", "lookup.cache-max-disk-size": "2 kb"})
    assert memory.lookup().state.disk_bytes == 0


def test_auto_holds_all_of_a_small_table_and_asks_a_large_one_by_its_key(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write([{"k": 1, "p": 0, "v": "a"}])
    assert t.lookup().state.cache == "full"
    large = t.with_options({"lookup.cache-max-memory-size": "10 b"})
    assert large.lookup().state.cache == "partial"
    assert large.lookup("v", columns=["k"]).state.cache == "full"
    assert t.with_options({"lookup.cache": "partial"}).lookup().state.cache == "partial"


@pytest.mark.parametrize("cache", ["full", "partial"])
def test_batches_are_joined_ahead_on_threads_and_come_in_order(tmp_path: Path, cache: str) -> None:
    t = made(tmp_path)
    t.write([{"k": k, "p": 0, "v": str(k)} for k in range(30)])
    several = t.with_options({"lookup.async": True, "lookup.async-thread-number": 3, "lookup.cache-rows": 7})
    batches = [{"k": [i % 30, 31, (i * 7) % 30]} for i in range(40)]
    taken: list[int] = []

    def ahead() -> Iterator[Any]:
        for i, batch in enumerate(batches):
            taken.append(i)
            yield batch

    join = several.lookup(columns=["v"], cache=cache)
    got = join.join_each(ahead())
    assert next(got)["v"].to_pylist() == ["0", None, "0"]
    assert len(taken) == 4
    rest = [b["v"].to_pylist() for b in got]
    assert rest == [[str(i % 30), None, str(i * 7 % 30)] for i in range(1, 40)]
    joined = t.lookup(columns=["v"], cache=cache).join_each(batches)
    assert [b["v"].to_pylist() for b in joined][1:] == rest
    bad = join.join_each([{"k": [1]}, {"j": [1]}, {"k": [1]}])
    assert next(bad).num_rows == 1
    with pytest.raises(NotFound, match="no column 'k'"):
        next(bad)


def test_a_refresh_behind_answers_meanwhile_and_is_waited_for_when_too_far_behind(tmp_path: Path) -> None:
    t, now = on_a_clock(made(tmp_path))
    t.write([{"k": 1, "p": 0, "v": "0"}])
    behind = t.with_options({"lookup.refresh.async": True, "lookup.refresh.async.pending-snapshot-count": 2})
    with behind.lookup(columns=["v"], cache="full") as join:
        for i in range(1, 4):
            t.write([{"k": 1, "p": 0, "v": str(i)}])
        now[0] += 60
        assert names(join, 1) == ["3"], "3 snapshots behind: waited for"
        t.write([{"k": 1, "p": 0, "v": "4"}])
        now[0] += 60
        assert names(join, 1)[0] in ("3", "4")
    assert join.state.rows == 0


def test_the_table_as_it_was_made_is_what_is_joined_after_it_was_altered(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write([{"k": 1, "p": 0, "v": "a"}])
    joins = [t.lookup(columns=["v", "n"], cache=c, follow=False) for c in ("full", "partial")]
    wider = t.alter(ts.rename("v", "w"), ts.add("more", ts.INT))
    wider.write([{"k": 1, "p": 0, "w": "b", "more": 1}, {"k": 2, "p": 0, "w": "c"}])
    for join in joins:
        join.refresh()
        assert names(join, 1, 2, 3) == ["b", "c", None]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: t.lookup("z"), NotFound, "no column 'z'"),
        (lambda t: t.lookup([]), InvalidRequest, "needs a column to join on"),
        (lambda t: t.lookup(3), InvalidRequest, "on 3 must be a mapping or a list"),
        (lambda t: t.lookup(columns="v"), InvalidRequest, "columns is a list of names"),
        (lambda t: t.lookup(fill={"v": 3}), InvalidRequest, "fill 3 is no value of v, which is string"),
        (lambda t: t.lookup(fill=["v"]), InvalidRequest, "must be a mapping"),
        (lambda t: t.lookup(columns=["vv"]), NotFound, "did you mean v"),
        (lambda t: t.lookup(columns={"v": "x", "n": "x"}), InvalidRequest, "named twice"),
        (lambda t: t.lookup(fill={"w": 1}), NotFound, "no column 'w'"),
        (lambda t: t.lookup(cache="lru"), InvalidRequest, "one of auto, full, memory, partial"),
        (
            lambda t: t.lookup("v", cache="partial"),
            InvalidRequest,
            r"primary key \(k\), not by v.*cache='full'",
        ),
        (lambda t: t.lookup().join([{"k": 1}], how="outer"), InvalidRequest, "one of left, inner"),
        (lambda t: t.lookup().join([{"j": 1}]), NotFound, "no column 'k'"),
    ],
)
def test_calls_that_make_no_sense_are_refused_with_what_does(
    tmp_path: Path, call: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call(made(tmp_path))


def test_what_cannot_be_joined_on_is_named(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    nested = lake.create_table("d.n", schema={"k": ts.INT, "a": ts.ARRAY(ts.INT)}, primary_key=["k"])
    with pytest.raises(Unsupported, match=r"lookup join on 'a'.*ARRAY"):
        nested.lookup("a")
    plain = lake.create_table("d.p", schema={"k": ts.INT})
    with pytest.raises(InvalidRequest, match="has no primary key: say on="):
        plain.lookup()


def test_a_join_goes_to_other_processes_and_loads_there(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write([{"k": 1, "p": 0, "v": "a"}])
    join = t.lookup({"k": "id"}, columns={"v": "name"}, fill={"name": "?"}, where=col("k") < 2)
    other = pickle.loads(pickle.dumps(join))
    facts = {"id": [1, 2]}
    assert other.join(facts) == join.join(facts)
    assert other.state == join.state


def test_a_join_describes_itself(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write([{"k": k, "p": 0, "v": "v"} for k in range(3)])
    join = t.lookup({"k": "id"})
    join.join({"id": [1, 2, 9, 9]})
    assert repr(join) == (
        "LookupJoin(d.dim on k = id: full cache at snapshot 1, 3 rows, 0.0 MB; 4 facts, 50.0% matched)"
    )
    partial = t.lookup(cache="partial")
    partial.join({"k": [1, 9]})
    assert "on k: partial cache at snapshot 1, 1 rows, 0.0 MB, 2 keys read" in repr(partial)


@pytest.mark.parametrize("cache", ["full", "partial"])
@pytest.mark.parametrize("follow", [True, False])
def test_a_join_that_was_closed_loads_anew(tmp_path: Path, cache: str, follow: bool) -> None:
    created = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"]
    )
    created.write([{"k": 1, "v": 7}])
    for table, following in ((created, follow), (created.at(snapshot=1), False)):
        with table.lookup("k", cache=cache, follow=following) as join:
            assert join.join([{"k": 1}])["v"].to_pylist() == [7]
        assert join.state.rows == 0
        assert join.join([{"k": 1}])["v"].to_pylist() == [7]


@pytest.mark.parametrize("threads", [None, 3])
def test_steps_of_a_stream_are_facts_that_keep_their_kinds(tmp_path: Path, threads: int | None) -> None:
    lake = ts.connect(str(tmp_path))
    options = {} if threads is None else {"lookup.async": True, "lookup.async-thread-number": threads}
    names = lake.create_table("d.names", schema={"id": ts.INT, "name": ts.STRING}, primary_key=["id"])
    names.write({"id": [1, 2], "name": ["one", "two"]})
    facts = lake.create_table(
        "d.facts",
        schema={"k": ts.INT, "ref": ts.INT},
        primary_key=["k"],
        options={"changelog-producer": "input"},
    )
    facts.write({"k": [1, 2], "ref": [1, 9]})
    facts.write({"k": [1, 1], "ref": [1, 2], "kind": ["-U", "+U"]}, row_kind_column="kind")
    facts.delete("k = 2")
    join = names.with_options(options).lookup({"id": "ref"})
    joined, places = [], []
    for table in join.join_each(facts.stream(start="earliest", follow=False, consumer="c")):
        joined.append([tuple(row.values()) for row in table.to_pylist()])
        places.append(facts.inspect.consumers()["next_snapshot_id"].to_pylist())
    assert joined == [
        [("+I", 1, 1, "one"), ("+I", 2, 9, None)],
        [("-U", 1, 1, "one"), ("+U", 1, 2, "two")],
        [("-D", 2, 9, None)],
    ]
    assert places == [[1], [2], [3]]  # a consumer moves on when the next step is asked for
    nothing = next(iter(names.stream(follow=False, where="id = 7")))
    assert join.join(nothing.to_arrow().rename_columns(["rowkind", "ref", "n"])).num_rows == 0
