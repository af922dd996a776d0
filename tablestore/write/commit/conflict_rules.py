"""Conflict rules: may this delta be committed on top of these live files? Pure (FORMAT.md 17.3).

(a) a partition has one bucket count, unless it is overwritten · (b) every deleted file is still live, none
is added twice (I6) ·
(c) in each (partition, bucket, level ≥ 1) key ranges stay disjoint (I4) · (d) an index file that is
replaced is still the live one, a deletion vector belongs to a live file that has no other, and no file goes
whose deleted rows its replacement may still hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tablestore.format.manifests.index_manifest import IndexEntry
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry
from tablestore.io.paths import POSTPONE_BUCKET


@dataclass(frozen=True, slots=True)
class Conflict:
    """Which rule a delta breaks, in words that name the files."""

    rule: str
    text: str
    files: tuple[str, ...] = ()


def bucket_counts(
    live: Iterable[ManifestEntry], delta: Iterable[ManifestEntry], partition_text: Callable[[bytes], str]
) -> Conflict | None:
    """The breach of rule (a), in the text that is documented for a rescale (FORMAT.md 6.4), or None. Rows
    that wait in postponed buckets have no number of buckets yet."""
    totals = {e.partition: e.total_buckets for e in live if e.bucket != POSTPONE_BUCKET}
    for e in delta:
        had = totals.get(e.partition) if e.bucket != POSTPONE_BUCKET else None
        if e.kind == ADD and had is not None and had != e.total_buckets:
            where = f"partition {partition_text(e.partition)!r}" if e.partition.strip(b"\0") else "the table"
            text = (
                f"Try to write {where} with a new bucket num {e.total_buckets}, "
                f"but the previous bucket num is {had}. Please switch to batch mode, "
                "and perform INSERT OVERWRITE to rescale current data layout first, or call rescale()."
            )
            return Conflict("bucket count", text)
    return None


def files(
    live: Sequence[ManifestEntry], delta: Sequence[ManifestEntry], key: Callable[[bytes], Any]
) -> Conflict | None:
    """The breach of rule (b) or (c), or None. `key` makes serialized keys comparable."""
    state = {e.identity: e for e in live}
    for e in delta:
        if e.kind == DELETE:
            if e.identity not in state:
                return Conflict("deleted twice", _not_live(e, live), (e.file.file_name,))
            del state[e.identity]
        elif e.identity in state:
            return Conflict("added twice", f"{e.file.file_name} is in the table already", (e.file.file_name,))
        else:
            state[e.identity] = e
    touched = {(e.partition, e.bucket, e.file.level) for e in delta if e.kind == ADD and e.file.level > 0}
    levels = defaultdict(list)
    for e in state.values():
        place = (e.partition, e.bucket, e.file.level)
        if place in touched:
            levels[place].append(e.file)
    for (_, bucket, level), some in levels.items():
        some.sort(key=lambda f: key(f.min_key))
        for lower, upper in pairwise(some):
            if key(upper.min_key) <= key(lower.max_key):
                names = (lower.file_name, upper.file_name)
                text = f"{names[0]} and {names[1]} would overlap at level {level} of bucket {bucket}"
                return Conflict("overlap", text, names)
    return None


def index_files(
    live: Sequence[IndexEntry],
    delta: Sequence[IndexEntry],
    data_files: Container[str],
    *,
    gone: Container[str] = (),
    bucketed: bool,
) -> Conflict | None:
    """The breach of rule (d), or None. `data_files`: names of the data files that are live afterwards,
    `gone`: of those that this delta deletes; `bucketed`: a bucket has one index file of a kind at a time."""
    state = {e.file.file_name: e for e in live}
    for e in delta:
        name = e.file.file_name
        if e.kind == DELETE and state.pop(name, None) is None:
            return Conflict("index replaced", f"index file {name} is not live any more", (name,))
    places = {e.place for e in state.values()}
    marked = {r.data_file for e in state.values() for r in e.file.dv_ranges or ()}
    for name in marked:
        if name in gone:
            text = f"rows of {name}, which was to be replaced, were deleted meanwhile"
            return Conflict("index replaced", text, (name,))
    for e in delta:
        if e.kind != ADD:
            continue
        if bucketed and e.place in places:
            text = f"bucket {e.bucket} has got another {e.file.index_type} index meanwhile"
            return Conflict("index replaced", text, (e.file.file_name,))
        for r in e.file.dv_ranges or ():
            if r.data_file not in data_files:
                text = f"rows of {r.data_file} were to be deleted, but it is not live any more"
                return Conflict("deleted twice", text, (r.data_file,))
            if r.data_file in marked:
                text = f"other rows of {r.data_file} were deleted meanwhile"
                return Conflict("index replaced", text, (r.data_file,))
    return None


def _not_live(e: ManifestEntry, live: Sequence[ManifestEntry]) -> str:
    levels = [o.file.level for o in live if o.file.file_name == e.file.file_name]
    now = f"it is at level {levels[0]} now" if levels else "it is not live any more"
    return f"{e.file.file_name} at level {e.file.level} of bucket {e.bucket} was to be replaced, but {now}"
