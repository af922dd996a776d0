"""sum and product, with Java's arithmetic: exact, and an overflow is an error.

INT types: whole groups at once; every partial sum must fit, as Java adds one row at a time.
FLOAT and DOUBLE: in merge order, one rounding a row. DECIMAL: precision up to 18 is kept in 64 bits and may
outgrow the digits of its type (199.98 in a DECIMAL(4, 2)), beyond that a sum with too many digits becomes
NULL. Memory: a few int64 columns of the groups. Pure.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format import binary_row
from tablestore.format.types.arrow_types import DataType, to_arrow
from tablestore.lsm.merge.aggregators.choose import present
from tablestore.lsm.merge.walk import ADD, OLDER, RETRACT, SET, SKIP, Failures, Walk

_JAVA = {"TINYINT": "byte", "SMALLINT": "short", "INT": "int", "BIGINT": "long"}
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_ROUNDED = decimal.Context(prec=200)
_EXACT = decimal.Context(prec=200, traps=[decimal.Inexact, decimal.DivisionByZero, decimal.InvalidOperation])


def _limits(bits: int) -> tuple[int, int]:
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _decimals(words: np.ndarray, valid: np.ndarray, t: DataType) -> pa.Array:
    """The decimal column of unscaled values (int64 or objects), which may have more digits than the type."""
    both = np.empty((len(words), 2), dtype=np.int64)
    both[:, 0] = words if words.dtype == np.int64 else (words & 2**64 - 1).astype(np.uint64).view(np.int64)
    both[:, 1] = words >> (63 if words.dtype == np.int64 else 64)
    bits = np.packbits(valid, bitorder="little")
    buffers = [pa.py_buffer(bits.tobytes()), pa.py_buffer(both.tobytes())]
    return pa.Array.from_buffers(to_arrow(t), len(words), buffers)


@dataclass(frozen=True, slots=True)
class _Terms:
    """The rows of a sum: `values` (0 for rows that do not count), `live` where a value counts, `minus` where
    it is subtracted."""

    values: np.ndarray
    live: np.ndarray
    minus: np.ndarray
    walk: Walk

    @classmethod
    def of(cls, column: pa.Array, values: np.ndarray, walk: Walk) -> _Terms:
        live = (walk.actions != SKIP) & walk.since_set() & present(column, walk.rows)
        zero = values.dtype.type(0)
        return cls(np.where(live, values[walk.rows], zero), live, walk.actions == RETRACT, walk)

    @property
    def present(self) -> np.ndarray:
        """Whether each group has a value."""
        return self.walk.any(self.live)


@dataclass(frozen=True, slots=True)
class Sum:
    """Adds; a retract subtracts, from 0 if there is no sum yet."""

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One sum a group."""
        if t.root in _BITS:
            terms = _Terms.of(column, binary_row.signed(column), walk)
            totals, broken = _summed(terms, _BITS[t.root])
            for group, before, value, sign in broken:
                failures.add(group, name, f"{_JAVA[t.root]} overflow: {before} {sign} {value}")
            mask = ~terms.present
            mask[[g for g, *_ in broken]] = True
            return pa.array(np.where(mask, 0, totals), mask=mask).cast(to_arrow(t))
        if t.root in ("FLOAT", "DOUBLE"):
            return _float_sum(column, t, walk)
        if t.precision > 18:
            return _wide_sum(column, t, walk)
        return _narrow_sum(name, column, t, walk, failures)


def _summed(terms: _Terms, bits: int) -> tuple[np.ndarray, list[tuple[int, int, int, str]]]:
    """(totals, overflows); an overflow is (group, sum before, value, sign)."""
    walk, values = terms.walk, terms.values
    signed = np.where(terms.minus, -values, values)  # −(−2⁶³) wraps; the check below looks at `values`
    after = np.cumsum(signed)
    base = after[walk.starts] - signed[walk.starts]
    after = after - base[walk.group_of]
    before = after - signed
    if bits == 64:
        other = np.where(terms.minus, ~values, values)
        wrong = ((before ^ after) & (other ^ after)) < 0
    else:
        low, high = _limits(bits)
        wrong = (after < low) | (after > high)
    broken = []
    if wrong.any():
        first = walk.first(wrong)
        for group in np.flatnonzero(first < len(wrong)):
            at = first[group]
            sign = "-" if terms.minus[at] else "+"
            broken.append((int(group), int(before[at]), int(values[at]), sign))
    return after[walk.ends - 1], broken


def _float_sum(column: pa.Array, t: DataType, walk: Walk) -> pa.Array:
    kind = np.float32 if t.root == "FLOAT" else np.float64
    filled = column.fill_null(pa.scalar(0, column.type)) if column.null_count else column
    terms = _Terms.of(column, filled.to_numpy(zero_copy_only=False).astype(kind), walk)
    values = np.where(terms.minus, -terms.values, terms.values)
    first = walk.first(terms.live)
    some = first < len(values)
    totals = np.where(some, values[np.minimum(first, len(values) - 1)], kind(0))
    rest = terms.live & (np.arange(len(values)) > first[walk.group_of])
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(totals, walk.group_of[rest], values[rest])  # one by one, in order
    return pa.array(totals.astype(kind), to_arrow(t), mask=~some)


def _narrow_sum(name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
    words = binary_row.decimal_words(column)[0].view(np.int64)
    terms = _Terms.of(column, words, walk)
    totals, broken = _summed(terms, 64)
    valid = terms.present
    if broken:
        exact = _each_decimal(column, t, walk, [g for g, *_ in broken])
        for (group, *_), value in zip(broken, exact, strict=True):
            valid[group] = value is not None
            totals[group] = 0 if value is None else int(value.scaleb(t.scale, _EXACT))
    low, high = _limits(32 if t.precision <= 9 else 64)
    for group in np.flatnonzero((totals < low) | (totals > high)).tolist():
        text = f"decimal overflow: {decimal.Decimal(int(totals[group])).scaleb(-t.scale)} in {t}"
        failures.add(int(group), name, text)
    return _decimals(totals, valid, t)


def _wide_sum(column: pa.Array, t: DataType, walk: Walk) -> pa.Array:
    """Sums by Arrow in 256 bits; groups whose partial sums may have too many digits are summed row by row."""
    live = (walk.actions != SKIP) & walk.since_set() & present(column, walk.rows)
    groups = walk.group_of[live]
    values = column.take(pa.array(walk.rows[live])).cast(pa.decimal256(76, t.scale))
    signed = pc.if_else(pa.array(walk.actions[live] == RETRACT), pc.negate(values), values)
    table = pa.table({"g": groups, "x": signed, "size": pc.abs(signed)})
    sums = table.group_by("g", use_threads=False).aggregate([("x", "sum"), ("size", "sum")])
    limit = pa.scalar(decimal.Decimal(10**t.precision - 1).scaleb(-t.scale, _EXACT), values.type)
    risky = pc.greater(sums.column("size_sum"), limit).combine_chunks()
    totals = pc.if_else(risky, None, sums.column("x_sum").combine_chunks()).cast(to_arrow(t))
    index = np.full(len(walk.starts), -1)
    at = sums.column("g").to_numpy()
    index[at] = np.arange(len(at))
    by_group = totals.take(pa.array(index, mask=index < 0))
    again = at[risky.to_numpy(zero_copy_only=False)]
    if not len(again):
        return by_group
    exact = pa.array(_each_decimal(column, t, walk, list(again)), by_group.type)
    index = np.arange(len(walk.starts))
    index[again] = len(walk.starts) + np.arange(len(again))
    return pa.concat_arrays([by_group, exact]).take(pa.array(index))


def _each_decimal(
    column: pa.Array, t: DataType, walk: Walk, groups: list[int]
) -> list[decimal.Decimal | None]:
    """The sums of a few groups, row by row: one with too many digits becomes NULL, and the next value starts
    a new sum."""
    low, high = _limits(64) if t.precision <= 18 else (1 - 10**t.precision, 10**t.precision - 1)
    sums = []
    for group in groups:
        total: decimal.Decimal | None = None
        for place in range(int(walk.starts[group]), int(walk.ends[group])):
            action, value = walk.actions[place], column[int(walk.rows[place])].as_py()
            if action == SET:
                total = value
            elif action != SKIP and value is not None:
                term = -value if action == RETRACT else value
                total = term if total is None else _EXACT.add(total, term)
                total = total if low <= total.scaleb(t.scale, _EXACT) <= high else None
        sums.append(total)
    return sums


@dataclass(frozen=True, slots=True)
class Product:
    """Multiplies; a retract divides, integers towards zero, and of NULL stays NULL. Keys with retracts, or
    whose integers may overflow, are computed row by row for all keys at once (quotients of DECIMAL: key by
    key)."""

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One product a group."""
        if t.root == "DECIMAL":
            return _decimal_product(name, column, t, walk, failures)
        filled = column.fill_null(pa.scalar(0, column.type)) if column.null_count else column
        values = filled.to_numpy(zero_copy_only=False)
        whole = t.root in _BITS
        values = values.astype(np.int64) if whole else values
        valid = present(column, walk.rows)
        accumulated, some, done = _plain_products(values, valid, walk, _BITS.get(t.root))
        for groups, places in walk.rounds(np.flatnonzero(~done)):
            action, x, there = walk.actions[places], values[walk.rows[places]], valid[places]
            acc, had = accumulated[groups], some[groups]
            starts = (action == SET) | (((action == ADD) | (action == OLDER)) & there & ~had)
            times = ((action == ADD) | (action == OLDER)) & there & had
            over = (action == RETRACT) & there & had
            if whole:
                product, bad = _integer_step(acc, x, times, over, _BITS[t.root])
                for i in np.flatnonzero(bad):
                    failures.add(int(groups[i]), name, _why(t.root, acc[i], x[i], "*" if times[i] else "/"))
            else:
                with np.errstate(all="ignore"):
                    product = np.where(times, acc * x, np.where(over, acc / x, acc)).astype(values.dtype)
            accumulated[groups] = np.where(starts, x, product)
            some[groups] = np.where(action == SET, there, had | starts)
        return pa.array(np.where(some, accumulated, 0).astype(values.dtype), mask=~some).cast(to_arrow(t))


def _plain_products(
    values: np.ndarray, valid: np.ndarray, walk: Walk, bits: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(products, which groups have one, which are done): done are groups whose rows only add and whose
    integers are so small that no step overflows."""
    live = valid & (walk.actions != SKIP)
    factors = np.where(live, values[walk.rows], values.dtype.type(1))
    done = ~walk.any((walk.actions == RETRACT) | (walk.actions == SET))
    if bits is not None:
        digits = np.log2(np.maximum(np.abs(factors.astype(np.float64)), 1))
        done &= np.add.reduceat(digits, walk.starts) < bits - 1.001
    with np.errstate(all="ignore"):
        products = np.multiply.reduceat(factors, walk.starts)
    return np.where(done, products, values.dtype.type(0)), done & walk.any(live), done


def _why(root: str, accumulated: np.int64, value: np.int64, sign: str) -> str:
    if sign == "/" and value == 0:
        return "/ by zero"
    return f"{_JAVA[root]} overflow: {accumulated} {sign} {value}"


def _integer_step(
    acc: np.ndarray, x: np.ndarray, times: np.ndarray, over: np.ndarray, bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """(products or quotients, where they overflow); division rounds towards zero, as in Java."""
    low, high = _limits(bits)
    with np.errstate(all="ignore"):
        product = acc * x
        big = np.abs(acc.astype(np.float64) * x.astype(np.float64)) > 2.0**62
        exact = ~big | (x == 0) | ((product // np.where(x == 0, 1, x) == acc) & ~((x == -1) & (acc == low)))
    exact &= (product >= low) & (product <= high)
    divisor = np.where(x == 0, 1, x)
    wraps = (acc == low) & (x == -1)
    safe = np.where(wraps, 0, acc)
    quotient = np.abs(safe) // np.abs(divisor) * np.sign(safe) * np.sign(divisor)
    is_min = (acc == low) & ~wraps  # |−2⁶³| has no int64
    if bits == 64 and is_min.any():
        quotient[is_min] = [-((2**63) // abs(int(d))) * (1 if d > 0 else -1) for d in divisor[is_min]]
    bad = (times & ~exact) | (over & ((x == 0) | wraps))
    return np.where(times & exact, product, np.where(over & ~bad, quotient, acc)), bad


def _decimal_product(name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
    """Products rounded half up to the scale; NULL if there are too many digits, as in Java.

    Row by row for all keys at once; key by key for divisions, and where 64 bits overflow in a type of up to
    18 digits.
    """
    products, valid, too_large = _products(column, t, walk)
    singly = walk.any(walk.actions == RETRACT) | too_large
    at_once = _decimals(np.where(valid, products, 0), valid & ~singly, t)
    groups = np.flatnonzero(singly)
    if not len(groups):
        return at_once
    one_by_one = [_each_product(name, column, t, walk, failures, int(g)) for g in groups]
    index = np.arange(len(walk.starts))
    index[groups] = len(index) + np.arange(len(groups))
    return pa.concat_arrays([at_once, pa.array(one_by_one, to_arrow(t))]).take(pa.array(index))


def _products(column: pa.Array, t: DataType, walk: Walk) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(unscaled products, which groups have one, which overflow 64 bits); Python integers beyond 18
    digits."""
    low, high = binary_row.decimal_words(column)
    words, valid = low.view(np.int64), present(column, walk.rows)
    unit, limit = 10**t.scale, 10**t.precision
    narrow = t.precision <= 18
    if not narrow:
        words = (high.view(np.int64).astype(object) << 64) + low.view(np.uint64).astype(object)
    accumulated, some = np.zeros(len(walk.starts), dtype=words.dtype), np.zeros(len(walk.starts), dtype=bool)
    large = np.zeros(len(walk.starts), dtype=bool)
    for groups, places in walk.rounds():
        action, x, there = walk.actions[places], words[walk.rows[places]], valid[places]
        acc, had = accumulated[groups], some[groups]
        adds = ((action == ADD) | (action == OLDER)) & there
        if narrow:
            large[groups] |= adds & had & (np.abs(acc.astype(np.float64) * x) > 2.0**61)
        with np.errstate(over="ignore"):
            raw = acc * x
        rounded = np.sign(raw) * ((np.abs(raw) + unit // 2) // unit)
        fits = np.abs(rounded) < limit
        starts = (action == SET) | (adds & ~had)
        accumulated[groups] = np.where(starts, x, np.where(adds, rounded, acc))
        some[groups] = np.where(action == SET, there, np.where(adds & had, fits, had | starts))
    return accumulated, some, large


def _each_product(
    name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures, group: int
) -> decimal.Decimal | None:
    """The product of one group."""
    unit, limit = decimal.Decimal(1).scaleb(-t.scale), decimal.Decimal(10) ** (t.precision - t.scale)
    start, end = int(walk.starts[group]), int(walk.ends[group])
    values = column.take(pa.array(walk.rows[start:end])).to_pylist()
    accumulated: decimal.Decimal | None = None
    for action, value in zip(walk.actions[start:end], values, strict=True):
        if action == SET or (action in (ADD, OLDER) and accumulated is None):
            accumulated = value
            continue
        if action == SKIP or accumulated is None or value is None:
            continue
        try:
            product = (
                _EXACT.divide(accumulated, value)
                if action == RETRACT
                else _EXACT.multiply(accumulated, value)
            )
        except decimal.Inexact:
            failures.add(group, name, f"{accumulated} / {value} has no finite decimal form")
            return None
        except (decimal.DivisionByZero, decimal.InvalidOperation):
            failures.add(group, name, "/ by zero")
            return None
        product = product.quantize(unit, decimal.ROUND_HALF_UP, _ROUNDED)
        accumulated = product if abs(product) < limit else None
    return accumulated
