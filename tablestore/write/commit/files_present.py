"""Are the files of a commit still there? `remove_orphans` takes files that no snapshot names once they are
old enough, so a writer that was open for long may have lost its own. Then the commit is refused: a snapshot
that names them could not be read. One listing a folder, and none where all files are young.
"""

from __future__ import annotations

from collections import defaultdict

from tablestore.core.errors import CommitConflict
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry
from tablestore.meta.store import Store
from tablestore.write.commit.changes import SnapshotChanges

YOUNG_MS = 60_000
"""Orphans are older than that (see `write.retention.orphans`)."""


def require_present(store: Store, changes: SnapshotChanges) -> None:
    """Raise CommitConflict if a file that the changes add is gone."""
    moved = {e.file.file_name for e in changes.entries if e.kind == DELETE}
    added = [e for e in (*changes.entries, *changes.changelog) if e.kind == ADD]
    new = [e for e in added if e.file.file_name not in moved]
    if not any(_is_old(store, e) for e in new):
        return
    wanted: dict[str, set[str]] = defaultdict(set)
    for e in new:
        folder, _, name = store.file_path(e.partition, e.bucket, e.file).rpartition("/")
        wanted[folder].update((name, *e.file.extra_files))
    for i in changes.index:
        if i.kind == ADD:
            folder, _, name = store.index_path(i.partition, i.bucket, i.file).rpartition("/")
            wanted[folder].add(name)
    for folder, names in sorted(wanted.items()):
        gone = sorted(names - {s.name for s in store.io.list(folder)})
        if gone:
            more = f" and {len(gone) - 1} more" if gone[1:] else ""
            raise CommitConflict(
                f"{folder}/{gone[0]}{more} is gone: remove_orphans() took files of this writer, open for "
                "longer than its older_than; nothing was committed, write the rows again",
                files=tuple(gone),
            )


def _is_old(store: Store, entry: ManifestEntry) -> bool:
    created = entry.file.creation_time_ms
    return created is None or store.env.local_now_ms() - created > YOUNG_MS
