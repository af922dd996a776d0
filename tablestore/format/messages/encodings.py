"""Values as messages write them → values of a column's type, whole columns at a time.

JSON values come as their texts, without the quotes of a JSON text; Avro values as Arrow has them; bytes in
either as base64 or hexadecimal texts, too. An `Encoding` says what the text alone does not: whether a decimal
is base64 of its bytes, and which unit the number of a time has. What does not fit its column exactly is
refused: nothing is rounded, cut or set to NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.types import cast_text
from tablestore.format.types.data_type import DataField, DataType, to_arrow

PRECISE, TEXT = "precise", "text"
_NUMBER = r"^-?\d+$"
_ZONE = r"([Zz]|[+-]\d\d:?\d\d)$"
_CLOCK = r"^\d\d:\d\d(:\d\d(\.\d{1,9})?)?$"
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the values of one column are written.

    `decimal`: what a decimal in quotes is: precise (base64 of the unscaled value's bytes) or text; None:
    text where it has a point, and else refused, for both may look alike; `scale` of a precise one, where it
    is not that of the column. `unit` of a number that stands for a
    time: ms, us or ns; `days`: a number that stands for a date counts days. Neither: times are texts only.
    `children`: of the columns of a ROW, or the elements of an ARRAY; empty: as this one.
    """

    decimal: str | None = TEXT
    scale: int | None = None
    unit: str | None = None
    days: bool = False
    binary: str = "base64"
    children: tuple[Encoding, ...] = ()


def typed(values: pa.Array, f: DataField, encoding: Encoding) -> pa.Array:
    """The values as the type of column `f`. Raises SchemaMismatch naming the column and what does not fit."""
    try:
        return _typed(values, f.type, encoding)
    except (SchemaMismatch, pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise SchemaMismatch(f"column {f.name!r} of type {f.type}: {e}") from None


def _typed(values: pa.Array, t: DataType, encoding: Encoding) -> pa.Array:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), to_arrow(t))
    if t.is_nested:
        return _nested(values, t, encoding)
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    if not pa.types.is_string(values.type):
        return _native(values, t, encoding)
    if t.is_string:
        return values
    if t.is_binary:
        return decoded(values, encoding.binary)
    if t.root == "BOOLEAN":
        return _booleans(values)
    if t.root == "DECIMAL":
        return _decimals(values, t, encoding)
    if t.root in _INTEGERS or t.root in ("FLOAT", "DOUBLE"):
        return values.cast(to_arrow(t))
    if t.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return _times(values, t, encoding)
    raise Unsupported(f"{t} columns in messages")


def _native(values: pa.Array, t: DataType, encoding: Encoding) -> pa.Array:
    """Values that have a type already: those of Avro."""
    if pa.types.is_large_binary(values.type) or pa.types.is_binary_view(values.type):
        values = values.cast(pa.binary())
    if pa.types.is_binary(values.type) and t.root == "DECIMAL":
        return _fitting(decimals(values, t.scale if encoding.scale is None else encoding.scale), t)
    if pa.types.is_integer(values.type):
        if t.root == "DATE":
            return values.cast(pa.int32()).cast(pa.date32())
        if t.root in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
            return _counted(values.cast(pa.int64()), t, encoding)
        if t.root == "BOOLEAN":
            return _booleans(values.cast(pa.string()))
        if t.root == "DECIMAL":
            return _fitting(values.cast(pa.decimal128(38, 0)), t)
    if pa.types.is_floating(values.type) and t.root == "DECIMAL":
        return values.cast(pa.string()).cast(to_arrow(t))
    same = pa.types.is_binary(values.type) and t.is_binary
    if not same and (t.is_string or t.is_binary or pa.types.is_boolean(values.type) != (t.root == "BOOLEAN")):
        raise SchemaMismatch(f"values of type {values.type}")
    return values.cast(to_arrow(t))


def _booleans(texts: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(texts)
    true = pc.is_in(lower, pa.array(["true", "1"]))
    legible = pc.or_(true, pc.is_in(lower, pa.array(["false", "0"])))
    _refuse(texts, pc.invert(legible), "is neither true nor false")
    return pc.if_else(texts.is_valid(), true, pa.scalar(None, pa.bool_()))


def _decimals(texts: pa.Array, t: DataType, encoding: Encoding) -> pa.Array:
    """Decimals as JSON writes them: a number, or a text in quotes, which may be the bytes of one."""
    quoted = pc.starts_with(texts, '"')
    if not pc.any(quoted).as_py():
        return texts.cast(to_arrow(t))
    inner = pc.if_else(quoted, pc.utf8_slice_codeunits(texts, 1, -1), texts)
    if encoding.decimal is None:
        pointed = pc.or_(pc.match_substring(inner, "."), pc.invert(quoted))
        _refuse(
            inner, pc.invert(pointed), "is a number or the bytes of one: option decimal.handling.mode says"
        )
    if encoding.decimal != PRECISE:
        return inner.cast(to_arrow(t))
    if not pc.all(quoted).as_py():  # NULLs are passed over
        absent = pa.scalar(None, pa.string())
        numbers = pc.if_else(quoted, absent, texts).cast(to_arrow(t))
        return pc.coalesce(numbers, _decimals(pc.if_else(quoted, texts, absent), t, encoding))
    scale = t.scale if encoding.scale is None else encoding.scale
    return _fitting(decimals(decoded(inner, "base64"), scale), t)


def _fitting(values: pa.Array, t: DataType) -> pa.Array:
    wide = values.cast(pa.decimal256(76, values.type.scale))
    return wide.cast(pa.decimal256(76, t.scale)).cast(to_arrow(t))


def _times(texts: pa.Array, t: DataType, encoding: Encoding) -> pa.Array:
    numeric = pc.match_substring_regex(texts, _NUMBER)
    counts = encoding.days if t.root == "DATE" else encoding.unit is not None
    if not counts or not pc.any(numeric).as_py():
        return _spelled(texts, t)
    absent = pa.scalar(None, pa.string())
    numbers = pc.if_else(numeric, texts, absent).cast(pa.int64())
    counted_times = (
        numbers.cast(pa.int32()).cast(pa.date32()) if t.root == "DATE" else _counted(numbers, t, encoding)
    )
    if pc.all(numeric).as_py():  # NULLs are passed over
        return counted_times
    return pc.coalesce(counted_times, _spelled(pc.if_else(numeric, absent, texts), t))


def _counted(numbers: pa.Array, t: DataType, encoding: Encoding) -> pa.Array:
    """Numbers of ms, us or ns as times of the day or since 1970."""
    unit = encoding.unit
    if unit is None:
        raise SchemaMismatch("a number where the time is a text")
    if t.root == "TIME":
        ticks = {"ms": 1, "us": 1_000, "ns": 1_000_000}[unit]
        per_day = pa.scalar(86_400_000 * ticks)
        outside = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, per_day))
        _refuse(numbers, outside, "is no time of the day; a BIGINT column takes the number, in " + unit)
        millis = pc.divide(numbers, ticks)
        _refuse(
            numbers, pc.not_equal(pc.multiply(millis, ticks), numbers), f"{unit} is finer than milliseconds"
        )
        return millis.cast(pa.int32()).cast(pa.time32("ms"))
    return numbers.cast(pa.timestamp(unit)).cast(to_arrow(_zoneless(t))).cast(to_arrow(t))


def _zoneless(t: DataType) -> DataType:
    return DataType("TIMESTAMP", precision=t.precision)


def _spelled(texts: pa.Array, t: DataType) -> pa.Array:
    """Dates and times as texts: SQL's or ISO's, with or without a zone."""
    if t.root == "TIMESTAMP_LTZ":
        zoned = pc.match_substring_regex(texts, _ZONE)
        spaced = pc.replace_substring_regex(texts, r"\s+(UTC|[Zz])$", "Z")
        return pc.if_else(zoned, spaced, pc.binary_join_element_wise(spaced, "Z", "")).cast(to_arrow(t))
    plain = pc.replace_substring_regex(texts, r"\s*[Zz]$", "")
    if t.root != "TIME":
        return plain.cast(to_arrow(t))
    _refuse(plain, pc.invert(pc.match_substring_regex(plain, _CLOCK)), "is no time of the day")
    finer = pc.match_substring_regex(plain, r"\.\d{3}\d*[1-9]")
    _refuse(plain, finer, "is finer than milliseconds; a STRING column takes it")
    return cast_text.parsed(plain, t)


def _nested(values: pa.Array, t: DataType, encoding: Encoding) -> pa.Array:
    """ARRAY and ROW, value by value of their children."""
    mask = values.is_null() if values.null_count else None
    inner = encoding.children or (encoding,) * max(1, len(t.children))
    if t.root == "ROW":
        children = [_typed(pc.struct_field(values, [i]), c.type, inner[i]) for i, c in enumerate(t.children)]
        for child, c in zip(children, t.children, strict=True):
            missing = child.is_null() if mask is None else pc.and_not(child.is_null(), mask)
            if not c.type.nullable and pc.any(missing).as_py():
                raise SchemaMismatch(f"its field {c.name!r} is NOT NULL and has no value")
        return pa.StructArray.from_arrays(children, fields=list(to_arrow(t)), mask=mask)
    if t.root == "ARRAY" and (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        lengths = pc.list_value_length(values).fill_null(0)
        items = _typed(pc.list_flatten(values), t.element, inner[0])
        return pa.ListArray.from_arrays(_offsets(lengths), items, mask=mask).cast(to_arrow(t))
    raise Unsupported(f"{t} columns in messages")


def _offsets(lengths: pa.Array) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths.to_numpy(zero_copy_only=False), out=offsets[1:])
    return pa.array(offsets)


def _refuse(values: pa.Array, wrong: Any, why: str) -> None:
    """Raise SchemaMismatch showing the first value where `wrong` is true."""
    wrong = pc.and_(wrong.fill_null(False), values.is_valid())
    if pc.any(wrong).as_py():
        raise SchemaMismatch(f"{values[pc.index(wrong, True).as_py()].as_py()!r} {why}")


_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_URL_SAFE = _STANDARD[:-2] + b"-_"
_NONE = 255


def _codes(letters: bytes) -> np.ndarray:
    """The value of each character, 255 for one that has none."""
    table = np.full(256, _NONE, np.uint8)
    table[np.frombuffer(letters, np.uint8)] = np.arange(len(letters), dtype=np.uint8)
    return table


_BASE64 = {"base64": _codes(_STANDARD), "base64-url-safe": _codes(_URL_SAFE)}
_HEX = _codes(b"0123456789abcdef")
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16, dtype=np.uint8)


def decoded(texts: pa.Array, mode: str) -> pa.Array:
    """Texts in `base64`, `base64-url-safe` (both with padding), `hex` or `latin-1` as bytes."""
    if mode == "latin-1":
        try:
            encoded = [None if text is None else text.encode("latin-1") for text in texts.to_pylist()]
        except UnicodeEncodeError as e:
            raise SchemaMismatch(f"a text is not bytes in Latin-1: {e.object[e.start]!r}") from None
        return pa.array(encoded, pa.binary())
    data, lengths = _characters(texts)
    return _from_hex(texts, data, lengths) if mode == "hex" else _from_base64(texts, data, lengths, mode)


def _from_hex(texts: pa.Array, data: np.ndarray, lengths: np.ndarray) -> pa.Array:
    digits = _HEX[data]
    if (lengths % 2).any() or (digits == _NONE).any():
        raise SchemaMismatch("a text is not hexadecimal")
    return _binary(digits[0::2] << 4 | digits[1::2], lengths // 2, texts)


def _from_base64(texts: pa.Array, data: np.ndarray, lengths: np.ndarray, mode: str) -> pa.Array:
    if (lengths % 4).any():
        raise SchemaMismatch(f"a text is not {mode}: its length is no multiple of 4")
    padding = data == ord("=")
    ends = np.cumsum(lengths)[lengths > 0] - 1
    allowed = np.zeros(len(data), bool)
    allowed[ends] = True
    allowed[ends - 1] = padding[ends]
    values = np.where(padding & allowed, 0, _BASE64[mode][data])
    if (values == _NONE).any():
        raise SchemaMismatch(f"a text is not {mode}")
    quads = values.reshape(-1, 4).astype(np.uint32)
    joined = quads[:, 0] << 18 | quads[:, 1] << 12 | quads[:, 2] << 6 | quads[:, 3]
    triples = np.stack([joined >> 16, joined >> 8, joined], axis=1).astype(np.uint8).reshape(-1)
    pads = padding.reshape(-1, 4).sum(axis=1)  # the last bytes of a group that stand for nothing
    kept = np.ones(len(triples), bool).reshape(-1, 3)
    kept[pads >= 1, 2] = False
    kept[pads == 2, 1] = False
    short = np.zeros(len(lengths), np.int64)
    short[lengths > 0] = padding[ends].astype(np.int64) + padding[ends - 1]
    return _binary(triples[kept.reshape(-1)], lengths // 4 * 3 - short, texts)


def _characters(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(the bytes of all values behind each other, the length of each, 0 for NULL)."""
    kept = array.cast(pa.binary()).fill_null(b"")
    _, offsets, data = kept.buffers()
    bounds = np.frombuffer(offsets, np.int32)[kept.offset : kept.offset + len(kept) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return raw[bounds[0] : bounds[-1]], np.diff(bounds).astype(np.int64)


def _binary(data: np.ndarray, lengths: np.ndarray, like: pa.Array) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [_validity(like), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def _validity(array: pa.Array) -> pa.Buffer | None:
    if not array.null_count:
        return None
    return pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))


def decimals(values: pa.Array, scale: int) -> pa.Array:
    """Big-endian two's complement of unscaled values as DECIMAL(38, scale). Raises SchemaMismatch for one
    that has more digits."""
    data, lengths = _characters(values)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    begins = np.cumsum(lengths) - lengths
    place = (begins + lengths)[rows] - 1 - np.arange(len(data))  # from the least significant byte
    first = np.zeros(len(lengths), np.uint8)
    first[lengths > 0] = data[begins[lengths > 0]]
    if (place >= 16).any() or (values.is_valid().to_numpy(zero_copy_only=False) & (lengths == 0)).any():
        raise SchemaMismatch("the bytes of a decimal are 1 to 16")
    whole = np.where(first >= 128, np.uint8(255), np.uint8(0))[:, None].repeat(16, axis=1)
    whole[rows, place] = data
    buffers = [_validity(values), pa.py_buffer(np.ascontiguousarray(whole))]
    wide = pa.Array.from_buffers(pa.decimal128(38, scale), len(values), buffers)
    wide.validate(full=True)  # 16 bytes may hold a 39th digit
    return wide
