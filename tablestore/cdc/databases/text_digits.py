"""Columns of digits in the text protocol, value by value, where numba compiles the loops: integers, decimals
of up to 18 digits, dates. They are read where they lie; without numba Arrow's casts read copies of them.

    integer   [-]digits      decimal   [-]digits.digits, as many behind the point as its scale      NULL: 0
    date      YYYY-MM-DD

A column in which a value is otherwise (more digits, an impossible date) is not read here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.cdc.databases.slices import Slices, compiled, engine

_MOST_DIGITS = 18  # that always fit 64 bits
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


def column(slices: Slices, c: int, type_: pa.DataType) -> pa.Array | None:
    """Column c as an integer, decimal or date type; None where it cannot be read here."""
    if engine() != "numba" or not slices.rows:
        return None
    offsets, lengths = slices.offsets[c], slices.lengths[c]
    if pa.types.is_decimal(type_):
        values: Any = np.empty((slices.rows, 2), np.int64)
        read = compiled(decimals)(slices.data, offsets, lengths, type_.scale, values)
    elif pa.types.is_date32(type_):
        values = np.empty(slices.rows, np.int32)
        read = compiled(days)(slices.data, offsets, lengths, _DAYS, values)
    elif pa.types.is_signed_integer(type_):
        values = np.empty(slices.rows, type_.to_pandas_dtype())
        read = compiled(integers)(slices.data, offsets, lengths, values)
    else:
        return None
    if not read:
        return None
    nulls = slices.nulls(c)
    valid = pa.array(~nulls).buffers()[1] if nulls.any() else None
    return pa.Array.from_buffers(type_, slices.rows, [valid, pa.py_buffer(values)])


def integers(data: Any, offsets: Any, lengths: Any, values: Any) -> Any:
    """Whether all values are integers; they are in `values`."""
    for r in range(len(offsets)):
        at = offsets[r]
        end = at + lengths[r]
        negative = lengths[r] > 0 and data[at] == 45
        if negative:
            at += 1
        if end - at > _MOST_DIGITS or lengths[r] == 0 or (negative and at == end):
            return False
        value = 0
        while at < end:
            digit = data[at] - 48 if data[at] >= 48 else 10
            if digit > 9:
                return False
            value = value * 10 + digit
            at += 1
        values[r] = -value if negative else value
    return True


def decimals(data: Any, offsets: Any, lengths: Any, scale: Any, values: Any) -> Any:
    """Whether all values are decimals of this scale; they are in `values`, as 128 bits."""
    for r in range(len(offsets)):
        at = offsets[r]
        end = at + lengths[r]
        if lengths[r] < 0:
            values[r, 0] = 0
            values[r, 1] = 0
            continue
        negative = lengths[r] > 0 and data[at] == 45
        if negative:
            at += 1
        point = end - scale - 1 if scale else end
        digits = end - at - (1 if scale else 0)
        if digits < 1 or digits > _MOST_DIGITS or point < at:
            return False
        value = 0
        while at < end:
            if at == point:
                if data[at] != 46:
                    return False
            else:
                digit = data[at] - 48 if data[at] >= 48 else 10
                if digit > 9:
                    return False
                value = value * 10 + digit
            at += 1
        values[r, 0] = -value if negative else value
        values[r, 1] = -1 if negative and value else 0
    return True


def days(data: Any, offsets: Any, lengths: Any, most: Any, values: Any) -> Any:
    """Whether all values are possible dates; they are in `values`, as days since 1970. `most`: the days of
    each month."""
    for r in range(len(offsets)):
        if lengths[r] < 0:
            values[r] = 0
            continue
        if lengths[r] != 10:
            return False
        at = offsets[r]
        for i in range(10):
            byte = data[at + i]
            if i == 4 or i == 7:
                if byte != 45:
                    return False
            elif byte < 48 or byte > 57:
                return False
        year = (data[at] - 48) * 1000 + (data[at + 1] - 48) * 100 + (data[at + 2] - 48) * 10
        year += data[at + 3] - 48
        month = (data[at + 5] - 48) * 10 + (data[at + 6] - 48)
        day = (data[at + 8] - 48) * 10 + (data[at + 9] - 48)
        if year < 1 or month < 1 or month > 12 or day < 1:
            return False
        leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
        if day > most[month] + (1 if leap and month == 2 else 0):
            return False
        y = year - (1 if month <= 2 else 0)  # years begin in March
        days_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
        values[r] = y * 365 + y // 4 - y // 100 + y // 400 + days_of_year - 719468
    return True
