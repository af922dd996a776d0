"""Single values: types, each a name that decides how a value is converted, and arithmetic as numpy's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any


class dtype:  # the name is numpy's
    """A type of values: its name, and `kind` as numpy has it."""

    _named: dict[str, dtype] = {}

    def __new__(cls, name: Any = "float64") -> dtype:
        """The one dtype of that name."""
        name = _name_of(name)
        if name not in cls._named:
            cls._named[name] = super().__new__(cls)
            cls._named[name].name = name
        return cls._named[name]

    name: str

    @property
    def kind(self) -> str:
        """`b` of bool, `i` and `u` of whole numbers, `f`, `M` of times, `O` of anything else."""
        return {"bool": "b", "datetime64": "M"}.get(
            self.name.split("[")[0], self.name[0] if self.name != "object" else "O"
        )

    @property
    def itemsize(self) -> int:
        """Bytes of one value."""
        digits = "".join(c for c in self.name if c.isdigit())
        return int(digits) // 8 if digits else 1

    @property
    def type(self) -> dtype:
        """What makes one value."""
        return self

    def __call__(self, value: Any = 0) -> Any:
        return self.convert(value)

    def __repr__(self) -> str:
        return f"dtype('{self.name}')"

    @property
    def convert(self) -> Callable[[Any], Any]:
        """How a value becomes one of this type."""
        return {"b": bool, "i": int, "u": int, "f": float}.get(self.kind, lambda value: value)


def _name_of(name: Any) -> str:
    if isinstance(name, dtype):
        return name.name
    plain = {bool: "bool", int: "int64", float: "float64", object: "object", str: "object", None: "float64"}
    if name in plain:
        return plain[name]
    return {"<i8": "int64", "<u8": "uint64", "i8": "int64", "f8": "float64"}.get(str(name), str(name))


def _dtype_of(values: Iterable[Any]) -> dtype:
    types = {type(v) for v in values}
    if types <= {bool}:
        return dtype("bool" if types else "float64")
    if types <= {int, bool}:
        return dtype("int64")
    return dtype("float64" if types <= {int, float, bool} else "object")


def _wider(a: dtype, b: dtype) -> dtype:
    order = "buifMO"
    return max(a, b, key=lambda d: (order.index(d.kind), d.itemsize))


def _sum(values: list[float]) -> float:
    """Pairwise, as numpy adds."""
    n = len(values)
    if n < 8:
        total = -0.0
        for v in values:
            total += v
        return total
    if n <= 128:
        r = [values[i] for i in range(8)]
        i = 8
        while i < n - n % 8:
            for j in range(8):
                r[j] += values[i + j]
            i += 8
        total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
        for v in values[i:]:
            total += v
        return total
    half = n // 2
    half -= half % 8
    return _sum(values[:half]) + _sum(values[half:])


def _divide(a: Any, b: Any) -> float:
    if b:
        return a / b
    return math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _power(a: Any, b: Any) -> Any:
    try:
        return a**b
    except (ZeroDivisionError, OverflowError):
        return math.inf
