"""Commit messages or delete their files: the one rule for files that no snapshot names.

Before a commit begins no snapshot can name them, so any error deletes them (`discarded_on_error`). Once it
has begun, only a certain refusal does (`discarded_if_refused`): CommitConflict and NotFound say that no
snapshot names them and none will. After CommitUnknown, or an error of the store, a snapshot may name them:
nothing is deleted, and the removal of orphan files finds those that none names. Only for messages that nobody
commits again: an engine keeps its files until it knows the outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tablestore.core.errors import CommitConflict, NotFound, TablestoreError
from tablestore.format import checksums
from tablestore.format.commit_message import CommitMessage
from tablestore.io.paths import inside, join
from tablestore.meta.store import Store, remove_made_anew
from tablestore.write.commit.committer import Committer
from tablestore.write.commit.request import CommitRequest, Committed

log = logging.getLogger(__name__)


def commit_or_discard(store: Store, messages: Sequence[CommitMessage], request: CommitRequest) -> Committed:
    """The result of a commit. Files of the messages that are in no snapshot are deleted: all of a commit that
    is refused or a replay, those of a compaction that is known to be lost. Raises what `Committer.commit`
    does."""
    with discarded_if_refused(store, messages):
        committed = Committer(store).commit(messages, request)
    lost = committed.lost_compaction is not None and not committed.lost_compaction.unknown
    if committed.replayed or lost:
        try:
            discard(store, messages, compactions_only=lost)
        except (TablestoreError, OSError) as e:  # the rows are committed
            log.warning("%s: left files of no snapshot behind: %s", store.paths.root, e)
    return committed


@contextmanager
def discarded_if_refused(store: Store, messages: Iterable[CommitMessage]) -> Iterator[None]:
    """A context around a commit of messages: deletes their files if it is certain that it did not happen."""
    try:
        yield
    except (CommitConflict, NotFound):
        discard(store, messages)
        remove_made_anew(store.io, store.paths.root)
        raise


@contextmanager
def discarded_on_error(store: Store, messages: Iterable[CommitMessage]) -> Iterator[None]:
    """A context around work before a commit: deletes the files of the messages whatever it raises. Messages
    may be added meanwhile."""
    try:
        yield
    except BaseException:
        discard(store, messages)
        remove_made_anew(store.io, store.paths.root)
        raise


def discard(store: Store, messages: Iterable[CommitMessage], *, compactions_only: bool = False) -> None:
    """Delete the files of messages that no snapshot names and none ever will."""
    for m in messages:
        moved = {f.file_name for f in m.compact_before}
        files = [f for f in (*m.compact_after, *m.compact_changelog) if f.file_name not in moved]
        if not compactions_only:
            files += [*m.new_files, *m.changelog_files]
        for file in files:
            path = store.file_path(m.partition, m.bucket, file)
            store.io.delete(path)
            checksums.delete_sum(store.io, store.paths.checksums_dir, path)
            for extra in file.extra_files:
                store.io.delete(join(store.bucket_dir(m.partition, m.bucket), inside(extra)))
        indexes = m.compact_new_index if compactions_only else (*m.new_index, *m.compact_new_index)
        for index in indexes:
            store.io.delete(store.index_path(m.partition, m.bucket, index))
