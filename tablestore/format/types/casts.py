"""Casts between column types, with the rules and the results of Paimon 2.0.0 (FORMAT.md 22.3).

`allowed` says which changes of a column's type a table accepts: *implicit* ones widen, *explicit* ones may
lose information. `cast` applies them to whole columns when an older file is read:

    integers wrap · floats to integers are cut and saturate · decimals are cut to integers, rounded half up to
    decimals, NULL when too large · times to numbers are seconds · text is parsed, or cut, and CHAR filled ·
    the text of an ARRAY, MAP or ROW is neither

Zones are UTC. A text that does not parse, or a time that Arrow cannot hold, is an error that shows the value.
Pure; used by `evolution` and `schema_change`.

`checked` and `attempted` say which values do not fit, in place of refusing the column or of losing a part of
a value: for captures, computed columns and TRY_CAST. A value fits where nothing of it is lost: a text in its
whole length, a number with all its digits. Numbers may lose digits on the way to FLOAT and DOUBLE only.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.binary_row import decimal_words
from tablestore.format.types import cast_text
from tablestore.format.types.arrow_types import STRING, null_mask
from tablestore.format.types.cast_text import refuse_where, rounded
from tablestore.format.types.data_type import MAX_LENGTH, DataType, to_arrow

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FLOATS = ("FLOAT", "DOUBLE")
NUMBERS = (*INTEGERS, *FLOATS, "DECIMAL")
TEXTS = ("CHAR", "VARCHAR")
TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
DATES = ("DATE", "TIME", *TIMES)
_PREDEFINED = ("BOOLEAN", *NUMBERS, *TEXTS, "BINARY", "VARBINARY", *DATES)
_MILLIS_A_DAY = 86_400_000

# target: (sources of implicit casts, further sources of explicit ones)
_RULES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "CHAR": (("CHAR",), (*_PREDEFINED, "ARRAY", "MAP", "ROW")),
    "VARCHAR": (TEXTS, (*_PREDEFINED, "ARRAY", "MAP", "ROW")),
    "BOOLEAN": ((), (*TEXTS, *INTEGERS)),
    "BINARY": (("BINARY",), (*TEXTS, "VARBINARY")),
    "VARBINARY": (("BINARY", "VARBINARY"), TEXTS),
    "DECIMAL": (NUMBERS, (*TEXTS, "BOOLEAN")),
    "TINYINT": (INTEGERS[:1], (*NUMBERS, *TEXTS, "BOOLEAN")),
    "SMALLINT": (INTEGERS[:2], (*NUMBERS, *TEXTS, "BOOLEAN")),
    "INT": (INTEGERS[:3], (*NUMBERS, *TEXTS, "BOOLEAN", *TIMES)),
    "BIGINT": (INTEGERS, (*NUMBERS, *TEXTS, "BOOLEAN", *TIMES)),
    "FLOAT": ((*INTEGERS, "FLOAT", "DECIMAL"), (*NUMBERS, *TEXTS, "BOOLEAN")),
    "DOUBLE": (NUMBERS, (*TEXTS, "BOOLEAN")),
    "DATE": (("TIMESTAMP",), (*TIMES, *TEXTS)),
    "TIME": (("TIMESTAMP",), (*TIMES, *TEXTS)),
    "TIMESTAMP": (TIMES, ("DATE", "TIME", *TEXTS, "INT", "BIGINT")),
    "TIMESTAMP_LTZ": (TIMES, ("DATE", "TIME", *TEXTS, "INT", "BIGINT")),
}


def allowed(source: DataType, target: DataType, *, explicit: bool) -> bool:
    """Whether a column of `source` may become `target`; `explicit` admits casts that may lose information."""
    if source.as_nullable() == target.as_nullable():
        return True
    implicit, further = _RULES.get(target.root, ((), ()))
    if source.root not in implicit and not (explicit and source.root in further):
        return False
    if source.root in DATES and target.is_string:  # such text is never cut
        return target.root == "VARCHAR" and target.precision == MAX_LENGTH and target.nullable
    if source.is_nested:
        return all(_has_text(f.type) for f in source.children)
    return True


def _has_text(t: DataType) -> bool:
    string = DataType("VARCHAR", precision=MAX_LENGTH)
    return t.as_nullable() == string or allowed(t, string, explicit=True)


def cast(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """The column as `target`, NULL where it was NULL or where the cast makes it so.

    Raises SchemaMismatch for a value that cannot be cast, Unsupported for types that cannot.
    """
    if source.as_nullable() == target.as_nullable():
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    convert = _CASTS.get((_family(source), _family(target)))
    if convert is None or not allowed(source, target.as_nullable(), explicit=True):
        raise Unsupported(f"reading {source} as {target}")
    return convert(array, source, target)


def _family(t: DataType) -> str:
    for name, roots in _FAMILIES.items():
        if t.root in roots:
            return name
    return t.root


_FAMILIES = {
    "integer": INTEGERS,
    "float": FLOATS,
    "text": TEXTS,
    "bytes": ("BINARY", "VARBINARY"),
    "moment": TIMES,
    "nested": ("ARRAY", "MAP", "ROW"),
}


def _wrapped(values: pa.Array, target: DataType) -> pa.Array:
    """Integers in as many bits as the target has; larger values wrap."""
    return values.cast(to_arrow(target), safe=False)


def _float_to_integer(array: pa.Array, _: DataType, target: DataType) -> pa.Array:
    values = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    bits = 63 if target.root == "BIGINT" else 31  # narrower ones wrap from 32 bits
    low, high = -float(1 << bits), float(1 << bits)
    cut = np.trunc(np.where(np.isnan(values), 0, values))
    inside = np.where((cut > low) & (cut < high), cut, 0).astype(np.int64)
    clipped = np.where(cut >= high, (1 << bits) - 1, np.where(cut <= low, -(1 << bits), inside))
    return _wrapped(pa.array(clipped, pa.int64(), mask=null_mask(array)), target)


def _to_float(array: pa.Array, _: DataType, target: DataType) -> pa.Array:
    return array.cast(to_arrow(target), safe=False)


def nearest_floats(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimals as the nearest floats of that kind; Arrow's own cast is off by a unit in the last place for
    many."""
    return array.cast(pa.string()).cast(kind)


def _decimal_to_float(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    if source.precision > 18:
        floats = nearest_floats(array, pa.float64())
    else:
        unscaled = decimal_words(array)[0].view(np.int64)
        values = unscaled.astype(np.float64) / np.float64(10**source.scale)
        floats = pa.array(values, pa.float64(), mask=null_mask(array))
    return floats.cast(to_arrow(target), safe=False)


def _decimal_to_integer(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    whole = array.cast(pa.decimal128(38, 0), safe=False)
    low = decimal_words(whole)[0].view(np.int64)
    return _wrapped(pa.array(np.where(whole.is_valid(), low, 0), pa.int64(), mask=null_mask(array)), target)


def _integer_to_decimal(array: pa.Array, _: DataType, target: DataType) -> pa.Array:
    return rounded(array.cast(pa.int64()).cast(pa.decimal256(19, 0)), target)


def _float_to_decimal(array: pa.Array, _: DataType, target: DataType) -> pa.Array:
    values = array.cast(pa.float64())
    refuse_where(pc.invert(pc.is_finite(values)), array, target)
    zero = pc.less(pc.abs(values), float(Decimal(1).scaleb(-target.scale - 2)))
    huge = pc.greater_equal(pc.abs(values), float(10 ** (target.precision - target.scale)))
    plain = pc.if_else(zero, pa.scalar(0.0), pc.if_else(huge, pa.scalar(None, pa.float64()), values))
    return cast_text.to_decimal(cast_text.shortest(plain), target)


def _from_boolean(array: pa.Array, _: DataType, target: DataType) -> pa.Array:
    ones = array.cast(pa.int8())
    return _integer_to_decimal(ones, _, target) if target.root == "DECIMAL" else ones.cast(to_arrow(target))


def _bytes_to_bytes(array: pa.Array, _: DataType, target: DataType) -> pa.Array:
    n = target.precision
    cut = pc.binary_slice(array, 0, n) if n < MAX_LENGTH else array
    if target.root == "VARBINARY":
        return cut
    filled = pc.binary_join_element_wise(cut, pa.scalar(bytes(n), pa.binary()), pa.scalar(b"", pa.binary()))
    return pc.binary_slice(filled, 0, n)


def _bytes_to_text(array: pa.Array, _: DataType, target: DataType) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"bytes of an older file are not a value of {target}: {e}") from None


# times


def _ticks(array: pa.Array, t: DataType) -> tuple[np.ndarray, int]:
    """(int64 values of a TIMESTAMP, 0 where NULL; units per millisecond)."""
    per_milli = {"ms": 1, "us": 1_000, "ns": 1_000_000}[to_arrow(t).unit]
    return array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), per_milli


def _millis(array: pa.Array, t: DataType) -> np.ndarray:
    values, per_milli = _ticks(array, t)
    return values // per_milli


def _toward_zero(values: np.ndarray, by: int) -> np.ndarray:
    return np.where(values < 0, -(-values // by), values // by)


def _moment(millis: np.ndarray, array: pa.Array, target: DataType) -> pa.Array:
    """Milliseconds as a TIMESTAMP; raises SchemaMismatch outside Arrow's range."""
    kind = to_arrow(target)
    per_milli = {"ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
    limit = np.iinfo(np.int64).max // per_milli
    refuse_where(pa.array((millis > limit) | (millis < -limit)), array, target)
    return pa.array(millis * per_milli, pa.int64(), mask=null_mask(array)).cast(kind)


def _moment_to_moment(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    values, per_milli = _ticks(array, source)
    millis, rest = values // per_milli, (values - values // per_milli * per_milli) * (1_000_000 // per_milli)
    p = target.precision
    if p < 3 and source.precision > p:
        step = 10 ** (3 - p)  # as in Java: towards zero below milliseconds
        fine = (values % (per_milli * step) != 0) if per_milli > 1 else millis % step != 0
        millis, rest = np.where(fine, _toward_zero(millis, step) * step, millis), np.where(fine, 0, rest)
    elif source.precision > p:
        rest = rest // 10 ** (9 - p) * 10 ** (9 - p)
    kind = to_arrow(target)
    per = {"ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
    limit = np.iinfo(np.int64).max // per - 1
    refuse_where(pa.array((millis > limit) | (millis < -limit)) if per > per_milli else None, array, target)
    ticks = millis * per + rest // (1_000_000 // per)
    return pa.array(ticks, pa.int64(), mask=null_mask(array)).cast(kind)


def _moment_to_date(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    millis = _millis(array, source)
    local = source.root == "TIMESTAMP_LTZ"
    days = millis // _MILLIS_A_DAY if local else _toward_zero(millis, _MILLIS_A_DAY)
    return pa.array(days.astype(np.int32), pa.int32(), mask=null_mask(array)).cast(pa.date32())


def _moment_to_time(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    millis = (_millis(array, source) % _MILLIS_A_DAY).astype(np.int32)
    return pa.array(millis, pa.int32(), mask=null_mask(array)).cast(pa.time32("ms"))


def _moment_to_integer(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    seconds = _toward_zero(_millis(array, source), 1000)
    return _wrapped(pa.array(seconds, pa.int64(), mask=null_mask(array)), target)


def _integer_to_moment(array: pa.Array, _: DataType, target: DataType) -> pa.Array:
    seconds = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    limit = np.iinfo(np.int64).max // 1000
    refuse_where(pa.array((seconds > limit) | (seconds < -limit)), array, target)
    return _moment(seconds * 1000, array, target)


def _date_to_moment(array: pa.Array, _: DataType, target: DataType) -> pa.Array:
    days = array.cast(pa.int32()).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return _moment(days * _MILLIS_A_DAY, array, target)


def _time_to_moment(array: pa.Array, _: DataType, target: DataType) -> pa.Array:
    millis = array.cast(pa.int32()).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return _moment(millis, array, target)


Cast = Callable[[pa.Array, DataType, DataType], pa.Array]
_CASTS: dict[tuple[str, str], Cast] = {
    ("integer", "integer"): lambda a, _, t: _wrapped(a, t),
    ("integer", "float"): _to_float,
    ("integer", "DECIMAL"): _integer_to_decimal,
    ("integer", "BOOLEAN"): lambda a, _, t: pc.not_equal(a, pa.scalar(0, a.type)),
    ("integer", "moment"): _integer_to_moment,
    ("float", "integer"): _float_to_integer,
    ("float", "float"): _to_float,
    ("float", "DECIMAL"): _float_to_decimal,
    ("DECIMAL", "integer"): _decimal_to_integer,
    ("DECIMAL", "float"): _decimal_to_float,
    ("DECIMAL", "DECIMAL"): lambda a, s, t: rounded(a.cast(pa.decimal256(s.precision, s.scale)), t),
    ("BOOLEAN", "integer"): _from_boolean,
    ("BOOLEAN", "float"): _from_boolean,
    ("BOOLEAN", "DECIMAL"): _from_boolean,
    ("bytes", "bytes"): _bytes_to_bytes,
    ("bytes", "text"): _bytes_to_text,
    ("text", "bytes"): lambda a, s, t: _bytes_to_bytes(a.cast(pa.binary()), s, t),
    ("text", "text"): lambda a, _, t: cast_text.fitted(a, t),
    ("moment", "moment"): _moment_to_moment,
    ("moment", "DATE"): _moment_to_date,
    ("moment", "TIME"): _moment_to_time,
    ("moment", "integer"): _moment_to_integer,
    ("DATE", "moment"): _date_to_moment,
    ("TIME", "moment"): _time_to_moment,
}
_CASTS |= {
    (f, "text"): lambda a, s, t: cast_text.fitted(cast_text.of(a, s), t)
    for f in ("integer", "float", "DECIMAL", "BOOLEAN", "DATE", "TIME", "moment")
}
_CASTS["nested", "text"] = lambda a, s, _: cast_text.of(a, s)  # as in Java: in its whole length
_CASTS |= {
    ("text", f): lambda a, _, t: cast_text.parsed(a, t)
    for f in ("integer", "float", "DECIMAL", "BOOLEAN", "DATE", "TIME", "moment")
}


Checked = tuple[
    pa.Array, np.ndarray | None
]  # values, NULL where they do not fit, and where that is (or None)
_EXACT = (*INTEGERS, "DECIMAL", *DATES)
_REFUSALS = (SchemaMismatch, pa.ArrowInvalid, OverflowError)


def checked(array: pa.Array, source: DataType, target: DataType) -> Checked:
    """The column as `target`, and the rows whose value does not fit. Raises Unsupported for types between
    which nothing is cast."""
    if (source.is_string and target.is_string) or (source.is_binary and target.is_binary):
        return _short_enough(array, target)
    if source.as_nullable() == target.as_nullable():
        return array, None
    if target.is_string:
        text, wrong = attempted(lambda a: cast(a, source, STRING), array, pa.string())
        text, longer = _short_enough(text, target)
        return text, either(wrong, longer)
    if target.is_binary and source.is_string:
        return _short_enough(array.cast(pa.binary()), target)
    values, wrong = attempted(lambda a: cast(a, source, target), array, to_arrow(target))
    return without(values, either(wrong, lost(array, values), _changed(array, values, source, target)))


def attempted(action: Callable[[pa.Array], pa.Array], array: pa.Array, kind: pa.DataType) -> Checked:
    """What `action` makes of the column, of this Arrow type, NULL for rows that it refuses, and which these
    are: they are looked for by halves."""
    try:
        return action(array), None
    except _REFUSALS:
        if len(array) == 1:
            return pa.nulls(1, kind), np.ones(1, np.bool_)
    middle = len(array) // 2
    parts = [attempted(action, part, kind) for part in (array.slice(0, middle), array.slice(middle))]
    flags = [np.zeros(len(values), np.bool_) if wrong is None else wrong for values, wrong in parts]
    return pa.concat_arrays([values for values, _ in parts]), np.concatenate(flags)


def lost(array: pa.Array, result: pa.Array) -> np.ndarray | None:
    """Where a value became NULL."""
    if result.null_count == array.null_count:
        return None
    return flags(pc.and_(array.is_valid(), result.is_null()))


def either(*masks: np.ndarray | None) -> np.ndarray | None:
    """Where any of the masks is true; None where none can be."""
    there = [mask for mask in masks if mask is not None and mask.any()]
    return np.logical_or.reduce(there) if there else None


def without(array: pa.Array, wrong: np.ndarray | None) -> Checked:
    """The column with NULL where it is wrong, and where that is."""
    if wrong is None:
        return array, None
    return pc.if_else(pa.array(wrong), pa.scalar(None, array.type), array), wrong


def flags(mask: pa.Array) -> np.ndarray:
    """A mask of Arrow, NULL as false."""
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _short_enough(array: pa.Array, target: DataType) -> Checked:
    if target.precision >= MAX_LENGTH or not _may_exceed(array, target.precision):
        return array, None
    lengths = pc.utf8_length(array) if target.is_string else pc.binary_length(array)
    wrong = flags(pc.greater(lengths, target.precision))
    return without(array, wrong if wrong.any() else None)


def _may_exceed(array: pa.Array, length: int) -> bool:
    """Whether a value has more than so many bytes; characters are never more than these."""
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        return True
    if not len(array):
        return False
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    return bool(np.diff(offsets).max() > length)


def _changed(array: pa.Array, result: pa.Array, source: DataType, target: DataType) -> np.ndarray | None:
    """Where the value is another one when it is cast back."""
    if target.root == "FLOAT" and source.root == "DOUBLE":
        return flags(pc.and_(pc.is_finite(array), pc.invert(pc.is_finite(result))))
    if target.root not in _EXACT or source.root not in (*_EXACT, *FLOATS):
        return None
    if target.root == "DATE" and source.root in TIMES:
        midnight = pc.floor_temporal(array, unit="day")
        return flags(pc.not_equal(array, midnight))
    if not allowed(target, source, explicit=True):
        return None
    back, wrong = attempted(lambda a: cast(a, target, source), result, array.type)
    same = pc.or_kleene(pc.equal(back, array), result.is_null())
    return either(wrong, ~flags(same))
