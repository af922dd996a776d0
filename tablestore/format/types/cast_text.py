"""Casts to and from text as in Paimon 2.0.0, on whole columns, and the rounding of decimals.

To text: numbers and times in Java's spelling; `[1, null]`, `{k -> v}`, `{a, b}` for nested values.
From text: integers may have a fraction, which is cut; decimals are rounded half up; dates and times may leave
parts out. Text that does not parse is refused, with the first such value.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch
from tablestore.format.types.arrow_types import null_mask
from tablestore.format.types.data_type import MAX_LENGTH, DataType, time_unit, to_arrow
from tablestore.format.types.nested import lists, struct_nulls

_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_INTEGER = r"^[+-]?(?:\d+(?:\.\d*)?|\.\d*)$"
_FLOAT = r"^[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)$"
_DECIMAL = r"^(?P<sign>[+-]?)0*(?P<whole>\d*)\.?(?P<part>\d*)(?:[eE]\+?(?P<power>-?\d{1,9}))?$"
_HAS_DIGIT = r"^[+-]?(?:\d|\.\d)"
_DATE = r"^\s*(?P<y>\d+)\s*(?:-\s*(?P<m>\d+)\s*(?:-\s*(?P<d>\d+)\s*)?)?(?: .*)?$"
_CLOCK = r"^\s*(?P<h>\d+)\s*(?::\s*(?P<m>\d+)\s*(?::\s*(?P<s>\d+)\s*(?:\.\s*(?P<f>\d*)\s*)?)?)?"
_CLOCK += r"(?:(?P<zone>[+-])\s*(?P<zh>\d+)\s*(?::\s*(?P<zm>\d+)\s*)?)?$"
_MOMENT = (
    r"^(?P<y>\d{4})-(?P<mo>\d{1,2})-(?P<d>\d{1,2})"
    r"(?P<clock> (?P<h>\d{1,2}):(?P<mi>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<f>\d{0,9}))?)?$"
)
_NUMERIC = r"^-?\d+$"
_PARTS = r"^(?P<sign>-?)(?P<whole>\d+)\.?(?P<part>\d*)(?:e\+?(?P<power>-?\d+))?$"


def refuse_where(wrong: pa.Array | None, array: pa.Array, target: DataType) -> None:
    """Raise SchemaMismatch showing the first value where `wrong` is true; None and NULL mean no."""
    if wrong is None or not pc.any(wrong).as_py():
        return
    row = pc.index(wrong.fill_null(False), True).as_py()
    raise SchemaMismatch(
        f"{str(array[row])!r} of an older file is not a value of {target}; "
        "change the column back, overwrite the value, then change it again"
    )


def rounded(array: pa.Array, target: DataType) -> pa.Array:
    """A decimal256 column as the DECIMAL `target`, half up; NULL where it has too many digits."""
    p, s = target.precision, target.scale
    if array.type.scale > s:
        half = pa.scalar(Decimal(5).scaleb(-s - 1), pa.decimal256(array.type.scale + 1, array.type.scale))
        below = pc.less(array, pa.scalar(Decimal(0), array.type))
        array = pc.add(array, pc.if_else(below, pc.negate(half), half))
    array = array.cast(pa.decimal256(76, s), safe=False)  # truncates, which rounds after a half is added
    limit = pa.scalar(Decimal(10**p).scaleb(-s), array.type)
    large = pc.or_(pc.greater_equal(array, limit), pc.less_equal(array, pc.negate(limit)))
    return pc.if_else(large, pa.scalar(None, array.type), array).cast(to_arrow(target))


def to_decimal(array: pa.Array, target: DataType) -> pa.Array:
    """Texts as DECIMAL `target`, rounded half up; NULL where there are too many digits."""
    p, s = target.precision, target.scale
    groups = pc.extract_regex(array, _DECIMAL)
    valid = pc.and_(groups.is_valid(), pc.match_substring_regex(array, _HAS_DIGIT))
    refuse_where(pc.and_(array.is_valid(), pc.invert(valid)), array, target)
    whole, part = groups.field("whole"), groups.field("part")
    power = pc.if_else(pc.equal(groups.field("power"), ""), "0", groups.field("power")).cast(pa.int64())
    whole, part = _moved(whole, part, power, p + s + 2)
    whole = pc.utf8_ltrim(whole, characters="0")
    large = pc.greater(pc.utf8_length(whole), p - s)
    part = pc.utf8_slice_codeunits(part, 0, s + 1)  # the digit after the last decides
    text = pc.binary_join_element_wise(
        groups.field("sign"), pc.utf8_lpad(whole, 1, padding="0"), ".", part, ""
    )
    text = pc.replace_substring_regex(text, pattern=r"^([+-]?\d+)\.$", replacement=r"\1.0")
    kept = pc.if_else(pc.or_(large, array.is_null()), pa.scalar(None, pa.string()), text)
    return rounded(kept.cast(pa.decimal256(p + 1, s + 1)), target)


def _moved(whole: pa.Array, part: pa.Array, power: pa.Array, max_places: int) -> tuple[pa.Array, pa.Array]:
    """(digits before, digits after) a point moved `power` places right; one pass for each distinct power."""
    for n in pc.unique(pc.fill_null(power, 0)).to_pylist():
        if n == 0:
            continue
        here, places = pc.equal(power, n), min(abs(n), max_places)
        if n > 0:
            padded = pc.utf8_rpad(part, places, padding="0")
            new_whole = pc.binary_join_element_wise(whole, pc.utf8_slice_codeunits(padded, 0, places), "")
            new_part = pc.utf8_slice_codeunits(padded, places)
            nothing = pc.equal(
                pc.utf8_ltrim(pc.binary_join_element_wise(whole, part, ""), characters="0"), ""
            )
            new_whole = pc.if_else(nothing, "0", new_whole)
        else:
            padded = pc.utf8_lpad(whole, places, padding="0")
            new_whole = pc.utf8_slice_codeunits(padded, 0, -places)
            new_part = pc.binary_join_element_wise(pc.utf8_slice_codeunits(padded, -places), part, "")
        whole, part = pc.if_else(here, new_whole, whole), pc.if_else(here, new_part, part)
    return whole, part


# to text


def fitted(text: pa.Array, target: DataType) -> pa.Array:
    """Text cut to the length of CHAR(n) or VARCHAR(n); CHAR is filled up with blanks."""
    if target.precision == MAX_LENGTH:
        return text
    cut = pc.utf8_slice_codeunits(text, 0, target.precision)
    return pc.utf8_rpad(cut, target.precision) if target.root == "CHAR" else cut


def of(array: pa.Array, t: DataType) -> pa.Array:
    """The values of a column as text."""
    if t.root in ("FLOAT", "DOUBLE"):
        return _float_text(array)
    if t.root == "DECIMAL":
        whole = pa.decimal128(38, 0)
        unscaled = pa.Array.from_buffers(whole, len(array), array.buffers(), -1, array.offset)
        text = unscaled.cast(pa.string())
        if not t.scale:
            return text
        digits = pc.utf8_lpad(pc.utf8_ltrim(text, characters="-"), t.scale + 1, padding="0")
        sign = pc.if_else(pc.starts_with(text, "-"), "-", "")
        point, tail = pc.utf8_slice_codeunits(digits, 0, -t.scale), pc.utf8_slice_codeunits(digits, -t.scale)
        return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, point, ""), tail, ".")
    if t.root == "TIME":
        return _clock_text(array, t.precision)
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return _fraction(array.cast(pa.timestamp(time_unit(t.precision))).cast(pa.string()), t.precision)
    if t.is_nested:
        return nested_text(array, t, _shown)
    if t.is_string:
        return array
    return array.cast(pa.string())


def _fraction(text: pa.Array, digits: int) -> pa.Array:
    """Times with their fraction cut to `digits` digits, or more where the further digits are not 0."""
    text = pc.replace_substring_regex(text, pattern=rf"(\.\d{{{digits}}}\d*?)0*$", replacement=r"\1")
    return pc.replace_substring_regex(text, pattern=r"\.$", replacement="")


def _clock_text(array: pa.Array, precision: int) -> pa.Array:
    text = array.cast(pa.string())  # HH:MM:SS.mmm
    text = pc.replace_substring_regex(text, pattern=r"(\.\d+?)0+$", replacement=r"\1")
    return pc.utf8_slice_codeunits(text, 0, 8 + (1 + precision if precision else 0))


def shortest(array: pa.Array) -> pa.Array:
    """Finite floats as the shortest text that parses to the same value."""
    return array.cast(pa.string())


def _float_text(array: pa.Array) -> pa.Array:
    """Java's spelling: 1.0, 0.001, 1.0E7, 1.0E-5, NaN, Infinity."""
    raw = shortest(array)
    parts = pc.extract_regex(raw, _PARTS)
    whole, part = parts.field("whole"), parts.field("part")
    power = pc.if_else(pc.equal(parts.field("power"), ""), "0", parts.field("power")).cast(pa.int32())
    digits = pc.binary_join_element_wise(whole, part, "")
    lead = pc.subtract(pc.utf8_length(digits), pc.utf8_length(pc.utf8_ltrim(digits, characters="0")))
    power = pc.subtract(pc.add(power, pc.subtract(pc.utf8_length(whole), 1)), lead)
    digits = pc.utf8_trim(digits, characters="0")
    head, tail = pc.utf8_slice_codeunits(digits, 0, 1), pc.utf8_slice_codeunits(digits, 1)
    tail = pc.if_else(pc.equal(tail, ""), "0", tail)
    text = pc.binary_join_element_wise(head, ".", tail, "E", power.cast(pa.string()), "")
    for n in range(-3, 7):
        text = pc.if_else(pc.equal(power, n), _placed(digits, n), text)
    text = pc.binary_join_element_wise(parts.field("sign"), text, "")
    named = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "-nan": "NaN", "0": "0.0", "-0": "-0.0"}
    for said, name in named.items():
        text = pc.if_else(pc.equal(raw, said), name, text)
    return text


def _placed(digits: pa.Array, power: int) -> pa.Array:
    """Digits with the point after the first `power` + 1 of them."""
    point = max(power + 1, 1)
    if power < 0:
        digits = pc.binary_join_element_wise("0" * -power, digits, "")
    padded = pc.utf8_rpad(digits, point + 1, padding="0")
    head, tail = pc.utf8_slice_codeunits(padded, 0, point), pc.utf8_slice_codeunits(padded, point)
    return pc.binary_join_element_wise(head, tail, ".")


def nested_text(
    array: pa.Array,
    t: DataType,
    shown: Callable[[pa.Array, DataType], pa.Array],
    *,
    row: str = "{}",
    pair: str = " -> ",
) -> pa.Array:
    """A ROW, ARRAY or MAP as text. `shown` gives the texts of its values, none NULL; `row` is the signs
    around a ROW, `pair` stands between a key and its value."""
    if t.root == "ROW":
        cells = [shown(cell, c.type) for cell, c in zip(array.flatten(), t.children, strict=True)]
        joined = pc.binary_join_element_wise(*cells, ", ") if cells else pa.array([""] * len(array))
        text, nulls = pc.binary_join_element_wise(row[0], joined, row[1], ""), struct_nulls(array)
        return text if nulls is None else pc.if_else(nulls, pa.scalar(None, pa.string()), text)
    parts = lists(array)
    values = [shown(c, f.type) for c, f in zip(parts.children, t.children, strict=True)]
    entries = values[0] if t.root == "ARRAY" else pc.binary_join_element_wise(*values, pair)
    joined = pc.binary_join(pa.ListArray.from_arrays(parts.offsets, entries, mask=parts.nulls), ", ")
    begin, end = "[]" if t.root == "ARRAY" else "{}"
    return pc.binary_join_element_wise(begin, joined, end, "")


def _shown(array: pa.Array, t: DataType) -> pa.Array:
    text = array.cast(pa.string()) if t.is_binary else of(array, t)
    return text.fill_null("null")


# from text


def parsed(array: pa.Array, target: DataType) -> pa.Array:
    """Texts as values of `target`; raises SchemaMismatch showing a value that does not parse."""
    if target.root == "BOOLEAN":
        lower = pc.utf8_lower(array)
        true, false = (pc.is_in(lower, pa.array(words)) for words in (_TRUE, _FALSE))
        refuse_where(pc.and_(array.is_valid(), pc.invert(pc.or_(true, false))), array, target)
        return pc.if_else(array.is_valid(), true, pa.scalar(None, pa.bool_()))
    if target.root in ("FLOAT", "DOUBLE"):
        text = pc.utf8_trim_whitespace(array)
        _matching(text, _FLOAT, target)
        text = pc.replace_substring_regex(text, pattern=r"^([+-]?[0-9.].*)[fFdD]$", replacement=r"\1")
        text = pc.replace_substring_regex(text, pattern="Infinity", replacement="inf")
        text = pc.replace_substring_regex(text, pattern=r"^[+-]?NaN$", replacement="nan")
        return text.cast(to_arrow(target))
    if target.root == "DECIMAL":
        return to_decimal(array, target)
    if target.root in ("DATE", "TIME"):
        return _dates(array, target) if target.root == "DATE" else _clocks(array, target)
    if target.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return _moments(array, target)
    return _integers(array, target)


def _matching(array: pa.Array, pattern: str, target: DataType) -> None:
    refuse_where(pc.invert(pc.match_substring_regex(array, pattern)), array, target)


def _integers(array: pa.Array, target: DataType) -> pa.Array:
    _matching(array, _INTEGER, target)
    whole = pc.replace_substring_regex(array, pattern=r"\..*$", replacement="")
    whole = pc.replace_substring_regex(whole, pattern=r"^([+-]?)0*", replacement=r"\1")
    whole = pc.replace_substring_regex(whole, pattern=r"^\+", replacement="")
    whole = pc.replace_substring_regex(whole, pattern=r"^-?$", replacement="0")
    refuse_where(pc.greater(pc.utf8_length(whole), 20), array, target)
    wide = whole.cast(pa.decimal128(38, 0))
    limit = 1 << (to_arrow(target).bit_width - 1)
    low, high = (pa.scalar(Decimal(n), wide.type) for n in (-limit, limit - 1))
    refuse_where(pc.or_(pc.less(wide, low), pc.greater(wide, high)), array, target)
    return wide.cast(to_arrow(target))


def _whole(parts: pa.StructArray, name: str, absent: int) -> np.ndarray:
    text = parts.field(name)
    text = pc.if_else(pc.equal(text, ""), str(absent), text).fill_null(str(absent))
    return pc.utf8_slice_codeunits(text, 0, 9).cast(pa.int64()).to_numpy(zero_copy_only=False)


def _day(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(days from 1970 to the first of the month, days of that month, whether it is not a date)."""
    wrong = (year > 9999) | (month < 1) | (month > 12) | (day < 1) | (day > 31)
    months = (np.where(wrong, 1970, year) - 1970) * 12 + np.where(wrong, 1, month) - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    length = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) - first
    return first, length, wrong


def _dates(array: pa.Array, target: DataType) -> pa.Array:
    plain = pc.match_substring_regex(array, _NUMERIC)  # the number of the day
    _matching(pc.if_else(plain, "1970-01-01", array), _DATE, target)
    groups = pc.extract_regex(pc.if_else(plain, "1970-01-01", array), _DATE)
    day = _whole(groups, "d", 1)
    first, length, wrong = _day(_whole(groups, "y", 1970), _whole(groups, "m", 1), day)
    refuse_where(pa.array(wrong | (day > length)), array, target)
    days = first + day - 1
    numbers = _integers(pc.if_else(plain, array, "0"), DataType("INT"))
    day_numbers = pc.if_else(
        plain, numbers, pa.array(days.astype(np.int32), pa.int32(), mask=null_mask(array))
    )
    return day_numbers.cast(pa.date32())


def _clocks(array: pa.Array, target: DataType) -> pa.Array:
    plain = pc.match_substring_regex(array, _NUMERIC)  # milliseconds of the day
    _matching(pc.if_else(plain, "00:00", array), _CLOCK, target)
    groups = pc.extract_regex(pc.if_else(plain, "00:00", array), _CLOCK)
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(groups.field("f"), 4, padding="0"), 0, 4)
    tenths = fraction.fill_null("0").cast(pa.int64()).to_numpy(zero_copy_only=False)
    hours, minutes, seconds = (_whole(groups, name, 0) for name in "hms")
    millis = (hours * 60 + minutes) * 60_000 + seconds * 1000 + (tenths + 5) // 10
    zone = (_whole(groups, "zh", 0) * 60 + _whole(groups, "zm", 0)) * 60_000
    east = pc.equal(groups.field("zone"), "+").fill_null(False).to_numpy(zero_copy_only=False)
    millis += np.where(east, zone, -zone)
    numbers = _integers(pc.if_else(plain, array, "0"), DataType("INT"))
    times = pc.if_else(plain, numbers, pa.array(millis.astype(np.int32), pa.int32(), mask=null_mask(array)))
    refuse_where(pc.or_(pc.less(times, 0), pc.greater_equal(times, 86_400_000)), array, target)
    return times.cast(pa.time32("ms"))


def _moments(array: pa.Array, target: DataType) -> pa.Array:
    numeric = pc.match_substring_regex(array, _NUMERIC)
    if target.root == "TIMESTAMP" and pc.any(numeric).as_py():
        counted = _counted(pc.if_else(numeric, array, pa.scalar(None, pa.string())), target)
        return pc.if_else(numeric, counted, _moments(pc.if_else(numeric, "1970-01-01", array), target))
    _matching(array, _MOMENT, target)
    groups = pc.extract_regex(array, _MOMENT)
    day = _whole(groups, "d", 1)
    first, length, wrong = _day(_whole(groups, "y", 1970), _whole(groups, "mo", 1), day)
    days = first + np.minimum(day, length) - 1  # the 31st of a short month is its last day
    hours, minutes, seconds = (_whole(groups, name, 0) for name in ("h", "mi", "s"))
    midnight = (hours == 24) & (minutes == 0) & (seconds == 0)  # of the day that follows
    wrong |= ((hours > 23) & ~midnight) | (minutes > 59) | (seconds > 59)
    refuse_where(pa.array(wrong), array, target)
    unit = to_arrow(target).unit
    digits = {"ms": 3, "us": 6, "ns": 9}[unit]
    kept = (
        pc.utf8_slice_codeunits(groups.field("f"), 0, target.precision) if target.precision else pa.scalar("")
    )
    text = pc.utf8_slice_codeunits(pc.utf8_rpad(kept, digits, padding="0"), 0, digits)
    fraction = pc.if_else(array.is_valid(), text, "0").cast(pa.int64()).to_numpy(zero_copy_only=False)
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    limit = np.iinfo(np.int64).max // 10**digits - 1
    refuse_where(pa.array((whole > limit) | (whole < -limit)), array, target)
    ticks = whole * 10**digits + fraction
    return pa.array(ticks, pa.int64(), mask=null_mask(array)).cast(to_arrow(target))


def _counted(array: pa.Array, target: DataType) -> pa.Array:
    """Numbers of seconds, milli-, micro- or nanoseconds since 1970, by the precision of the type."""
    if target.precision not in (0, 3, 6, 9):
        refuse_where(array.is_valid(), array, target)
    numbers = _integers(array, DataType("BIGINT"))
    ticks = numbers if target.precision else pc.multiply_checked(numbers, 1000)
    return ticks.cast(to_arrow(target))
