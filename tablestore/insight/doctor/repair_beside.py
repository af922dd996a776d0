"""Damage beside the rows: indexes, checksums, statistics, changes. It costs no snapshot.

Indexes of files and hash indexes are made again from the rows. Checksums are put aside: nobody knows any more
what was written. Statistics are left out of the snapshots that name them. Changes cannot be made again:
streams must not pass over them, so the snapshots up to there go, and tags keep their rows. Plans only;
`table.rebuilding` and `verbs.recovery` carry them out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tablestore.insight.check.findings import (
    BESIDE,
    CHANGES,
    CHECKSUMS,
    FILE_INDEXES,
    HASH_INDEXES,
    STATISTICS,
)


@dataclass
class Beside:
    """What is damaged beside the rows of a branch: paths of `file_indexes`, `hash_indexes` and `checksums`,
    names of the snapshots and tags (`snapshot-7`, `tag-v1`) whose `statistics` are, the newest snapshot whose
    `changes` are. Among `hash_indexes` are index manifests that name these alone."""

    file_indexes: set[str] = field(default_factory=set)
    hash_indexes: set[str] = field(default_factory=set)
    checksums: set[str] = field(default_factory=set)
    statistics: set[str] = field(default_factory=set)
    changes: int | None = None

    def take(self, path: str, holders: Collection[str], gone: Collection[str]) -> bool:
        """Add what `holders` lack, but for those that are `gone`; False if rows need it."""
        if not holders or not all(h.startswith(BESIDE) for h in holders):
            return False
        for holder in holders:
            name = holder.rpartition(" of ")[2]
            if name in gone:
                continue
            if holder.startswith(FILE_INDEXES):
                self.file_indexes.add(path)
            elif holder.startswith(HASH_INDEXES):
                self.hash_indexes.add(path)
            elif holder.startswith(CHECKSUMS):
                self.checksums.add(path)
            elif holder.startswith(STATISTICS):
                self.statistics.add(name)
            elif holder.startswith(CHANGES):
                self.changes = max(self.changes or 0, int(name.rpartition("-")[2]))
        return True

    def __bool__(self) -> bool:
        """Whether something is to be made again before files are put aside."""
        return bool(self.file_indexes or self.hash_indexes or self.statistics or self.changes is not None)

    @property
    def rebuilt(self) -> list[str]:
        """As texts what is made again."""
        texts = [f"{name} without its statistics" for name in sorted(self.statistics)]
        texts += [f"{path} from the rows of its file" for path in sorted(self.file_indexes)]
        return texts + [f"{path} from the keys of its bucket" for path in sorted(self.hash_indexes)]

    @property
    def lost(self) -> list[str]:
        """As texts what is given up."""
        texts = [
            f"{path}: its data file is read unverified until a compaction writes it anew"
            for path in sorted(self.checksums)
        ]
        if self.statistics:
            names = ", ".join(sorted(self.statistics))
            texts.append(f"statistics of {names}: analyze() makes new ones")
        if self.changes is not None:
            last = f"changes up to snapshot {self.changes}"
            texts.append(f"{last}: streams that have not read them start again; its rows are not concerned")
        return texts
