"""Orders and their lineitems, computed for any range of generator rows.

Row r (0-based) of the order generator fixes every column but the order key, so the same function gives base
rows (r below the base count) and inserted rows (from the base count on), before images included.
Whole columns at a time; money in hundredths as int64 until the end. Pure. Used by `refresh_sets`.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datasets.tpch import streams, text
from datasets.tpch.scale import Scale
from datasets.tpch.schema import LINEITEM, MONEY, ORDERS
from datasets.tpch.streams import column

Ints = NDArray[np.int64]

_FIRST_DAY = 8035  # 1992-01-01 in days since 1970-01-01
_CUT_OFF = 1263  # 1995-06-17 in days since 1992-01-01
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "TAKE BACK RETURN", "NONE")
_MODES = ("REG AIR", "AIR", "RAIL", "TRUCK", "MAIL", "FOB", "SHIP")
_FLAGS = ("R", "A", "N")
_NOT_RETURNED = 2
_LINE_STATUSES = ("F", "O")
_ORDER_STATUSES = ("F", "O", "P")


@dataclass(frozen=True, slots=True)
class OrderRows:
    """Orders and their lines, both in key order; `line_order[i]` is the position of line i's order."""

    orders: pa.RecordBatch
    lineitem: pa.RecordBatch
    line_order: Ints


@dataclass(frozen=True, slots=True)
class _Lines:
    """The positions of the lines of some orders: generator row, place in `rows`, place in the order."""

    row: Ints
    order: Ints
    number: Ints
    starts: Ints

    @classmethod
    def of(cls, rows: Ints) -> "_Lines":
        counts = column(streams.LINE_COUNT, rows, 1, 7)
        starts = np.cumsum(counts) - counts
        order = np.repeat(np.arange(len(rows)), counts)
        return cls(rows[order], order, np.arange(len(order)) - starts[order], starts)

    def draw(self, stream: streams.Stream, low: int, high: int) -> Ints:
        return column(stream, self.row, low, high, at=self.number)


def make(scale: Scale, rows: Ints, keys: Ints) -> OrderRows:
    """The orders of generator rows `rows` (0-based) under the order keys `keys`."""
    lines = _Lines.of(rows)
    ordered = column(streams.ORDER_DATE, rows, 0, 2405)
    part = lines.draw(streams.PART_KEY, 1, scale.parts)
    quantity = lines.draw(streams.QUANTITY, 1, 50)
    price = (90_000 + part // 10 % 20_001 + 100 * (part % 1000)) * quantity
    discount, tax = lines.draw(streams.DISCOUNT, 0, 10), lines.draw(streams.TAX, 0, 8)
    shipped = ordered[lines.order] + lines.draw(streams.SHIP_LAG, 1, 121)
    received = shipped + lines.draw(streams.RECEIPT_LAG, 1, 30)
    status = (shipped > _CUT_OFF).astype(np.int64)
    charged = price * (100 - discount) // 100 * (100 + tax) // 100
    lineitem = [
        pa.array(keys[lines.order]),
        pa.array(part),
        pa.array(_supplier(lines, part, scale.suppliers)),
        pa.array((lines.number + 1).astype(np.int32)),
        _money(quantity * 100),
        _money(price),
        _money(discount),
        _money(tax),
        _words(_FLAGS, _return_flags(lines, received)),
        _words(_LINE_STATUSES, status),
        _dates(shipped),
        _dates(ordered[lines.order] + lines.draw(streams.COMMIT_LAG, 30, 90)),
        _dates(received),
        _words(_INSTRUCTIONS, lines.draw(streams.SHIP_INSTRUCT, 0, 3)),
        _words(_MODES, lines.draw(streams.SHIP_MODE, 0, 6)),
        _comments(streams.LINE_COMMENT, lines.row, lines.number * 2, 10, 43),
    ]
    orders = [
        pa.array(keys),
        pa.array(_customer(rows, scale.customers)),
        _words(_ORDER_STATUSES, _order_status(lines, status)),
        _money(np.add.reduceat(charged, lines.starts) if len(rows) else charged),
        _dates(ordered),
        _words(_PRIORITIES, column(streams.ORDER_PRIORITY, rows, 0, 4)),
        _clerks(column(streams.CLERK, rows, 1, scale.clerks)),
        pa.array(np.zeros(len(rows), np.int32)),
        _comments(streams.ORDER_COMMENT, rows, 0, 19, 78),
    ]
    return OrderRows(
        pa.RecordBatch.from_arrays(orders, schema=ORDERS),
        pa.RecordBatch.from_arrays(lineitem, schema=LINEITEM),
        lines.order,
    )


def _supplier(lines: _Lines, part: Ints, suppliers: int) -> Ints:
    choice = lines.draw(streams.SUPPLIER_CHOICE, 0, 3)
    return (part + choice * (suppliers // 4 + (part - 1) // suppliers)) % suppliers + 1


def _return_flags(lines: _Lines, received: Ints) -> Ints:
    """R or A for lines received by the cut-off day, by as many draws as such lines came before; else N."""
    returned = received <= _CUT_OFF
    before: Ints = np.cumsum(returned) - returned
    drawn: Ints = before - before[lines.starts][lines.order] if len(before) else before
    flags = column(streams.RETURN_FLAG, lines.row, 0, 1, at=drawn)
    return np.where(returned, flags, _NOT_RETURNED)


def _order_status(lines: _Lines, line_status: Ints) -> Ints:
    """F if all lines are F (0), O if all are O (1), else P."""
    if not len(lines.starts):
        return line_status
    open_lines = np.add.reduceat(line_status, lines.starts)
    counts = np.diff(np.append(lines.starts, len(line_status)))
    return np.where(open_lines == 0, 0, np.where(open_lines == counts, 1, 2))


def _customer(rows: Ints, customers: int) -> Ints:
    """Every third customer has no orders: such a key moves up, or down where up would pass the last one."""
    key = column(streams.CUSTOMER_KEY, rows, 1, customers)
    moved = np.where(key + 1 > customers, key - 1, key + 1)
    return np.where(key % 3 == 0, moved, key)


def _comments(stream: streams.Stream, rows: Ints, at: Ints | int, shortest: int, longest: int) -> pa.Array:
    offset = column(stream, rows, 0, text.POOL_BYTES - longest, at=at)
    return text.comments(offset, column(stream, rows, shortest, longest, at=at + 1))


def _money(hundredths: Ints) -> pa.Array:
    """decimal128(15,2) from non-negative hundredths: 16 little-endian bytes each, the upper eight zero."""
    limbs = np.zeros((len(hundredths), 2), "<i8")
    limbs[:, 0] = hundredths
    return pa.Array.from_buffers(MONEY, len(hundredths), [None, pa.py_buffer(limbs)])


def _dates(since_first_day: Ints) -> pa.Array:
    return pa.array((since_first_day + _FIRST_DAY).astype(np.int32)).cast(pa.date32())


def _words(words: tuple[str, ...], picks: Ints) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(picks))


def _clerks(numbers: Ints) -> pa.Array:
    """`Clerk#` and nine digits."""
    digits = numbers[:, None] // 10 ** np.arange(8, -1, -1) % 10
    out = np.empty((len(numbers), 15), np.uint8)
    out[:, :6] = np.frombuffer(b"Clerk#", np.uint8)
    out[:, 6:] = digits + ord("0")
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * 15
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, pa.py_buffer(ends), pa.py_buffer(out)])
