"""The windowed merge against a dict: any keys, any runs, any window size; deletes kept or dropped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tablestore.format import rowkind
from tablestore.format.types.arrow_types import BIGINT, INT
from tablestore.lsm.merge import merge_reader
from tablestore.lsm.merge.groups import ARRIVAL, take
from tablestore.lsm.merge.merge_function import Deduplicate
from tablestore.lsm.merge.merge_reader import merge
from tests.lsm.rows import RAW, Row, comparable, key_fields, kv_batch, merged_model, rows_of, same

KEYS = key_fields([BIGINT])


@st.composite
def sorted_runs(draw):
    """Key fields and runs, oldest first: unique keys in order inside a run, sequence numbers of no order at
    all."""
    types = draw(st.lists(st.sampled_from(list(RAW)), min_size=1, max_size=2))
    fields = key_fields(types)
    pool = draw(st.lists(st.tuples(*(RAW[t] for t in types)), min_size=1, max_size=12))
    runs, sequence = [], iter(draw(st.permutations(range(80))))
    for _ in range(draw(st.integers(1, 5))):
        keys = draw(st.lists(st.sampled_from(pool), max_size=12))
        rows = [(next(sequence), draw(st.integers(0, 3)), *k, f"v{draw(st.integers(0, 99))}") for k in keys]
        runs.append(
            list(
                {comparable(r, fields): r for r in sorted(rows, key=lambda r: comparable(r, fields))}.values()
            )
        )
    return fields, runs


def readers_of(runs, fields, batch_rows):
    def reader(rows):
        pieces = [rows[i : i + batch_rows] for i in range(0, len(rows), batch_rows)]
        return lambda: iter([kv_batch(p, fields) for p in pieces])

    return [reader(rows) for rows in runs]


@settings(max_examples=120)
@given(sorted_runs(), st.integers(1, 13), st.integers(1, 60), st.booleans(), st.booleans())
def test_merge_equals_a_dict_for_every_window(case, batch_rows, window_rows, keep_retracts, shared):
    fields, runs = case
    readers = readers_of(runs, fields, batch_rows)
    options = {"keep_retracts": keep_retracts, "window_rows": window_rows}
    if shared:  # least rows do not count here: small runs come whole, the others in tiny batches
        whole = set(ended_first(runs, window_rows))
        options["prefetch"] = [len(r) + 1 if i in whole else 1 + i for i, r in enumerate(runs)]
    actual = merge(readers, fields, Deduplicate(), **options)
    rows = rows_of(actual, fields)
    wanted = merged_model([r for run in runs for r in run], fields).values()
    model = [r for r in wanted if keep_retracts or r[1] in (rowkind.INSERT, rowkind.UPDATE_AFTER)]
    reread = rows_of([kv_batch(model, fields)], fields)  # floats narrow as columns do
    assert same(rows, reread)


def ended_first(runs, rows):
    """The smallest runs, as many as have so many rows together."""
    total = 0
    for i in sorted(range(len(runs)), key=lambda i: len(runs[i])):
        total += len(runs[i])
        if total > rows:
            return
        yield i


@settings(max_examples=100)
@given(st.data())
def test_rows_with_one_sequence_number_are_decided_by_the_order_of_runs(data):
    runs = data.draw(
        st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=25, unique=True), min_size=2, max_size=6)
    )
    rows = [[(5, 0, k, f"run {i}") for k in sorted(keys)] for i, keys in enumerate(runs)]
    prefetch = [data.draw(st.sampled_from([1, 3, len(r), len(r) + 1])) for r in rows]
    actual = rows_of(merge(readers_of(rows, KEYS, 100), KEYS, Deduplicate(), prefetch=prefetch), KEYS)
    newest = {k: f"run {i}" for i, keys in enumerate(runs) for k in keys}
    assert actual == [(5, 0, k, newest[k]) for k in sorted(newest)]


def run_of(*rows: Row):
    return lambda: iter([kv_batch(list(rows), KEYS)])


def merged(*runs, function=None, **options):
    return rows_of(merge(list(runs), KEYS, function or Deduplicate(), **options), KEYS)


def test_the_larger_sequence_wins_whatever_the_order_of_runs():
    old, new = run_of((1, 0, 7, "old")), run_of((2, 0, 7, "new"))
    assert merged(old, new) == merged(new, old) == [(2, 0, 7, "new")]


def test_a_delete_hides_older_rows_and_stays_if_kept():
    old, new = run_of((1, 0, 7, "a"), (1, 0, 8, "b")), run_of((2, 3, 7, None))
    assert merged(old, new) == [(1, 0, 8, "b")]
    assert merged(old, new, keep_retracts=True) == [(2, 3, 7, None), (1, 0, 8, "b")]


def test_a_lone_delete_is_not_delivered():
    assert merged(run_of((2, 3, 7, None))) == []


def test_ignore_delete_goes_on_with_the_last_row_that_adds():
    runs = run_of((1, 0, 7, "a")), run_of((2, 3, 7, None)), run_of((3, 1, 7, "x"))
    assert merged(*runs, function=Deduplicate(ignore_delete=True)) == [(1, 0, 7, "a")]


def test_ignore_delete_passes_lone_deletes_and_drops_keys_of_deletes_only():
    runs = run_of((1, 3, 7, None), (1, 3, 8, None)), run_of((2, 3, 7, None))
    actual = merged(*runs, function=Deduplicate(ignore_delete=True), keep_retracts=True)
    assert actual == [(1, 3, 8, None)]


def test_one_run_passes_through_without_copying():
    batch = kv_batch([(i, 0, i, "v") for i in range(10)], KEYS)
    (actual,) = merge([lambda: iter([batch])], KEYS, Deduplicate())
    assert actual.column("v").buffers()[2].address == batch.column("v").buffers()[2].address


def test_small_runs_beside_a_long_one_are_one_part_of_each_window(monkeypatch):
    long = [(1, 0, k, "long") for k in range(0, 400)]
    small = [[(2 + i, 0, k, f"small {i}") for k in range(i, 400, 40)] for i in range(8)]
    seen = []
    fold = merge_reader._fold
    monkeypatch.setattr(merge_reader, "_fold", lambda parts, *a: seen.append(len(parts)) or fold(parts, *a))
    prefetch = [50, *(len(s) + 1 for s in small)]
    rows = rows_of(merge(readers_of([long, *small], KEYS, 50), KEYS, Deduplicate(), prefetch=prefetch), KEYS)
    newest = {r[2]: r for run in (long, *small) for r in run}
    assert rows == [newest[k] for k in sorted(newest)]
    assert set(seen) == {2}


def test_there_are_no_more_windows_the_more_runs_there_are(seeds):
    for seed in seeds:
        keys = np.random.default_rng(seed).permutation(20_000)
        for runs in (2, 10, 40):
            rows = [[(1 + k, 0, int(k), "v") for k in sorted(part)] for part in np.array_split(keys, runs)]
            seen = []
            for parts in merge_reader.windows(readers_of(rows, KEYS, 300), KEYS, window_rows=2_000):
                batches = np.concatenate([components[0] for _, components in parts])
                assert not seen or batches.min() > seen[-1].max(), f"seed {seed}"
                seen.append(batches)
            assert sorted(np.concatenate(seen).tolist()) == list(range(20_000)), f"seed {seed}"
            assert len(seen) <= 15, f"seed {seed}, {runs} runs: {len(seen)} windows"


def test_no_runs_give_nothing():
    assert merged() == []
    assert merged(lambda: iter([])) == []


def test_dictionary_encoded_and_plain_text_merge():
    plain = kv_batch([(1, 0, 1, "a"), (2, 0, 3, "c")], KEYS)
    encoded = plain.set_column(3, "v", plain.column("v").dictionary_encode())
    other = kv_batch([(3, 0, 2, "b")], KEYS)
    other_encoded = other.set_column(3, "v", other.column("v").dictionary_encode())
    wanted = [(1, 0, 1, "a"), (3, 0, 2, "b"), (2, 0, 3, "c")]
    for second in (other, other_encoded):
        assert merged(lambda: iter([encoded]), lambda second=second: iter([second])) == wanted


def test_a_window_never_splits_a_key():
    fields = key_fields([BIGINT, INT])
    runs = [[(s, 0, 5, j, f"{s}") for j in range(4)] for s in range(3)]
    for batch_rows in range(1, 5):
        rows = rows_of(merge(readers_of(runs, fields, batch_rows), fields, Deduplicate()), fields)
        assert rows == [(2, 0, 5, j, "2") for j in range(4)]


def test_memory_is_one_batch_a_run():
    live = [0]

    def reader():
        for start in range(0, 1000, 10):
            live[0] += 1
            yield kv_batch([(i, 0, i, "v") for i in range(start, start + 10)], KEYS)

    seen = 0
    for batch in merge([reader, reader], KEYS, Deduplicate(), window_rows=20):
        seen += batch.num_rows
        assert live[0] <= 2 * (seen // 10 + 2)
    assert seen == 1000


def test_rows_without_a_take_keep_their_types():
    batch = kv_batch([(1, 0, 1, "a")], KEYS)
    (actual,) = merge([lambda: iter([batch])], KEYS, Deduplicate())
    assert actual.schema.equals(batch.schema)
    assert isinstance(actual, pa.RecordBatch)


def test_long_runs_read_long_batches_and_many_runs_stay_within_three_windows():
    assert merge_reader.shares([900_000, 90_000, 10_000], window_rows=50_000) == [45_000, 90_001, 10_001]
    assert merge_reader.shares([900_000, 90_000, 10_000], window_rows=40_000) == [36_000, 3_600, 10_001]
    assert merge_reader.shares([900_000, 900_000, 200_000], window_rows=10_000) == [4_500, 4_500, 1_024]
    assert merge_reader.shares([5, 5]) == [6, 6]
    assert merge_reader.shares([]) == []
    for runs in (2, 20, 200):
        for rows in (100, 10_000, 1_000_000):
            assert sum(merge_reader.shares([rows] * runs)) <= 3 * merge_reader.WINDOW_ROWS + 1_024 * runs


def test_shares_of_any_size_change_no_rows():
    runs = [[(i, 0, k, f"v{i}") for k in range(0, 400, step)] for i, step in enumerate((1, 7, 50, 399))]
    wanted = merged(*(run_of(*run) for run in runs))
    readers = readers_of(runs, KEYS, 33)
    for prefetch in ([1, 1, 1, 1], [90, 10, 3, 1], [1, 2, 300, 4]):
        assert rows_of(merge(readers, KEYS, Deduplicate(), prefetch=prefetch), KEYS) == wanted


def test_rows_that_take_away_are_left_out_by_every_function():
    old = run_of((1, 0, 7, "a"), (1, 0, 8, "b"), (1, 0, 9, "c"))
    new = run_of((2, 3, 7, None), (2, 1, 8, None), (2, 2, 9, "d"))
    for function in (Deduplicate(), Last()):
        assert merged(old, new, function=function) == [(2, 2, 9, "d")]
        assert merged(old, new, function=function, keep_retracts=True) == [
            (2, 3, 7, None),
            (2, 1, 8, None),
            (2, 2, 9, "d"),
        ]


class Last:
    """Deduplicate, but it does not say which rows it chose."""

    sequence = ARRIVAL

    def columns(self, names):
        return tuple(names)

    def merge(self, rows, groups):
        return take(rows, groups.order[groups.ends - 1])
