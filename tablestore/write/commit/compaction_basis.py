"""The snapshot that the compactions of an engine's writer are made from, also when it writes on after a
commit.

Where files above level 0 are read without a merge, a commit refuses a compaction that did not know another
one's files. A writer that prepares again knows its own, which are in its levels: so its basis moves past
snapshots in which nobody else added files above level 0 to the buckets that it compacts. Belongs to one
thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tablestore.core.errors import NotFound
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import ADD, ManifestEntry
from tablestore.meta.store import Store

Place = tuple[bytes, int]


def compacted_files(store: Store, since: int, until: int) -> Iterator[tuple[int, list[ManifestEntry] | None]]:
    """(snapshot id, files that it added above level 0) of each snapshot after `since`, up to `until`; None
    for the files of one that has expired."""
    for snapshot_id in range(since + 1, until + 1):
        try:
            entries = store.manifests.delta_entries(store.snapshots.get(snapshot_id))
        except NotFound:
            yield snapshot_id, None
            continue
        above = (entries.numbers("kind") == ADD) & (entries.numbers("level") > 0)
        yield snapshot_id, list(entries.filter(above)) if above.any() else []


@dataclass(slots=True)
class CompactionBasis:
    """The writer knows all files of `snapshot`, and those of its `own` compactions since, by bucket."""

    store: Store
    snapshot: int
    own: dict[Place, set[str]] = field(default_factory=dict)

    def stamped(self, messages: Iterable[CommitMessage]) -> list[CommitMessage]:
        """The messages; those that compact say which snapshot they were made from."""
        messages = list(messages)
        if self.own:
            self._advance()
        for m in messages:
            if m.compact_after:
                names = self.own.setdefault((m.partition, m.bucket), set())
                names.update(f.file_name for f in m.compact_after)
        compacts = (m.compact_before or m.compact_after for m in messages)
        return [
            replace(m, compacted_from=self.snapshot) if compacts_files else m
            for m, compacts_files in zip(messages, compacts, strict=True)
        ]

    def _advance(self) -> None:
        """Move to the newest snapshot before which nobody else compacted these buckets."""
        latest = self.store.snapshots.latest_id() or 0
        for snapshot_id, files in compacted_files(self.store, self.snapshot, latest):
            if files is None or any(not self._knows(e) for e in files):
                return
            self.snapshot = snapshot_id

    def _knows(self, e: ManifestEntry) -> bool:
        """Whether this writer's own compaction added a file."""
        return e.file.file_name in self.own.get((e.partition, e.bucket), ())
