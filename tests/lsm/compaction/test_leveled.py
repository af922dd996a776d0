"""Leveled compaction: units that keep levels disjoint and rows in order, and tables that it compacts."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablestore as ts
from tablestore.core.errors import CommitConflict, InvalidOption
from tablestore.core.options.table_options import CompactionStrategy
from tablestore.format.binary_row import comparable_keys
from tablestore.lsm.compaction.loop import pick
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.compaction.rewrite_plan import drops_deletes, plan_unit
from tablestore.lsm.levels.sorted_run import Levels
from tests.lsm.trees import KEY, data_file

KEYS = comparable_keys(KEY)
LEVELED = CompactionOptions(
    strategy=CompactionStrategy.LEVELED,
    num_levels=4,
    level0_trigger=2,
    level_base_bytes=40,
    level_multiplier=2,
)


@st.composite
def trees(draw) -> Levels:
    """Level 0 as it likes, the levels above with disjoint files."""
    files = []
    for i in range(draw(st.integers(0, 4))):
        low = draw(st.integers(0, 90))
        files.append(
            data_file(f"a{i}", low, low + draw(st.integers(0, 9)), max_sequence=900 - i, file_size=5)
        )
    for level in range(1, 4):
        cuts = sorted(draw(st.sets(st.integers(0, 99), max_size=8)))
        for low, high in zip(cuts[::2], cuts[1::2], strict=False):
            size = draw(st.integers(1, 60))
            files.append(data_file(f"b{level}-{low}", low, high, level=level, file_size=size))
    return Levels.of(files, 4, KEYS)


def meets(file, files) -> bool:
    ((low, high),) = spans([file])
    return any(not (h < low or high < lo) for lo, h in spans(files))


SOME_ARE_DONE = 3  # a seed by which compactions of older tables are committed


def spans(files) -> list[tuple]:
    return sorted((KEYS(f.min_key), KEYS(f.max_key)) for f in files)


@given(trees())
def test_a_unit_takes_all_that_it_meets_and_leaves_its_level_disjoint(levels):
    decision = pick(levels, LEVELED, PickContext())
    unit = decision.unit
    assert pickle.loads(pickle.dumps(decision)) == decision
    if unit is None:
        assert len(levels.level0) < 2
        assert all(run.size < 40 * 2**i for i, run in enumerate(levels.upper[:-1]))
        return
    above = [f for f in unit.files if f.level < unit.output_level]
    assert {f.level for f in above} == {unit.output_level - 1}
    if unit.output_level == 1:
        assert above == list(levels.level0)  # files of level 0 overlap: all or none
    else:
        assert all(spans([a])[0][0] > spans([b])[0][1] for b, a in pairwise(above)), "neighbours in key order"
        first = [f for f in levels.upper[unit.output_level - 1].files if meets(f, above)]
        assert len(above) == 1 or any(
            first == [f for f in levels.upper[unit.output_level - 1].files if meets(f, [a])] for a in above
        ), "those that come along add nothing below"
    low, high = spans(unit.files)[0][0], max(h for _, h in spans(unit.files))
    left = [f for f in levels.upper[unit.output_level - 1].files if f not in unit.files]
    assert all(h < low or high < lo for lo, h in spans(left))


def test_rows_that_are_merged_into_each_other_come_down_in_their_order():
    late = data_file("late", 1, 5, min_sequence=5, max_sequence=25, file_size=5)
    full = data_file("full", 1, 20, level=1, min_sequence=10, max_sequence=19, file_size=60)
    low = data_file("low", 1, 20, level=2, min_sequence=0, max_sequence=4, file_size=9)
    levels = Levels.of([late, full, low], 4, KEYS)
    newest = pick(levels, LEVELED, PickContext())
    assert newest.unit.files == (full, low)
    merging = pick(levels, replace(LEVELED, newest_wins=False), PickContext())
    assert merging.unit.files == (late, full)
    assert merging.unit.output_level == 1
    assert merging.rule == "level 0"
    assert "older rows of its keys are at L0, which is compacted first" in merging.explain()
    later = Levels.of([replace(late, min_sequence=20), full, low], 4, KEYS)
    assert pick(later, replace(LEVELED, newest_wins=False), PickContext()).rule == "level 1"


def test_files_that_meet_nothing_go_down_until_they_make_a_file_of_the_target_size():
    """Small ones become one that way: a table that is loaded in key order keeps no thousands of them."""
    row = [data_file(f"a{i}", 10 * i, 10 * i + 9, level=1, file_size=10, max_sequence=i) for i in range(7)]
    met = data_file("met", 35, 35, level=2, file_size=1)
    options = replace(LEVELED, target_bytes=35)
    for below, wide, taken in (
        ((), 35, row[:3]),
        ((met,), 35, row[:3]),
        ((met,), 99, row[:3]),
        ((), 99, row),
    ):
        levels = Levels.of((*row, *below), 4, KEYS)
        unit = pick(levels, replace(options, target_bytes=wide), PickContext()).unit
        assert unit.files == tuple(taken)
    unit = pick(Levels.of(row, 4, KEYS), options, PickContext()).unit
    (step,) = plan_unit(unit, Levels.of(row, 4, KEYS), KEYS, small_bytes=options.small_file_bytes)
    assert step.files == tuple(row[:3])
    older = [replace(f, max_sequence=f.max_sequence - 9 * (i == 5)) for i, f in enumerate(row)]
    unit = pick(Levels.of((*older, met), 4, KEYS), options, PickContext()).unit
    assert unit.files == (row[4], older[5], row[6]), "the oldest, then those after it, then before it"


@given(trees())
def test_deletes_vanish_only_where_nothing_else_may_hold_their_key(levels):
    """Below; and above, if rows are merged or were numbered before them."""
    unit = pick(levels, LEVELED, PickContext()).unit
    if unit is None:
        return
    low, high = spans(unit.files)[0][0], max(h for _, h in spans(unit.files))
    below = [f for f in levels.files if f.level > unit.output_level]
    above = [f for f in levels.files if f.level < min(u.level for u in unit.files)]
    earlier = [f for f in above if f.min_sequence <= max(u.max_sequence for u in unit.files)]

    def meet(files) -> bool:
        return any(not (h < low or high < lo) for lo, h in spans(files))

    assert drops_deletes(unit, levels, marked=False, newest_wins=False) == (not meet([*below, *above]))
    assert drops_deletes(unit, levels, marked=False, newest_wins=True) == (not meet([*below, *earlier]))
    assert drops_deletes(unit, levels, marked=True, newest_wins=False)


@given(trees())
def test_picks_come_to_an_end_with_every_level_below_its_target(levels):
    for _ in range(100):
        unit = pick(levels, LEVELED, PickContext()).unit
        if unit is None:
            break
        after = merged(unit, levels)
        levels = levels.apply(unit.files, after)
        for run in levels.upper:
            assert all(a[1] < b[0] for a, b in pairwise(spans(run.files))), "I4"
    else:
        raise AssertionError("it never ends")


def merged(unit, levels) -> list:
    """What carrying out a unit leaves, as metadata: each merged step one file, moved files moved."""
    after = []
    for number, step in enumerate(plan_unit(unit, levels, KEYS, small_bytes=20)):
        if step.upgrade is not None:
            after.append(step.upgrade.upgraded(unit.output_level))
            continue
        ends = spans(step.files)
        size = sum(f.file_size for f in step.files)
        name = f"m{number}-{step.files[0].file_name}-{unit.output_level}"
        low, high = ends[0][0], max(h for _, h in ends)
        after.append(data_file(name[:40], low[0], high[0], level=unit.output_level, file_size=size))
    touched = {f.file_name for step in plan_unit(unit, levels, KEYS, small_bytes=20) for f in step.files}
    return after + [f for f in unit.files if f.file_name not in touched]


SMALL = {
    "bucket": 1,
    "tablestore.compaction.strategy": "leveled",
    "tablestore.compaction.leveled.level0-file-num-trigger": 2,
    "tablestore.compaction.leveled.max-bytes-for-level-base": "12 kb",
    "tablestore.compaction.leveled.max-bytes-for-level-multiplier": 2,
    "num-levels": 5,
    "target-file-size": "4 kb",
    "snapshot.num-retained.min": 1000,
}
KINDS = {
    "plain": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": True},
    "two buckets": {
        "bucket": 2,
        "num-sorted-run.stop-trigger": 3,
        "tablestore.compaction.leveled.max-bytes-for-level-base": "6 kb",
    },
    "first row": {"merge-engine": "first-row"},
    "partial update, lookup": {"merge-engine": "partial-update", "changelog-producer": "lookup"},
    "sum": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.w.aggregate-function": "sum",
    },
    "sum, lookup": {
        "merge-engine": "aggregation",
        "changelog-producer": "lookup",
        "fields.v.aggregate-function": "sum",
        "fields.w.aggregate-function": "sum",
    },
}


def leveled(path, **options) -> ts.Table:
    schema = {"k": ts.BIGINT, "v": ts.BIGINT, "w": ts.BIGINT, "t": ts.STRING}
    return ts.connect(str(path)).create_table(
        "d.t", schema=schema, primary_key=["k"], options=SMALL | options
    )


def written(model: dict[int, list], kind: str, keys: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """Rows for these keys; the model learns what becomes of them."""
    v, w = rng.integers(0, 1000, len(keys)), rng.integers(0, 1000, len(keys))
    texts = [str(rng.bytes(15).hex()) for _ in keys]
    missing = rng.random(len(keys)) < 0.3
    for i, k in enumerate(keys.tolist()):
        row = [None if missing[i] else int(v[i]), int(w[i]), texts[i]]
        old = model.get(k)
        if kind.startswith("first") and old is not None:
            continue
        if kind.startswith("partial") and old is not None:
            row = [o if n is None else n for n, o in zip(row, old, strict=True)]
        if kind.startswith("sum") and old is not None:
            row = [
                n if o is None else o if n is None else o + n for n, o in zip(row[:2], old[:2], strict=True)
            ]
            row.append(texts[i])
        model[k] = row
    return pa.table({"k": keys, "v": pa.array(v, mask=missing), "w": w, "t": texts})


def rows_of(table: ts.Table) -> dict[int, list]:
    rows = table.scan().to_arrow().to_pydict()
    return {k: list(row) for k, *row in zip(rows["k"], rows["v"], rows["w"], rows["t"], strict=True)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(3)
def test_random_changes_leave_what_a_dict_holds(tmp_path, kind, seeds):
    for seed in seeds[::5]:
        rng = np.random.default_rng(seed)
        table = leveled(tmp_path / str(seed), **KINDS[kind])
        model: dict[int, list] = {}
        deepest = 0
        for step in range(14):
            keys = np.unique(rng.integers(0, 700, 150)) if step % 3 else np.arange(step * 40, step * 40 + 120)
            table.write(written(model, kind, keys, rng))
            if step % 4 == 3 and kind in ("plain", "lookup", "deletion vectors", "two buckets"):
                low = int(rng.integers(0, 700))
                table.delete((ts.col("k") >= low) & (ts.col("k") < low + 40))
                model = {k: row for k, row in model.items() if not low <= k < low + 40}
            if step == 9:
                table.compact(full=bool(rng.integers(0, 2)))
            assert rows_of(table) == model, f"seed {seed}, step {step}"
            deepest = max(deepest, *table.inspect.files().column("level").to_pylist())
        assert table.check() == []
        assert deepest >= 2, "the levels were not used"


LATE = {
    "sequence.field": ({"sequence.field": "a"}, [("+I", 1, 5)], [("-D", 1, 9)], [("+I", 1, 7)]),
    "remove-record-on-delete": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        [("+I", 1, 5)],
        [("-D", 1, 9)],
        [("+I", 1, None)],
    ),
    "sum": (
        {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
        [("+I", 1, 5)],
        [("-D", 1, 9)],
        [("+I", 1, 7)],
    ),
}


@pytest.mark.parametrize("kind", LATE)
def test_rows_that_wait_above_keep_the_deletes_below_them(tmp_path, kind):
    options, *commits = LATE[kind]
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.INT, "a": ts.INT},
        primary_key=["k"],
        options={
            **options,
            "bucket": 1,
            "write-only": True,
            "num-levels": 4,
            "tablestore.compaction.strategy": "leveled",
            "tablestore.compaction.leveled.level0-file-num-trigger": 2,
            "tablestore.compaction.leveled.max-bytes-for-level-base": "1 b",
        },
    )

    def write(rows) -> None:
        kinds, k, a = zip(*rows, strict=True)
        data = pa.table({"k": pa.array(k, pa.int32()), "a": pa.array(a, pa.int32()), "kind": kinds})
        table.write(data, row_kind_column="kind")

    write(commits[0])
    write([("+I", 3, 1)])
    table.compact(until_quiet=True)  # all at the lowest level
    write(commits[1])
    write([("+I", 3, 2)])
    table.compact()  # level 1
    write(commits[2])
    before = shown(table)
    for _ in range(4):
        table.compact()
        assert shown(table) == before
    levels = {f["level"] for f in table.refresh().inspect.files().to_pylist()}
    assert levels == {0, 3}
    table.compact(full=True)
    assert shown(table) == before
    assert table.check() == []


def shown(table: ts.Table) -> list[dict]:
    return table.refresh().scan().to_arrow().sort_by("k").to_pylist()


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_a_changelog_adds_up_to_the_state(tmp_path, producer, seeds):
    for seed in seeds[::5]:
        rng = np.random.default_rng(seed)
        every = {} if producer == "lookup" else {"full-compaction.delta-commits": 3}
        table = leveled(tmp_path / str(seed), **{"changelog-producer": producer, **every})
        model: dict[int, list] = {}
        for _ in range(12):
            table.write(written(model, producer, np.unique(rng.integers(0, 500, 120)), rng))
            if rng.random() < 0.3:
                low = int(rng.integers(0, 500))
                table.delete((ts.col("k") >= low) & (ts.col("k") < low + 40))
                model = {k: row for k, row in model.items() if not low <= k < low + 40}
        table.compact(full=True)
        state: dict[int, list] = {}
        changes = table.refresh().changes(since=0).select(["rowkind", "k", "v", "w", "t"]).to_pydict()
        for kind, k, *row in zip(*changes.values(), strict=True):
            if kind in ("-U", "-D"):
                assert state.pop(k) == row, f"seed {seed}"
            else:
                assert k not in state, f"seed {seed}"
                state[k] = row
        assert state == model, f"seed {seed}"
        assert table.check() == []


def test_a_bucket_may_change_its_strategy(tmp_path):
    rng, model = np.random.default_rng(7), {}
    table = leveled(tmp_path)
    for strategy in ("universal", "leveled", "universal"):
        for _ in range(5):
            table.write(written(model, "plain", np.unique(rng.integers(0, 500, 150)), rng))
        assert rows_of(table) == model
        assert table.check() == []
        table.alter(ts.set_options({"tablestore.compaction.strategy": strategy}))


def test_other_engines_see_how_many_levels_there_are(tmp_path):
    lake = ts.connect(str(tmp_path))
    options = {"tablestore.compaction.strategy": "leveled"}
    table = lake.create_table("d.t", schema={"k": ts.INT}, primary_key=["k"], options=options)
    assert table.options["num-levels"] == "7"
    other = lake.create_table("d.u", schema={"k": ts.INT}, primary_key=["k"])
    assert "num-levels" not in other.options
    assert (
        other.alter(ts.set_options({"tablestore.compaction.strategy": "leveled"})).options["num-levels"]
        == "7"
    )


FULL_BY = {
    "bytes of newer levels": {"compaction.incremental-size-threshold": "9 kb"},
    "few bytes": {"compaction.total-size-threshold": "30 kb"},
    "commits": {"full-compaction.delta-commits": 3},
    "time": {"compaction.optimization-interval": "1 ms"},
}


@pytest.mark.parametrize("kind", FULL_BY)
def test_options_that_start_full_compactions_start_them(tmp_path, kind, seeds):
    seed = seeds[0]
    rng, model = np.random.default_rng(seed), dict[int, list]()
    table = leveled(tmp_path, **FULL_BY[kind])
    for step in range(10):
        table.write(written(model, kind, np.unique(rng.integers(0, 700, 150)), rng))
        assert rows_of(table) == model, f"seed {seed}, step {step}"
    done = table.inspect.compactions().to_pylist()
    full = [r for r in done if r["full"]]
    if kind != "few bytes":  # it grows beyond them
        assert len(full) >= 2, f"seed {seed}"
    assert all(r["output_level"] == 4 for r in full)
    if kind in ("commits", "time"):  # what reads the oldest level only sees what a full compaction left there
        assert all(r["full"] for r in done if r["output_level"] == 4)
    assert table.check() == []


def test_a_table_without_levels_is_refused(tmp_path):
    options = {"tablestore.compaction.strategy": "leveled"}
    with pytest.raises(InvalidOption, match="needs a primary key"):
        ts.connect(str(tmp_path)).create_table("d.t", schema={"k": ts.INT}, options=options)


def test_targets_must_be_positive(tmp_path):
    with pytest.raises(InvalidOption, match="at least 1"):
        leveled(tmp_path, **{"tablestore.compaction.leveled.level0-file-num-trigger": 0})


@pytest.mark.parametrize("kind", ["plain", "lookup", "deletion vectors"])
@pytest.mark.sample(1)
def test_compactions_that_saw_an_older_table_are_refused_or_right(tmp_path, kind, seeds):
    outcomes = set()
    for seed in {SOME_ARE_DONE, *seeds[::5]}:
        rng = np.random.default_rng(seed)
        table = leveled(tmp_path / str(seed), **KINDS[kind], **{"tablestore.history.enabled": False})
        lazy = table.with_options({"write-only": True})
        model: dict[int, list] = {}
        waiting: list[bytes] = []
        for step in range(30):
            action = rng.integers(0, 4)
            if action == 0 or step < 4:
                keys = np.unique(rng.integers(0, 600, 90))
                (table if rng.integers(0, 2) else lazy).write(written(model, kind, keys, rng))
            elif action == 1 and kind != "lookup":
                low = int(rng.integers(0, 600))
                lazy.delete((ts.col("k") >= low) & (ts.col("k") < low + 50))
                model = {k: row for k, row in model.items() if not low <= k < low + 50}
            elif action == 2:
                for task in table.buckets_to_compact():
                    message = ts.compact_bucket(table.location, task)
                    waiting += [message] if message is not None else []
            elif waiting:
                message = waiting.pop(int(rng.integers(0, len(waiting))))
                try:
                    table.commit([message], user="job")
                    outcomes.add("done")
                except CommitConflict:
                    outcomes.add("refused")
            if kind != "deletion vectors":
                assert rows_of(table) == model, f"seed {seed}, step {step}"
        table.compact(full=True)
        assert rows_of(table) == model
        assert table.refresh().check() == []
    assert "done" in outcomes
