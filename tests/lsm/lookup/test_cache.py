"""What lookups keep: bounded by bytes, keys before rows, and read once however many commits ask."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.lsm.lookup.cache import LOCAL, CacheBounds, LookupCache
from tablestore.lsm.lookup.keyed_file import SortedKeys
from tests.faults import FaultyIO

WIDE = CacheBounds(100, 0.25)


def put(cache: LookupCache, name: str, size: int, *, rows: bool = False, bounds: CacheBounds = WIDE) -> None:
    cache.put(name, name.upper(), nbytes=size, bounds=bounds, rows=rows)


def cached(cache: LookupCache, names: str) -> str:
    return "".join(n for n in names if cache.get(n) is not None)


def test_what_nobody_asks_for_any_more_goes_first() -> None:
    cache = LookupCache()
    for name in "abc":
        put(cache, name, 30)
    assert cache.get("a") == "A"
    put(cache, "d", 30)
    assert cached(cache, "abcd") == "acd"
    assert cache.state.used_bytes == 90
    put(cache, "c", 10)
    assert cache.state.used_bytes == 70


def test_rows_go_before_keys_that_stay_within_their_share() -> None:
    cache = LookupCache()
    put(cache, "k", 20)
    put(cache, "r", 50, rows=True)
    put(cache, "s", 50, rows=True)
    assert cached(cache, "krs") == "ks"
    put(cache, "l", 40)  # beyond their share keys are as old as they are
    assert cached(cache, "skl") == "sl"
    put(cache, "m", 20)
    assert cached(cache, "slm") == "lm"
    assert cache.state.row_bytes == 0


def test_a_value_over_the_bounds_is_not_kept_and_the_next_table_may_allow_less() -> None:
    cache = LookupCache()
    put(cache, "a", 101)
    assert cache.state.entries == 0
    put(cache, "a", 60)
    put(cache, "b", 30)
    put(cache, "c", 1, bounds=CacheBounds(40))
    assert cached(cache, "abc") == "bc"
    put(cache, "d", 1, bounds=CacheBounds(0))
    assert cache.state.used_bytes == 0


def test_hits_and_misses_are_counted_and_reported() -> None:
    cache = LookupCache()
    assert cache.load("a", lambda: 7, weigh=lambda _: 5, bounds=WIDE) == 7
    assert cache.load("a", lambda: 8, weigh=lambda _: 5, bounds=WIDE) == 7
    assert (cache.state.hits, cache.state.misses) == (1, 1)
    assert "1 entries" in repr(cache)
    cache.clear()
    assert cache.state.used_bytes == 0


def test_threads_never_hold_more_than_the_bounds(seeds: tuple[int, ...]) -> None:
    cache = LookupCache()
    over: list[int] = []

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(400):
            name = rng.randrange(30)
            rows = name % 2 == 0
            actual = cache.load(name, lambda n=name: n, weigh=lambda n: n + 1, bounds=WIDE, rows=rows)
            over.extend([1] * (actual != name))
            over.extend([2] * (cache.state.used_bytes > 100))

    workers = [threading.Thread(target=ask, args=(s,)) for s in (*seeds, 1, 2, 3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert over == []


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("count", [1, 5, 300])
def test_sorted_keys_find_what_a_dict_finds(seeds: tuple[int, ...], text: bool, count: int) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        spread = rng.choice([3, 1000, 2**62])
        space = [(rng.randrange(-spread, spread), rng.randrange(4)) for _ in range(600)]
        here, asked = (sorted(set(rng.sample(space, n))) for n in (rng.choice([1, 40, 500]), count))

        def parts(keys: list[tuple[int, int]]) -> list:
            a, b = (np.array(c, dtype=np.int64) for c in zip(*keys, strict=True))
            return [a, pa.array([f"é{n}" for n in b])] if text else [a, b]

        actual = SortedKeys.of(parts(here)).find(parts(asked))
        place = {k: i for i, k in enumerate(here)}
        assert list(zip(*(f.tolist() for f in actual), strict=True)) == [
            (i, place[k]) for i, k in enumerate(asked) if k in place
        ]


@pytest.mark.parametrize("kind", [{"changelog-producer": "lookup"}, {"deletion-vectors.enabled": True}])
def test_commits_read_a_file_above_once(tmp_path: Path, kind: dict[str, object]) -> None:
    opened = {}
    for cache in ("0 b", "10 mb"):
        table = ts.connect(str(tmp_path / cache)).create_table(
            "d.t",
            schema={"k": ts.BIGINT.not_null(), "v": ts.BIGINT},
            primary_key=["k"],
            options={"bucket": 1, "lookup.cache-max-memory-size": cache, "compaction.size-ratio": 0} | kind,
        )
        table.write(pa.table({"k": range(40_000), "v": [0] * 40_000}))
        large = max((tmp_path / cache).rglob("data-*.parquet"), key=lambda p: p.stat().st_size)
        LOCAL.clear()
        io = FaultyIO()
        for step in range(4):
            few = pa.table({"k": range(step, 40_000, 400), "v": [step + 1] * 100})
            ts.open(table.location, io=io).write(few)
        opened[cache] = sum(line == f"open {large}" for line in io.log)
        assert table.get({"k": 403}) == {"k": 403, "v": 4}
        assert table.scan().count() == 40_000
        assert table.check() == []
        state = table.inspect.cache().to_pylist()[0]
        assert (state["entries"] > 0) == (cache == "10 mb")
        assert state["key_bytes"] + state["row_bytes"] <= 10 << 20
    assert 2 * opened["10 mb"] < opened["0 b"]
