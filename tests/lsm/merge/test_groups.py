"""Batches joined into one: the same rows, whichever of them hold their text by dictionaries."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tablestore.lsm.merge.groups import joined, plain


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
