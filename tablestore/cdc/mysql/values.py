"""Values of MySQL by columns → Arrow: as the text protocol writes them, and as row images pack them.

Text is UTF-8. Numbers and ordinary dates are read by compiled loops, where numba is installed, else by
Arrow's casts; a column in which one of them fails is read digit by digit. Row images have for each wire type

    integers, FLOAT, DOUBLE   little endian
    ENUM, SET                 number of the label; a bit for each label, little endian
    DATE                      uint24 LE: year << 9 | month << 5 | day
    DATETIME                  5 bytes BE, 2^39 more: (year × 13 + month) << 22 | day << 17 | hour << 12 |
                              minute << 6 | second; then the fraction to 2, 4 or 6 digits in 1 to 3 bytes BE
    TIMESTAMP                 4 bytes BE seconds, fraction alike
    TIME                      3 bytes BE, 2^23 more: hour << 12 | minute << 6 | second; with the fraction it
                              is one number
    DECIMAL                   groups of nine digits in 4 bytes BE, fewer in fewer; the first bit tells the
                              sign, all bits are inverted in negative numbers
    BINARY, INET, UUID        without the zeros at their end; CHAR without the blanks

A value goes from its wire type to the column's present type by a safe cast: a table that was widened since
reads well. Impossible dates become NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.databases.slices import Ints, Slices, digit_column
from tablestore.cdc.mysql import charsets, events
from tablestore.cdc.mysql.columns import DATES, FAIL, SourceColumn
from tablestore.cdc.mysql.events import WireColumn
from tablestore.core.errors import InvalidRequest, SchemaMismatch, Unsupported

Flags = npt.NDArray[np.bool_]
_LENGTHS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0])
_DAY_MICROS = 86_400_000_000


def days_of(year: Ints, month: Ints, day: Ints) -> tuple[Ints, Flags]:
    """Days since 1970-01-01, and which are dates of the (proleptic Gregorian) calendar."""
    year, month, day = (part.astype(np.int64) for part in (year, month, day))
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    longest = _LENGTHS[month & 15] + (leap & (month == 2))
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= longest)
    shifted = year - (month <= 2)  # years that begin in March
    era, of_era = np.divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468, valid


def date_array(number: Ints, valid: Flags) -> pa.Array:
    """DATE from days since 1970-01-01."""
    return pa.array(number.astype(np.int32), pa.int32(), mask=~valid).cast(pa.date32())


def timestamp_array(micros: Ints, valid: Flags, type_: pa.DataType) -> pa.Array:
    """A timestamp of any unit and zone from microseconds since 1970-01-01 00:00:00 (UTC)."""
    times = pa.array(micros, pa.int64(), mask=~valid).cast(pa.timestamp("us", tz=type_.tz))
    return times.cast(type_, safe=False)


def micros_of(day: Ints, hour: Ints, minute: Ints, second: Ints, fraction: Ints) -> Ints:
    """Microseconds since 1970-01-01 00:00:00."""
    seconds = (hour.astype(np.int64) * 60 + minute) * 60 + second
    return day * _DAY_MICROS + seconds * 1_000_000 + fraction


def duration_texts(
    negative: Flags, hour: Ints, minute: Ints, second: Ints, fraction: Ints, digits: int
) -> list[str]:
    """Text of TIME values as the server writes them: -838:59:59.000000."""
    columns = negative, hour, minute, second, fraction
    parts = zip(*(column.tolist() for column in columns), strict=True)
    cut = 10 ** (6 - digits)
    texts = []
    for minus, h, m, s, f in parts:
        text = f"{'-' if minus else ''}{h:02d}:{m:02d}:{s:02d}"
        texts.append(f"{text}.{f // cut:0{digits}d}" if digits else text)
    return texts


_NUMBERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "double", "year"}
_BYTE_KINDS = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}


def text_column(slices: Slices, c: int, source: SourceColumn, type_: pa.DataType) -> pa.Array:
    """Column c as `type_`, the Arrow type of `source`; raises InvalidRequest for text that is none."""
    kind = source.kind
    if kind == "bit":
        return bits(slices, c, type_)
    digits = digit_column(slices, c, type_) if kind == "date" or kind in _NUMBERS else None
    if digits is not None:
        return digits
    if kind in ("date", "datetime", "timestamp"):
        return _dates(slices, c, source, type_)
    values = slices.binary(c)
    if kind in _BYTE_KINDS:
        return values
    if kind == "float":
        return values.view(pa.string()).cast(pa.float64()).cast(pa.float32())
    if kind in _NUMBERS and not pa.types.is_string(type_):
        return values.view(pa.string()).cast(type_)
    return text(values, source)


def text(values: pa.Array, source: SourceColumn) -> pa.Array:
    """Bytes as text; raises InvalidRequest where they are not UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as e:
        raise InvalidRequest(f"column {source.name!r} has a value that is not UTF-8: {e}") from None


def bits(slices: Slices, c: int, type_: pa.DataType) -> pa.Array:
    """BIT columns, which both halves send as big-endian bytes."""
    if pa.types.is_boolean(type_):
        return pa.array(slices.numbers(c, "u1") != 0, mask=slices.nulls(c))
    return slices.binary(c)


def _dates(slices: Slices, c: int, source: SourceColumn, type_: pa.DataType) -> pa.Array:
    try:
        plain = slices.binary(c).view(pa.string())
        if source.kind == "date":
            return plain.cast(type_)
        micros = plain.cast(pa.timestamp("us"))
        return micros.cast(pa.int64()).cast(pa.timestamp("us", tz=type_.tz)).cast(type_, safe=False)
    except pa.ArrowInvalid:
        return _possible_dates(slices, c, source, type_)


def _possible_dates(slices: Slices, c: int, source: SourceColumn, type_: pa.DataType) -> pa.Array:
    def number(start: int, digits: int) -> Ints:
        value = np.zeros(slices.rows, np.int64)
        for i in range(start, start + digits):
            value = value * 10 + slices.numbers(c, "u1", i) - ord("0")
        return value

    nulls = slices.nulls(c)
    day, valid = days_of(number(0, 4), number(5, 2), number(8, 2))
    valid &= ~nulls
    if source.kind == "date":
        return date_array(day, valid)
    fraction = (
        number(20, source.size) * 10 ** (6 - source.size) if source.size else np.zeros(len(day), np.int64)
    )
    micros = micros_of(day, number(11, 2), number(14, 2), number(17, 2), fraction)
    return timestamp_array(micros, valid, type_)


def text_batch(
    slices: Slices, columns: tuple[SourceColumn, ...], schema: pa.Schema, *, any_key: bool = False
) -> pa.RecordBatch:
    """All columns of the rows; `any_key` as in `checked`."""
    arrays = [
        text_column(slices, c, each, field.type)
        for c, (each, field) in enumerate(zip(columns, schema, strict=True))
    ]
    for c, each in enumerate(columns):
        require_dates(slices, c, arrays[c], each)
    return checked(arrays, columns, schema, any_key=any_key)


def require_dates(slices: Slices, c: int, dates: pa.Array, source: SourceColumn) -> None:
    """Raise SchemaMismatch where column c has a zero or impossible date and its column refuses them."""
    if source.kind in DATES and source.zero_dates == FAIL and not source.in_key:
        count = dates.null_count - int(np.count_nonzero(slices.nulls(c)))
        if count:
            raise SchemaMismatch(
                f"column {source.name!r} of type {source.spelled} has {count} zero or impossible dates in a "
                "batch of rows: mend them, or take zero_dates='null' (--zero-dates null), where they are NULL"
            )


def checked(
    arrays: list[pa.Array], columns: tuple[SourceColumn, ...], schema: pa.Schema, *, any_key: bool = False
) -> pa.RecordBatch:
    """The columns as a batch; raises InvalidRequest for an impossible date in a key, unless rows with
    `any_key` are wanted: it is NULL there."""
    for array, source in zip(arrays, columns, strict=True):
        if source.in_key and array.null_count and not any_key:
            row = pc.index(array.is_null(), True).as_py()
            raise InvalidRequest(
                f"key column {source.name!r} holds no possible date, in row {row} of a batch"
            )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_SIGNED = {events.TINY: "<i1", events.SHORT: "<i2", events.LONG: "<i4", events.LONGLONG: "<i8"}
_POWERS = tuple(10**k for k in range(10))
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


_REFUSED = {
    140: ("COMPRESSED columns", "ALTER TABLE … MODIFY it without COMPRESSED"),
    141: ("COMPRESSED columns", "ALTER TABLE … MODIFY it without COMPRESSED"),
    7: ("times in the format before MariaDB 10.1", "ALTER TABLE … FORCE"),
    11: ("times in the format before MariaDB 10.1", "ALTER TABLE … FORCE"),
    12: ("times in the format before MariaDB 10.1", "ALTER TABLE … FORCE"),
    events.JSON: ("MySQL's binary JSON", "leave the column out"),
    events.GEOMETRY: ("GEOMETRY", "leave the column out"),
}


def require_readable(wire: WireColumn, charset: str) -> None:
    """Raise Unsupported for a column whose values cannot be read."""
    if wire.code in _REFUSED:
        feature, remedy = _REFUSED[wire.code]
        raise Unsupported(f"column {wire.name!r}: {feature}", remedy)
    charsets.require_known(charset, wire.name)


def image_column(
    slices: Slices, c: int, wire: WireColumn, source: SourceColumn, charset: str, type_: pa.DataType
) -> pa.Array:
    """Column c as `type_`, the Arrow type of `source`; raises pa.ArrowInvalid where a value does not fit
    it."""
    values = _image_values(slices, c, wire, source, charset, type_)
    return values if values.type == type_ else values.cast(type_)


def _image_values(
    slices: Slices, c: int, wire: WireColumn, source: SourceColumn, charset: str, type_: pa.DataType
) -> pa.Array:
    code = wire.code
    if code in _SIGNED or code in (events.INT24, events.YEAR):
        return pa.array(_integers(slices, c, wire), mask=slices.nulls(c))
    if code in (events.FLOAT, events.DOUBLE):
        return pa.array(slices.numbers(c, "<f4" if code == events.FLOAT else "<f8"), mask=slices.nulls(c))
    if code == events.NEWDECIMAL:
        return _decimals(slices, c, wire)
    if code == events.DATE:
        packed = slices.numbers(c, "<u4") & 0xFFFFFF
        day, valid = days_of(packed >> 9, packed >> 5 & 15, packed & 31)
        return date_array(day, valid & ~slices.nulls(c))
    if code in (events.DATETIME2, events.TIMESTAMP2):
        return _timestamps(slices, c, wire, type_)
    if code == events.TIME2:
        return _times(slices, c, wire)
    if code == events.BIT:
        return bits(slices, c, pa.bool_() if wire.size == 1 else pa.binary())
    if code in (events.ENUM, events.SET):
        return _labels(slices, c, wire, charset)
    return _bytes(slices, c, wire, source, charset)


def _integers(slices: Slices, c: int, wire: WireColumn) -> Ints:
    if wire.code == events.YEAR:
        year = slices.numbers(c, "u1").astype(np.int32)
        return np.where(year == 0, 0, year + 1900).astype(np.int32)
    if wire.code == events.INT24:
        three = (slices.numbers(c, "<u4") & 0xFFFFFF).astype(np.int32)
        return three if wire.unsigned else (three ^ 0x800000) - 0x800000
    dtype = _SIGNED[wire.code]
    return slices.numbers(c, dtype.replace("i", "u") if wire.unsigned else dtype)


def _big_endian(slices: Slices, c: int, size: int, skip: int = 0) -> Ints:
    """Numbers of 1 to 8 bytes, as uint64."""
    if size == 0:
        return np.zeros(slices.rows, np.uint64)
    return slices.numbers(c, ">u8", skip).astype(np.uint64) >> np.uint64(64 - 8 * size)


def _fraction(slices: Slices, c: int, digits: int, skip: int) -> Ints:
    """Microseconds from a fraction of a second."""
    size = (digits + 1) // 2
    return _big_endian(slices, c, size, skip).astype(np.int64) * 10 ** (6 - 2 * size)


def _timestamps(slices: Slices, c: int, wire: WireColumn, type_: pa.DataType) -> pa.Array:
    valid = ~slices.nulls(c)
    if wire.code == events.TIMESTAMP2:
        seconds = _big_endian(slices, c, 4).astype(np.int64)
        micros = seconds * 1_000_000 + _fraction(slices, c, wire.size, 4)
        valid &= micros != 0  # the zero date; the first instant of 1970 cannot be stored
        return timestamp_array(micros, valid, type_)
    packed = _big_endian(slices, c, 5).astype(np.int64) - (1 << 39)
    months, time = packed >> 22, packed & 0x1FFFF
    day, possible = days_of(months // 13, months % 13, packed >> 17 & 31)
    fraction = _fraction(slices, c, wire.size, 5)
    micros = micros_of(day, time >> 12, time >> 6 & 63, time & 63, fraction)
    return timestamp_array(micros, valid & possible, type_)


def _times(slices: Slices, c: int, wire: WireColumn) -> pa.Array:
    more = (wire.size + 1) // 2
    packed = _big_endian(slices, c, 3 + more).astype(np.int64) - (0x800000 << 8 * more)
    size = np.abs(packed)
    whole, fraction = size >> 8 * more, (size & ((1 << 8 * more) - 1)) * 10 ** (6 - 2 * more)
    parts = packed < 0, whole >> 12 & 1023, whole >> 6 & 63, whole & 63, fraction
    texts = duration_texts(*parts, wire.size)
    return pa.array(texts, pa.string(), mask=slices.nulls(c))


def _decimals(slices: Slices, c: int, wire: WireColumn) -> pa.Array:
    """DECIMAL; one of more than 38 digits as text."""
    whole, fraction = wire.size - wire.scale, wire.scale
    digits = [*([whole % 9] if whole % 9 else []), *[9] * (whole // 9), *[9] * (fraction // 9)]
    digits += [fraction % 9] if fraction % 9 else []
    negative = slices.numbers(c, "u1") < 0x80
    groups, skip = [], 0
    for i, count in enumerate(digits):
        size = _DIGIT_BYTES[count]
        group = _big_endian(slices, c, size, skip)
        if i == 0:
            group ^= np.uint64(0x80 << 8 * (size - 1))
        groups.append(np.where(negative, group ^ np.uint64((1 << 8 * size) - 1), group))
        skip += size
    limbs = _limbs(groups, digits, 4 if wire.size <= 38 else 8)
    _negate(limbs, negative)
    raw = np.ascontiguousarray(np.stack(limbs, axis=1).astype("<u4"))
    valid = pa.array(~slices.nulls(c)).buffers()[1]
    maker = pa.decimal128 if wire.size <= 38 else pa.decimal256
    decimals = pa.Array.from_buffers(maker(wire.size, wire.scale), slices.rows, [valid, pa.py_buffer(raw)])
    if wire.size <= 38:
        return decimals
    return pa.array([None if v is None else f"{v:f}" for v in decimals.to_pylist()], pa.string())


def _limbs(groups: Sequence[Ints], digits: Sequence[int], count: int) -> list[Ints]:
    """Numbers of decimal digit groups in base 2^32, lowest first, as uint64."""
    rows = len(groups[0])
    low = np.zeros(rows, np.uint64)
    total = 0
    limbs = None
    for group, size in zip(groups, digits, strict=True):
        total += size
        if total <= 18:  # all so far fit one number of 64 bits
            low = low * np.uint64(_POWERS[size]) + group
            continue
        if limbs is None:
            limbs = [low & np.uint64(0xFFFFFFFF), low >> np.uint64(32)]
            limbs += [np.zeros(rows, np.uint64) for _ in range(count - 2)]
        carry = group
        for i in range(count):
            product = limbs[i] * np.uint64(_POWERS[size]) + carry
            limbs[i], carry = product & np.uint64(0xFFFFFFFF), product >> np.uint64(32)
    if limbs is None:
        limbs = [low & np.uint64(0xFFFFFFFF), low >> np.uint64(32)]
        limbs += [np.zeros(rows, np.uint64) for _ in range(count - 2)]
    return limbs


def _negate(limbs: list[Ints], where: npt.NDArray[np.bool_]) -> None:
    """Two's complement of some of the numbers, in place."""
    carry = where.astype(np.uint64)
    flip = np.where(where, np.uint64(0xFFFFFFFF), np.uint64(0))
    for i, limb in enumerate(limbs):
        total = (limb ^ flip) + carry
        limbs[i], carry = total & np.uint64(0xFFFFFFFF), total >> np.uint64(32)


def _labels(slices: Slices, c: int, wire: WireColumn, charset: str) -> pa.Array:
    names = [charsets.text(label, charset) for label in wire.labels]
    number = slices.numbers(c, "<u8")
    number = number & np.uint64((1 << 8 * wire.width) - 1) if wire.width < 8 else number
    if wire.code == events.ENUM:
        texts = pa.array(["", *names], pa.string())  # number 0: a value that was none of the labels
        return texts.take(pa.array(np.minimum(number, len(names)), mask=slices.nulls(c)))
    distinct, place = np.unique(number, return_inverse=True)
    labels = [",".join(n for i, n in enumerate(names) if v >> i & 1) for v in distinct.tolist()]
    return pa.array(labels, pa.string()).take(pa.array(place, mask=slices.nulls(c)))


def _bytes(slices: Slices, c: int, wire: WireColumn, source: SourceColumn, charset: str) -> pa.Array:
    values = slices.binary(c)
    if source.kind in ("uuid", "inet4", "inet6"):
        return _addresses(values, source.kind)
    if source.kind == "binary":
        return pc.ascii_rpad(values.view(pa.string()), wire.size, padding="\0").view(pa.binary())
    return text(charsets.decoded(values, charset), source) if charsets.is_text(charset) else values


def _addresses(values: pa.Array, kind: str) -> pa.Array:
    """UUID and INET columns as the server writes them."""
    written = {"uuid": _uuid, "inet4": _inet4, "inet6": _inet6}[kind]
    distinct = values.dictionary_encode()
    texts = [written(value) for value in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _uuid(value: bytes) -> str:
    digits = value.ljust(16, b"\0").hex()
    return "-".join(digits[i:j] for i, j in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))


def _inet4(value: bytes) -> str:
    return ".".join(map(str, value.ljust(4, b"\0")))


def _inet6(value: bytes) -> str:
    """The first of the longest runs of zero groups becomes ::, be it of one; an IPv4 address after six zero
    groups, or five and ffff, is written as one."""
    value = value.ljust(16, b"\0")
    groups = [value[i] << 8 | value[i + 1] for i in range(0, 16, 2)]
    runs = [0] * 9  # how many zero groups follow, from each on
    for i in reversed(range(8)):
        runs[i] = 0 if groups[i] else runs[i + 1] + 1
    longest = max(runs)
    if not longest:
        return ":".join(f"{group:x}" for group in groups)
    start = runs.index(longest)
    if start == 0 and (longest == 6 or (longest == 5 and groups[5] == 0xFFFF)):
        return ("::" if longest == 6 else "::ffff:") + _inet4(value[12:])
    before, after = groups[:start], groups[start + longest :]
    return "::".join(":".join(f"{group:x}" for group in part) for part in (before, after))
