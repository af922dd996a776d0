"""What many snapshots changed, read and decoded together as one table: for expiry and for the history of what
expires, which sum over thousands of snapshots.

Memory: 250,000 entries, about 100 MB, or those of one snapshot that has more. What is read is not added to
the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tablestore.core.errors import Corrupt
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import Snapshot
from tablestore.meta.entries import Entries, concatenated
from tablestore.meta.manifests import ManifestStore

_AT_ONCE = 500
_MOST_ENTRIES = 250_000  # read together


@dataclass(frozen=True, slots=True)
class Deltas:
    """Entries of snapshots one after another: `bounds[i]` to `bounds[i + 1]` are those of the i-th."""

    entries: Entries
    bounds: np.ndarray

    def of(self, at: int) -> Entries:
        """The entries of one snapshot."""
        first, end = (int(bound) for bound in self.bounds[at : at + 2])
        return Entries(self.entries.table.slice(first, end - first))

    @property
    def owners(self) -> np.ndarray:
        """The position of the snapshot that each entry belongs to."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    @property
    def adding(self) -> np.ndarray:
        """Which entries add a file."""
        return self.entries.numbers("kind") == ADD

    def moved(self) -> np.ndarray:
        """Which entries are of files that their snapshot both adds and deletes, as an upgrade does."""
        adding = self.adding
        if adding.all():
            return np.zeros(len(adding), dtype=bool)
        names = self.entries.table.column("file_name").combine_chunks().dictionary_encode()
        files = self.owners * len(names.dictionary) + names.indices.to_numpy()
        return np.isin(files, files[adding]) & np.isin(files, files[~adding])

    def sums(self, chosen: np.ndarray) -> np.ndarray:
        """(snapshots, 3) of the files, bytes and rows in the `chosen` entries of each snapshot."""
        sums = np.zeros((len(self.bounds) - 1, 3), dtype=np.int64)
        sizes, rows = self.entries.numbers("file_size"), self.entries.numbers("row_count")
        np.add.at(sums, self.owners[chosen], np.stack([np.ones_like(sizes), sizes, rows], axis=1)[chosen])
        return sums


def delta_list(snapshot: Snapshot) -> str | None:
    """The list of what a snapshot changed in its data files."""
    return snapshot.delta_manifest_list


def changelog_list(snapshot: Snapshot) -> str | None:
    """The list of its changelog files."""
    return snapshot.changelog_manifest_list


def read_both(manifests: ManifestStore, some: list[Snapshot]) -> tuple[Deltas | None, Deltas | None]:
    """What these snapshots changed in data files, and their changelog files, each as `deltas` gives it."""
    return deltas(manifests, some), deltas(manifests, some, changelog_list)


def in_groups(snapshots: Iterable[Snapshot]) -> Iterator[list[Snapshot]]:
    """The snapshots, as many at a time as are read together."""
    left = iter(snapshots)
    while some := list(islice(left, _AT_ONCE)):
        yield some


def deltas(
    manifests: ManifestStore, some: list[Snapshot], listed: Callable[[Snapshot], str | None] = delta_list
) -> Deltas | None:
    """The entries of the lists of these snapshots that `listed` names, nothing of one without. None where one
    of their files is missing or damaged, or several have too many: each is to be looked at alone."""
    names = [listed(snapshot) for snapshot in some]
    try:
        lists = iter(manifests.read_lists([name for name in names if name is not None]))
        owned = [[] if name is None else next(lists) for name in names]
        changed = [m for own in owned for m in own]
        if len(some) > 1 and sum(m.num_added + m.num_deleted for m in changed) > _MOST_ENTRIES:
            return None
        read = list(manifests.uncached(changed))
    except Corrupt:
        return None
    lengths = iter([entries.num_rows for entries in read])
    counts = [sum(next(lengths) for _ in own) for own in owned]
    return Deltas(concatenated(read), np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))
