"""Rows → a chart of few values, with the words that say what was summed, joined or left out.

Rows pass once, batch by batch. What is kept of them is bounded, however many pass: sums by value, sums by
bins of an axis, a sample. Pure: Arrow batches → `Chart`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.chart.axes import LABEL, TIME, Axes, sort_of
from widgets.kit import format as fmt

MOST_SUMS = 100_000
"""Values that have sums of their own; those that first appear after them share one."""
BINS = 1024
_LARGEST = 1e300  # beyond it the span of an axis has no number
_FOLDS = (("rows", "sum"), ("total", "sum"), ("valued", "sum"), ("low", "min"), ("high", "max"))


def numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A column of numbers as floats, NaN where there is none."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    floats = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(floats), floats, np.nan)


class ValueGroups:
    """Sums of columns by the values of another, for at most `most` values in the order they first appear."""

    def __init__(self, key: pa.DataType, series: int, *, most: int = MOST_SUMS) -> None:
        self._series, self._most = series, most
        self._schema = pa.schema([("key", key), ("rows", pa.int64()), *self._columns()])
        self.sums = self._schema.empty_table()
        self.beyond = self._schema.empty_table()
        self._pending: list[pa.Table] = []
        self._waiting = 0

    def _columns(self) -> list[tuple[str, pa.DataType]]:
        return [
            (f"{what}{at}", pa.int64() if what == "valued" else pa.float64())
            for at in range(self._series)
            for what in ("total", "valued", "low", "high")
        ]

    def add(self, keys: pa.Array, values: Sequence[np.ndarray]) -> None:
        """The rows of a batch."""
        columns: list[pa.Array] = [keys, pa.array(np.ones(len(keys), np.int64))]
        for column in values:
            there = ~np.isnan(column)
            value = pa.array(column, pa.float64(), mask=~there)
            columns += [value, pa.array(there.astype(np.int64)), value, value]
        self._pending.append(self._folded(pa.table(columns, schema=self._schema)))
        self._waiting += self._pending[-1].num_rows
        if self._waiting > self._most:
            self.settle()

    def settle(self) -> ValueGroups:
        """The same, with all rows in `sums` and `beyond`."""
        settled = self._folded(pa.concat_tables([self.sums, *self._pending]))
        self._pending, self._waiting = [], 0
        self.sums = settled.slice(0, self._most)
        late = settled.slice(self._most)
        if late.num_rows:
            nulls = pa.nulls(late.num_rows, self._schema.field("key").type)
            late = pa.concat_tables([self.beyond, late.set_column(0, self._schema.field("key"), nulls)])
            self.beyond = self._folded(late)
        return self

    def _folded(self, rows: pa.Table) -> pa.Table:
        names = [name for name in rows.column_names if name != "key"]
        folds = [(name, dict(_FOLDS)[name.rstrip("0123456789")]) for name in names]
        folded = rows.group_by("key", use_threads=False).aggregate(folds)
        return folded.rename_columns(["key", *names]).cast(self._schema)


class ValueBins:
    """Rows, sums, minima and maxima of columns by `BINS` bins of equal width over an axis that grows.

    Widths are powers of two times `unit`, the least width (0: any); when a value lies outside, bins are
    joined in pairs, so that counts stay exact. ValueBins without rows have NaN in `low` and `high`.
    """

    def __init__(self, series: int, *, unit: float = 0.0) -> None:
        self._unit = unit
        self.start, self.width = math.nan, 0.0
        self.rows = np.zeros(BINS, np.int64)
        self.totals, self.valued = np.zeros((series, BINS)), np.zeros((series, BINS), np.int64)
        self.low, self.high = np.full((series, BINS), np.nan), np.full((series, BINS), np.nan)

    def add(self, at: np.ndarray, values: Sequence[np.ndarray]) -> None:
        """The rows of a batch; those whose place is no number, or beyond all measure, are left out."""
        inside = np.abs(at) <= _LARGEST  # NaN is not
        at = at[inside]
        if not len(at):
            return
        self._cover(float(at.min()), float(at.max()))
        places = np.clip(((at - self.start) / self.width).astype(np.int64), 0, BINS - 1)
        np.add.at(self.rows, places, 1)
        for place, column in enumerate(values):
            value = column[inside]
            there = ~np.isnan(value)
            where, value = places[there], value[there]
            np.add.at(self.totals[place], where, value)
            np.add.at(self.valued[place], where, 1)
            np.fmin.at(self.low[place], where, value)
            np.fmax.at(self.high[place], where, value)

    def _cover(self, low: float, high: float) -> None:
        if math.isnan(self.start):
            least = self._unit or max(abs(low), abs(high), 1e-290) * 2.0**-40
            span = max((high - low) / BINS, least)
            unit = self._unit or 1.0
            self.width = unit * 2.0 ** math.ceil(math.log2(span / unit))
            self.start = math.floor(low / self.width) * self.width
        while low < self.start:
            self._join(left=True)
        while high >= self.start + self.width * BINS:
            self._join(left=False)

    def _join(self, *, left: bool) -> None:
        """ValueBins twice as wide; the room that this makes is at the left or at the right."""
        if left:
            self.start -= self.width * BINS
        self.width *= 2
        half = slice(BINS // 2, BINS) if left else slice(0, BINS // 2)
        for kept, join, empty in (
            (self.rows[None], np.add, 0),
            (self.totals, np.add, 0),
            (self.valued, np.add, 0),
            (self.low, np.fmin, np.nan),
            (self.high, np.fmax, np.nan),
        ):
            joined = join(kept[:, 0::2], kept[:, 1::2])
            kept[:] = empty
            kept[:, half] = joined


class ValueSample:
    """At most `most` of the rows that pass, each with the same chance; the same rows give the same sample."""

    def __init__(self, columns: int, *, most: int) -> None:
        self._most, self._chance = most, np.random.default_rng(0)
        self._draws = np.zeros(0)
        self.columns = [np.zeros(0) for _ in range(columns)]

    def add(self, columns: Sequence[np.ndarray]) -> None:
        """The rows of a batch."""
        draws = np.concatenate([self._draws, self._chance.random(len(columns[0]))])
        joined = [np.concatenate(pair) for pair in zip(self.columns, columns, strict=True)]
        if len(draws) > self._most:
            kept = np.sort(np.argpartition(draws, self._most)[: self._most])
            draws, joined = draws[kept], [column[kept] for column in joined]
        self._draws, self.columns = draws, joined


MOST_BARS, MOST_PLACES, MOST_POINTS, MOST_COLUMNS = 40, 2_000, 5_000, 48
_LABEL = 40  # characters of a label
_PART = 1 << 17  # rows
_DAY = 86_400_000_000.0  # microseconds


@dataclass(frozen=True, slots=True)
class Series:
    """The numbers of one column, NaN where there are none; `low` and `high` of what was joined, or none."""

    name: str
    values: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """Labels of bars are `labels`, places of lines, points and columns `places`: numbers, or times of numpy.
    `width` is that of the columns of a histogram, in the unit of its places (microseconds for times)."""

    axes: Axes
    title: str
    words: str
    series: tuple[Series, ...]
    labels: tuple[str, ...] = ()
    places: np.ndarray | None = None
    width: float = 0.0


def chart_of(schema: pa.Schema, batches: Iterable[pa.RecordBatch], axes: Axes) -> Chart:
    """The chart of rows with these columns."""
    field = schema.field(axes.x)
    batches = (part for batch in batches for part in _parts(batch))
    if axes.kind == "bars":
        return _bars(field, batches, axes)
    if axes.kind == "lines":
        return _lines(field, batches, axes)
    return _histogram(field, batches, axes) if axes.kind == "histogram" else _points(field, batches, axes)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces whose numbers need little memory."""
    return (batch.slice(at, _PART) for at in range(0, batch.num_rows, _PART))


def _title(axes: Axes) -> str:
    if axes.kind == "histogram":
        return f"rows by {axes.x}"
    what = ", ".join(axes.y) or "rows"
    of = f"{axes.how} of " if axes.how not in ("", "count") else ""
    return f"{of}{what} {'over' if axes.kind != 'bars' else 'by'} {axes.x}"


def _values(batch: pa.RecordBatch, axes: Axes) -> list[np.ndarray]:
    return [numbers(batch[name]) for name in axes.y]


def _positions(column: pa.Array) -> np.ndarray:
    """The places of a column on its axis, NaN where it has none: times as microseconds after 1970."""
    if sort_of(column.type) != TIME:
        return numbers(column)
    moments = pc.cast(column, pa.timestamp("us", getattr(column.type, "tz", None)), safe=False)
    return numbers(moments.cast(pa.int64()))


def _as_times(places: np.ndarray, field: pa.Field) -> np.ndarray:
    return places.astype("int64").astype("datetime64[us]") if sort_of(field.type) == TIME else places


def _unit(kind: pa.DataType) -> float:
    """The least distance of two values."""
    if pa.types.is_date(kind):
        return _DAY
    return 1.0 if pa.types.is_integer(kind) or sort_of(kind) == TIME else 0.0


def _keys(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if sort_of(column.type) != LABEL else column.cast(pa.string())


def _key_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if sort_of(kind) == LABEL else kind


def _folded(sums: pa.Table, axes: Axes) -> tuple[Series, ...]:
    """One number for each value and column, by `how`."""
    if axes.how == "count":
        return (Series("rows", sums["rows"].to_numpy().astype(float)),)
    series = []
    for at, name in enumerate(axes.y):
        total, valued, low, high = (
            numbers(sums[f"{what}{at}"]) for what in ("total", "valued", "low", "high")
        )
        with np.errstate(invalid="ignore"):
            chosen = {
                "sum": total,
                "mean": total / np.where(valued > 0, valued, np.nan),
                "min": low,
                "max": high,
            }
        series.append(Series(name, chosen[axes.how]))
    return tuple(series)


def _bars(field: pa.Field, batches: Iterable[pa.RecordBatch], axes: Axes) -> Chart:
    groups, rows = ValueGroups(_key_type(field.type), len(axes.y)), 0
    for batch in batches:
        rows += batch.num_rows
        groups.add(_keys(batch[axes.x]), _values(batch, axes))
    sums = groups.settle().sums
    series = _folded(sums, axes)
    order = np.argsort(-np.nan_to_num(series[0].values, nan=-np.inf), kind="stable")
    count, left = len(order), groups.beyond["rows"].to_pylist()
    order = order[:MOST_BARS]
    shown = sums["key"].take(pa.array(order))
    if sort_of(field.type) != LABEL:  # numbers and times keep their order
        order = order[np.asarray(pc.sort_indices(shown))]
        shown = sums["key"].take(pa.array(order))
    said = [fmt.plural(rows, "row")]
    if count > len(order):
        said.append(f"the greatest {len(order)} of {count:,} values")
    if left:
        said.append(f"{left[0]:,} rows of values that first appear after {count:,} others are in no bar")
    labels = tuple("NULL" if text is None else _short(text) for text in shown.cast(pa.string()).to_pylist())
    return Chart(
        axes, _title(axes), " · ".join(said), tuple(Series(s.name, s.values[order]) for s in series), labels
    )


def _short(text: str) -> str:
    shown = fmt.value(text[: 2 * _LABEL]) or ""
    return shown if len(text) <= _LABEL else f"{shown[: _LABEL - 1]}…"


def _lines(field: pa.Field, batches: Iterable[pa.RecordBatch], axes: Axes) -> Chart:
    groups: ValueGroups | None = ValueGroups(pa.float64(), len(axes.y), most=MOST_PLACES)
    bins, rows, placed = ValueBins(len(axes.y), unit=_unit(field.type)), 0, 0
    for batch in batches:
        at, values = _positions(batch[axes.x]), _values(batch, axes)
        rows += len(at)
        bins.add(at, values)
        there = ~np.isnan(at)
        placed += int(there.sum())
        if groups is not None:
            groups.add(pa.array(at[there]), [column[there] for column in values])
            groups = groups if not groups.beyond.num_rows else None
    said = [fmt.plural(rows, "row")]
    if rows > placed:
        said.append(f"{rows - placed:,} without {axes.x} left out")
    if groups is not None and not groups.settle().beyond.num_rows:
        sums = groups.sums.sort_by("key")
        places = sums["key"].to_numpy()
        return Chart(
            axes, _title(axes), " · ".join(said), _folded(sums, axes), places=_as_times(places, field)
        )
    used = np.flatnonzero(bins.rows)
    said.append(f"joined to {len(used):,} places")
    if axes.how in ("mean", "sum"):
        said.append("the band is from minimum to maximum" if axes.how == "mean" else "sums of each place")
    middle = bins.start + (used + (0.0 if _unit(field.type) else 0.5)) * bins.width
    series = _binned(bins, used, axes)
    return Chart(axes, _title(axes), " · ".join(said), series, places=_as_times(middle, field))


def _binned(bins: ValueBins, used: np.ndarray, axes: Axes) -> tuple[Series, ...]:
    if axes.how == "count":
        return (Series("rows", bins.rows[used].astype(float)),)
    series = []
    for at, name in enumerate(axes.y):
        total, valued = bins.totals[at][used], bins.valued[at][used]
        low, high = bins.low[at][used], bins.high[at][used]
        with np.errstate(invalid="ignore"):
            mean = total / np.where(valued > 0, valued, np.nan)
        values = {"sum": np.where(valued > 0, total, np.nan), "mean": mean, "min": low, "max": high}[axes.how]
        series.append(Series(name, values, *((low, high) if axes.how == "mean" else ())))
    return tuple(series)


def _histogram(field: pa.Field, batches: Iterable[pa.RecordBatch], axes: Axes) -> Chart:
    bins, rows = ValueBins(0, unit=_unit(field.type)), 0
    for batch in batches:
        rows += batch.num_rows
        bins.add(_positions(batch[axes.x]), ())
    used = np.flatnonzero(bins.rows)
    said = [fmt.plural(rows, "row")]
    if left := rows - int(bins.rows.sum()):
        said.append(f"{left:,} without a place on the axis")
    if not len(used):
        empty = _as_times(np.zeros(0), field)
        return Chart(axes, _title(axes), " · ".join(said), (Series("rows", np.zeros(0)),), places=empty)
    first, joined = int(used[0]), -(-(int(used[-1]) - int(used[0]) + 1) // MOST_COLUMNS)
    edges = np.arange(first, int(used[-1]) + 1, joined)
    counts = np.add.reduceat(bins.rows, edges) if len(edges) else bins.rows[:0]
    counts[-1] = bins.rows[edges[-1] :].sum()
    starts, width = bins.start + edges * bins.width, joined * bins.width
    said.append(_width_words(field, width))
    return Chart(
        axes,
        _title(axes),
        " · ".join(said),
        (Series("rows", counts.astype(float)),),
        places=_as_times(starts, field),
        width=width,
    )


def _width_words(field: pa.Field, width: float) -> str:
    if sort_of(field.type) != TIME:
        return f"columns of {width:g}"
    return (
        f"columns of {fmt.plural(round(width / _DAY), 'day')}"
        if width >= _DAY
        else f"columns of {width / 1e6:g} s"
    )


def _points(field: pa.Field, batches: Iterable[pa.RecordBatch], axes: Axes) -> Chart:
    sample, rows, left = ValueSample(1 + len(axes.y), most=MOST_POINTS), 0, 0
    for batch in batches:
        columns = [_positions(batch[axes.x]), *_values(batch, axes)]
        there = ~np.isnan(columns[0])
        rows, left = rows + len(there), left + int((~there).sum())
        sample.add([column[there] for column in columns])
    places, *values = sample.columns
    said = [fmt.plural(rows, "row")]
    if left:
        said.append(f"{left:,} without {axes.x} left out")
    if rows - left > len(places):
        said.append(f"a sample of {len(places):,} of them")
    series = tuple(Series(name, column) for name, column in zip(axes.y, values, strict=True))
    return Chart(axes, _title(axes), " · ".join(said), series, places=_as_times(places, field))
