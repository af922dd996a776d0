"""When a writer compacts fully: every `full-compaction.delta-commits` commits each bucket (FORMAT.md 12.6).

Commits are counted back from the newest snapshot to the one that last added a file of the bucket to the
oldest level, at most as many as the option says, so older snapshots may expire. Used by table writes that
compact.
"""

from __future__ import annotations

from collections.abc import Callable

from tablestore.core.errors import NotFound
from tablestore.core.options.table_options import ChangelogProducer, TableOptions
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.meta.store import Store

Place = tuple[bytes, int]  # partition, bucket


def interval(options: TableOptions) -> int | None:
    """Commits between full compactions; None if writers make none. For the producer full-compaction it is 1
    unless the option says otherwise."""
    if options.full_delta_commits is not None:
        return max(1, options.full_delta_commits)
    return 1 if options.changelog_producer is ChangelogProducer.FULL_COMPACTION else None


def due(store: Store, latest: Snapshot | None, every: int) -> Callable[[Place], bool]:
    """A function that says whether the commit after `latest` compacts a bucket fully."""
    oldest = store.options.num_levels - 1
    commits = 1  # the one to come
    since: dict[Place, int] = {}  # commits since the bucket was last brought to the oldest level
    snapshot = latest
    while snapshot is not None and commits < every:
        try:
            if snapshot.commit_kind == COMPACT:
                for e in store.manifests.delta_entries(snapshot):
                    if e.kind == ADD and e.file.level >= oldest:
                        since.setdefault((e.partition, e.bucket), commits)
            else:
                commits += 1
            snapshot = store.snapshots.get(snapshot.id - 1) if snapshot.id > 1 else None
        except NotFound:  # expired, maybe while it was read
            commits, snapshot = every, None
    return lambda place: since.get(place, commits) >= every
