"""ndarray on a list: shape, strides and offset into one flat buffer, so that slices are views.

    values [[1, 2, 3], [4, 5, 6]]   buffer 1 2 3 4 5 6   shape (2, 3)   strides (3, 1)   offset 0

Values are plain Python: bool, int, float, str, None.
Only what the simulator and the pictures use is here; anything else is an AttributeError that names it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import accumulate, compress, repeat
from typing import Any

from numpy.scalars import _divide, _dtype_of, _power, _sum, _wider, dtype

Shape = tuple[int, ...]


def _strides(shape: Shape) -> Shape:
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= n
    return tuple(reversed(out))


def _size(shape: Shape) -> int:
    return math.prod(shape)


class ndarray:  # the name is numpy's
    """Values in one flat buffer."""

    __slots__ = ("buffer", "dtype", "offset", "shape", "steps")

    def __init__(
        self, buffer: list[Any], shape: Shape, kind: dtype, strides: Shape | None = None, offset: int = 0
    ):
        self.buffer, self.shape, self.dtype, self.offset = buffer, shape, kind, offset
        self.steps = _strides(shape) if strides is None else strides

    # what is in it

    def places_in(self) -> Iterable[int]:
        """Positions of the values in the buffer, in order."""
        if not self.shape:
            return (self.offset,)
        last, step = self.shape[-1], self.steps[-1]
        starts: list[int] = [self.offset]
        for n, s in zip(self.shape[:-1], self.steps[:-1], strict=True):
            starts = [at + i * s for at in starts for i in range(n)]
        if len(starts) == 1:
            at = starts[0]
            return range(at, at + last * step, step) if step else [at] * last
        return [at + i * step for at in starts for i in range(last)]

    def values(self) -> list[Any]:
        """The values as a flat list, not to be changed."""
        if self.steps == _strides(self.shape):
            n = _size(self.shape)
            whole = not self.offset and n == len(self.buffer)
            return self.buffer if whole else self.buffer[self.offset : self.offset + n]
        return [self.buffer[i] for i in self.places_in()]

    def tolist(self) -> Any:
        """Nested lists; of an array without axes the value."""
        flat = list(self.values())
        if not self.shape:
            return flat[0]
        for n in reversed(self.shape[1:]):
            flat = (
                [flat[i : i + n] for i in range(0, len(flat), n)]
                if n
                else [[] for _ in range(_size(self.shape[:-1]))]
            )
        return flat

    @property
    def ndim(self) -> int:
        """How many axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many values."""
        return _size(self.shape)

    @property
    def T(self) -> ndarray:
        """The axes in reverse."""
        return ndarray(self.buffer, self.shape[::-1], self.dtype, self.steps[::-1], self.offset)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if len(self.shape) == 1:
            return iter(self.values())
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        (value,) = self.values()
        return bool(value)

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    __index__ = __int__

    def item(self) -> Any:
        """The one value."""
        (value,) = self.values()
        return value

    def __repr__(self) -> str:
        return f"array({self.tolist()!r}, dtype={self.dtype.name})"

    # choosing

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int) and len(self.shape) == 1:
            return self.buffer[self.offset + _at(key, self.shape[0]) * self.steps[0]]
        keys = key if isinstance(key, tuple) else (key,)
        if all(isinstance(k, int | slice) or k is None or k is Ellipsis for k in keys):
            return self._view(keys)
        if len(keys) == 1:
            return self.gathered(_array(keys[0]))
        return self.paired(keys)

    def _view(self, keys: tuple[Any, ...]) -> Any:
        shape, strides, offset, axis = [], [], self.offset, 0
        for k in _without_ellipsis(keys, len(self.shape)):
            if k is None:
                shape.append(1)
                strides.append(0)
                continue
            n, s = self.shape[axis], self.steps[axis]
            axis += 1
            if isinstance(k, slice):
                start, stop, step = k.indices(n)
                shape.append(len(range(start, stop, step)))
                strides.append(s * step)
                offset += start * s
            else:
                offset += _at(k, n) * s
        shape += self.shape[axis:]
        strides += self.steps[axis:]
        if not shape:
            return self.buffer[offset]
        return ndarray(self.buffer, tuple(shape), self.dtype, tuple(strides), offset)

    def gathered(self, at: ndarray) -> ndarray:
        """Rows at these positions, or where these are true."""
        if at.dtype.kind == "b":
            if at.shape == self.shape:
                taken = list(compress(self.values(), at.values()))
                return ndarray(taken, (len(taken),), self.dtype)
            at = ndarray(
                [i for i, chosen in enumerate(at.values()) if chosen], (sum(at.values()),), dtype("int64")
            )
        n, rest = self.shape[0], self.shape[1:]
        flat, width = self.values(), _size(rest)
        if width == 1 and not rest:
            taken = [flat[i] for i in map(int, at.values())]
        else:
            taken = [v for i in at.values() for v in flat[(i % n) * width : (i % n + 1) * width]]
        return ndarray(taken, (*at.shape, *rest), self.dtype)

    def paired(self, keys: tuple[Any, ...]) -> ndarray:
        """One position for each axis, all broadcast together."""
        if len(keys) == 2 and isinstance(keys[0], slice) and keys[0] == slice(None):
            return self.T.gathered(_array(keys[1])).T
        parts, shape = broadcast([_array(k) for k in keys])
        flat, strides = self.values(), _strides(self.shape)
        taken = [
            flat[sum(i % n * s for i, n, s in zip(at, self.shape, strides, strict=True))]
            for at in zip(*parts, strict=True)
        ]
        return ndarray(taken, shape, self.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        convert, buffer = self.dtype.convert, self.buffer
        keys = key if isinstance(key, tuple) else (key,)
        if all(isinstance(k, int | slice) or k is None or k is Ellipsis for k in keys):
            target = self._view_or_place(keys)
            if isinstance(target, int):
                buffer[target] = convert(value if not isinstance(value, ndarray) else value.item())
                return
            places: Iterable[int] = target.places_in()
            shape = target.shape
        else:
            places, shape = self._chosen(key)
        source = _array(value)
        many = _size(shape)
        values: Iterable[Any] = (
            source.values() * many if source.size == 1 else broadcast_to(source, shape).values()
        )
        if source.dtype is not self.dtype:
            values = list(map(convert, values))
        if isinstance(places, range) and many:
            buffer[places.start : places.stop : places.step] = values
            return
        for at, item in zip(places, values, strict=False):
            buffer[at] = item

    def _chosen(self, key: Any) -> tuple[Iterable[int], Shape]:
        """The places in the buffer that arrays choose."""
        if isinstance(key, ndarray) and len(self.shape) == 1 and key.dtype.kind in "iu" and not self.offset:
            return key.values() if self.steps[0] == 1 else [
                i * self.steps[0] for i in key.values()
            ], key.shape
        numbers = ndarray(list(range(self.size)), self.shape, dtype("int64"))[key]
        own = list(self.places_in())
        return [own[i] for i in numbers.values()], numbers.shape

    def _view_or_place(self, keys: tuple[Any, ...]) -> Any:
        if len(keys) == len(self.shape) and all(isinstance(k, int) for k in keys):
            each = zip(keys, self.shape, self.steps, strict=True)
            return self.offset + sum(_at(k, n) * s for k, n, s in each)
        return self._view(keys)

    # other forms

    def astype(self, kind: Any, copy: bool = True) -> ndarray:
        """The values as another type."""
        to = dtype(kind)
        values = list(self.values())
        return ndarray(values if to is self.dtype else list(map(to.convert, values)), self.shape, to)

    def copy(self) -> ndarray:
        """The values once more."""
        return ndarray(list(self.values()), self.shape, self.dtype)

    def reshape(self, *shape: Any) -> ndarray:
        """The values in other axes; −1 stands for what is left."""
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if -1 in wanted:
            rest = self.size // max(-_size(wanted), 1)
            wanted = tuple(rest if n == -1 else n for n in wanted)
        return ndarray(list(self.values()), wanted, self.dtype)

    def ravel(self) -> ndarray:
        """All values in one axis."""
        return self.reshape(-1) if self.size else ndarray([], (0,), self.dtype)

    flatten = ravel

    def view(self, kind: Any = None) -> ndarray:
        """The same values; other types of them are not told apart here."""
        return self

    # sums and order

    def along(
        self,
        function: Callable[[list[Any]], Any],
        axis: int | None,
        kind: dtype | None = None,
        keepdims: bool = False,
    ) -> Any:
        """What a function of lists gives of all values, or along an axis."""
        if axis is None:
            return function(self.values())
        turned = self if axis in (-1, len(self.shape) - 1) else self.T
        n = turned.shape[-1]
        flat = turned.values()
        results = [function(flat[i : i + n]) for i in range(0, len(flat), n)] if n else []
        if results and isinstance(results[0], list):
            array = ndarray([v for row in results for v in row], turned.shape, kind or self.dtype)
            return array if turned is self else array.T.copy()
        shape = turned.shape[:-1]
        return (
            ndarray(results, (*shape, 1) if keepdims else shape, kind or _dtype_of(results))
            if shape
            else results[0]
        )

    def sum(self, axis: int | None = None, dtype: Any = None) -> Any:
        """The sum."""
        return self.along(_sum if self.dtype.kind == "f" else sum, axis)

    def max(self, axis: int | None = None, initial: Any = None) -> Any:
        """The largest value."""
        return self.along(lambda v: max(v) if initial is None else max([initial, *v]), axis)

    def min(self, axis: int | None = None, initial: Any = None) -> Any:
        """The smallest value."""
        return self.along(lambda v: min(v) if initial is None else min([initial, *v]), axis)

    def mean(self, axis: int | None = None) -> Any:
        """The mean."""
        return self.along(lambda v: _sum(v) / len(v), axis)

    def any(self, axis: int | None = None) -> Any:
        """Whether any is true."""
        return self.along(any, axis)

    def all(self, axis: int | None = None) -> Any:
        """Whether all are true."""
        return self.along(all, axis)

    def cumsum(self, axis: int | None = None) -> ndarray:
        """Running sums."""
        numbers = self if self.dtype.kind != "b" else self.astype("int64")
        return numbers.along(lambda v: list(accumulate(v)), -1 if axis is None else axis)

    def argmax(self, axis: int | None = None) -> Any:
        """Where the first largest value is."""
        return self.along(lambda v: max(range(len(v)), key=v.__getitem__), axis)

    def argmin(self, axis: int | None = None) -> Any:
        """Where the first smallest value is."""
        return self.along(lambda v: min(range(len(v)), key=v.__getitem__), axis)

    def argsort(self, axis: int | None = -1, kind: str | None = None, stable: bool = True) -> ndarray:
        """Positions in order; equal values keep theirs."""
        return self.along(
            lambda v: sorted(range(len(v)), key=v.__getitem__), -1 if axis is None else axis, dtype("int64")
        )

    def sort(self, axis: int = -1, kind: str | None = None) -> None:
        """Put the values in order here."""
        self[...] = self.along(lambda v: sorted(v), axis)

    def clip(self, low: Any = None, high: Any = None) -> ndarray:
        """The values, none beyond the ends."""
        clipped = self if low is None else _binary(max, self, low)
        return clipped if high is None else _binary(min, clipped, high)

    def round(self, digits: int = 0) -> ndarray:
        """Rounded, halves to even."""
        return self.mapped(lambda v: float(round(v, digits)) if digits else float(round(v)), dtype("float64"))

    def repeat(self, counts: Any) -> ndarray:
        """Each value so many times."""
        many = _array(counts)
        each = many.values() * len(self.values()) if many.size == 1 else many.values()
        values = [v for v, n in zip(self.values(), each, strict=True) for _ in range(n)]
        return ndarray(values, (len(values),), self.dtype)

    def nonzero(self) -> tuple[ndarray, ...]:
        """Where values are true."""
        places = [i for i, v in enumerate(self.values()) if v]
        return (ndarray(places, (len(places),), dtype("int64")),)

    def mapped(self, function: Callable[[Any], Any], kind: dtype | None = None) -> ndarray:
        values = list(map(function, self.values()))
        return ndarray(values, self.shape, kind or _dtype_of(values))


def _at(i: int, n: int) -> int:
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for axis with size {n}")
    return i % n if n else 0


def _without_ellipsis(keys: tuple[Any, ...], axes: int) -> list[Any]:
    used = sum(k is not None and k is not Ellipsis for k in keys)
    return [part for k in keys for part in ([slice(None)] * (axes - used) if k is Ellipsis else [k])]


def _array(value: Any, kind: Any = None) -> ndarray:
    """Anything as an array."""
    if isinstance(value, ndarray):
        return value if kind is None or dtype(kind) is value.dtype else value.astype(kind)
    if hasattr(value, "to_numpy"):
        return _array(value.to_numpy(), kind)
    if isinstance(value, list | tuple | range):
        items = [item.tolist() if isinstance(item, ndarray) else item for item in value]
        if items and isinstance(items[0], list | tuple):
            parts = [_array(item, kind) for item in items]
            values = [v for part in parts for v in part.values()]
            array = ndarray(values, (len(parts), *parts[0].shape), _dtype_of(values))
        else:
            array = ndarray(items, (len(items),), _dtype_of(items))
    else:
        array = ndarray([value], (), _dtype_of([value]))
    return array if kind is None else array.astype(kind)


def broadcast_to(a: ndarray, shape: Shape) -> ndarray:
    """The values repeated along axes of length 1."""
    if a.shape == shape:
        return a
    ahead = len(shape) - len(a.shape)
    strides = [0] * ahead
    for n, m, s in zip(a.shape, shape[ahead:], a.steps, strict=True):
        if n != m and n != 1:
            raise ValueError(f"operands could not be broadcast together with shapes {a.shape} {shape}")
        strides.append(0 if n == 1 and m != 1 else s)
    return ndarray(a.buffer, shape, a.dtype, tuple(strides), a.offset)


def broadcast(parts: list[ndarray]) -> tuple[list[list[Any]], Shape]:
    """The values of all in one shape, and that shape."""
    axes = max(len(p.shape) for p in parts)
    padded = [(1,) * (axes - len(p.shape)) + p.shape for p in parts]
    shape = tuple(max(ns) if 0 not in ns else 0 for ns in zip(*padded, strict=True)) if axes else ()
    return [broadcast_to(p, shape).values() for p in parts], shape


def _with_number(function: Callable[[Any, Any], Any], values: list[Any], number: Any) -> list[Any]:
    """A function of each value and a number; by Python's own operators where they give the same."""
    if function is _divide and number:
        return [v / number for v in values]
    if function is _power:
        with suppress(ZeroDivisionError, OverflowError):
            return [v**number for v in values]
    return list(map(function, values, repeat(number)))


def _binary(function: Callable[[Any, Any], Any], a: Any, b: Any, kind: str | None = None) -> Any:
    """A function of two, value by value. `kind` is the type of the result if it does not follow from both."""
    x, y = _array(a), _array(b)
    if y.size == 1 and not y.shape and x.shape:
        values, shape = _with_number(function, x.values(), y.values()[0]), x.shape
    elif x.shape == y.shape:
        values, shape = list(map(function, x.values(), y.values())), x.shape
    else:
        (left, right), shape = broadcast([x, y])
        values = list(map(function, left, right))
    if not shape:
        return values[0]
    to = dtype(kind) if kind else _wider(x.dtype, y.dtype)
    if to.kind == "b" and kind is None:
        to = _dtype_of(values)
    if to.kind == "f" and kind is None and values and type(values[0]) is not float:
        values = list(map(float, values))
    return ndarray(values, shape, to)


def _operators() -> None:
    """Give ndarray its operators."""

    def both(function: Callable[[Any, Any], Any], kind: str | None) -> tuple[Any, Any]:
        return (lambda s, o: _binary(function, s, o, kind)), (
            lambda s, o: _binary(function, _array(o), s, kind)
        )

    arithmetic: dict[str, tuple[Callable[[Any, Any], Any], str | None]] = {
        "add": (operator.add, None), "sub": (operator.sub, None), "mul": (operator.mul, None),
        "truediv": (_divide, "float64"), "floordiv": (operator.floordiv, None), "mod": (operator.mod, None),
        "pow": (_power, None), "and": (operator.and_, None),
        "or": (operator.or_, None), "xor": (operator.xor, None),
    }  # fmt: skip
    for name, (function, kind) in arithmetic.items():
        here, there = both(function, kind)
        setattr(ndarray, f"__{name}__", here)
        setattr(ndarray, f"__r{name}__", there)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(ndarray, f"__{name}__", both(getattr(operator, name), "bool")[0])
    ndarray.__neg__ = lambda self: self.mapped(operator.neg, self.dtype)
    ndarray.__abs__ = lambda self: self.mapped(abs, self.dtype)
    ndarray.__invert__ = lambda self: self.mapped(operator.not_, self.dtype)
    ndarray.__hash__ = None

    def into(name: str) -> Callable[[ndarray, Any], ndarray]:
        function = getattr(operator, name)

        def change(self: ndarray, other: Any) -> ndarray:
            self[...] = function(self, other)
            return self

        return change

    for name in ("add", "sub", "mul", "and_", "or_"):
        setattr(ndarray, f"__i{name.rstrip('_')}__", into(name))


_operators()
