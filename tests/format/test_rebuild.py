"""Arrow arrays in another physical form."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from tablestore.format.rebuild import decimals


def test_a_decimal_with_more_digits_than_its_type_is_null_as_in_java() -> None:
    """What Java Paimon writes when a sum outgrows its digits, and reads back."""
    bytes_ = [n.to_bytes(3, "big", signed=True) for n in (9_999, 10_000, -9_999, -10_358)]
    rows = decimals(pa.array([*bytes_, None]), pa.decimal128(4, 2)).to_pylist()
    assert rows == [Decimal("99.99"), None, Decimal("-99.99"), None, None]
