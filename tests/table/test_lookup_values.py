"""Which rows a lookup join matches, under which names, at which moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tests.table.dimensions import made, names


def test_nulls_match_nothing_and_numbers_that_do_not_fit_neither(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    t = lake.create_table(
        "d.t",
        schema={"k": ts.TINYINT, "f": ts.DOUBLE, "d": "DECIMAL(9,2)", "b": ts.BYTES, "t": ts.TIMESTAMP(3)},
        primary_key=["k"],
    )
    zero, nan = 0.0, float("nan")
    t.write([{"k": 1, "f": -zero}, {"k": -1, "f": nan}, {"k": 7}])
    join = t.lookup({"k": "x"}, columns=["f"])
    assert join.join({"x": [257, 1, None, -1, 255]}, how="inner")["x"].to_pylist() == [1, -1]
    by_value = t.lookup({"f": "x"}, columns=["k"])
    got = by_value.join(pa.table({"x": pa.array([zero, -zero, nan, None], pa.float32())}))
    assert got["k"].to_pylist() == [1, 1, -1, None]
    two = t.lookup({"f": "x", "k": "y"}, columns=["d"])
    assert two.join({"x": [zero, nan], "y": [1, -1]}, how="inner").num_rows == 2
    for theirs, words in ((pa.string(), "string"), (pa.float64(), "double")):
        with pytest.raises(InvalidRequest, match=rf"x of the facts is {words} and k of d\.t int8: cast it"):
            join.join(pa.table({"x": pa.array([], theirs)}))
    with pytest.raises(InvalidRequest, match="cast it"):
        t.lookup({"d": "x"}).join(pa.table({"x": pa.array(["123456789.123"]).cast(pa.decimal128(12, 3))}))


@pytest.mark.parametrize("cache", ["full", "partial"])
@pytest.mark.parametrize("kind", [ts.FLOAT, ts.DOUBLE])
def test_zeros_of_either_sign_match_each_other_and_change_each_for_itself(
    tmp_path: Path, cache: str, kind: Any
) -> None:
    lake = ts.connect(str(tmp_path))
    t = lake.create_table(
        "d.t", schema={"a": kind, "b": ts.DOUBLE, "v": ts.INT}, primary_key=["a", "b"], options={"bucket": 3}
    )
    zeros = [(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)]
    now = {repr(key): n for n, key in enumerate([*zeros, (float("nan"), 1.5)])}
    t.write([{"a": a, "b": b, "v": n} for n, (a, b) in enumerate([*zeros, (float("nan"), 1.5)])])
    join = t.lookup({"a": "x", "b": "y"}, columns=["v"], cache=cache)
    facts = pa.table({"x": [0.0, -0.0, float("nan")], "y": [-0.0, -0.0, 1.5]}).cast(
        pa.schema([("x", t.schema.field("a").type), ("y", pa.float64())])
    )
    for changed in (None, (-0.0, 0.0), (0.0, 0.0)):
        if changed is not None:
            now[repr(changed)] += 10
            t.write([{"a": changed[0], "b": changed[1], "v": now[repr(changed)]}])
            join.refresh()
        zero, nan = sorted(now[repr(key)] for key in zeros), now["(nan, 1.5)"]
        rows = join.join(facts)["v"].to_pylist()
        assert [sorted(rows[:4]), sorted(rows[4:8]), rows[8:]] == [zero, zero, [nan]]


def test_columns_get_new_names_and_fill_stands_for_null(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write([{"k": 1, "p": 0, "v": None}, {"k": 2, "p": 5, "v": "b"}])
    facts = pa.table({"k": [1, 2, 3], "v": ["x", "y", "z"]})
    with pytest.raises(InvalidRequest, match=r"already.*columns=\{'v': 'dim_v', …\}"):
        t.lookup().join(facts)
    join = t.lookup(columns={"v": "name", "p": "p"}, fill={"name": "unknown"})
    got = join.join(facts)
    assert got.schema.names == ["k", "v", "name", "p"]
    assert got["name"].to_pylist() == ["unknown", "b", "unknown"]
    assert got["p"].to_pylist() == [0, 5, None]
    assert join.join(facts.slice(0, 0)).schema == got.schema
    kept = t.lookup(columns=[]).join(facts, how="inner")
    assert kept == facts.slice(0, 2)


def test_a_join_with_the_past_stays_there(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write([{"k": 1, "p": 0, "v": "old"}])
    t.tags.create("then")
    t.write([{"k": 1, "p": 0, "v": "new"}])
    join = t.at(tag="then").lookup(columns=["v"])
    assert join.refresh().changed == 0
    assert names(join, 1) == ["old"]
