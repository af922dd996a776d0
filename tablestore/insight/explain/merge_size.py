"""Rows and bytes that a merge of data files gives, from their metadata alone.

A key of two files comes out once, and no metadata say how many such keys there are. The rows are exact where
key ranges do not meet; else rows count as draws from a number of keys, which is learned from earlier merges
(`SizeModel.learned`) or supposed, and bounds are given. Pure. Used by dry runs, accounting and replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.key_axis import key_axis, whole_keys
from tablestore.lsm.levels.sorted_run import newest_first

_ROUNDS = 44  # of a bisection over powers: the number is found to a part in 10^11
_DENSE = 0.5  # share of possible keys from which on they count as all there are

_FEW_FILES = 64  # of a merge whose pieces are kept

_Piece = tuple[np.ndarray, np.ndarray, float]  # files over it, the share of each that lies in it, its width
Merge = tuple[Sequence[DataFileMeta], Sequence[DataFileMeta]]  # files read, files written


@dataclass(frozen=True, slots=True)
class Estimate:
    """Rows and bytes of a merge's output. `exact` is about the rows; bytes are exact only of files that are
    moved. `rows_min` and `rows_max` bound the rows, `why` says how they were found."""

    rows: int
    bytes: int
    exact: bool
    why: str
    rows_min: int
    rows_max: int

    @property
    def text(self) -> str:
        """`about 1,200 rows (1,000–1,500): …`."""
        if self.exact:
            return f"{self.rows:,} rows: {self.why}"
        return f"about {self.rows:,} rows ({self.rows_min:,}–{self.rows_max:,}): {self.why}"


@dataclass(frozen=True, slots=True)
class SizeModel:
    """Sizes of merges as earlier ones of a table had them: bytes of a file = `file_bytes` + `row_bytes` ×
    rows, and the number of `keys` that rows are drawn from over the whole key range `ends` (None: not
    known)."""

    file_bytes: float = 0.0
    row_bytes: float | None = None
    keys: float | None = None
    ends: tuple[bytes, ...] = ()

    @classmethod
    def learned(
        cls, merges: Iterable[Merge], types: Sequence[DataType], files: Iterable[DataFileMeta] = ()
    ) -> SizeModel:
        """The model that fits earlier merges, deletes kept or dropped; `files` are further ones of the table,
        for the bytes of a row."""
        pairs = [(tuple(read), tuple(written)) for read, written in merges]
        known = {f.file_name: f for f in files}
        known |= {f.file_name: f for read, written in pairs for f in (*read, *written)}
        line = _line([f for f in known.values() if f.row_count])
        ends = _ends(known.values())
        bare = cls(*line, ends=ends)
        overlapping = [m for m in pairs if len(m[0]) > 1 and _bound(m[0])[0] < _bound(m[0])[1]]
        return bare if not overlapping else cls(*line, _keys(overlapping, types, bare), ends)

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
    target_bytes: int | None = None,
) -> Estimate:
    """What merging `files` would give: one row of each key, deletes left out with `drop_deletes`.

    `types` are those of the key columns. `among`: how many keys the bucket is known to hold, where `model`
    has learned nothing. `target_bytes` rolls the output into files, which matters where they are small.
    """
    if not files:
        return Estimate(0, 0, True, "no files", 0, 0)
    whole = _Overlap(files, types, model, among)
    least, most = _bound(files)
    deletes = sum(f.delete_count or 0 for f in files)
    unknown = any(f.delete_count is None for f in files)
    rows, dropped = whole.rows()
    if drop_deletes:
        rows, most = rows - dropped, most - (0 if whole.meets or unknown else deletes)
        least = 0 if unknown else max(0, least - deletes)
    exact = not whole.meets and not (drop_deletes and unknown)
    count = round(rows) if exact else min(max(round(rows), least), most)
    if exact:
        least = most = count
    return Estimate(count, _bytes(files, count, model, target_bytes), exact, whole.why, least, most)


def _bytes(files: Sequence[DataFileMeta], rows: int, model: SizeModel, target: int | None) -> int:
    if not rows:
        return 0
    total, size = sum(f.row_count for f in files), sum(f.file_size for f in files)
    if model.row_bytes is None:
        return round(size * rows / total) if total else 0
    # The line is that of all files of the table. These may lie off it, and so does what is made of them.
    count = 1 if not target else max(1, round(model.bytes_of(rows) / target))
    return round(size * min(model.bytes_of(rows, count) / model.bytes_of(total, len(files)), 1.0))


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
        self._possible = whole_keys(_ends(files), types)
        self.meets = self._any_meet()
        self.why = self._why()

    def _any_meet(self) -> bool:
        order = np.lexsort((self._high, self._low))
        low, high = self._low[order], np.maximum.accumulate(self._high[order])
        return bool((low[1:] <= high[:-1]).any())

    def _why(self) -> str:
        if not self.meets:
            return "no two files share keys"
        if self._model.keys is not None:
            if self._model.keys < 2:
                return "as if files held the same keys where they overlap, as in merges of this table"
            return f"as if rows were drawn from {self._model.keys:,.0f} keys, as in merges of this table"
        if self._dense:
            keys = "only key" if self._possible == 1 else f"{self._possible:,} keys"
            return f"as if rows were drawn from the {keys} of the range"
        if self._among:
            return f"as if rows were drawn from twice the {self._among:,} keys there are"
        return "as if every second row of smaller files were a new key"

    @property
    def _dense(self) -> bool:
        return self._possible is not None and self._rows.max() >= _DENSE * self._possible

    def rows(self, keys: float | None = None) -> tuple[float, float]:
        """(rows that come out, deletes among them); `keys` in place of those of the model."""
        if not self.meets:
            return float(self._rows.sum()), float(self._deletes.sum())
        if (whole := self._table()) is not None:
            return self._by_table(keys, *whole)
        total, deletes = 0.0, 0.0
        for active, share, width in self._cut():
            rows = self._rows[active] * share
            among = max(self._among_keys(keys, rows, width), float(rows.max()), 1e-9)
            free = np.concatenate(([1.0], np.cumprod(1.0 - np.minimum(rows / among, 1.0))[:-1]))
            total += float((rows * free).sum())
            deletes += float((self._deletes[active] * share * free).sum())
        return total, deletes

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
        among = np.maximum(np.maximum(self._among_all(keys, most, widths), most), 1e-9)
        free = np.cumprod(1.0 - np.minimum(rows / among, 1.0), axis=0)
        free = np.concatenate((np.ones((1, len(widths))), free[:-1]))
        return float((rows * free).sum()), float((self._deletes[:, None] * shares * free).sum())

    def _among_all(self, keys: float | None, most: np.ndarray, widths: np.ndarray) -> np.ndarray:
        """`_among_keys` of every piece."""
        known = keys if keys is not None else self._model.keys
        if known is not None:
            return known * widths
        span = float(self._high.max() - self._low.min()) or 1.0
        if self._dense and self._possible is not None:
            return self._possible * widths / span
        return 2.0 * self._among * widths / span if self._among else 2.0 * most

    def _among_keys(self, keys: float | None, rows: np.ndarray, width: float) -> float:
        known = keys if keys is not None else self._model.keys
        if known is not None:
            return known * width
        span = float(self._high.max() - self._low.min()) or 1.0
        if self._dense and self._possible is not None:
            return self._possible * width / span
        if self._among:
            return 2.0 * self._among * width / span
        return 2.0 * float(rows.max())

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


def _line(files: Sequence[DataFileMeta]) -> tuple[float, float | None]:
    """(bytes of a file without rows, bytes a row) of the line that misses these files by the least
    percentage."""
    if not files:
        return 0.0, None
    rows = np.array([f.row_count for f in files], dtype=float)
    size = np.array([f.file_size for f in files], dtype=float)
    weight = 1.0 / np.maximum(size, 1.0)
    a = np.stack([weight, rows * weight], axis=1)
    if len(np.unique(rows)) > 1:
        (base, slope), *_ = np.linalg.lstsq(a, size * weight, rcond=None)
        if base >= 0 and slope > 0:
            return float(base), float(slope)
    return 0.0, float(size.sum() / rows.sum())


def _keys(merges: Sequence[Merge], types: Sequence[DataType], bare: SizeModel) -> float:
    """The number of keys over the whole axis with which the merges give the rows they gave, all together."""
    laid = [
        (_Overlap(read, types, bare, 0), sum(f.row_count for f in written), written)
        for read, written in merges
    ]
    wanted = sum(rows for _, rows, _ in laid)
    kept = [any(f.delete_count for f in written) for _, _, written in laid]

    def expected(keys: float) -> float:
        found = 0.0
        for (overlap, _, _), keeps in zip(laid, kept, strict=True):
            rows, deletes = overlap.rows(keys)
            found += rows if keeps else rows - deletes
        return found

    low = 1.0
    high = 64.0 * sum(sum(f.row_count for f in read) for read, _ in merges)
    for _ in range(_ROUNDS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if expected(middle) < wanted else (low, middle)
    return (low * high) ** 0.5
