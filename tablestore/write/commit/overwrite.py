"""The messages of an overwriting commit: compactions folded into the new files, files upgraded to the oldest
level (FORMAT.md 17.4).

Pure. An OVERWRITE is one snapshot, so what the writers compacted meanwhile counts as written at once; the
same holds for a compaction of postponed rows. Files that do not overlap in keys need no level 0
(`overwrite-upgrade`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import DataFileMeta

KeyOrder = Callable[[bytes], Any]


def folded(message: CommitMessage) -> tuple[CommitMessage, tuple[DataFileMeta, ...]]:
    """The message with its compaction folded into `new_files`, and the files that it no longer names.

    Files that were there before stay in `compact_before`; changelog and index files become those of one
    snapshot too.
    """
    written = {(f.file_name, f.level) for f in message.new_files}
    gone = {(f.file_name, f.level) for f in message.compact_before}
    kept = [f for f in message.new_files if (f.file_name, f.level) not in gone]
    new = (*kept, *message.compact_after)
    names = {f.file_name for f in new}
    before = tuple(f for f in message.compact_before if (f.file_name, f.level) not in written)
    dropped = tuple(f for f in message.new_files if f.file_name not in names)
    result = replace(
        message,
        new_files=new,
        changelog_files=(*message.changelog_files, *message.compact_changelog),
        new_index=(*message.new_index, *message.compact_new_index),
        deleted_index=(*message.deleted_index, *message.compact_deleted_index),
        compact_before=before,
        compact_after=(),
        compact_changelog=(),
        compact_new_index=(),
        compact_deleted_index=(),
    )
    return result, dropped


def as_compaction(message: CommitMessage) -> tuple[CommitMessage, tuple[DataFileMeta, ...]]:
    """The message as one compaction, whose result is what was written, and the files that it no longer
    names."""
    as_append, dropped = folded(message)
    result = replace(
        as_append,
        new_files=(),
        changelog_files=(),
        new_index=(),
        deleted_index=(),
        compact_after=as_append.new_files,
        compact_changelog=as_append.changelog_files,
        compact_new_index=as_append.new_index,
        compact_deleted_index=as_append.deleted_index,
    )
    return result, dropped


def upgraded(messages: Iterable[CommitMessage], key: KeyOrder, top: int) -> list[CommitMessage]:
    """The messages with new files at level `top` where their keys do not overlap; all or none of a bucket.
    Only if every file is fresh and in a real bucket."""
    messages = list(messages)
    if any(f.level for m in messages for f in m.new_files) or any(m.bucket < 0 for m in messages):
        return messages
    return [_upgraded(m, key, top) for m in messages]


def _upgraded(message: CommitMessage, key: KeyOrder, top: int) -> CommitMessage:
    ordered = sorted(message.new_files, key=lambda f: key(f.min_key))
    if any(key(a.max_key) >= key(b.min_key) for a, b in pairwise(ordered)):
        return message
    return replace(message, new_files=tuple(replace(f, level=top) for f in ordered))
