"""TPC-H Q1, the pricing summary, as a plain computation over Arrow rows.

Exact: sums are whole numbers (hundredths and their products), added up as unbounded integers over batches;
averages are decimals with six digits, rounded half up. The date rule is the article's:
(year < 1998 or (year = 1998 and month <= 9)) and l_shipdate <= 1998-12-01 - 90 days.
Knows no engine: it is what an engine's answer is compared with.
"""

from collections.abc import Iterable
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

CONTEXT = Context(prec=60, rounding=ROUND_HALF_UP)
COLUMNS = (
    "l_returnflag",
    "l_linestatus",
    "l_quantity",
    "l_extendedprice",
    "l_discount",
    "l_tax",
    "l_shipdate",
)
SCHEMA = pa.schema(
    [
        ("l_returnflag", pa.string()),
        ("l_linestatus", pa.string()),
        ("sum_qty", pa.decimal128(38, 2)),
        ("sum_base_price", pa.decimal128(38, 2)),
        ("sum_disc_price", pa.decimal128(38, 4)),
        ("sum_charge", pa.decimal128(38, 6)),
        ("avg_qty", pa.decimal128(38, 6)),
        ("avg_price", pa.decimal128(38, 6)),
        ("avg_disc", pa.decimal128(38, 6)),
        ("count_order", pa.int64()),
    ]
)
_EPOCH = date(1970, 1, 1)
# year < 1998, or year = 1998 and month <= 9: before October 1998; the other half is earlier still.
_LAST_DAY = min(date(1998, 9, 30), date(1998, 12, 1) - timedelta(days=90))


class PricingSummary:
    """Running sums of Q1 by group. Not thread-safe: one for each thread, then `merge`."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], list[int]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of `batch`, which has at least `COLUMNS`."""
        shipped = batch["l_shipdate"].cast(pa.int32()).to_numpy(zero_copy_only=False)
        kept = shipped <= (_LAST_DAY - _EPOCH).days
        quantity, price, discount, tax = (hundredths(batch[name]) for name in COLUMNS[2:6])
        discounted = price * (100 - discount)
        charge = discounted * (100 + tax)
        codes, groups = _groups(batch)
        for code, group in enumerate(groups):
            mine = np.flatnonzero(kept & (codes == code))
            if len(mine):
                sums = [int(column[mine].sum()) for column in (quantity, price, discounted, charge, discount)]
                self._add(group, [*sums, len(mine)])

    def merge(self, other: "PricingSummary") -> None:
        for group, sums in other._sums.items():
            self._add(group, sums)

    def _add(self, group: tuple[str, str], sums: list[int]) -> None:
        self._sums[group] = [a + b for a, b in zip(self._sums.get(group, [0] * 6), sums, strict=True)]

    def result(self) -> pa.Table:
        """The groups with at least one row, ordered by flag and status."""
        rows = [_row(group, sums) for group, sums in sorted(self._sums.items())]
        return pa.Table.from_pylist(rows, schema=SCHEMA)


def q1(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Q1 over `batches`: ten columns, one row a group."""
    summary = PricingSummary()
    for batch in batches:
        summary.add(batch)
    return summary.result()


def hundredths(values: pa.Array) -> NDArray[np.int64]:
    """Unscaled values of a decimal128(p, 2) column as int64 (p at most 18, nulls as whatever lies there)."""
    limbs = np.frombuffer(values.buffers()[1], "<i8")
    return limbs[2 * values.offset : 2 * (values.offset + len(values)) : 2]


def _groups(batch: pa.RecordBatch) -> tuple[NDArray, list[tuple[str, str]]]:
    """A small number for each row, and the (flag, status) of each number."""
    flag = batch["l_returnflag"].cast(pa.string()).dictionary_encode()
    status = batch["l_linestatus"].cast(pa.string()).dictionary_encode()
    width = max(1, len(status.dictionary))
    codes = flag.indices.to_numpy() * width + status.indices.to_numpy()
    pairs = [(f, s) for f in flag.dictionary.to_pylist() for s in status.dictionary.to_pylist()]
    return codes, pairs


def _row(group: tuple[str, str], sums: list[int]) -> dict[str, object]:
    quantity, price, discounted, charge, discount, count = sums
    averages = [_average(total, count) for total in (quantity, price, discount)]
    totals = [Decimal(quantity).scaleb(-2, CONTEXT), Decimal(price).scaleb(-2, CONTEXT)]
    totals += [Decimal(discounted).scaleb(-4, CONTEXT), Decimal(charge).scaleb(-6, CONTEXT)]
    return dict(zip(SCHEMA.names, (*group, *totals, *averages, count), strict=True))


def _average(hundredths_sum: int, count: int) -> Decimal:
    exact = CONTEXT.divide(Decimal(hundredths_sum), Decimal(count * 100))
    return exact.quantize(Decimal("0.000001"), context=CONTEXT)
