"""The part of numpy that the simulator and the pictures use, in plain Python: a browser has no other.

Results are numpy's, draws of `random` too (tests/widgets/playground/test_playground.py compares them).
"""

from __future__ import annotations

import builtins
import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

from numpy import random as random
from numpy.array import _array, _binary, _size, ndarray
from numpy.array import broadcast as _broadcast
from numpy.scalars import _dtype_of, dtype

inf, nan, pi, newaxis = math.inf, math.nan, math.pi, None
bool_, int8, int16, int32, int64 = map(dtype, ("bool", "int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(dtype, ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64 = map(dtype, ("float16", "float32", "float64"))
generic, number, integer, floating = ndarray, ndarray, int, float


def array(value: Any, dtype: Any = None, copy: bool = True) -> ndarray:
    """A new array of lists."""
    return _array(value, dtype).copy()


def asarray(value: Any, dtype: Any = None) -> ndarray:
    """Anything as an array."""
    return _array(value, dtype)


def full(shape: Any, value: Any, dtype: Any = None) -> ndarray:
    """An array of one value."""
    form = (shape,) if isinstance(shape, int) else tuple(shape)
    kind = _dtype_of([value]) if dtype is None else globals()["_kind"](dtype)
    return ndarray([kind.convert(value)] * _size(form), form, kind)


_kind = dtype


def zeros(shape: Any, dtype: Any = "float64") -> ndarray:
    """An array of zeros."""
    return full(shape, 0, dtype)


empty = zeros


def ones(shape: Any, dtype: Any = "float64") -> ndarray:
    """An array of ones."""
    return full(shape, 1, dtype)


def zeros_like(other: Any, dtype: Any = None) -> ndarray:
    """Zeros in the shape of another."""
    a = _array(other)
    return zeros(a.shape, a.dtype if dtype is None else dtype)


empty_like = zeros_like


def arange(*ends: Any, dtype: Any = None) -> ndarray:
    """Numbers from one to before another."""
    start, stop, step = {1: (0, ends[0], 1), 2: (*ends, 1)}.get(len(ends), ends)
    many = builtins.max(math.ceil((stop - start) / step), 0)
    values = [start + i * step for i in range(many)]
    return _array(values, dtype or ("int64" if not values else None))


def linspace(low: float, high: float, count: int = 50) -> ndarray:
    """Numbers of equal distance."""
    step = (high - low) / (count - 1) if count > 1 else 0.0
    values = [low + i * step for i in range(count)]
    return _array([*values[:-1], float(high)] if count > 1 else values[:count], "float64")


def geomspace(low: float, high: float, count: int = 50) -> ndarray:
    """Numbers of equal ratio, the ends exact."""
    a, b = math.log10(low), math.log10(high)
    values = [10.0**x for x in linspace(a, b, count).values()]
    return _array([float(low), *values[1:-1], float(high)])


def fromiter(values: Iterable[Any], dtype: Any, count: int = -1) -> ndarray:
    """An array of an iterator."""
    return _array(list(values), dtype)


def concatenate(parts: Any, axis: int = 0) -> ndarray:
    """Arrays behind each other."""
    arrays = [_array(p) for p in parts]
    values = [v for a in arrays for v in a.values()]
    full_of = [a for a in arrays if a.size] or arrays
    order = "buifMO"
    kind = builtins.max((a.dtype for a in full_of), key=lambda d: (order.index(d.kind), d.itemsize))
    if kind.kind == "f":
        values = list(map(float, values))
    return ndarray(values, (builtins.sum(len(a) for a in arrays), *arrays[0].shape[1:]), kind)


def stack(parts: Any, axis: int = 0) -> ndarray:
    """Arrays of one shape along a new first axis; with `axis` 1 along the second."""
    rows = [_array(p) for p in parts]
    stacked = concatenate([r[None] for r in rows])
    return stacked if axis == 0 else stacked.T.copy()


column_stack = lambda parts: stack(parts, axis=1)


class _Rows:
    def __getitem__(self, parts: Any) -> ndarray:
        each = parts if isinstance(parts, tuple) else (parts,)
        arrays = [_array(p) if isinstance(p, ndarray | list | tuple) else _array([p]) for p in each]
        return concatenate(arrays)


r_ = _Rows()


def where(condition: Any, yes: Any = None, no: Any = None) -> Any:
    """Values of one array or the other; with a condition alone the places where it holds."""
    if yes is None:
        return _array(condition).nonzero()
    a, b = _array(yes), _array(no)
    (mask, left, right), shape = _broadcast([_array(condition), a, b])
    values = [x if m else y for m, x, y in zip(mask, left, right, strict=True)]
    order = "buifMO"
    kind = builtins.max(a.dtype, b.dtype, key=lambda d: order.index(d.kind))
    return ndarray(list(map(kind.convert, values)), shape, kind) if shape else values[0]


def flatnonzero(a: Any) -> ndarray:
    """The places of values that are true."""
    return _array(a).ravel().nonzero()[0]


nonzero = lambda a: _array(a).nonzero()
count_nonzero = lambda a: builtins.sum(map(bool, _array(a).values()))


def diff(a: Any, prepend: Any = None) -> ndarray:
    """Differences of neighbours."""
    x = _array(a)
    values = x.values() if prepend is None else [prepend, *x.values()]
    steps = [b - c for c, b in pairwise(values)]
    return ndarray(steps, (len(steps),), x.dtype)


def cumsum(a: Any, axis: int | None = None, out: ndarray | None = None) -> ndarray:
    """Running sums."""
    sums = _array(a).cumsum(axis)
    if out is not None:
        out[...] = sums
    return sums


def unique(
    a: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """Each value once, in order; on demand where it is first, which one each value is, and how often."""
    x = _array(a)
    rows = list(zip(*x.tolist(), strict=True)) if axis == 1 else x.values()
    first: dict[Any, int] = {}
    for i, row in enumerate(rows):
        first.setdefault(row, i)
    distinct = sorted(first)
    if axis == 1:
        flat = [v for row in zip(*distinct, strict=True) for v in row]
        values = ndarray(flat, (x.shape[0], len(distinct)), x.dtype)
    else:
        values = ndarray(distinct, (len(distinct),), x.dtype)
    places = {row: i for i, row in enumerate(distinct)}
    extra = [_array([first[k] for k in distinct], "int64")] if return_index else []
    extra += [_array([places[row] for row in rows], "int64")] if return_inverse else []
    if return_counts:
        counts = [0] * len(distinct)
        for row in rows:
            counts[places[row]] += 1
        extra.append(_array(counts, "int64"))
    return (values, *extra) if extra else values


def lexsort(keys: Any) -> ndarray:
    """The order by the last key, then the one before it."""
    columns = [_array(k).values() for k in keys][::-1]
    order = sorted(range(len(columns[0])), key=lambda i: tuple(c[i] for c in columns))
    return _array(order, "int64")


def searchsorted(a: Any, values: Any, side: str = "left") -> Any:
    """Where values belong in order."""
    ascending, find = _array(a).values(), bisect_left if side == "left" else bisect_right
    wanted = _array(values)
    places = [find(ascending, v) for v in wanted.values()]
    return ndarray(places, wanted.shape, int64) if wanted.shape else places[0]


def take_along_axis(a: ndarray, at: ndarray, axis: int) -> ndarray:
    """In each row the values at the places of that row."""
    flat, n = a.values(), a.shape[-1]
    wide = at.shape[-1]
    places = at.values()
    taken = [flat[i // wide * n + places[i]] for i in range(len(places))]
    return ndarray(taken, at.shape, a.dtype)


def split(a: ndarray, at: Any) -> list[ndarray]:
    """The parts between places."""
    ends = [0, *_array(at).values(), len(a)]
    return [a[i:j] for i, j in pairwise(ends)]


def bincount(a: Any, weights: Any = None, minlength: int = 0) -> ndarray:
    """How often each whole number occurs."""
    x = _array(a).values()
    counts = [0 if weights is None else 0.0] * builtins.max([minlength, *(v + 1 for v in x)])
    for i, v in enumerate(x):
        counts[v] += 1 if weights is None else _array(weights).values()[i]
    return _array(counts, "int64" if weights is None else "float64")


def repeat(a: Any, counts: Any) -> ndarray:
    """Each value so many times."""
    return _array(a).repeat(counts)


def intersect1d(a: Any, b: Any) -> ndarray:
    """Values that both have, each once."""
    return _array(sorted(set(_array(a).values()) & set(_array(b).values())), _array(a).dtype)


def isin(a: Any, among: Any) -> ndarray:
    """Which values are among others."""
    some = set(_array(among).values())
    return _array(a).mapped(some.__contains__, bool_)


def median(a: Any) -> float:
    """The middle value."""
    x = sorted(_array(a).values())
    n = len(x)
    return float(x[n // 2]) if n % 2 else (x[n // 2 - 1] + x[n // 2]) / 2


def polyfit(x: Any, y: Any, degree: int) -> tuple[float, float]:
    """Slope and start of the line of least squares."""
    xs, ys = _array(x).values(), _array(y).values()
    mx, my = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    across = math.fsum((a - mx) ** 2 for a in xs)
    slope = math.fsum((a - mx) * (b - my) for a, b in zip(xs, ys, strict=True)) / across
    return slope, my - slope * mx


def clip(a: Any, low: Any, high: Any) -> Any:
    """The values, none beyond the ends."""
    return _array(a).clip(low, high) if isinstance(a, ndarray) else builtins.min(builtins.max(a, low), high)


def _each(function: Callable[[Any], Any], kind: str | None = "float64") -> Callable[[Any], Any]:
    def apply(a: Any) -> Any:
        x = _array(a)
        return (
            x.mapped(function, None if kind is None else dtype(kind)) if x.shape else function(x.values()[0])
        )

    return apply


def _safe(function: Callable[[float], float]) -> Callable[[float], float]:
    def value(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return inf
        except ValueError:
            return -inf if x == 0 else nan

    return value


floor, ceil = _each(lambda v: float(math.floor(v))), _each(lambda v: float(math.ceil(v)))
rint, sqrt = _each(lambda v: float(builtins.round(v))), _each(_safe(math.sqrt))
exp, expm1, log, log10, log2, log1p = (
    _each(_safe(f)) for f in (math.exp, math.expm1, math.log, math.log10, math.log2, math.log1p)
)
isnan, isfinite = _each(lambda v: v != v, "bool"), _each(math.isfinite, "bool")
isnat = _each(lambda v: v is None, "bool")
abs = _each(builtins.abs, None)
logical_not = _each(lambda v: not v, "bool")


def round(a: Any, digits: int = 0) -> Any:
    """Rounded, halves to even."""
    return _array(a).round(digits) if isinstance(a, ndarray) else float(builtins.round(a, digits))


class _Pairwise:
    """A function of two arrays, with `at`, `reduceat` and `accumulate`."""

    def __init__(self, function: Callable[[Any, Any], Any], kind: str | None = None) -> None:
        self._function, self._result = function, kind

    def __call__(self, a: Any, b: Any, out: ndarray | None = None) -> Any:
        values = _binary(self._function, a, b, self._result)
        if out is not None:
            out[...] = values
        return values

    def at(self, a: ndarray, places: Any, values: Any) -> None:
        many = _array(places).values()
        given = _array(values)
        each = given.values() * len(many) if not given.shape else given.values()
        for i, v in zip(many, each, strict=True):
            a[i] = self._function(a[i], v)

    def accumulate(self, a: ndarray) -> ndarray:
        return ndarray(list(accumulate(a.values(), self._function)), a.shape, a.dtype)

    def reduceat(self, a: Any, starts: Any) -> ndarray:
        x = _array(a)
        values = x.values()
        ends = [*_array(starts).values(), len(values)]
        totals = []
        for i, j in pairwise(ends):
            part = values[i:j] or values[i : i + 1]
            total = part[0]
            for v in part[1:]:
                total = self._function(total, v)
            totals.append(total)
        return ndarray(totals, (len(totals),), x.dtype)


add, maximum, minimum = _Pairwise(operator.add), _Pairwise(builtins.max), _Pairwise(builtins.min)
subtract, multiply = _Pairwise(operator.sub), _Pairwise(operator.mul)
not_equal, equal = _Pairwise(operator.ne, "bool"), _Pairwise(operator.eq, "bool")
logical_or, logical_and = (
    _Pairwise(lambda a, b: bool(a or b), "bool"),
    _Pairwise(lambda a, b: bool(a and b), "bool"),
)


def _method(name: str) -> Callable[..., Any]:
    return lambda a, *rest, **named: getattr(_array(a), name)(*rest, **named)


argsort, argmax, argmin = _method("argsort"), _method("argmax"), _method("argmin")
sum, max, min, mean, any, all = map(_method, ("sum", "max", "min", "mean", "any", "all"))


def sort(a: Any) -> ndarray:
    """The values in order."""
    copied = _array(a).copy()
    copied.sort()
    return copied


def append(a: Any, values: Any) -> ndarray:
    """More values at the end."""
    return concatenate(
        [a, _array(values).ravel() if isinstance(values, ndarray | list) else _array([values])]
    )


def full_like(other: Any, value: Any, dtype: Any = None) -> ndarray:
    """One value in the shape of another."""
    a = _array(other)
    return full(a.shape, value, a.dtype if dtype is None else dtype)


def take(a: Any, places: Any) -> Any:
    """The values at places."""
    return _array(a)[_array(places)]


@contextmanager
def errstate(**_: str) -> Iterator[None]:
    """Plain numbers do not overflow."""
    yield


def nanmin(a: Any) -> float:
    """The smallest number."""
    return builtins.min(v for v in _array(a).values() if v == v)


def nan_to_num(a: Any, nan: float = 0.0) -> ndarray:
    """Another number for NaN."""
    return _array(a).mapped(lambda v: nan if v != v else v, float64)


sign = lambda a: _array(a).mapped(lambda v: (v > 0) - (v < 0), int64)


def nanmax(a: Any) -> float:
    """The largest number."""
    return builtins.max(v for v in _array(a).values() if v == v)


def array_equal(a: Any, b: Any, equal_nan: bool = False) -> bool:
    """Whether both hold the same values."""
    x, y = _array(a), _array(b)
    pairs = zip(x.values(), y.values(), strict=False)
    return x.shape == y.shape and builtins.all(v == w or (equal_nan and v != v and w != w) for v, w in pairs)


def frombuffer(data: Any, dtype: Any = "uint8") -> ndarray:
    """Bytes as small numbers."""
    if _kind(dtype).itemsize != 1:
        raise NotImplementedError("only bytes are read from buffers here")
    return ndarray(list(bytes(data)), (len(data),), _kind(dtype))


class datetime64:  # the name is numpy's
    """A moment; here it is Python's."""

    def __new__(cls, value: Any, unit: str = "") -> Any:
        return None if value == "NaT" else value


class iinfo:  # the name is numpy's
    """The ends of a type of whole numbers."""

    def __init__(self, kind: Any) -> None:
        bits = 8 * _kind(kind).itemsize
        signed = _kind(kind).kind == "i"
        self.max = (1 << bits - signed) - 1
        self.min = -(1 << bits - 1) if signed else 0


def __getattr__(name: str) -> Any:
    raise AttributeError(f"a page without a kernel has no numpy.{name}: open the table in JupyterLab")
