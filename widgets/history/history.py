"""The life of a table as edits: for each file when it came and when it went; the files of any moment at once.

From `inspect.edits()` of a table or a simulation. Invariants: ids from `first` to `last` have no gap; what is
given for a snapshot equals `inspect.levels(snapshot)`, except that the key axis may start in another column
where the first one is the same in all live files. Pure: Arrow and numpy, no reading.

For the browser it is bytes (`Sent`): columns of small integers, differences of neighbours, deflated; the same
for a kernel (a binary trait) and for a page (base64). A message is `rows` of files from some row on, and the
snapshots in which earlier ones went; so a commit that is appended sends its own edit. Layout, after
inflating: 4 bytes little-endian length of a JSON head, the head, then the columns it names, each at a
multiple of 8 bytes. Bound: `MOST` rows; more are not sent, and the kernel draws the past.
"""

import json
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.levels.buckets import natural

MOST = 120_000
"""Files of a history that cross to the browser."""
BEFORE, LIVE = -1, np.iinfo(np.int64).max
"""Added before the first snapshot; not removed yet."""
_SAME = (
    *("partition", "bucket", "level", "file_name", "rows", "deletes", "bytes", "min_key", "max_key"),
    *("min_sequence", "max_sequence", "schema_id", "creation_time", "file_source", "snapshot_id"),
    "masked_rows",
)


@dataclass(frozen=True, eq=False)
class History:
    """All edits of a source up to `last`. Immutable by agreement: nobody writes into the arrays."""

    edits: pa.Table
    first: int
    last: int
    plain: bool
    axes: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, edits: pa.Table) -> "History | None":
        """The history that `inspect.edits()` gives; None where there is no snapshot yet."""
        about = json.loads((edits.schema.metadata or {}).get(b"edits", b"{}"))
        if about.get("first") is None or about.get("last") is None:
            return None
        axes = {bucket: (float(low), float(high)) for bucket, (low, high) in about.get("axes", {}).items()}
        edits = edits.combine_chunks().replace_schema_metadata()
        return cls(edits, int(about["first"]), int(about["last"]), bool(about.get("plain", True)), axes)

    def __len__(self) -> int:
        return int(self.edits.num_rows)

    def covers(self, snapshot: int | None) -> bool:
        """Whether the files after this snapshot are known."""
        return snapshot is not None and self.first <= snapshot <= self.last

    @cached_property
    def added(self) -> np.ndarray:
        """The snapshot that added each file, BEFORE for one that was there."""
        return self.ints("added", BEFORE)

    @cached_property
    def removed(self) -> np.ndarray:
        """The snapshot that removed each file, LIVE for one that is there."""
        return self.ints("removed", LIVE)

    @cached_property
    def low(self) -> np.ndarray:
        """Each file's smallest key as a number; NaN without keys."""
        return pc.fill_null(self.edits["min_key_number"], float("nan")).to_numpy()

    @cached_property
    def high(self) -> np.ndarray:
        """Each file's largest key as a number; NaN without keys."""
        return pc.fill_null(self.edits["max_key_number"], float("nan")).to_numpy()

    def ints(self, name: str, absent: int = 0) -> np.ndarray:
        """An integer column."""
        return pc.fill_null(self.edits[name].cast(pa.int64()), absent).to_numpy()

    @cached_property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Partition and number of every bucket there ever was, in order."""
        return tuple(zip(*self._coded[0], strict=True)) if len(self) else ()

    @property
    def place(self) -> np.ndarray:
        """The position in `places` of each file's bucket."""
        return self._coded[1]

    @cached_property
    def _coded(self) -> tuple[tuple[list[str], list[int]], np.ndarray]:
        partition = self.edits["partition"].combine_chunks().dictionary_encode()
        texts, bucket = partition.dictionary.to_pylist(), self.ints("bucket")
        code = (
            np.array(_ranks(texts), np.int64)[partition.indices.to_numpy()] * (1 << 40) + bucket + (1 << 20)
        )
        _, first, place = np.unique(code, return_index=True, return_inverse=True)
        named = [texts[i] for i in partition.indices.to_numpy()[first]]
        return (named, bucket[first].tolist()), place.reshape(len(code))

    @cached_property
    def newness(self) -> np.ndarray:
        """The rank of each file by the order of level 0, 0 the oldest: largest sequence first, then smallest
        first one, creation time, name."""
        names = pc.rank(self.edits["file_name"], sort_keys="ascending", tiebreaker="dense").to_numpy()
        newest = np.lexsort(
            (names, self.ints("creation_time"), self.ints("min_sequence"), -self.ints("max_sequence"))
        )
        rank = np.empty(len(self), np.int64)
        rank[newest[::-1]] = np.arange(len(self))
        return rank

    @cached_property
    def _order(self) -> np.ndarray:
        """Rows by bucket, level, and within it newest first (level 0) or by key."""
        level = self.ints("level")
        within = np.where(level == 0, -self.newness.astype(float), np.nan_to_num(self.low))
        return np.lexsort((np.nan_to_num(self.high), within, level, self.place))

    def live(self, snapshot: int) -> np.ndarray:
        """Positions of the files after a snapshot, in the order of their runs."""
        return self._order[((self.added <= snapshot) & (self.removed > snapshot))[self._order]]

    def files(self, snapshot: int) -> pa.Table:
        """The files after a snapshot, as `inspect.levels()` gives them."""
        at = self.live(snapshot)
        rows = self.edits.take(pa.array(at))
        run, low, high = self._runs(at), *self._positions(at)
        columns = {name: rows[name] for name in _SAME}
        columns["run"] = pa.array(run, pa.int32())
        columns["min_key_pos"] = pa.array(low, from_pandas=True)
        columns["max_key_pos"] = pa.array(high, from_pandas=True)
        return pa.table(columns)

    def _runs(self, at: np.ndarray) -> np.ndarray:
        """The number of each file's run in its bucket."""
        if not len(at):
            return np.zeros(0, np.int64)
        place, level = self.place[at], self.ints("level")[at]
        begins = np.r_[True, place[1:] != place[:-1]]
        fresh = begins | (level == 0) | np.r_[True, level[1:] != level[:-1]]
        number = np.cumsum(fresh) - 1
        return number - number[begins][np.cumsum(begins) - 1]

    def _positions(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where each file begins and ends on the axis of its bucket, 0 … 1."""
        low, high = self.low[at], self.high[at]
        if not len(at) or np.isnan(low).all():
            return low, high
        place = self.place[at]
        starts = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
        least = np.minimum.reduceat(low, starts)
        most = np.maximum.reduceat(high, starts)
        for group, bucket in enumerate(place[starts].tolist()):
            if (ends := self.axes.get("{}/{}".format(*self.places[bucket]))) is not None:
                least[group], most[group] = ends
        of = np.cumsum(np.r_[True, place[1:] != place[:-1]]) - 1
        span = (most - least)[of]
        wide = np.where(span > 0, span, 1.0)
        first, last = (np.where(span > 0, (ends - least[of]) / wide, 0.5) for ends in (low, high))
        return first, last

    def sums(self, snapshot: int) -> tuple[int, int, int]:
        """Sorted runs, files and bytes after a snapshot, of all buckets."""
        at = self.live(snapshot)
        level, place = self.ints("level")[at], self.place[at]
        upper = np.unique(place[level > 0] * 1024 + level[level > 0])
        return int((level == 0).sum()) + len(upper), len(at), int(self.ints("bytes")[at].sum())


def _ranks(texts: list[str]) -> list[int]:
    """The place of each text in natural order."""
    ordered = {text: at for at, text in enumerate(sorted(texts, key=natural))}
    return [ordered[text] for text in texts]


GROWN = 0.25
"""A tail of more than this share of the rows is packed anew with all of them."""
_COUNTS = ("level", "rows", "deletes", "bytes", "min_sequence", "max_sequence")


@dataclass(frozen=True, eq=False)
class Sent:
    """What a browser has: the first bytes, and what came after them."""

    history: History
    base: bytes
    rows: int
    tail: bytes = b""

    @classmethod
    def of(cls, history: History, before: "Sent | None" = None) -> "Sent":
        """The history as bytes; where it only goes on from `before`, the base stays and the tail grows."""
        if before is not None and _goes_on(before, history):
            tail = packed(history, before.rows, sent=before.history)
            return cls(before.history, before.base, before.rows, tail)
        return cls(history, packed(history), len(history))


def _goes_on(before: Sent, history: History) -> bool:
    """Whether the rows that a browser has are the first ones of this history, as they are."""
    old, count = before.history, before.rows
    if history.first != old.first or len(history) - count > GROWN * count + 200 or not history.plain:
        return False
    same = ("partition", "bucket", "level", "file_name", "masked_rows", "snapshot_id")
    mine = history.edits.slice(0, count)
    if len(history) < count or any(not mine[name].equals(old.edits[name]) for name in same):
        return False
    return bool(np.array_equal(np.argsort(history.newness[:count]), np.argsort(old.newness)))


def packed(history: History, start: int = 0, *, sent: History | None = None) -> bytes:
    """The rows of a history from `start` on; with `sent` what went among the earlier ones since then."""
    edits = history.edits.slice(start)
    part = slice(start, None)
    columns: list[tuple[str, np.ndarray]] = [
        ("added", np.where(history.added[part] == BEFORE, 0, history.added[part])),
        ("removed", np.where(history.removed[part] == LIVE, 0, history.removed[part])),
        ("place", history.place[part]),
        ("newness", history.newness[part]),
        *((name, history.ints(name)[part]) for name in _COUNTS),
        ("masked", history.ints("masked_rows", -1)[part]),
        ("origin", history.ints("snapshot_id", -1)[part]),
        ("created", history.ints("creation_time", -1)[part]),
    ]
    head: dict[str, Any] = {
        "first": history.first,
        "last": history.last,
        "start": start,
        "count": len(edits),
        "places": [f"{partition}/{bucket}" for partition, bucket in history.places],
        "axes": history.axes,
    }
    for name, column in (("names", "file_name"), ("low_keys", "min_key"), ("high_keys", "max_key")):
        head[name] = edits[column].to_pylist()
    head["sources"] = pc.fill_null(edits["file_source"], "").to_pylist()
    if sent is not None:
        gone = np.flatnonzero(history.removed[:start] != sent.removed[:start])
        columns += [("gone", gone), ("gone_in", history.removed[gone])]
        head["after"] = sent.last
    return _bytes(head, columns, {"low": history.low[part], "high": history.high[part]})


def _bytes(head: dict[str, Any], whole: list[tuple[str, np.ndarray]], real: dict[str, np.ndarray]) -> bytes:
    """Whole numbers as differences in the least width that holds them, real ones as they are."""
    parts, at, listed = list[bytes](), 0, []
    for name, values, differs in [(n, v, True) for n, v in whole] + [(n, v, False) for n, v in real.items()]:
        column = _narrow(np.diff(values.astype(np.int64), prepend=0)) if differs else values.astype("<f8")
        data = column.tobytes()
        listed.append([name, column.dtype.kind + str(column.dtype.itemsize), at, len(values), differs])
        parts.append(data + b"\0" * (-len(data) % 8))
        at += len(parts[-1])
    text = json.dumps(head | {"columns": listed}, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return zlib.compress(len(text).to_bytes(4, "little") + text + b"".join(parts), 6)


def _narrow(values: np.ndarray) -> np.ndarray:
    for kind in ("<i1", "<i2", "<i4"):
        limits = np.iinfo(kind)
        if not len(values) or (values.min() >= limits.min and values.max() <= limits.max):
            return values.astype(kind)
    return values.astype("<f8")


def spans_of(ids: np.ndarray) -> list[list[int]]:
    """The ids as (position, id, how many) of each row of them without a gap."""
    starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 2) != 1)
    lengths = np.diff(np.r_[starts, len(ids)])
    return [[int(at), int(ids[at]), int(many)] for at, many in zip(starts, lengths, strict=True)]
