"""Functions of computed columns: those of Paimon's computed columns, and date, bucket and mod.

A function takes one column and constants, whole columns at a time. NULL gives NULL; any other value that
gives NULL is one the function cannot be computed of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.format import hashing
from tablestore.format.binary_row import decimal_words
from tablestore.format.time_text import pieces_of, written
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import BIGINT, DATE, INT, STRING, TIMESTAMP, null_mask
from tablestore.format.types.casts import attempted, checked, without
from tablestore.format.types.data_type import DataType, to_arrow
from tablestore.format.types.type_text import parse_type

_UNITS = {"0": "s", "3": "ms", "6": "us", "9": "ns"}
_BLANKS = "".join(map(chr, range(33)))  # what Java's trim takes away
_YEARS = (-62_167_219_200, 253_402_300_800)  # seconds after 1970 at which year 0 and year 10000 begin


@dataclass(frozen=True, slots=True)
class ValueFunction:
    """A function: how it is written, how many constants it takes (least, most), the type it gives for the
    type of its column (raises InvalidRequest for one it does not take), and its values."""

    form: str
    least: int
    most: int
    type: Callable[[DataType, Sequence[str]], DataType]
    values: Callable[[pa.Array, DataType, Sequence[str]], pa.Array]
    meaning: str

    @property
    def name(self) -> str:
        return self.form.partition("(")[0]


def function(name: str) -> ValueFunction:
    """The function of this name; raises NotFound with the nearest."""
    match = FUNCTIONS.get(name.lower())
    if match is None and name.lower() == "now":
        raise Unsupported(
            "now() in a computed column",
            "a batch that is read again would get other values; the metadata column op_ts has the time of "
            "the commit in the source",
        )
    if match is None:
        raise NotFound.among("function of computed columns", name, FUNCTIONS)
    return match


def _numbers(name: str, texts: Sequence[str]) -> list[int]:
    try:
        return [int(text) for text in texts]
    except ValueError:
        raise InvalidRequest(f"{name} takes whole numbers, not {', '.join(texts)}") from None


def _require(fits: bool, name: str, t: DataType, wanted: str) -> None:
    if not fits:
        raise InvalidRequest(f"{name} takes {wanted}, not {t}")


# times


def _precision(name: str, t: DataType, literals: Sequence[str]) -> None:
    fits = t.root in ("DATE", *casts.TIMES, *casts.INTEGERS) or t.is_string
    _require(fits, name, t, "a date, a timestamp, a text or an integer")
    if literals and literals[0] not in _UNITS:
        raise InvalidRequest(
            f"the precision of {name} is 0 (seconds after 1970), 3, 6 or 9 digits, not {literals[0]}"
        )
    if literals and t.root in ("DATE", *casts.TIMES):
        raise InvalidRequest(f"{name} takes a precision for integers and texts of them, not for {t}")


def _moments(array: pa.Array, t: DataType, precision: Sequence[str]) -> pa.Array:
    """Timestamps without zone, or dates; NULL where there is none, or one beyond year 9999."""
    if t.root == "DATE":
        return array
    if t.root in casts.TIMES:
        return array.cast(pa.timestamp(array.type.unit))
    if t.is_string and not precision:
        kind = to_arrow(TIMESTAMP(6))
        return attempted(lambda a: casts.cast(a, STRING, TIMESTAMP(6)), array, kind)[0]
    if t.is_string:
        array = checked(array, t, BIGINT)[0]
    unit = _UNITS[precision[0] if precision else "0"]
    per_second = 10 ** {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
    values = array.cast(pa.int64())
    low, high = (max(-(1 << 63) + 1, min((1 << 63) - 1, s * per_second)) for s in _YEARS)
    inside = pc.and_(pc.greater_equal(values, low), pc.less(values, high))
    return pc.if_else(inside, values, pa.scalar(None, pa.int64())).cast(pa.timestamp(unit))


def _part(name: str, of: Callable[[pa.Array], pa.Array], clock: bool = False) -> ValueFunction:
    def of_type(t: DataType, literals: Sequence[str]) -> DataType:
        _precision(name, t, literals)
        return INT

    def values(array: pa.Array, t: DataType, literals: Sequence[str]) -> pa.Array:
        moments = _moments(array, t, literals)
        if clock and pa.types.is_date(moments.type):
            moments = moments.cast(pa.timestamp("s"))
        return of(moments).cast(pa.int32())

    return ValueFunction(f"{name}(column[, precision])", 0, 1, of_type, values, f"the {name} as INT")


def _date_type(t: DataType, literals: Sequence[str]) -> DataType:
    _precision("date", t, literals)
    return DATE


def _date(array: pa.Array, t: DataType, literals: Sequence[str]) -> pa.Array:
    moments = _moments(array, t, literals)
    return moments if t.root == "DATE" else pc.floor_temporal(moments, unit="day").cast(pa.date32())


def _date_format_type(t: DataType, literals: Sequence[str]) -> DataType:
    _precision("date_format", t, literals[1:])
    if not literals[0]:
        raise InvalidRequest("date_format needs a pattern, as yyyy-MM-dd")
    pieces_of(literals[0])
    return STRING


def _date_format(array: pa.Array, t: DataType, literals: Sequence[str]) -> pa.Array:
    return written(_moments(array, t, literals[1:]), literals[0])


# texts


def _substring_type(t: DataType, literals: Sequence[str]) -> DataType:
    _require(t.is_scalar and not t.is_binary, "substring", t, "a column that has a text")
    begin, *end = _numbers("substring", literals)
    if begin < 0 or (end and end[0] <= begin):
        raise InvalidRequest(f"substring takes begin >= 0 and end > begin, not {', '.join(literals)}")
    return STRING


def _substring(array: pa.Array, t: DataType, literals: Sequence[str]) -> pa.Array:
    begin, *end = _numbers("substring", literals)
    return pc.utf8_slice_codeunits(checked(array, t, STRING)[0], begin, end[0] if end else None)


def _text(name: str, of: Callable[[pa.Array], pa.Array], meaning: str) -> ValueFunction:
    def of_type(t: DataType, _: Sequence[str]) -> DataType:
        _require(t.is_string, name, t, "a text")
        return STRING

    return ValueFunction(f"{name}(column)", 0, 0, of_type, lambda array, t, literals: of(array), meaning)


# numbers


def _truncate_type(t: DataType, literals: Sequence[str]) -> DataType:
    fits = t.is_string or t.root in (*casts.INTEGERS, "DECIMAL")
    _require(fits, "truncate", t, "a text, an integer or a decimal")
    _count("truncate", literals)
    return t


def _truncate(array: pa.Array, t: DataType, literals: Sequence[str]) -> pa.Array:
    width = _numbers("truncate", literals)[0]
    if t.is_string:
        return pc.utf8_slice_codeunits(array, 0, width)
    if t.root == "DECIMAL":
        return _truncated_decimal(array, t, width)
    values = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        floor = values - np.mod(values, width)
    wrong = (floor > values) | (floor < -(1 << (array.type.bit_width - 1)))  # beyond the least number
    gone = wrong | array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(floor, mask=gone).cast(array.type)


def _truncated_decimal(array: pa.Array, t: DataType, width: int) -> pa.Array:
    """v − (v mod width), the width in units of the last digit; NULL where it has too many digits."""
    low, high = decimal_words(array.fill_null(Decimal(0)))
    by = np.uint64(width)
    rest = np.mod(high.view(np.int64), np.int64(width)).astype(np.uint64) * np.uint64((1 << 64) % width) % by
    rest = ((rest + low % by) % by).astype(np.int64)
    whole = pa.array(rest).cast(pa.decimal128(19, 0))
    scaled = pa.Array.from_buffers(pa.decimal128(19, t.scale), len(whole), whole.buffers(), -1)
    floor = pc.subtract(
        array.cast(pa.decimal256(t.precision, t.scale)), scaled.cast(pa.decimal256(19, t.scale))
    )
    least = pa.scalar(Decimal((1, (9,) * t.precision, -t.scale)), pa.decimal256(t.precision, t.scale))
    return pc.if_else(pc.less(floor, least), pa.scalar(None, floor.type), floor).cast(to_arrow(t))


def _count(name: str, literals: Sequence[str]) -> int:
    count = _numbers(name, literals)[0]
    if not 0 < count < 1 << 31:
        raise InvalidRequest(f"{name} takes a number from 1 to {(1 << 31) - 1}, not {count}")
    return count


def _bucket_type(t: DataType, literals: Sequence[str]) -> DataType:
    _require(t.is_scalar, "bucket", t, "a column of a plain type")
    _count("bucket", literals)
    return INT


def _bucket(array: pa.Array, t: DataType, literals: Sequence[str]) -> pa.Array:
    buckets = hashing.bucket_of([array], [t], _count("bucket", literals))
    return without(pa.array(buckets, pa.int32()), null_mask(array))[0]


def _mod_type(t: DataType, literals: Sequence[str]) -> DataType:
    _require(t.root in casts.INTEGERS, "mod", t, "an integer")
    _count("mod", literals)
    return INT


def _mod(array: pa.Array, t: DataType, literals: Sequence[str]) -> pa.Array:
    values = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    remainders = np.mod(values, _count("mod", literals)).astype(np.int32)
    return without(pa.array(remainders), null_mask(array))[0]


# types


def _cast_type(t: DataType, literals: Sequence[str]) -> DataType:
    target = parse_type(literals[0]).as_nullable()
    same = (t.is_string and target.is_string) or (t.is_binary and target.is_binary)
    if not same and not casts.allowed(t.as_nullable(), target, explicit=True):
        raise InvalidRequest(f"cast takes no {t} to {target}")
    return target


def _cast(array: pa.Array, t: DataType, literals: Sequence[str]) -> pa.Array:
    """A fraction is cut, or rounded to the digits of a decimal, as Paimon casts; what is too large is not."""
    target = _cast_type(t, literals)
    if target.root in casts.INTEGERS and t.root in (*casts.FLOATS, "DECIMAL"):
        array = pc.trunc(array)
    elif target.root in ("DECIMAL", *casts.DATES):
        return attempted(lambda a: casts.cast(a, t, target), array, to_arrow(target))[0]
    return checked(array, t, target)[0]


_ALL = (
    _part("year", pc.year),
    _part("month", pc.month),
    _part("day", pc.day),
    _part("hour", pc.hour, clock=True),
    _part("minute", pc.minute, clock=True),
    _part("second", pc.second, clock=True),
    ValueFunction("date(column[, precision])", 0, 1, _date_type, _date, "the day as DATE"),
    ValueFunction(
        "date_format(column, pattern[, precision])",
        1,
        2,
        _date_format_type,
        _date_format,
        "text by a pattern, as yyyy-MM-dd",
    ),
    ValueFunction(
        "substring(column, begin[, end])",
        1,
        2,
        _substring_type,
        _substring,
        "characters from begin, which counts from 0, up to end",
    ),
    ValueFunction(
        "truncate(column, width)",
        1,
        1,
        _truncate_type,
        _truncate,
        "the first characters, or the number less its remainder by the width",
    ),
    _text("upper", pc.utf8_upper, "in capitals"),
    _text("lower", pc.utf8_lower, "in small letters"),
    _text("trim", lambda a: pc.utf8_trim(a, characters=_BLANKS), "without blanks around"),
    ValueFunction("cast(column or constant, type)", 1, 1, _cast_type, _cast, "in another type"),
    ValueFunction(
        "bucket(column, n)", 1, 1, _bucket_type, _bucket, "a number below n by the hash that chooses buckets"
    ),
    ValueFunction("mod(column, n)", 1, 1, _mod_type, _mod, "the remainder by n, 0 or more"),
)
FUNCTIONS = {f.name: f for f in _ALL}
