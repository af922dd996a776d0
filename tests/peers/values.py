"""Random columns of any type for peer tests: corner values first, then chance. Pure; drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tablestore.format.types.arrow_types import DataType, to_arrow

TEXTS = ["", " ", "a", "seven77", "eight888", "é中", "😀 nine characters", "tab\tand\nline", "x" * 40, "%/=:"]
DAY = 86_400


def column(rng: random.Random, t: DataType, rows: int, *, nulls: float = 0.2) -> pa.Array:
    """`rows` values of a type, in the Arrow type that the engine gives it."""
    values = [None if t.nullable and rng.random() < nulls else value(rng, t) for _ in range(rows)]
    return pa.array(values, to_arrow(t))


def table(rng: random.Random, types: Mapping[str, DataType], rows: int) -> pa.Table:
    """Random rows of these columns."""
    return pa.table({name: column(rng, t, rows) for name, t in types.items()})


def value(rng: random.Random, t: DataType) -> Any:
    """One value as Arrow builds it from."""
    maker = _MAKERS.get(t.root)
    if maker is not None:
        return maker(rng, t)
    children = [f.type for f in t.children]
    size = rng.choice([0, 1, 2, 5])
    if t.root == "ARRAY":
        return [_maybe(rng, children[0]) for _ in range(size)]
    if t.root == "MAP":
        keys = _distinct(rng, children[0], size)
        return [(k, _maybe(rng, children[1])) for k in keys]
    if t.root == "MULTISET":
        return [(k, rng.randrange(1, 5)) for k in _distinct(rng, children[0], size)]
    return {f.name: _maybe(rng, f.type) for f in t.children}


def _maybe(rng: random.Random, t: DataType) -> Any:
    return None if t.nullable and rng.random() < 0.2 else value(rng, t)


def _distinct(rng: random.Random, t: DataType, size: int) -> Sequence[Any]:
    return list({repr(v): v for v in (value(rng, t) for _ in range(size))}.values())


def _whole(bits: int) -> Callable[[random.Random, DataType], int]:
    def make(rng: random.Random, _: DataType) -> int:
        most = 2 ** (bits - 1) - 1
        return rng.choice([0, 1, -1, most, -most - 1, rng.randint(-most, most), rng.randint(-99, 99)])

    return make


def _floating(rng: random.Random, t: DataType) -> float:
    corner = rng.choice([0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), 0.1, 1e-30, 1e30])
    actual = corner if rng.random() < 0.5 else rng.uniform(-1e6, 1e6)
    return pa.scalar(actual, pa.float32()).as_py() if t.root == "FLOAT" else actual


def _decimal(rng: random.Random, t: DataType) -> Decimal:
    most = 10**t.precision - 1
    unscaled = rng.choice([0, 1, -1, most, -most, rng.randint(-most, most)])
    return Decimal(f"{unscaled}E-{t.scale}")


def _text(rng: random.Random, t: DataType) -> str:
    actual = (
        rng.choice(TEXTS) if rng.random() < 0.5 else "".join(rng.choices("abcé中 _", k=rng.randrange(12)))
    )
    actual = actual[: t.precision] if t.precision else actual
    return actual.rstrip(" ") if t.root == "CHAR" else actual  # ORC files lose the blanks at the end


def _bytes(rng: random.Random, t: DataType) -> bytes:
    if t.root == "BINARY":
        return rng.randbytes(t.precision)
    return rng.choice([b"", b"\0", b"\xff" * 9, rng.randbytes(rng.randrange(20))])[: t.precision or None]


def _moment(rng: random.Random, t: DataType) -> int:
    """In the Arrow unit of the precision, whole in the type's own digits; 1970 to 2200."""
    per = 1000 if t.precision <= 3 else 10**6 if t.precision <= 6 else 10**9
    step = per // 10 ** min(t.precision, 3 if per == 1000 else 6 if per == 10**6 else 9)
    actual = rng.choice([0, 1, rng.randrange(84_000 * DAY)]) * per + rng.randrange(per)
    return actual // step * step


def _variant(rng: random.Random, _: DataType) -> dict[str, bytes]:
    small = bytes([0x0C, rng.randrange(128)])  # an int8
    return {"value": small, "metadata": b"\x01\x00\x00"}


_MAKERS: dict[str, Callable[[random.Random, DataType], Any]] = {
    "BOOLEAN": lambda rng, _: rng.random() < 0.5,
    "TINYINT": _whole(8),
    "SMALLINT": _whole(16),
    "INT": _whole(32),
    "BIGINT": _whole(64),
    "FLOAT": _floating,
    "DOUBLE": _floating,
    "DECIMAL": _decimal,
    "CHAR": _text,
    "VARCHAR": _text,
    "BINARY": _bytes,
    "VARBINARY": _bytes,
    "DATE": lambda rng, _: rng.choice([0, 1, rng.randrange(-25_000, 80_000)]),
    "TIME": lambda rng, _: rng.choice([0, DAY * 1000 - 1, rng.randrange(DAY * 1000)]),
    "TIMESTAMP": _moment,
    "TIMESTAMP_LTZ": _moment,
    "VARIANT": _variant,
}
