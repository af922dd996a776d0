"""A process that commits for long holds no more of it after many commits than after some."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tablestore.meta import manifest_cache
from tablestore.meta.manifest_cache import LOCAL
from tests.tables import KEYED

KEPT = {"snapshot.num-retained.min": 3, "snapshot.num-retained.max": 5, "bucket": 2}
COMMITS = 60  # more than two merges of manifests, and many compactions


def held() -> Counter[str]:
    """Objects of our own classes by their names."""
    gc.collect()
    kinds = (type(o) for o in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("tablestore."))


@pytest.mark.large
def test_what_a_writer_holds_stays_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cache of manifests that is full early: it is the one thing that fills for long."""
    monkeypatch.setattr(manifest_cache, "MAX_ENTRIES", 20 * manifest_cache._COST)
    monkeypatch.setattr(manifest_cache, "_MAX_LISTED", 300)
    monkeypatch.setattr(manifest_cache, "_MOST_KNOWN", 30)
    LOCAL.clear()
    table = KEYED.create(tmp_path, KEPT)
    most: list[Counter[str]] = []
    for _ in range(3):
        most.append(Counter())
        for n in range(COMMITS):
            keys = pa.array(range(n, n + 20), pa.int64())
            table.write(pa.table({"k": keys, "v": [f"v{k}" for k in range(20)]}))
            if n % 3 == 0:
                most[-1] |= held()
    grown = {name: (most[1][name], n) for name, n in most[2].items() if n > 1.1 * most[1][name] + 2}
    assert grown == {}
    assert most[1]["CachedManifest"] <= 21
