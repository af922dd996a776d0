"""The newest rows of keys in memory: what is found is what was added last, in few runs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format import rowkind
from tablestore.format.parquet.schema import KIND, kv_schema
from tablestore.format.schema import TableSchema
from tablestore.lsm.lookup.memtable import Memtable
from tablestore.lsm.merge import keys as key_columns
from tests.tables import schema_of

Row = tuple[Any, int, int]  # key, value, kind


def keyed_by(key: Any) -> TableSchema:
    return schema_of({"k": key, "v": ts.INT}, primary_key=("k",))


def batch(schema: TableSchema, rows: list[Row]) -> pa.RecordBatch:
    shape = kv_schema(schema)
    k, v, kinds = zip(*sorted(rows), strict=True)
    columns = [range(len(rows)), kinds, k, v]
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, shape, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=shape)


def found(table: Memtable, schema: TableSchema, keys: list[Any]) -> dict[Any, tuple[int, int]]:
    wanted = pa.record_batch({"k": pa.array(sorted(keys), schema.arrow.field("k").type)})
    hits: dict[Any, tuple[int, int]] = {}
    for places, rows in table.find(key_columns.of_batch(wanted, schema.key_fields)):
        for place, row in zip(places.tolist(), rows.to_pylist(), strict=True):
            assert row["k"] == sorted(keys)[place]
            assert row["k"] not in hits
            hits[row["k"]] = row["v"], row[KIND]
    return hits


@pytest.mark.parametrize("key", [ts.INT, ts.STRING], ids=["numbers", "texts"])
def test_the_newest_row_of_each_key_is_found(key: Any, seeds: tuple[int, ...]) -> None:
    schema = keyed_by(key)
    make = str if key is ts.STRING else int
    for seed in seeds[:2]:
        rng = random.Random(seed)
        table, truth = Memtable(schema.key_fields), dict[Any, tuple[int, int]]()
        for step in range(60):
            chosen = rng.sample(range(200), rng.choice([1, 2, 70]))
            kinds = [rng.choice([rowkind.INSERT, rowkind.DELETE]) for _ in chosen]
            rows = [(make(k), step, kind) for k, kind in zip(chosen, kinds, strict=True)]
            table.add(batch(schema, rows), drop_deletes=False)
            truth |= {k: (v, kind) for k, v, kind in rows}
            keys = [make(k) for k in rng.sample(range(220), rng.choice([1, 90]))]
            wanted = {k: truth[k] for k in keys if k in truth}
            assert found(table, schema, keys) == wanted, (seed, step)
        assert len(table._runs) <= 8
        everything = table.drain()
        assert everything is not None
        assert [(r["k"], (r["v"], r[KIND])) for r in everything.to_pylist()] == sorted(truth.items())
        assert (table.drain(), table.bytes) == (None, 0)


def test_deletes_vanish_where_nothing_lies_below() -> None:
    schema = keyed_by(ts.INT)
    for drop in (True, False):
        table = Memtable(schema.key_fields)
        table.add(batch(schema, [(1, 1, rowkind.INSERT), (2, 2, rowkind.INSERT)]), drop_deletes=drop)
        table.add(batch(schema, [(1, 1, rowkind.DELETE), (3, 3, rowkind.DELETE)]), drop_deletes=drop)
        rows = table.drain()
        assert rows is not None
        assert rows.column("k").to_pylist() == ([2] if drop else [1, 2, 3])


def test_a_delete_hides_the_rows_of_older_runs() -> None:
    schema = keyed_by(ts.INT)
    table = Memtable(schema.key_fields)
    table.add(batch(schema, [(k, 0, rowkind.INSERT) for k in range(100)]), drop_deletes=True)
    table.add(batch(schema, [(5, 1, rowkind.DELETE)]), drop_deletes=True)
    assert len(table._runs) == 2
    assert found(table, schema, [4, 5]) == {4: (0, rowkind.INSERT), 5: (1, rowkind.DELETE)}
    assert np.all(np.diff([r.rows.num_rows for r in table._runs]) < 0)
