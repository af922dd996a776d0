"""A history as bytes for the browser: columns of small integers, differences of neighbours, deflated.

The same form for a kernel (a binary trait) and for a page (base64). A message is `rows` of files from some
row on, and the snapshots in which earlier ones went; so a commit that is appended sends its own edit. Layout,
after inflating: 4 bytes little-endian length of a JSON head, the head, then the columns it names, each at a
multiple of 8 bytes. Bound: `MOST` rows; more are not sent, and the kernel draws the past. Pure.
Called by the levels widget.
"""

import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from widgets.history.history import BEFORE, LIVE, History

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
