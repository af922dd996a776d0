"""Aggregates of lists, maps and nested tables: keys folded all at once come out as if walked row by row."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablestore.format.types.arrow_types import DataField, to_arrow
from tablestore.format.types.type_text import parse_type
from tablestore.lsm.merge.aggregators import lists
from tablestore.lsm.merge.functions import aggregator
from tablestore.lsm.merge.walk import ADD, OLDER, RETRACT, SET, SKIP, Failures, Walk
from tests.peers.merge_space import FUNCTIONS, SpaceFunction

LISTS = [f for f in FUNCTIONS if f.type.startswith(("ARRAY", "MAP")) and "value" not in f.name]
STRICT = {"nested-key": "id", "nested-key-null-strategy": "error"}
LIMITED = {"nested-key": "id", "count-limit": "2"}


def random_walk(rng: random.Random, actions: list[Any], rows: int) -> Walk:
    """Rows of some groups, each doing one of the actions."""
    starts = sorted({0, *rng.choices(range(rows), k=rows // 3)})
    order = rng.sample(range(rows), rows)
    return Walk(np.array(order), np.array(starts), np.array(rng.choices(actions, k=rows), dtype=np.int8))


def folded(function: SpaceFunction, options: dict[str, str], column: pa.Array, walk: Walk) -> tuple[Any, Any]:
    t = parse_type(function.type)
    created = aggregator(
        DataField(1, "a", t), function.name, {f"fields.a.{k}": v for k, v in options.items()}
    )
    failures = Failures()
    rows = created.body.fold("a", column, t, walk, failures).to_pylist()
    ordered = [
        sorted(v, key=repr) if v and (function.unordered or "MAP" in function.type) else v for v in rows
    ]
    failed = {int(g): failures.of(g) for g in failures.groups}
    return [v for g, v in enumerate(ordered) if g not in failed], failed


@pytest.mark.parametrize("function", LISTS, ids=lambda f: f.title)
def test_all_keys_at_once_are_as_each_alone(
    monkeypatch: pytest.MonkeyPatch, function: SpaceFunction, seeds: tuple[int, ...]
) -> None:
    retracts = function.name not in ("merge_map_with_keytime", "nested_partial_update")
    for seed in seeds:
        rng = random.Random(seed)
        t = parse_type(function.type)
        for number in range(4):
            actions = [
                [ADD],
                [ADD, SKIP],
                [ADD, OLDER, SKIP],
                [ADD, ADD, OLDER, SET, *([RETRACT] * retracts)],
            ][number]
            pool = pa.array(function.pool(rng, t), to_arrow(t))
            rows = rng.choice([1, 7, 60])
            chosen = [None if rng.random() < 0.2 else rng.randrange(len(pool)) for _ in range(rows)]
            column = pool.take(pa.array(chosen, pa.int64()))
            walk = random_walk(rng, actions, rows)
            options = dict(function.options)
            if function.name == "nested_update" and "nested-key" in options and rng.random() < 0.4:
                options |= rng.choice([STRICT, LIMITED])
            if function.name == "collect" and rng.random() < 0.3:
                options["ignore-retract"] = "true"
            together = folded(function, options, column, walk)
            with monkeypatch.context() as patched:
                patched.setattr(
                    lists, "goes_in_turns", lambda walk, step: np.ones(len(walk.starts), dtype=bool)
                )
                assert folded(function, options, column, walk) == together, (seed, number, options)


def test_a_sliced_column_and_one_of_nulls_alone_are_folded_too() -> None:
    function = next(f for f in LISTS if f.name == "collect" and f.type == "ARRAY<INT>")
    column = pa.array([[9], None, [1, 2], [], [3]], pa.list_(pa.int32())).slice(1)
    walk = Walk(np.arange(4), np.array([0, 1, 3]), np.full(4, ADD))
    assert folded(function, {}, column, walk) == ([None, [1, 2], [3]], {})
    assert folded(function, {}, column, walk.acting(np.full(4, SKIP))) == ([None, None, None], {})
