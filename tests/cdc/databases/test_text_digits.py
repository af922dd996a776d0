"""Digits that are read where they lie equal what Arrow reads of them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tablestore.cdc.databases import slices
from tablestore.cdc.databases.slices import PADDING, Slices, digit_column

pytest.importorskip("numba")
INT, MONEY, DATE = pa.int64(), pa.decimal128(18, 2), pa.date32()


def cut(values: list[str | None]) -> Slices:
    texts = [v.encode() if v is not None else b"" for v in values]
    ends = np.cumsum([len(t) for t in texts])
    lengths = np.array([[-1 if v is None else len(v) for v in values]], np.int64)
    data = np.frombuffer(b"".join(texts) + bytes(PADDING), np.uint8)
    return Slices(data, len(values), (ends - [len(t) for t in texts]).reshape(1, -1), lengths)


@pytest.mark.parametrize("type_", [pa.int8(), pa.int32(), INT, MONEY, pa.decimal128(5, 0), DATE])
def test_values_are_those_that_arrow_reads(type_: pa.DataType, seeds: tuple[int, ...]) -> None:
    def made(r: random.Random) -> str:
        if pa.types.is_date(type_):
            return f"{r.randrange(1, 10_000):04}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"
        if pa.types.is_decimal(type_):
            whole = (
                f"{r.choice(['', '-'])}{r.randrange(10 ** r.randrange(1, type_.precision - type_.scale + 1))}"
            )
            return f"{whole}.{r.randrange(100):02}" if type_.scale else whole
        return str(r.randrange(-(1 << min(59, type_.bit_width - 1)), 1 << min(59, type_.bit_width - 1)))

    assert slices.engine() == "numba"
    for seed in seeds:
        r = random.Random(seed)
        values = [made(r) if r.random() < 0.9 else None for _ in range(50)]
        column = digit_column(cut(values), 0, type_)
        column.validate(full=True)
        assert column.equals(pa.array(values, pa.string()).cast(type_))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        *[(INT, text) for text in ("", "-", "1" * 19, "1.5", "x", "+1", "1-")],
        *[(MONEY, text) for text in ("", "-.", "1", "1.5", "1.555", "1,50", "1" * 17 + ".00", "1.x0", ".")],
        *[(DATE, text) for text in ("0000-00-00", "2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01")],
        *[(DATE, text) for text in ("2024-1-01", "2024/01/01", "20240101", "x024-01-01", "2024-01-00")],
    ],
)
def test_what_is_otherwise_is_left_to_others(type_: pa.DataType, text: str) -> None:
    assert digit_column(cut([text]), 0, type_) is None
    assert digit_column(cut(["2000-02-29"]), 0, DATE).to_pylist()[0].isoformat() == "2000-02-29"
