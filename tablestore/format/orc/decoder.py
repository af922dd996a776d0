"""What decodes ORC files that no checksum vouches for, in a process beside the reader's (FORMAT.md 3.3).

Readers of ORC trust run lengths and chunk headers: zeroed blocks of a file end a process, or give rows out of
uninitialised memory. So the structure of a stripe is checked before it is decoded (`orc/structure.py`), and
its statistics after; and what ends this process harms nobody. A request is one stripe, its answer are Arrow
batches. Memory: a stripe. Started by `orc/data.py`.

Of statistics are compared counts of values, sums, and minima and maxima of integers and dates, which writers
of ORC agree on; sums of floats within rounding. Timestamps are left out, since writers shift them between
zones, and sums of decimals, which Java's writer gets wrong. Damage raises ValueError.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, Unsupported
from tablestore.format import schema as schemas
from tablestore.format.data_format import complaints
from tablestore.format.orc import data, structure
from tablestore.format.orc.structure import Message
from tablestore.io import process
from tablestore.io.process import Fetch
from tablestore.io.requests import RangeReader


def answer_requests() -> NoReturn:
    """What the process runs."""
    process.serve(_answer)


def _answer(request: bytes, fetch: Fetch) -> Generator[pa.Buffer, None, bytes]:
    asked = json.loads(request)
    path, size = asked["path"], asked["size"]
    source = pa.PythonFile(RangeReader(fetch, size), mode="r")
    end: dict[str, Any]
    try:
        with process.limited(size), complaints(path, "ORC"):
            end = {"stripes": (yield from _decoded(source, asked))}
    except Corrupt as e:
        end = {"damaged": e.problem}
    except Unsupported as e:
        end = {"unsupported": [e.feature, e.why]}
    return json.dumps(end).encode()


def _decoded(source: Any, asked: Mapping[str, Any]) -> Generator[pa.Buffer, None, int]:
    """The batches of a stripe, encoded; returns how many stripes there are."""
    path, number = asked["path"], asked["stripe"]
    schema = schemas.from_json(asked["schema"].encode(), path)
    wanted = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(asked["wanted"])))
    tail = structure.sound_tail(source, asked["size"])
    reader = data.OrcReader.opened(source, path, schema, wanted, asked["batch_rows"])
    data.require_types(reader.file.schema, wanted)
    if number < len(tail.stripes):
        structure.require_sound_stripe(source, tail, number, wanted.names)
        for rows in reader.batches(number, examine=partial(_examine, tail, number, wanted.names)):
            yield rows.serialize()
    return len(tail.stripes)


def _examine(tail: structure.OrcTail, number: int, names: Sequence[str], rows: pa.RecordBatch) -> None:
    """Raise ValueError for rows of a stripe that are not those of its statistics."""
    stripe = tail.stripes[number]
    if rows.num_columns and rows.num_rows != stripe.rows:
        raise ValueError(f"stripe {number} gives {rows.num_rows:,} rows of {stripe.rows:,}")
    if not tail.statistics:
        return
    of_columns = tail.statistics[number]
    if len(of_columns) != tail.types:
        raise ValueError(f"stripe {number} has statistics of {len(of_columns)} types of {tail.types}")
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        column.validate(full=pa.types.is_nested(column.type))  # what is below it can be taken out
        require_same(name, column, tail.columns[name][0], of_columns)
    left_out = {i for name in set(names).difference(rows.schema.names) for i in tail.columns[name]}
    if left_out and not any(far_times(of_columns[i]) for i in left_out & tail.times):
        raise ValueError(f"stripe {number} gives times out of range, which its statistics deny")


_COUNT, _INT, _DOUBLE, _TEXT, _BOOLEAN, _DATE, _BINARY = 1, 2, 3, 4, 5, 7, 8
_TIMES, _MILLIS = 9, 4  # bounds in milliseconds are fields 1 to 4
_NEAR = (2**63 - 1) // 10**6 - 86_400_000  # milliseconds, less a day: zones move bounds
_SAME = 1e-6  # of sums of floats, which depend on the order


def require_same(name: str, column: pa.Array, number: int, statistics: Sequence[bytes]) -> None:
    """Raise ValueError for a column whose values, or values below it, are not those of the statistics of a
    stripe; `number` is the column's in the order of the tree of types."""
    for at, values in enumerate(_with_values_below(column), number):
        if at >= len(statistics):
            raise ValueError(f"column {name!r} holds others than its type says")
        _require_same(name, values, structure.message(statistics[at]))


def _with_values_below(column: pa.Array) -> Iterator[pa.Array]:
    """The column, then the columns below it, each with those below, as types are numbered."""
    yield column
    below: Sequence[pa.Array] = ()
    if pa.types.is_list(column.type) or pa.types.is_struct(column.type):
        flat = column.flatten()
        below = flat if pa.types.is_struct(column.type) else [flat]
    elif pa.types.is_map(column.type):
        below = [column.keys, column.items]
    for values in below:
        yield from _with_values_below(values)


def _require_same(name: str, column: pa.Array, said: Message) -> None:
    if _COUNT not in said:
        return
    count = len(column) - column.null_count
    if structure.first(said, _COUNT) != count:
        raise ValueError(
            f"column {name!r} has {count:,} values, its statistics say {structure.first(said, _COUNT):,}"
        )
    for number, compare in _COMPARED.items():
        if number in said and count:
            wrong = compare(column, structure.message(said[number][-1]))
            if wrong is not None:
                raise ValueError(f"column {name!r}: {wrong[0]} is {wrong[1]}, its statistics say {wrong[2]}")


def far_times(statistics: bytes) -> bool:
    """Whether statistics of timestamps admit years that nanoseconds in 64 bits do not reach."""
    said = structure.message(statistics)
    if structure.first(said, _COUNT) == 0:
        return False
    bounds = structure.message(said[_TIMES][-1]) if _TIMES in said else {}
    millis = [_signed(bounds, number) for number in bounds if number <= _MILLIS]
    return not millis or any(m is not None and abs(m) > _NEAR for m in millis)


Wrong = tuple[str, Any, Any] | None
"""What differs, its value, and that of the statistics."""


def _signed(said: Message, number: int) -> int | None:
    """An integer with its sign in the lowest bit."""
    if number not in said:
        return None
    value = structure.first(said, number)
    return (value >> 1) ^ -(value & 1)


def _bounds(column: pa.Array, said: Message) -> Wrong:
    lowest, highest = (v.as_py() for v in pc.min_max(column).values())
    for what, value, wanted in (
        ("minimum", lowest, _signed(said, 1)),
        ("maximum", highest, _signed(said, 2)),
    ):
        if wanted is not None and value != wanted:
            return what, value, wanted
    return None


def _integers(column: pa.Array, said: Message) -> Wrong:
    if not pa.types.is_integer(column.type):
        return None
    wrong, total = _bounds(column, said), _signed(said, 3)
    if wrong is not None or total is None:
        return wrong
    added = pc.sum(column).as_py()  # in 64 bits: writers leave out sums that exceed them
    return None if added == total else ("sum", added, total)


def _dates(column: pa.Array, said: Message) -> Wrong:
    return _bounds(column.cast(pa.int32()), said) if pa.types.is_date32(column.type) else None


def _doubles(column: pa.Array, said: Message) -> Wrong:
    if not pa.types.is_floating(column.type) or 3 not in said:
        return None
    wanted = struct.unpack("<d", said[3][-1])[0]
    values = column.cast(pa.float64())
    added, around = pc.sum(values).as_py(), pc.sum(pc.abs(values)).as_py()
    if not all(map(math.isfinite, (wanted, added, around))) or abs(added - wanted) <= _SAME * around:
        return None
    return "sum", added, wanted


def _lengths(column: pa.Array, said: Message) -> Wrong:
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)) or _sum_of_lengths(said) is None:
        return None
    added, wanted = pc.sum(pc.binary_length(column).cast(pa.int64())).as_py(), _sum_of_lengths(said)
    return None if added == wanted else ("length of all values", added, wanted)


def _sum_of_lengths(said: Message) -> int | None:
    """Of text (field 3) and of binary values (field 1)."""
    return next((_signed(said, n) for n in (3, 1) if n in said and isinstance(said[n][-1], int)), None)


def _booleans(column: pa.Array, said: Message) -> Wrong:
    wanted = structure.numbers(said, 1)
    if not pa.types.is_boolean(column.type) or not wanted:
        return None
    return None if column.true_count == wanted[0] else ("number of TRUEs", column.true_count, wanted[0])


_COMPARED: dict[int, Callable[[pa.Array, Message], Wrong]] = {
    _INT: _integers,
    _DOUBLE: _doubles,
    _TEXT: _lengths,
    _BOOLEAN: _booleans,
    _DATE: _dates,
    _BINARY: _lengths,
}
