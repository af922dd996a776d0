"""Rows with changes undone equal those of before, whatever the key."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tablestore.cdc.databases.undo import UndoImages

SCHEMAS = {
    "number": ([("k", pa.int32())], lambda n: (n,)),
    "decimal": ([("k", pa.decimal128(20, 0))], lambda n: (Decimal(n) + (1 << 63),)),
    "text and bytes": ([("k", pa.string()), ("b", pa.binary())], lambda n: (f"k{n % 3}", b"%d" % n)),
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_rows_are_those_of_before(kind: str, seeds: tuple[int, ...]) -> None:
    fields, key_of = SCHEMAS[kind]
    schema = pa.schema([*fields, ("v", pa.int64())])
    names = [name for name, _ in fields]

    def batch(rows: list[Any]) -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        return pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
        )

    for seed in seeds:
        r = random.Random(seed)
        before = {n: (*key_of(n), n) for n in range(0, 40, 2)}
        now, changes = dict(before), UndoImages(schema, names)
        for turn in range(60):
            n = r.randrange(40)
            rows, kinds = [], []
            if n in now:
                kinds.append(3 if r.random() < 0.5 else 1)
                rows.append(now.pop(n))
            if not kinds or kinds == [1]:
                now[n] = (*key_of(n), 1000 + turn)
                rows.append(now[n])
                kinds.append(2 if kinds else 0)
            changes.add(batch(rows), pa.array(kinds, pa.int8()))
        kept = changes.unchanged(batch(list(now.values()))).to_pylist()
        again = [row for batch in changes.before() for row in batch.to_pylist()]
        actual = {row["v"]: tuple(row.values()) for row in kept + again}
        assert len(actual) == len(kept) + len(again)
        assert actual == before
