"""The simulator against real tables under the same workload, and what holds of every run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest
from tablestore.format.binary_row import comparable_keys
from tablestore.insight.explain.merge_size import SizeModel
from tablestore.insight.explain.table_history import events
from tablestore.insight.inspect.amplification.ledger import Ledger
from tablestore.insight.simulator import (
    Schedule,
    Simulator,
    Workload,
    density,
    sim_bucket,
    sim_levels,
    simulate,
)
from tablestore.insight.simulator.density import law_of
from tablestore.insight.simulator.keyset import KeySet, merged
from tablestore.insight.simulator.sim_bucket import SimBucket, _all_meet
from tablestore.insight.simulator.workload import KINDS, Draws, FlushedRows
from tablestore.lsm.compaction.decision import CompactUnit
from tablestore.lsm.compaction.rewrite_plan import plan_unit
from tablestore.lsm.levels.sorted_run import Levels, byte_order
from tablestore.table.table import Table
from tests.faults import SimEnv
from tests.lsm.trees import data_file

FLUSHES = 30
TRIGGER = "num-sorted-run.compaction-trigger"
SMALL = {
    "sequential": Workload("sequential", rows=400),
    "sequential, updates, deletes": Workload("sequential", rows=400, updates=0.3, deletes=0.1),
    "uniform": Workload("uniform", rows=400, keys=4_000),
    "uniform, deletes": Workload("uniform", rows=400, keys=4_000, deletes=0.2),
    "zipf": Workload("zipf", rows=400, keys=8_000),
    "time-series": Workload("time-series", rows=400, updates=0.1, deletes=0.1, lag=500.0),
}
LEVEL_BASE = "tablestore.compaction.leveled.max-bytes-for-level-base"
OPTIONS: dict[str, dict[str, Any]] = {
    "universal": {TRIGGER: 4},
    "universal, small files": {TRIGGER: 3, "target-file-size": "480 kb"},
    "leveled": {
        "tablestore.compaction.strategy": "leveled",
        LEVEL_BASE: "1200 kb",
        "target-file-size": "480 kb",
        "num-levels": 4,
    },
}


def real(path: Path, workload: Workload, options: dict[str, Any], seed: int) -> Table:
    """A table of one bucket into which the workload's flushes were written, each as one commit."""
    table = ts.connect(str(path), env=SimEnv()).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "v": ts.BYTES},
        primary_key=["k"],
        options={"bucket": 1, **options},
    )
    for i, rows in enumerate(islice(Draws(workload, seed=seed), FLUSHES)):
        table.write(rows_of(rows, i), row_kind_column="_kind")
    return table


def rows_of(rows: FlushedRows, seed: int) -> pa.Table:
    keys, dead = rows.sample.keys, rows.sample.dead
    kinds = np.where(dead, "-D", "+I") if dead is not None else np.full(len(keys), "+I")
    noise = np.random.default_rng(seed).bytes(400 * len(keys))  # what does not compress
    values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(400), len(keys), [None, pa.py_buffer(noise)])
    return pa.table({"k": pa.array(keys, pa.int64()), "v": values.cast(pa.binary()), "_kind": kinds})


def sized(table: Table, workload: Workload) -> Workload:
    """The workload with the bytes that rows of that table take."""
    actual = list(events(table.store))
    model = SizeModel.learned(
        [], table.store.key_types, [f for e in actual for f in (*e.flushed, *e.written)]
    )
    return replace(workload, row_bytes=model.row_bytes, file_bytes=model.file_bytes)


@pytest.mark.parametrize("strategy", OPTIONS)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.sample(2)
def test_a_real_table_of_the_same_rows_has_the_same_levels(tmp_path: Path, name: str, strategy: str) -> None:
    """Rows, levels and runs are the same, bytes within 2 %: a file's bytes are only a line through rows."""
    options = OPTIONS[strategy]
    table = real(tmp_path, SMALL[name], options, seed=5)
    simulator = Simulator(sized(table, SMALL[name]), options, seed=5).advance(FLUSHES)
    actual, wanted = simulator.levels(), table.inspect.levels()
    shape = [(f.level, f.row_count, f.delete_count) for f in actual.files]
    assert shape == list(zip(*(wanted[c].to_pylist() for c in ("level", "rows", "deletes")), strict=True))
    ledger = Ledger(table.store.key_types)
    row = [ledger.enter(e) for e in events(table.store)][-1]
    account = simulator.buckets[0].account
    assert account.write_amplification == pytest.approx(row.write_amplification, rel=0.02)
    assert account.live_bytes == pytest.approx(row.live_bytes, rel=0.02)
    assert account.runs == row.runs


@pytest.mark.parametrize("name", SMALL)
def test_a_sample_says_what_all_rows_would(name: str) -> None:
    """A tenth of the rows gives write amplification within 10 %, and live bytes within 10 %."""
    workload = replace(SMALL[name], rows=4_000, keys=SMALL[name].keys and 10 * SMALL[name].keys)
    if workload.lag:
        workload = replace(workload, lag=5_000.0)
    whole = simulate(workload, flushes=200, samples=4_000).summary
    sampled = simulate(workload, flushes=200, samples=400).summary
    assert sampled.write_amplification == pytest.approx(whole.write_amplification, rel=0.1)
    assert sampled.compacted_bytes == pytest.approx(whole.compacted_bytes, rel=0.05)


def test_rare_updates_come_in_small_samples_too() -> None:
    """Sixteen of 10,000 rows stand for a flush of which 2 % are updates and 1 % deletes."""
    workload = Workload("sequential", rows=10_000, updates=0.02, deletes=0.01)
    few, many = (simulate(workload, flushes=400, samples=n).summary for n in (16, 1_000))
    assert few.compacted_bytes == pytest.approx(many.compacted_bytes, rel=0.03)
    assert few.write_amplification == pytest.approx(many.write_amplification, rel=0.05)


def test_a_flush_larger_than_what_is_drawn_whole_is_sampled_twice() -> None:
    run = simulate(Workload("uniform", rows=1_000_000, keys=5_000_000), flushes=4, samples=64)
    assert run.summary.bytes_ingested == pytest.approx(4 * 100 * 906_000, rel=0.02)


def test_sequential_keys_are_exact_however_few_are_sampled() -> None:
    """Without overlap nothing is estimated: every row is kept and the sample changes nothing."""
    workload = Workload("sequential", rows=10_000)
    few, many = (simulate(workload, flushes=300, samples=n) for n in (16, 1_000))
    assert few.to_arrow() == many.to_arrow()
    assert sum(f.row_count for f in few.levels().files) == 300 * 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_run(kind: str) -> None:
    workload = Workload(kind, rows=100, deletes=0.1, updates=0.0 if kind in ("uniform", "zipf") else 0.1)
    first, again, other = (simulate(workload, flushes=50, seed=s) for s in (3, 3, 4))
    assert first.to_arrow() == again.to_arrow()
    assert first.to_arrow() != other.to_arrow()


def test_steps_and_levels_are_simulated_again_as_they_were() -> None:
    run = simulate(Workload(rows=200, keys=2_000), {TRIGGER: 3}, flushes=60)
    steps = list(run.steps())
    assert [s.flush for s in steps if s.kind == "flush"] == list(range(1, 61))
    assert sum(s.kind == "compaction" for s in steps) == run.summary.compactions
    assert sum(s.bytes_written for s in steps if s.kind == "compaction") == run.summary.bytes_compacted
    assert all(s.decision.explain() for s in steps if s.decision is not None)
    last = [s for s in steps if s.flush == 40][-1]
    assert [f.file_name for f in last.levels.files] == [f.file_name for f in run.levels(at=40).files]
    assert run.levels_table(at=40).column("rows").to_pylist() == [f.row_count for f in last.levels.files]
    with pytest.raises(InvalidRequest, match=r"0\.\.60"):
        run.levels(at=61)


def test_levels_hold_disjoint_keys_and_newer_rows_above(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        for options in OPTIONS.values():
            workload = Workload("uniform", rows=300, keys=3_000, deletes=0.1, row_bytes=20)
            for step in Simulator(workload, options, seed=seed).steps(30):
                _require_sound(step.levels)


def _require_sound(levels: Levels) -> None:
    for run in levels.upper:
        for left, right in zip(run.files, run.files[1:], strict=False):
            assert left.max_key < right.min_key, "I4"
    assert list(levels.level0) == sorted(levels.level0, key=lambda f: -f.max_sequence), "I5"


def test_no_step_changes_what_the_bucket_holds() -> None:
    """I12: the keys that live, newest row each, are those of the flushes, whatever was compacted."""
    workload = Workload("uniform", rows=200, keys=1_000, deletes=0.3)
    simulator, newest = Simulator(workload, {TRIGGER: 3}, seed=1), dict[int, bool]()
    draws = iter(Draws(workload, seed=1))
    for _ in range(30):
        simulator.advance(simulator.flushes + 1)
        sample = next(draws).sample
        dead = [False] * len(sample) if sample.dead is None else sample.dead.tolist()
        newest |= dict(zip(sample.keys.tolist(), dead, strict=True))
        files = sorted(simulator.buckets[0].levels.files, key=lambda f: (f.level, -f.max_sequence))
        live_rows = merged([f.keys for f in files]).without_deletes()
        assert live_rows.keys.tolist() == sorted(k for k, gone in newest.items() if not gone)


def test_more_than_the_stop_trigger_stalls_the_next_flush() -> None:
    schedule = Schedule(flushes_per_commit=50)
    options = {TRIGGER: 3, "num-sorted-run.stop-trigger": 5}
    run = simulate(Workload(rows=100), options, flushes=100, schedule=schedule)
    assert run.summary.stalls > 0
    assert run.summary.most_runs <= 6
    stalled = [s for s in run.steps() if s.stalled]
    assert len(stalled) == run.summary.stalls
    assert simulate(Workload(rows=100), options, flushes=100).summary.stalls == 0


def test_a_write_only_table_is_compacted_by_its_job_alone() -> None:
    alone = simulate(Workload(rows=100), flushes=60, schedule=Schedule(write_only=True))
    assert (alone.summary.runs, alone.summary.write_amplification) == (60, 1.0)
    job = Schedule(write_only=True, compact_every=10, full_every=30)
    helped = simulate(Workload(rows=100), flushes=60, schedule=job)
    assert helped.summary.runs == 1
    assert helped.summary.rules["full"].compactions == 2


def test_full_compactions_come_when_the_interval_is_over() -> None:
    options = {TRIGGER: 100, "num-sorted-run.stop-trigger": 200, "compaction.optimization-interval": "1 h"}
    run = simulate(Workload(rows=100), options, flushes=600, schedule=Schedule(interval_ms=60_000))
    fired = [s for s in run.steps() if s.kind == "compaction"]
    assert {s.decision.rule for s in fired if s.decision} == {"early full"}
    assert len(fired) == 10


def test_buckets_share_the_rows() -> None:
    single = simulate(Workload(rows=1_000, keys=20_000), flushes=50)
    four = simulate(Workload(rows=1_000, keys=20_000), flushes=50, buckets=4)
    assert four.summary.bytes_ingested == pytest.approx(single.summary.bytes_ingested, rel=0.03)
    assert set(four.levels_table()["bucket"].to_pylist()) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "bad", [{"kind": "none"}, {"updates": 0.5}, {"kind": "sequential", "keys": 5}, {"deletes": 1.5}]
)
def test_a_workload_that_cannot_be_drawn_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        Workload(**bad)
    with pytest.raises(InvalidOption):
        simulate(Workload(), {TRIGGER: "many"})


def test_files_that_all_meet_are_what_the_plan_rewrites_whole(seeds: tuple[int, ...]) -> None:
    """The simulator's short cut and the rewrite plan agree."""
    for seed in seeds:
        chance, seen = np.random.default_rng(seed), 0
        while seen < 50:
            files = tuple(_random_files(chance))
            unit = CompactUnit(5, files)
            if not _all_meet(unit):
                continue
            seen += 1
            levels = Levels.of(files, 6, comparable_keys(_KEYS))
            (step,) = plan_unit(unit, levels, levels.key, small_bytes=1.0)
            assert set(step.files) == set(files)
            assert len(step.sections) == 1


@pytest.mark.parametrize(
    "workload",
    [Workload("sequential", updates=0.01), Workload("time-series", updates=0.05, deletes=0.1)],
    ids=lambda w: w.kind,
)
def test_long_runs_are_planned_where_they_are_touched(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if all of the run had been planned."""
    options, seen = {"target-file-size": "8 mb"}, []
    for _ in range(2):
        run = simulate(replace(workload, row_bytes=1000), options, flushes=600, samples=16)
        names = [(f.level, f.file_name, f.row_count) for f in run.levels().files]
        seen.append((run.to_arrow(), names))
        monkeypatch.setattr(SimBucket, "_touched", lambda self, unit, levels: unit)
    assert seen[0] == seen[1]
    assert len(names) > 50


@pytest.mark.parametrize("strategy", OPTIONS)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.sample(6)
def test_short_cuts_change_no_step(
    name: str, strategy: str, monkeypatch: pytest.MonkeyPatch, seeds: tuple[int, ...]
) -> None:
    """Rankings that follow, single files, rows of small ones: as if each run had been looked through, every
    unit planned and every level made anew."""
    few = SMALL[name]
    workload = replace(few, rows=40_000, keys=few.keys and 100 * few.keys, lag=few.lag and 100 * few.lag)
    mean: dict[str, Any] = {"target-file-size": "14 mb", LEVEL_BASE: "24 mb"}
    seen = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(sim_levels.Rankings, "known", lambda self, run, below: None)
            monkeypatch.setattr(sim_bucket, "_in_a_row", lambda files, small: False)
            monkeypatch.setattr(sim_bucket, "_moves", lambda unit: False)
            monkeypatch.setattr(sim_bucket, "applied", _plainly_applied)
        else:
            monkeypatch.setattr(sim_levels, "FEW", 2)
        steps = Simulator(workload, OPTIONS[strategy] | mean, seed=seeds[0], samples=400).steps(80)
        seen.append([(s.flush, s.text, [(f.level, f.file_name) for f in s.levels.files]) for s in steps])
    assert seen[0] == seen[1], seeds[0]


def _plainly_applied(levels: Levels, gone: dict[int, list[Any]], come: dict[int, list[Any]]) -> Levels:
    return levels.apply(chain.from_iterable(gone.values()), chain.from_iterable(come.values()))


_KEYS = (ts.BIGINT.not_null(),)


def _random_files(chance: np.random.Generator) -> Iterator[Any]:
    for i in range(int(chance.integers(2, 6))):
        low = int(chance.integers(0, 100))
        yield data_file(str(i), low, low + int(chance.integers(0, 100)), min_sequence=i, max_sequence=i)


def test_the_newest_row_of_a_key_decides_whether_it_is_deleted() -> None:
    new = KeySet(np.array([1, 3]), np.array([True, False]))
    old = KeySet(np.array([1, 2, 3]), np.array([False, True, True]))
    actual = merged([new, old])
    assert (actual.keys.tolist(), actual.dead.tolist()) == ([1, 2, 3], [True, True, False])
    assert byte_order(b"x") == b"x"


def mean_amplification(
    workload: Workload, options: dict[str, Any], samples: int | None
) -> tuple[float, float]:
    """(write amplification, compacted bytes), means of a few seeds."""
    runs = [simulate(workload, options, flushes=400, samples=samples, seed=s).summary for s in range(3)]
    return tuple(sum(getattr(r, n) for r in runs) / 3 for n in ("write_amplification", "compacted_bytes"))


@pytest.mark.parametrize("strategy", ["universal", "leveled"])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.sample(2)
def test_expected_sizes_are_those_of_drawn_rows(name: str, strategy: str) -> None:
    """Write amplification within 2 %, as a mean of seeds: where runs are of nearly equal size, chance decides
    which rule fires, of drawn rows as of expected ones."""
    options = OPTIONS[strategy] | {"target-file-size": "80 kb", TRIGGER: 4}
    expected, drawn = (mean_amplification(SMALL[name], options, n) for n in (0, None))
    assert expected[0] == pytest.approx(drawn[0], rel=0.02 if strategy == "leveled" else 0.035)
    assert expected[1] == pytest.approx(drawn[1], rel=0.005)


@pytest.mark.parametrize("skew", [0.4, 0.99, 1.0, 1.6])
def test_the_law_of_zipf_says_how_many_keys_are_drawn(skew: float) -> None:
    workload = Workload("zipf", rows=30_000, keys=20_000, skew=skew)
    law, seen = law_of(workload), set()
    for number, flush in enumerate(islice(Draws(workload, seed=1), 4), start=1):
        seen |= set(flush.sample.keys.tolist())
        share, twice = (law(n * number * 30_000 / 20_000) for n in (1, 2))
        chance = 4 * (20_000 * (twice - share)) ** 0.5
        assert 20_000 * share == pytest.approx(len(seen), abs=chance)


def test_densities_merge_as_drawn_keys_do(seeds: tuple[int, ...]) -> None:
    """Random layers over each other, with deletes kept and dropped, against keys that are drawn."""
    for seed in seeds:
        chance = np.random.default_rng(seed)
        near, layers, drawn = 1_000.0, [], []  # four standard deviations
        for _ in range(4):
            low, high = sorted((chance.integers(0, 20, 2) * 10_000).tolist())
            high, draws, dead = (
                high + 10_000,
                float(chance.choice([0.05, 0.5, 2.0, np.inf])),
                chance.random() / 2,
            )
            layers.append(((float(low), float(high), draws, dead, 0.0),))
            there = chance.random(high - low) < density.evenly(draws)
            keys = np.flatnonzero(there) + low
            drawn.append(KeySet(keys, chance.random(len(keys)) < dead))
        pieces, wanted = density.merged(layers, density.evenly), merged(drawn)
        for drop in (False, True):
            if drop:
                pieces, wanted = density.without_deletes(pieces), wanted.without_deletes()
            rows, dead = density.rows_of(pieces, density.evenly)
            assert rows == pytest.approx(len(wanted), abs=near), seed
            assert dead == pytest.approx(wanted.deletes, abs=near), seed
        parts = density.cut(pieces, density.evenly, rows=rows, every=rows / 3.5)
        assert len(parts) == 4, seed
        sizes = [density.rows_of(p, density.evenly)[0] for p in parts]
        assert sizes[:3] == pytest.approx([rows / 3.5] * 3, rel=0.01), seed
        assert sum(sizes) == pytest.approx(rows), seed


@pytest.mark.large
def test_long_runs_keep_what_they_are_made_of() -> None:
    """No row is drawn, and what pictures ask of the run is there."""
    run = simulate(Workload("uniform", deletes=0.1), flushes=2_000, samples=0)
    assert run.summary.bytes_ingested == pytest.approx(2_000 * 1e6, rel=0.01)
    assert (
        run.inspect.amplification().to_pylist()[0]["write_amplification"] == run.summary.write_amplification
    )
    assert run.inspect.levels()["rows"].to_pylist() == [f.row_count for f in run.levels().files]


def test_more_buckets_than_fit_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"buckets 1,000,000 are more than the 10,000"):
        simulate(Workload(), buckets=1_000_000)


def test_progress_is_reported_and_ends_the_run() -> None:
    reports: list[tuple[int, int]] = []
    simulate(Workload(rows=10), flushes=1_000, progress=lambda *at: reports.append(at))
    assert reports == sorted(reports)
    assert len(reports) == 200

    def stop(done: int, _whole: int) -> None:
        if done > 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(Workload(), flushes=1_000_000, progress=stop)
