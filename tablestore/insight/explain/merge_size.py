"""Rows and bytes that a merge of data files gives, each as a number and a range: the one estimator of all
panels, dry runs, accounts and replays.

A key of two files comes out once, and no metadata say how many such keys there are. The rows are exact where
key ranges do not meet, and where all keys were read (`KeySample`). Else rows count as draws from a number of
keys. That is what a sample of keys shows, what earlier merges gave (`SizeModel.learned`), or supposed. Pure.

A sample holds all keys of its files, or all up to one key. So any of these files can be merged in thought:
equal keys become one, the newest file decides, and a delete that wins takes its key away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from tablestore.core import quantities
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.key_axis import key_axis, whole_keys
from tablestore.lsm.levels.sorted_run import newest_first


@dataclass(frozen=True, slots=True, eq=False)
class KeySample:
    """`files` newest first; `codes` by file name: ascending numbers that are equal where keys of these files
    are. `deletes`: which of a file's keys are retracts, absent where none is. `whole`: all keys are there.
    `fixed_bytes`: what a file takes besides its rows, on average; `sequence_bytes`: what each row takes for
    its sequence number. None where no footer says so.
    """

    files: tuple[DataFileMeta, ...]
    codes: Mapping[str, np.ndarray]
    deletes: Mapping[str, np.ndarray] = field(default_factory=dict)
    whole: bool = True
    fixed_bytes: float | None = None
    sequence_bytes: float | None = None

    @property
    def count(self) -> int:
        """How many keys were read."""
        return sum(map(len, self.codes.values()))

    def masked(self, files: Sequence[DataFileMeta]) -> int | None:
        """How many of the keys read are of rows that these files no longer have, since they are marked as
        deleted; None where not every key of every one of them is here."""
        codes = self.codes
        if not (self.whole and all(f.file_name in codes for f in files)):
            return None
        return sum(len(codes[f.file_name]) - f.row_count for f in files)

    def merged(self, newest_first: Sequence[DataFileMeta]) -> tuple[int, int]:
        """(keys that differ, those of them whose newest row is a delete) of these files."""
        names = [f.file_name for f in newest_first]
        keys, first = np.unique(np.concatenate([self.codes[n] for n in names]), return_index=True)
        if not self.deletes:
            return len(keys), 0
        gone = [self.deletes.get(n, np.zeros(len(self.codes[n]), dtype=bool)) for n in names]
        return len(keys), int(np.concatenate(gone)[first].sum())

    @property
    def mixing(self) -> float:
        """The share of neighbouring keys of all files merged whose newest rows lie in different files."""
        codes = [self.codes[f.file_name] for f in self.files]
        _, first = np.unique(np.concatenate(codes), return_index=True)
        holder = np.repeat(np.arange(len(codes)), [len(c) for c in codes])[first]
        return float((holder[1:] != holder[:-1]).mean()) if len(holder) > 1 else 0.0


_ROUNDS = 44  # of a bisection over powers: the number is found to a part in 10^11
_DENSE = 0.5  # share of possible keys from which on they count as all there are
_LEARNED_SPREAD = 0.5  # of the equal keys that earlier merges let expect: how many more or fewer there may be
_SAMPLED_SPREAD = 0.25  # the same of a sample, besides what chance lets expect
_FAR = 2.0  # times as many rows as the smallest file, from which on a line can be drawn
_MIXED = 0.8  # of the bits that tell rows apart: what a number takes among those of other files
_THINNER, _THICKER = 0.22, 0.15  # how much smaller or larger rows may be where they lie together
_TINY = 0.4, 0.2  # how much more where files are next to nothing but their footers

_FEW_FILES = 64  # of a merge whose pieces are kept

_Piece = tuple[np.ndarray, np.ndarray, float]  # files over it, the share of each that lies in it, its width
Merge = tuple[Sequence[DataFileMeta], Sequence[DataFileMeta]]  # files read, files written


@dataclass(frozen=True, slots=True)
class Estimate:
    """Rows and bytes of a merge's output. `exact` is about the rows; bytes are exact only of files that are
    moved. The range of each holds it in 95 of 100 cases; `why` says how the rows were found."""

    rows: int
    bytes: int
    exact: bool
    why: str
    rows_min: int
    rows_max: int
    bytes_min: int
    bytes_max: int

    @property
    def bytes_text(self) -> str:
        """`13.1 MiB to 15.9 MiB`; `about 14.2 MiB` where the ends read alike."""
        ends = quantities.size(self.bytes_min), quantities.size(self.bytes_max)
        if not self.bytes_max:
            return ends[1]
        return f"about {quantities.size(self.bytes)}" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"

    @property
    def text(self) -> str:
        """`about 1,200 rows (1,000–1,500): …`."""
        if self.exact:
            return f"{self.rows:,} rows: {self.why}"
        return f"about {self.rows:,} rows ({self.rows_min:,}–{self.rows_max:,}): {self.why}"


@dataclass(frozen=True, slots=True)
class SizeModel:
    """Sizes of merges as earlier ones of a table had them: bytes of a file = `file_bytes` + `row_bytes` ×
    rows, and the number of `keys` that rows are drawn from over the whole key range `ends`. Of each row
    `sequence_bytes` are for its sequence number in the files there are. `samples` of live keys come with
    the number of keys that each shows. Outputs are rolled into files of `target_bytes` (None: one file).
    None of another number: not known."""

    file_bytes: float = 0.0
    row_bytes: float | None = None
    keys: float | None = None
    ends: tuple[bytes, ...] = ()
    sequence_bytes: float | None = None
    samples: tuple[tuple[KeySample, float], ...] = ()
    target_bytes: int | None = None
    _sample_of: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def learned(
        cls,
        merges: Iterable[Merge],
        types: Sequence[DataType],
        files: Iterable[DataFileMeta] = (),
        *,
        samples: Sequence[KeySample] = (),
        target_bytes: int | None = None,
    ) -> SizeModel:
        """The model that fits earlier merges, deletes kept or dropped, and `samples` of live keys; `files`
        are further ones of the table, for the bytes of a row."""
        pairs = [(tuple(read), tuple(written)) for read, written in merges]
        by_name = {f.file_name: f for f in files}
        by_name |= {f.file_name: f for read, written in pairs for f in (*read, *written)}
        by_name |= {f.file_name: f for sample in samples for f in sample.files}
        fixed, numbers = (
            _mean(getattr(s, name) for s in samples) for name in ("fixed_bytes", "sequence_bytes")
        )
        line = _line([f for f in by_name.values() if f.row_count], fixed)
        bare = cls(*line, ends=_ends(by_name.values()), sequence_bytes=numbers, target_bytes=target_bytes)
        overlapping = [m for m in pairs if len(m[0]) > 1 and _bound(m[0])[0] < _bound(m[0])[1]]
        learned = [_of_merge(m, types, bare) for m in overlapping]
        shown = [_of_sample(s, types, bare) for s in samples]
        return replace(
            bare,
            keys=_keys([*learned, *shown]) if learned or shown else None,
            samples=tuple((s, _keys([single])) for s, single in zip(samples, shown, strict=True)),
            _sample_of={name: i for i, s in enumerate(samples) for name in s.codes},
        )

    def sample_of(self, files: Iterable[DataFileMeta]) -> tuple[KeySample, float] | None:
        """The sample that has the keys of one of these files, and the number of keys that it shows."""
        places = (self._sample_of.get(f.file_name) for f in files) if self.samples else ()
        return next((self.samples[i] for i in places if i is not None), None)

    def bytes_of(self, rows: float, files: int = 1) -> float:
        """Bytes of `rows` rows in so many files."""
        return self.file_bytes * files + (self.row_bytes or 0.0) * rows


UNKNOWN = SizeModel()


def merged(
    files: Sequence[DataFileMeta],
    types: Sequence[DataType],
    *,
    drop_deletes: bool = False,
    model: SizeModel = UNKNOWN,
    among: int = 0,
) -> Estimate:
    """What merging `files` would give: one row of each key, deletes left out with `drop_deletes`.

    `types` are those of the key columns. `among`: how many keys the bucket is known to hold, where `model`
    knows no number.
    """
    if not files:
        return Estimate(0, 0, True, "no files", *(0,) * 4)
    whole = _Overlap(files, types, model, among)
    rows, least, most, exact = _rows(whole, files, drop_deletes)
    size, low, high = (_bytes(files, n, model) for n in (rows, least, most))
    if len(files) > 1 or not exact:
        mixed = _mixed_bytes(whole, model)
        size, low, high = size + round(rows * mixed), low + round(least * mixed), high + round(most * mixed)
        live = sum(f.file_size for f in files)
        tiny = min(1.0, len(files) * model.file_bytes / max(live, 1)) if model.file_bytes else 0.5
        low, high = around(low, high, most=live + round(most * mixed), tiny=tiny)
    return Estimate(rows, size, exact, whole.why(rows), least, most, min(low, size), max(high, size))


def around(low: int, high: int, *, most: int, tiny: float = 0.5) -> tuple[int, int]:
    """The range of bytes of rows that now lie in several files, or among others, of `low` to `high` bytes by
    the model: they are stored smaller or larger where they lie together, in `most` bytes at most. `tiny`:
    the share of bytes that are no rows."""
    thinner, thicker = _THINNER + _TINY[0] * tiny, _THICKER + _TINY[1] * tiny
    return round(low * (1 - thinner)), min(round(high * (1 + thicker)), most)


def _rows(whole: _Overlap, files: Sequence[DataFileMeta], drop_deletes: bool) -> tuple[int, int, int, bool]:
    """(rows, fewest, most, whether they are exact)."""
    least, most = _bound(files)
    deletes = sum(f.delete_count or 0 for f in files)
    unknown = any(f.delete_count is None for f in files)
    rows, dropped = whole.rows()
    if drop_deletes:
        rows, most = rows - dropped, most - (0 if whole.meets or unknown else deletes)
        least = 0 if unknown else max(0, least - deletes)
    if whole.all_read or not (whole.meets or (drop_deletes and unknown)):
        return round(rows), round(rows), round(rows), True
    count = min(max(round(rows), least), most)
    if whole.masked is not None:  # a row that is marked may be the only one of its key, most are not
        return count, max(least, count - whole.masked), min(most, count + whole.masked), False
    if whole.spread is None:
        return count, least, most, False
    aside = whole.spread * (most - count)
    return count, max(least, round(count - aside)), min(most, round(count + aside)), False


def _bytes(files: Sequence[DataFileMeta], rows: int, model: SizeModel) -> int:
    if not rows:
        return 0
    total, size = sum(f.row_count for f in files), sum(f.file_size for f in files)
    if model.row_bytes is None:
        return round(size * rows / total) if total else 0
    # The line is that of all files of the table. These may lie off it, and so does what is made of them, the
    # larger ones above all: a few rows take more bytes each than many.
    off = sum(f.file_size * f.row_count for f in files) / sum(
        model.bytes_of(f.row_count) * f.row_count for f in files
    )
    target = model.target_bytes
    count = 1 if not target else max(1, round(model.bytes_of(rows) / target))
    return round(min(off * model.bytes_of(rows, count), size))


def _mixed_bytes(whole: _Overlap, model: SizeModel) -> float:
    """Bytes by which a row becomes larger because its sequence number stands between those of other files:
    in a file that was written in the order of its keys the numbers take almost nothing."""
    if model.sequence_bytes is None or not whole.meets:
        return 0.0
    bits = _MIXED * np.log2(max(whole.rows_in, 2.0))
    return float(max(bits / 8 - model.sequence_bytes, 0.0) * whole.overlapping)


def _mean(numbers: Iterable[float | None]) -> float | None:
    measured = [n for n in numbers if n is not None]
    return sum(measured) / len(measured) if measured else None


def _bound(files: Sequence[DataFileMeta]) -> tuple[int, int]:
    """(fewest, most) distinct keys there can be."""
    return max(f.row_count for f in files), sum(f.row_count for f in files)


def _ends(files: Iterable[DataFileMeta]) -> tuple[bytes, ...]:
    """Smallest and largest keys of all files, each once: what an axis is made of."""
    return tuple(dict.fromkeys(k for f in files for k in (f.min_key, f.max_key)))


@lru_cache(maxsize=16)
def _axis(ends: tuple[bytes, ...], types: tuple[DataType, ...]) -> Callable[[bytes], float | None]:
    """The axis of a model, the same for everything that is estimated by it."""
    return key_axis(ends, types)


class _Overlap:
    """Files laid side by side on the key axis, cut where one begins or ends."""

    def __init__(
        self, files: Sequence[DataFileMeta], types: Sequence[DataType], model: SizeModel, among: int
    ) -> None:
        self._files = sorted(files, key=lambda f: (f.level, *newest_first(f)))  # newest first
        place = _axis(model.ends, tuple(types)) if model.ends else key_axis(_ends(files), types)
        ends = [(place(f.min_key) or 0.0, place(f.max_key) or 0.0) for f in self._files]
        self._low, self._high = (np.array([e[i] for e in ends]) for i in (0, 1))
        self._rows = np.array([f.row_count for f in self._files], dtype=float)
        self._deletes = np.array([f.delete_count or 0 for f in self._files], dtype=float)
        self._model, self._among = model, among
        self._shares: tuple[np.ndarray, np.ndarray] | None = None
        self._sampled = model.sample_of(self._files)
        self._possible = whole_keys(_ends(files), types)
        order = np.lexsort((self._high, self._low))
        low, high = self._low[order], np.maximum.accumulate(self._high[order])
        self.meets = bool((low[1:] <= high[:-1]).any())
        self.masked = None if self._sampled is None else self._sampled[0].masked(self._files)
        self.all_read = self.masked == 0

    @property
    def _keys(self) -> float | None:
        """The number of keys that rows are drawn from, where it is known."""
        return self._sampled[1] if self._sampled is not None else self._model.keys

    @property
    def spread(self) -> float | None:
        """How far the number of equal keys may be off, as a share of it; None where nothing is known."""
        if self._sampled is not None and not self._sampled[0].whole:
            sample = self._sampled[0]
            equal = sample.count - sample.merged(sample.files)[0]
            return min(1.0, _SAMPLED_SPREAD + 3.0 / (equal + 1) ** 0.5)
        return _LEARNED_SPREAD if self._keys is not None else None

    @property
    def rows_in(self) -> float:
        """Rows of all files."""
        return float(self._rows.sum())

    @property
    def overlapping(self) -> float:
        """The share of neighbouring rows that come from different files: as a sample shows, else of rows that
        lie where other files have rows, too."""
        if self._sampled is not None:
            return self._sampled[0].mixing
        shared = sum(float((self._rows[at] * share).sum()) for at, share, _ in self._cut() if len(at) > 1)
        return min(1.0, shared / max(self.rows_in, 1.0))

    def why(self, rows: int) -> str:
        """How the rows were found, with the sum: `2,959 rows give 2,758: all keys were read`."""
        total = f"{int(self._rows.sum()):,} rows give {rows:,}"
        if not self.meets:
            return "no two files share keys"
        if self.masked:
            return f"{total}: all keys were read, {self.masked:,} of them of rows that are marked as deleted"
        return f"{total}: all keys were read" if self.all_read else f"{total}, {self._supposed()}"

    def _supposed(self) -> str:
        keys = self._keys
        if self._sampled is not None and keys is not None:
            sample = self._sampled[0]
            differ = f"{sample.merged(sample.files)[0]:,} of {sample.count:,} keys read differ"
            return f"as if drawn from {keys:,.0f} keys: {differ}"
        if keys is not None:
            if keys < 2:
                return "as if files held the same keys where they overlap, as in merges of this table"
            return f"as if drawn from {keys:,.0f} keys, as in merges of this table"
        if self._dense:
            named = "only key" if self._possible == 1 else f"{self._possible:,} keys"
            return f"as if drawn from the {named} of the range"
        if self._among:
            return f"as if drawn from twice the {self._among:,} keys there are"
        return "as if every second row of smaller files were a new key"

    @property
    def _dense(self) -> bool:
        return self._possible is not None and self._rows.max() >= _DENSE * self._possible

    def rows(self, keys: float | None = None) -> tuple[float, float]:
        """(rows that come out, deletes among them); `keys` in place of those of the model."""
        if keys is None and self.masked is not None and self._sampled is not None:
            differ, dropped = self._sampled[0].merged(self._files)
            return float(differ), float(dropped)
        if not self.meets:
            return float(self._rows.sum()), float(self._deletes.sum())
        if (whole := self._table()) is not None:
            return self._by_table(keys, *whole)
        total, deletes = 0.0, 0.0
        for active, share, width in self._cut():
            rows = self._rows[active] * share
            most = rows.max()
            among = max(float(self._among_keys(keys, np.asarray(most), np.asarray(width))), float(most), 1e-9)
            free = np.concatenate(([1.0], np.cumprod(1.0 - np.minimum(rows / among, 1.0))[:-1]))
            total += float((rows * free).sum())
            deletes += float((self._deletes[active] * share * free).sum())
        return total, deletes

    def width_of(self, read: np.ndarray) -> float:
        """The part of the axis in which the largest file has the rows that were `read` of it."""
        at = int(np.argmax(self._rows))
        return float((self._high[at] - self._low[at]) * read[at] / self._rows[at])

    def _table(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The share of each file (row) in each piece (column), and the pieces' widths, where files are few:
        what `_cut` gives, all at once."""
        if len(self._rows) > _FEW_FILES:
            return None
        if self._shares is None:
            pieces = list(self._cut())
            shares = np.zeros((len(self._rows), len(pieces)))
            for at, (active, share, _) in enumerate(pieces):
                shares[active, at] = share
            self._shares = shares, np.array([width for _, _, width in pieces])
        return self._shares

    def _by_table(self, keys: float | None, shares: np.ndarray, widths: np.ndarray) -> tuple[float, float]:
        """`rows` in one step: a file that is not over a piece has no rows in it and frees no keys."""
        rows = self._rows[:, None] * shares
        most = rows.max(axis=0)
        among = np.maximum(np.maximum(self._among_keys(keys, most, widths), most), 1e-9)
        free = np.cumprod(1.0 - np.minimum(rows / among, 1.0), axis=0)
        free = np.concatenate((np.ones((1, len(widths))), free[:-1]))
        return float((rows * free).sum()), float((self._deletes[:, None] * shares * free).sum())

    def _among_keys(self, keys: float | None, most: np.ndarray, widths: np.ndarray) -> np.ndarray:
        """How many keys pieces of these widths hold, whose largest file has `most` rows."""
        estimate = keys if keys is not None else self._keys
        if estimate is not None:
            return estimate * widths
        span = float(self._high.max() - self._low.min()) or 1.0
        if self._dense and self._possible is not None:
            return self._possible * widths / span
        return 2.0 * self._among * widths / span if self._among else 2.0 * most

    def _cut(self) -> Iterable[_Piece]:
        widths = self._high - self._low
        points = widths <= 0
        cuts = np.unique(np.concatenate((self._low, self._high)))
        if len(cuts) == 1:  # every file at one place: all there is to say is that they overlap
            yield np.arange(len(self._rows)), np.ones(len(self._rows)), 1.0
            return
        for low, high in pairwise(cuts):
            active = np.flatnonzero((self._low <= low) & (self._high >= high) & ~points)
            if len(active):
                yield active, (high - low) / widths[active], float(high - low)
        for at in np.unique(self._low[points]):
            active = np.flatnonzero(points & (self._low == at))
            yield active, np.ones(len(active)), 0.0


def _line(files: Sequence[DataFileMeta], fixed: float | None) -> tuple[float, float | None]:
    """(bytes of a file without rows, bytes a row) of the line that misses these files by the least
    percentage; through `fixed` bytes without rows, if these are known."""
    if not files:
        return 0.0, None
    rows = np.array([f.row_count for f in files], dtype=float)
    size = np.array([f.file_size for f in files], dtype=float)
    weight = 1.0 / np.maximum(size, 1.0)
    if fixed is not None and (size > fixed).all():
        return fixed, float((rows * (size - fixed)).sum() / (rows**2).sum())
    a = np.stack([weight, rows * weight], axis=1)
    if rows.max() >= _FAR * rows.min():  # else the line hangs on chance
        (base, slope), *_ = np.linalg.lstsq(a, size * weight, rcond=None)
        if base >= 0 and slope > 0:
            return float(base), float(slope)
    return 0.0, float(size.sum() / rows.sum())


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Rows that came out of a merge of `rows`, `wanted`, and those that so many keys let expect."""

    rows: int
    wanted: int
    expected: Callable[[float], float]


def _of_merge(merge: Merge, types: Sequence[DataType], bare: SizeModel) -> _Evidence:
    read, written = merge
    overlap, keeps = _Overlap(read, types, bare, 0), any(f.delete_count for f in written)

    def expected(keys: float) -> float:
        rows, deletes = overlap.rows(keys)
        return rows if keeps else rows - deletes

    return _Evidence(sum(f.row_count for f in read), sum(f.row_count for f in written), expected)


def _of_sample(sample: KeySample, types: Sequence[DataType], bare: SizeModel) -> _Evidence:
    overlap, (differ, _) = _Overlap(sample.files, types, bare, 0), sample.merged(sample.files)
    if sample.whole:
        return _Evidence(sample.count, differ, lambda keys: overlap.rows(keys)[0])
    rows = np.array([len(sample.codes[f.file_name]) for f in sample.files], dtype=float)
    width = overlap.width_of(rows)

    def expected(keys: float) -> float:
        among = max(keys * width, float(rows.max()))
        free = np.concatenate(([1.0], np.cumprod(1.0 - np.minimum(rows / among, 1.0))[:-1]))
        return float((rows * free).sum())

    return _Evidence(sample.count, differ, expected)


def _keys(evidence: Sequence[_Evidence]) -> float:
    """The number of keys over the whole axis with which all merges together give the rows they gave."""
    wanted = sum(item.wanted for item in evidence)
    low, high = 1.0, 64.0 * sum(item.rows for item in evidence)
    for _ in range(_ROUNDS):
        middle = (low * high) ** 0.5
        short = sum(item.expected(middle) for item in evidence) < wanted
        low, high = (middle, high) if short else (low, middle)
    return (low * high) ** 0.5
