"""Batches joined into one, whichever hold their text by dictionaries; groups of rows that are merged."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tablestore.lsm.merge.aggregation import MergedGroups
from tablestore.lsm.merge.changelog import newest_levels
from tablestore.lsm.merge.groups import Groups, joined, plain


def batch_of(texts: list[str | None], numbers: list[int], *, encoded: bool) -> pa.RecordBatch:
    """A batch of a text column `t`, by a dictionary or plain, and of numbers `n`."""
    column = pa.array(texts, pa.string())
    return pa.record_batch(
        {"t": column.dictionary_encode() if encoded else column, "n": pa.array(numbers, pa.int64())}
    )


def test_rows_are_those_of_the_batches_in_their_order(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        for _ in range(50):
            parts, wanted = [], []
            for _ in range(rng.randint(1, 5)):
                values = [None, *(f"v{i}" for i in range(rng.choice([1, 4, 40])))]
                rows = [(rng.choice(values), rng.randrange(9)) for _ in range(rng.choice([0, 1, 20, 300]))]
                texts, numbers = [t for t, _ in rows], [n for _, n in rows]
                parts.append(batch_of(texts, numbers, encoded=rng.random() < 0.6))
                wanted += rows
            together = plain(joined(parts))
            assert together.schema.field("t").type == pa.string()
            assert [(r["t"], r["n"]) for r in together.to_pylist()] == wanted


@pytest.mark.parametrize(
    ("values", "others", "encoded"), [(3, 5, True), (3, 300, False), (90, 5, False), (3, 0, True)]
)
def test_few_plain_rows_are_encoded_where_the_others_have_few_values(
    values: int, others: int, encoded: bool
) -> None:
    first = batch_of([f"v{i % values}" for i in range(400)], [0] * 400, encoded=True)
    small = batch_of([f"w{i % 2}" for i in range(others)], [1] * others, encoded=False)
    kind = joined([first, small]).schema.field("t").type
    assert pa.types.is_dictionary(kind) == encoded
    assert joined([first, first]).schema.equals(first.schema)


def test_a_row_that_other_levels_leave_alone_is_merged() -> None:
    both, single = [0, 1], [2]
    levels = np.array([3, 2, 1], dtype=np.int8)
    groups = newest_levels(Groups(np.array([*both, *single]), np.array([0, 2])), levels)
    assert groups.order.tolist() == [1, 2]
    merged = MergedGroups.of(groups)
    assert merged.which.tolist() == [0]
    assert merged.walk.rows.tolist() == [1]
