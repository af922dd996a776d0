"""The history of a table's compactions and of what its snapshots wrote, also after these expired
(FORMAT.md 25.7).

A live COMPACT snapshot says what it did in its property `tablestore.compactions`, or, if another engine made
it, by its manifests. Before expiry removes snapshots it appends a line of JSON for each to a file in
`tablestore/history` of the table (of a branch: below the branch), where no other engine looks:

    history-<first id>-<last id>-<checksum>.jsonl
    {"id", "time", "kind", "uuid", "n": counts, "c": records, "f": what writers put into each level}

A file is written once, under a name made of its content; a kill may leave lines twice, and readers drop the
duplicates. Every 64 snapshots small files are joined. Snapshots that another engine expires leave no line:
`missing` names them. Memory: one line per expired snapshot. Called by expiry and inspection.
"""

from __future__ import annotations

import json
import logging
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tablestore.core.errors import Corrupt, FileMissing, NotFound, SnapshotExpired, TablestoreError, brief
from tablestore.format import compaction_record
from tablestore.format.compaction_record import PROPERTY, CompactionRecord
from tablestore.format.manifests.manifest import ADD, DataFileMeta
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.io.paths import join
from tablestore.meta.deltas import Deltas, read_both
from tablestore.meta.entries import EMPTY, Entries
from tablestore.meta.store import Store

log = logging.getLogger(__name__)
_FILE = re.compile(r"history-(\d+)-(\d+)-[0-9a-f]{8}\.jsonl")
_FLUSH = ("kind", "partition", "bucket", "level", "file_size")
_JOIN_EVERY = 64  # snapshots
_SMALL_BYTES = 1 << 20  # larger files are not joined
_MAX_BYTES = 16 << 20  # of a joined file


@dataclass(frozen=True, slots=True)
class Counts:
    """Data files that a snapshot added, deleted and only moved to another level, and its changelog."""

    added_files: int = 0
    added_bytes: int = 0
    added_rows: int = 0
    deleted_files: int = 0
    deleted_bytes: int = 0
    deleted_rows: int = 0
    moved_files: int = 0
    moved_bytes: int = 0
    changelog_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FlushRecord:
    """Bytes of the files that a snapshot's writers put into one level of a bucket, and of their changelog."""

    partition: str
    bucket: int
    level: int
    bytes: int
    changelog_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """What one snapshot did. `counts` are None where its manifests were already gone; `flushed` is empty for
    a COMPACT snapshot, None where it was not recorded."""

    snapshot: int
    time_ms: int
    kind: str
    counts: Counts | None
    compactions: tuple[CompactionRecord, ...] = ()
    uuid: str | None = None
    flushed: tuple[FlushRecord, ...] | None = None

    @property
    def rank(self) -> tuple[int, bool]:
        """Which of two lines about one id counts (the higher rank): the newer; of two processes that expired
        the snapshot, that of the one which still found its manifests."""
        return self.time_ms, self.counts is not None


Explain = Callable[[Store, Snapshot, Sequence[CompactionRecord]], Sequence[CompactionRecord]]


def as_recorded(
    store: Store, snapshot: Snapshot, records: Sequence[CompactionRecord]
) -> Sequence[CompactionRecord]:
    """The records unchanged: an `Explain` that adds nothing."""
    return records


def lacks_trials(record: CompactionRecord) -> bool:
    """Whether a record lacks the rules that were tried: another engine compacted, or its commit had no room
    for them."""
    return not record.trials and not record.asked


def of_live(
    store: Store, snapshots: Sequence[Snapshot], explain: Explain = as_recorded
) -> Iterator[tuple[int, int, CompactionRecord]]:
    """(snapshot, time in ms, record) of every compaction of these snapshots, which are there, in order.

    Snapshots of other engines give a record without a rule for each bucket that they compacted, to which
    `explain` adds what can be known of it.
    """
    some: Iterable[Snapshot] = snapshots
    if any(s.commit_kind == COMPACT and PROPERTY not in (s.properties or {}) for s in snapshots):
        some = store.manifests.prefetched(snapshots, bases=True)
    for snapshot in some:
        records = _explained(store, snapshot, explain)
        yield from ((snapshot.id, snapshot.time_millis, r) for r in records)


def missing(store: Store, gone: Sequence[SnapshotRecord]) -> tuple[tuple[int, int], ...]:
    """Ranges (first, last) of snapshots without history, given that of the expired ones: another engine
    expired them, or history was off."""
    earliest = store.snapshots.earliest_id()
    if earliest is None:
        return ()
    recorded = [0, *(done.snapshot for done in gone), earliest]
    return tuple((a + 1, b - 1) for a, b in pairwise(recorded) if b > a + 1)


def names(store: Store) -> tuple[str, ...]:
    """The files of the history, each named by its content: as long as they are the same, so is the
    history."""
    return tuple(name for name, _ in _files(store))


def of(store: Store, snapshot: Snapshot) -> tuple[CompactionRecord, ...]:
    """The compactions of an existing snapshot: its records, else what its manifests show."""
    kept = (snapshot.properties or {}).get(PROPERTY)
    if kept is not None:
        return compaction_record.from_property(kept, store.paths.snapshot(snapshot.id))
    return _foreign(store, snapshot) if snapshot.commit_kind == COMPACT else ()


def _explained(store: Store, snapshot: Snapshot, explain: Explain) -> tuple[CompactionRecord, ...]:
    """The compactions of a snapshot; those without trials with what `explain` finds."""
    records = of(store, snapshot)
    return tuple(explain(store, snapshot, records)) if any(map(lacks_trials, records)) else records


def expired(store: Store) -> list[SnapshotRecord]:
    """What the snapshots did that have expired, the oldest first. Raises Corrupt for a damaged file."""
    earliest = store.snapshots.earliest_id()
    newest: dict[int, SnapshotRecord] = {}
    for name, _ in _files(store):
        path = join(store.paths.history_dir, name)
        for line in _lines(store, path):
            done = _done_of(line, path)
            recorded = newest.get(done.snapshot)
            # after a rollback ids are used again; live snapshots have their own records
            if (earliest is None or done.snapshot < earliest) and (
                recorded is None or recorded.rank <= done.rank
            ):
                newest[done.snapshot] = done
    return [newest[i] for i in sorted(newest)]


def lines(
    store: Store,
    some: list[Snapshot],
    read: tuple[Deltas | None, Deltas | None],
    explain: Explain = as_recorded,
) -> list[str]:
    """The lines of these snapshots, whose files are still there, or were. `read`: as `read_both` gives it.

    `explain` completes records without trials from the manifests, which expire with the snapshot.
    """
    return [_line(done) for done in _records_of(store, some, *read, explain)]


def keep(store: Store, lines: Sequence[str], first: int, last: int) -> None:
    """Write the lines of the snapshots from id `first` to `last`, before their files are deleted."""
    _write(store, lines, first, last)
    if last // _JOIN_EVERY > (first - 1) // _JOIN_EVERY:
        try:
            _join(store)
        except TablestoreError as e:  # every line is still there
            log.warning("history files of %s stay small: %s", store.paths.root, e)


def adopt(store: Store, branch: Store) -> None:
    """Copy the history of a branch, when its snapshots become the table's."""
    for name, _ in _files(branch):
        store.io.write_new(
            join(store.paths.history_dir, name),
            branch.io.read(join(branch.paths.history_dir, name)),
            after=store.after,
        )


def _files(store: Store) -> list[tuple[str, int]]:
    """(name, bytes) of the history's files, those of the oldest snapshots first."""
    files = [
        (int(m[1]), int(m[2]), s.name, s.size)
        for s in store.io.list(store.paths.history_dir)
        if (m := _FILE.fullmatch(s.name))
    ]
    return [(name, size) for _, _, name, size in sorted(files)]


def _lines(store: Store, path: str) -> list[str]:
    try:
        return store.io.read(path).decode().splitlines()
    except FileNotFoundError:  # joined into another file meanwhile
        return []
    except UnicodeDecodeError as e:
        raise Corrupt(path, f"no history of compactions: {brief(e)}") from e


def _write(store: Store, lines: Sequence[str], first: int, last: int) -> str:
    data = "".join(f"{line}\n" for line in lines).encode()
    name = f"history-{first}-{last}-{zlib.crc32(data):08x}.jsonl"
    path = join(store.paths.history_dir, name)
    store.io.write_new(path, data, after=store.after)  # exists already, with the same content
    return name


def _join(store: Store) -> None:
    """Join small files into one; they are deleted once it is written."""
    chosen: list[str] = []
    total = 0
    for name, size in _files(store):
        if size <= _SMALL_BYTES and total + size <= _MAX_BYTES:
            chosen.append(name)
            total += size
    if len(chosen) < 2:
        return
    lines = {line: None for name in chosen for line in _lines(store, join(store.paths.history_dir, name))}
    ids = [int(part) for name in chosen for part in name.split("-")[1:3]]
    joined = _write(store, list(lines), min(ids), max(ids))
    for name in chosen:
        if name != joined:
            store.io.delete(join(store.paths.history_dir, name))
    log.info("joined %d history files of %s", len(chosen), store.paths.root)


def _records_of(
    store: Store, some: list[Snapshot], changed: Deltas | None, logged: Deltas | None, explain: Explain
) -> Iterator[SnapshotRecord]:
    """The records of these snapshots, from their properties and manifests, as far as these can be read."""
    if len(some) > 1 and (changed is None or logged is None):  # of one a file is gone or damaged
        for snapshot in some:
            alone = [snapshot]
            yield from _records_of(store, alone, *read_both(store.manifests, alone), explain)
        return
    counts: Sequence[Counts | None] = [None]
    flushed: Sequence[tuple[FlushRecord, ...] | None] = [None]
    if changed is not None:
        counts = _counts(changed, logged)
        flushed = _flushed(store, some, changed, logged)
    else:  # damaged, or another process expires it too
        log.warning("kept in part only: snapshot %d of %s", some[0].id, store.paths.root)
    for at, s in enumerate(some):
        compactions: tuple[CompactionRecord, ...] = ()
        try:
            compactions = _explained(store, s, explain)
        except (Corrupt, NotFound) as e:
            log.warning("kept in part only: snapshot %d of %s: %s", s.id, store.paths.root, e)
        yield SnapshotRecord(
            *(s.id, s.time_millis, s.commit_kind, counts[at], compactions, s.uuid, flushed[at])
        )


def _flushed(
    store: Store, some: Sequence[Snapshot], changed: Deltas, logged: Deltas | None
) -> list[tuple[FlushRecord, ...]]:
    """The files that the writers of each snapshot added, summed by bucket and level; `logged` are changelog
    files."""
    sums: list[dict[tuple[bytes, int, int], list[int]]] = [{} for _ in some]
    for i, read in enumerate((changed, logged)):
        if read is None:
            continue
        columns = [read.entries.table.column(n).to_pylist() for n in _FLUSH]
        for at, kind, partition, bucket, level, size in zip(read.owners.tolist(), *columns, strict=True):
            if kind == ADD and some[at].commit_kind != COMPACT:
                sums[at].setdefault((partition, bucket, level), [0, 0])[i] += size
    return [
        tuple(FlushRecord(store.partition_text(p), b, level, *n) for (p, b, level), n in of_one.items())
        for of_one in sums
    ]


def _changes(store: Store, snapshot: Snapshot) -> Entries:
    """Entries of the changelog files; none where their manifests are gone."""
    try:
        return store.manifests.changelog_entries(snapshot)
    except (FileMissing, SnapshotExpired):
        return EMPTY


def _counts(changed: Deltas, logged: Deltas | None) -> list[Counts]:
    """What each snapshot added, deleted and moved; `logged` are changelog files."""
    adding, moved = changed.adding, changed.moved()
    parts = [changed.sums(chosen) for chosen in (adding & ~moved, ~adding & ~moved)]
    parts.append(changed.sums(adding & moved)[:, :2])
    if logged is None:
        changelog = np.zeros((len(parts[0]), 1), dtype=np.int64)
    else:
        changelog = logged.sums(np.ones(len(logged.entries), dtype=bool))[:, 1:2]
    return [Counts(*row) for row in np.concatenate([*parts, changelog], axis=1).tolist()]


def _foreign(store: Store, snapshot: Snapshot) -> tuple[CompactionRecord, ...]:
    """The compactions of another engine, one record a bucket."""
    parts: dict[tuple[bytes, int], tuple[list[DataFileMeta], ...]] = {}
    for e in store.manifests.delta_entries(snapshot):
        before, after, _ = parts.setdefault((e.partition, e.bucket), ([], [], []))
        (after if e.kind == ADD else before).append(e.file)
    for e in _changes(store, snapshot):
        parts.setdefault((e.partition, e.bucket), ([], [], []))[2].append(e.file)
    return tuple(
        compaction_record.foreign_record(store.partition_text(p), b, *files)
        for (p, b), files in parts.items()
    )


def _line(done: SnapshotRecord) -> str:
    body: dict[str, Any] = {"id": done.snapshot, "time": done.time_ms, "kind": done.kind}
    if done.uuid is not None:
        body["uuid"] = done.uuid
    if done.counts is not None:
        body["n"] = [getattr(done.counts, name) for name in Counts.__dataclass_fields__]
    if done.compactions:
        body["c"] = compaction_record.to_property(done.compactions, max_bytes=None)
    if done.flushed:
        rows = [[f.partition, f.bucket, f.level, f.bytes, f.changelog_bytes] for f in done.flushed]
        body["f"] = compaction_record.packed(json.dumps(rows, separators=(",", ":"), ensure_ascii=False))
    return json.dumps(body, separators=(",", ":"), ensure_ascii=True)


def _done_of(line: str, path: str) -> SnapshotRecord:
    try:
        body = json.loads(line)
        numbers = body.get("n")
        counts = None if numbers is None else Counts(*map(int, numbers))
        kept = body.get("c")
        return SnapshotRecord(
            int(body["id"]),
            int(body["time"]),
            str(body["kind"]),
            counts,
            () if kept is None else compaction_record.from_property(kept, path),
            body.get("uuid"),
            _flushed_of(body),
        )
    except compaction_record.DAMAGED as e:
        raise Corrupt(path, f"no history of compactions: {brief(e)}") from e


def _flushed_of(body: dict[str, Any]) -> tuple[FlushRecord, ...] | None:
    if "f" not in body:
        return () if body["kind"] == COMPACT or not any((body.get("n") or (1,))[:3]) else None
    rows = json.loads(compaction_record.unpacked(body["f"]))
    return tuple(FlushRecord(str(p), *map(int, numbers)) for p, *numbers in rows)
