"""Values of row images by columns: bytes as the storage engine packs each wire type → Arrow.

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
reads well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.databases.slices import Ints, Slices
from tablestore.cdc.mysql import calendar, charsets, events
from tablestore.cdc.mysql.columns import SourceColumn
from tablestore.cdc.mysql.events import WireColumn
from tablestore.cdc.mysql.text_values import bits, text
from tablestore.core.errors import Unsupported

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


def require_known(wire: WireColumn, charset: str) -> None:
    """Raise Unsupported for a column whose values cannot be read."""
    if wire.code in _REFUSED:
        feature, remedy = _REFUSED[wire.code]
        raise Unsupported(f"column {wire.name!r}: {feature}", remedy)
    charsets.require_known(charset, wire.name)


def column(
    slices: Slices, c: int, wire: WireColumn, source: SourceColumn, charset: str, type_: pa.DataType
) -> pa.Array:
    """Column c as `type_`, the Arrow type of `source`; raises pa.ArrowInvalid where a value does not fit
    it."""
    values = _values(slices, c, wire, source, charset, type_)
    return values if values.type == type_ else values.cast(type_)


def _values(
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
        day, valid = calendar.days(packed >> 9, packed >> 5 & 15, packed & 31)
        return calendar.dates(day, valid & ~slices.nulls(c))
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
        return calendar.timestamps(micros, valid, type_)
    packed = _big_endian(slices, c, 5).astype(np.int64) - (1 << 39)
    months, time = packed >> 22, packed & 0x1FFFF
    day, possible = calendar.days(months // 13, months % 13, packed >> 17 & 31)
    fraction = _fraction(slices, c, wire.size, 5)
    micros = calendar.micros(day, time >> 12, time >> 6 & 63, time & 63, fraction)
    return calendar.timestamps(micros, valid & possible, type_)


def _times(slices: Slices, c: int, wire: WireColumn) -> pa.Array:
    more = (wire.size + 1) // 2
    packed = _big_endian(slices, c, 3 + more).astype(np.int64) - (0x800000 << 8 * more)
    size = np.abs(packed)
    whole, fraction = size >> 8 * more, (size & ((1 << 8 * more) - 1)) * 10 ** (6 - 2 * more)
    parts = packed < 0, whole >> 12 & 1023, whole >> 6 & 63, whole & 63, fraction
    texts = calendar.durations(*parts, wire.size)
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
