"""Columns at a glance hold for the rows: NULLs, bounds and distinct values, and every row is in one part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.insight.explain.explanation import PARTS

SCHEMA = {"n": ts.INT, "x": ts.DOUBLE, "word": ts.STRING, "late": ts.BIGINT, "flag": ts.BOOLEAN}


def test_facts_hold_for_the_rows_of_random_files(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        chance = np.random.default_rng(seed)
        table = ts.connect(tmp_path / str(seed)).create_table("shop.t", schema=SCHEMA)
        for _ in range(int(chance.integers(1, 5))):
            size = int(chance.integers(1, 40))
            n = chance.integers(-50, 50, size)
            mask = chance.random(size) < 0.2
            table.write(
                pa.table(
                    {
                        "n": pa.array(n, pa.int32(), mask=mask),
                        "x": chance.normal(size=size),
                        "word": pa.array([f"w{i}" for i in n], mask=mask),
                        "late": pa.nulls(size, pa.int64()),
                        "flag": n > 0,
                    }
                )
            )
        rows = table.scan().to_arrow()
        facts = {fact["column"]: fact for fact in table.scan().explain().columns().to_pylist()}
        for name, fact in facts.items():
            values = rows[name].drop_null().to_pylist()
            assert (fact["rows"], fact["nulls"]) == (len(rows), rows[name].null_count)
            assert len(set(values)) <= fact["distinct_most"] <= max(len(values), 1)
            if name in ("n", "x") and values:
                assert (float(fact["min"]), float(fact["max"])) == pytest.approx((min(values), max(values)))
                assert sum(fact["spread"]) == pytest.approx(len(values))
                assert len(fact["spread"]) == PARTS
            elif name == "word" and values:
                assert (fact["min"], fact["max"]) == (min(values), max(values))
            if name in ("word", "late", "flag"):
                assert fact["spread"] is None
        assert facts["late"]["min"] is None


def test_only_files_that_are_read_count(tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table("shop.t", schema=SCHEMA)
    for first in (0, 100):
        table.write({"n": list(range(first, first + 10)), "x": [0.5] * 10})
    (both,) = table.scan().explain().columns("n").to_pylist()
    assert (both["min"], both["max"], both["rows"]) == ("0", "109", 20)
    assert (both["spread"][0], both["spread"][-1], sum(both["spread"][2:-2])) == (10.0, 10.0, 0.0)
    (fact,) = table.scan(where="n < 50").explain().columns("n").to_pylist()
    assert (fact["min"], fact["max"], fact["rows"], fact["distinct_most"]) == ("0", "9", 10, 10)
    with pytest.raises(ts.NotFound, match="did you mean word"):
        table.scan().explain().columns("wrd")
    table.analyze()
    assert table.scan().explain().columns("x")["distinct"].to_pylist() == [1]
