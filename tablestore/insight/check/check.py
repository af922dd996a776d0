"""`check`: the invariants that a table, its branches, tags and changelogs break.

It reads everything anew from the store, by rules written down a second time here; no cache is asked.
Snapshots are walked oldest first, keeping the live files as each delta leaves them; every base list must give
that same state, of which only the manifests that are new in it are read. Then the data files themselves are
opened (`data.py`). Damage of any kind becomes a violation, never an exception. Known quirks of other writers
are notes: `examine` reports them, `check` does not. What expires, or is rolled back, during the check is no
damage: violations of what only such snapshots needed are dropped at the end. Memory: that of `live_files.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.core.options.rules import notes_on
from tablestore.core.options.table_options import ChangelogProducer, LookupCompact
from tablestore.format import snapshot as snapshot_format
from tablestore.format.compaction_record import FOLLOWED
from tablestore.format.manifests.manifest import ADD, ManifestEntry
from tablestore.format.schema import TableSchema
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.insight.check.data import DataCheck
from tablestore.insight.check.findings import CHANGES, STATISTICS, CheckFindings, Violation, Violations
from tablestore.insight.check.index import IndexCheck
from tablestore.insight.check.live_files import LiveEntries, NeededFile, NeededFiles, uncollected
from tablestore.insight.check.log_check import LogCheck
from tablestore.insight.check.metadata_reader import EntryCache, MetadataReader
from tablestore.insight.check.states import (
    check_counts,
    check_identifiers,
    check_kind,
    check_layout,
    live_once,
    numbered_at_once,
    readable_schemas,
    rows_of,
)
from tablestore.io.paths import join
from tablestore.log.log import Log
from tablestore.meta import changelogs, refs, statistics
from tablestore.meta.deletion_files import Place
from tablestore.meta.reused_ids import reused_ids
from tablestore.meta.store import Store
from tablestore.write.progress import Progress, ProgressCallback

__all__ = ["Violation", "Violations", "check", "examine"]
T = TypeVar("T")
_TRIES = 5  # where every snapshot expires while it is looked at


def check(
    store: Store, *, data: bool = True, log: Log | None = None, progress: ProgressCallback | None = None
) -> Violations:
    """The violations of a table, and of its `log`, none if it is sound. With `data` False no data file is
    opened. `progress` is called as it goes on."""
    return examine(store, data=data, log=log, progress=progress).violations


def examine(
    store: Store,
    *,
    data: bool = True,
    branches: bool = True,
    log: Log | None = None,
    progress: ProgressCallback | None = None,
) -> CheckFindings:
    """Violations, and notes on what could not be looked at or is a known quirk of its writer."""
    findings = CheckFindings()
    try:
        for _ in range(_TRIES):
            findings = CheckFindings()
            if _Check(store, findings, data, branches, log, progress=progress).run():
                break
    except (TablestoreError, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as e:
        findings.violate("I2", store.paths.root, f"the check stopped: {e!r}")
    findings.note_unsummed()
    return findings


@dataclass
class _Check:
    """One examination."""

    store: Store
    found: CheckFindings
    data: bool
    whole: bool = True  # branches included
    log: Log | None = None
    entries: EntryCache = field(default_factory=EntryCache)
    progress: ProgressCallback | None = None
    wrong: set[bytes] = field(default_factory=set)  # partitions whose layout is, in the snapshot before
    at_once: set[Place] = field(default_factory=set)  # buckets that two writers wrote at once
    followed: dict[tuple[Any, ...], tuple[int, tuple[str, int]]] = field(default_factory=dict)
    """Files to be compacted by their own commit, with its snapshot, user and identifier."""

    def __post_init__(self) -> None:
        self.reader = MetadataReader(self.store, self.found, self.entries)
        self.needed = NeededFiles(self.reader)
        self.named = self.needed.named

    def run(self) -> bool:
        """Look at everything; False if all snapshots have expired meanwhile, so that the findings mean
        nothing."""
        readable = readable_schemas(self.reader)
        for text in notes_on(self.store.schema.options):
            self.found.note(text)
        snapshots = self.snapshots()
        with uncollected():
            live = self.walk(snapshots)
        for name in self.tags():
            with self.found.about([name]):
                self.reader.guarded(name, partial(self.tag, name))
        self.changelogs()
        check_identifiers(self.found, snapshots)
        present = self.step_of("check that files are there", len(self.needed))
        self.needed.require_present(readable, present)
        if self.data:
            self.contents(snapshots, live or LiveEntries())
        if self.store.paths.branch == refs.MAIN and self.whole:
            self.branches()
        if self.log is not None:
            log_check = LogCheck(self.store, self.log, self.found, data=self.data)
            with self.found.about([f"snapshot-{s.id}" for s in snapshots[-1:]]):
                self.reader.guarded("log", lambda: log_check.run(snapshots))
        self.found.without(self.is_gone)
        return not snapshots or any(not self.is_gone(f"snapshot-{s.id}") for s in reversed(snapshots))

    def walk(self, snapshots: Sequence[Snapshot]) -> LiveEntries | None:
        """The live files of the newest snapshot, each looked at after the one before; None if they cannot be
        known."""
        live: LiveEntries | None = None
        before: Snapshot | None = None
        walked = self.step_of("check of snapshots", len(snapshots))
        for snapshot in snapshots:
            name = f"snapshot-{snapshot.id}"
            walked.add(1, name)
            with self.found.about([name]):
                live = self.reader.guarded(name, partial(self.step, before, live, snapshot))
            before = snapshot
        return live

    def step_of(self, name: str, total: int) -> Progress:
        """A part of the check that has so many pieces."""
        return Progress(self.store.env, name, total, self.progress)

    def contents(self, snapshots: list[Snapshot], newest: LiveEntries) -> None:
        """The data files: their rows, order, levels and hash indexes."""
        files = DataCheck(self.store, self.found, self.at_once)
        opened = self.step_of("check of data files", len(self.needed))

        def each() -> Iterator[NeededFile]:
            for needed in self.needed:
                yield needed
                opened.add(1, needed.entry.file.file_name)

        files.run(each())
        with self.found.about([f"snapshot-{s.id}" for s in snapshots[-1:]]):
            files.order(newest.places())
            if snapshots:
                once = partial(live_once, self.store, self.found, snapshots[-1], newest.places())
                self.reader.guarded("levels", once)
                self.reader.guarded("levels", partial(self.visible, newest))
            if snapshots and any(newest.flags) and self.hashed:
                self.reader.guarded("index", partial(self.indexes.hashes, snapshots[-1], newest.places()))

    def is_gone(self, holder: str) -> bool:
        """Whether a snapshot, tag or changelog that was looked at is there no more."""
        name = holder.rpartition(" of ")[2]
        kind = name.partition("-")[0]
        folder = {"snapshot": self.store.paths.snapshot_dir, "tag": self.store.paths.tag_dir}
        return not self.store.io.exists(join(folder.get(kind, self.store.paths.changelog_dir), name))

    @property
    def hashed(self) -> bool:
        """Whether the table has dynamic buckets, each with an index of key hashes."""
        schema = self.store.schema
        global_key = set(schema.partition_keys) <= set(schema.primary_keys)
        return self.keyed and self.store.options.bucket == -1 and global_key

    @cached_property
    def indexes(self) -> IndexCheck:
        return IndexCheck(self.store, self.found)

    def changelogs(self) -> None:
        """I2: what long-lived changelogs name is there."""
        for snapshot_id in changelogs.ids(self.store):
            path = self.store.paths.changelog(snapshot_id)
            name = f"changelog-{snapshot_id}"
            with self.found.about([name]):
                changelog = self.reader.read(path, partial(self.own, path))
                if changelog is not None:
                    self.reader.guarded(path, partial(self.changelog, name, changelog))

    def branches(self) -> None:
        """Check every branch; data files that the table itself names are not opened twice."""
        for name in refs.branches(self.store):
            own = CheckFindings()
            try:
                store = Store.open(self.store.paths.root, io=self.store.io, env=self.store.env, branch=name)
                part = _Check(store, own, False, entries=self.entries)
                part.run()
                if self.data:
                    DataCheck(store, own).run(n for n in part.needed if n.entry not in self.needed)
                    own.without(part.is_gone)
            except (TablestoreError, OSError) as e:
                own.violate("I2", self.store.paths.branch_dir, str(e))
            self.found.files |= own.files
            self.found.unsummed |= own.unsummed
            for v in own.violations:
                self.found.violate(v.invariant, f"branch {name}: {v.where}", v.text)

    # snapshots

    def snapshots(self) -> list[Snapshot]:
        """Every snapshot that can be read; ids must follow one another."""
        ids = self.store.snapshots.ids()
        if not ids:
            self.reader.guarded(self.store.paths.snapshot_dir, self.store.snapshots.latest)
        if ids and len(ids) <= ids[-1] - ids[0]:  # a listing is no moment: some may have gone during it
            ids = self.store.snapshots.ids()
            earliest = self.store.snapshots.earliest_id() or 0
            look = partial(reused_ids, self.store, earliest)
            reused = self.reader.guarded(self.store.paths.snapshot_dir, look) or []
            ids = [i for i in ids if i not in reused]
            text = "its commit was killed after this id had expired: table.expire_snapshots() removes it"
            for snapshot_id in reused:
                self.found.violate("I1", self.store.paths.snapshot(snapshot_id), text)
        for a, b in pairwise(ids):
            if b != a + 1:
                self.found.violate(
                    "I1", self.store.paths.snapshot_dir, f"snapshots {a + 1}..{b - 1} are missing"
                )
        snapshots = []
        for snapshot_id in ids:
            path = self.store.paths.snapshot(snapshot_id)
            with self.found.about([f"snapshot-{snapshot_id}"]):
                snapshot = self.reader.read(path, partial(self.own, path))
                if snapshot is None:
                    continue
                if snapshot.id != snapshot_id:
                    self.found.violate("I1", path, f"holds id {snapshot.id}")
                    continue
            snapshots.append(snapshot)
        return snapshots

    def own(self, path: str, data: bytes) -> Snapshot:
        """The snapshot of this table in the file at `path`."""
        return snapshot_format.require_own(snapshot_format.from_json(data, path), self.store.uuid, path)

    def step(
        self, before: Snapshot | None, live: LiveEntries | None, snapshot: Snapshot
    ) -> LiveEntries | None:
        """The live files after `snapshot`, checked against those before; None if they cannot be known."""
        where = f"snapshot-{snapshot.id}"
        self.resolve(where, snapshot)
        base = self.reader.manifests(where, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        delta = self.reader.manifests(where, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        if base is None or delta is None:
            return None
        follows = live is not None and before is not None and before.id + 1 == snapshot.id
        if live is not None and follows and self.reader.same_entries(where, live.manifests, base):
            state, begins = live, False
        else:
            state, begins = LiveEntries(self.named), True
            for m in base:
                state.apply(self.found, f"{where} base", self.reader.manifest(where, m))
        if before is not None and live is not None and follows and begins:
            self.compare(where, before, live, state)
        changed = self.reader.all_entries(where, delta)
        touched = {e.partition for e in changed}
        if self.keyed and snapshot.commit_kind != COMPACT:
            self.at_once |= numbered_at_once(state.of(touched), changed)
        total = state.rows
        state.apply(self.found, f"{where} delta", changed)
        state.given_by([*base, *delta])
        check_counts(self.store, self.found, where, snapshot, total, changed)
        check_kind(self.store, self.found, where, snapshot, changed)
        self.waiting(snapshot, changed)
        with self.found.about([CHANGES + where]):
            self.reader.guarded(where, lambda: self.changelog(where, snapshot))
        if begins:
            self.needed.begin(state, snapshot)
        else:
            self.needed.change(state, changed, snapshot)
        self.beside(where, snapshot, state)
        self.layout(where, state, self.named.by_partition if begins else touched | self.wrong)
        return state

    def compare(self, where: str, before: Snapshot, live: LiveEntries, base: LiveEntries) -> None:
        """I6: a base list is the state of the snapshot before."""
        lost, more = live.beyond(base), base.beyond(live)
        if lost or more:
            text = f"its base is not the state of snapshot {before.id}: {lost} files are gone, {more} are new"
            self.found.violate("I6", where, text)

    def layout(self, where: str, state: LiveEntries, partitions: Iterable[bytes]) -> None:
        """I4 in some partitions: those that are `wrong` are looked at in each snapshot that has them."""
        wrong = set[bytes]()
        for partition in partitions:
            calls = self.found.calls
            check_layout(self.store, self.found, where, state.places((partition,)))
            if self.found.calls > calls:
                wrong.add(partition)
        self.wrong = wrong

    def waiting(self, snapshot: Snapshot, changed: Sequence[ManifestEntry]) -> None:
        """Note which files the commit of a snapshot was to compact itself, and which it did."""
        options = self.store.options
        at_once = options.lookup_wait and options.lookup_compact is LookupCompact.RADICAL
        waits = at_once or not options.needs_lookup  # else level 0 is for a later commit
        by = (snapshot.commit_user, snapshot.commit_identifier)
        if waits and FOLLOWED in (snapshot.properties or {}):
            added = (e for e in changed if e.kind == ADD and e.file.level == 0)
            self.followed |= {e.identity: (snapshot.id, by) for e in added}
        if not options.needs_lookup and snapshot.commit_kind == COMPACT:  # it came; the rest waits by rule
            gone = {e.identity for e in changed if e.kind != ADD}  # by whom ever, as a lost one is done again
            done = {left[0] for each, left in self.followed.items() if each in gone or left[1] == by}
            self.followed = {each: left for each, left in self.followed.items() if left[0] not in done}

    def beside(self, where: str, snapshot: Snapshot, state: LiveEntries) -> None:
        """Index files, row ids and statistics of a snapshot."""
        self.indexes.snapshot(where, snapshot, state)
        with self.found.about([STATISTICS + where]):
            self.reader.guarded(where, lambda: statistics.read(self.store, snapshot))

    def resolve(self, where: str, snapshot: Snapshot) -> TableSchema | None:
        """I9: the snapshot's schema is there."""
        try:
            return self.store.schemas.get(snapshot.schema_id)
        except (NotFound, TablestoreError) as e:
            self.found.violate("I9", where, f"schema {snapshot.schema_id}: {e}")
            return None

    def visible(self, newest: LiveEntries) -> None:
        """I13: files that a commit was to compact itself do not wait at level 0. The newest snapshot is read
        again for it, as such a commit may just have been at work."""
        left = {identity for identity in self.followed if identity in newest}
        if left:
            try:
                now = self.store.manifests.live_entries(self.store.snapshots.latest())
                left &= {e.identity for e in now}
            except TablestoreError:
                pass  # the newest snapshot is damaged, which is a violation of its own
        full = self.store.options.changelog_producer is ChangelogProducer.FULL_COMPACTION
        remedy = "compact(full=True)" if full else "compact()"
        files = Counter(self.followed[identity][0] for identity in left)
        for snapshot_id, count in sorted(files.items()):
            text = f"its commit was interrupted: {count} files wait at level 0; {remedy} the table"
            self.found.violate("I13", f"snapshot-{snapshot_id}", text)

    @property
    def keyed(self) -> bool:
        return bool(self.store.schema.primary_keys)

    def changelog(self, where: str, s: Snapshot) -> None:
        """Changelog manifests hold ADDs only, and as many rows as the snapshot says."""
        if s.changelog_manifest_list is None:
            return
        manifests = self.reader.manifests(where, s.changelog_manifest_list, s.changelog_manifest_list_size)
        if manifests is None:
            return
        entries = self.reader.all_entries(where, manifests)
        if any(e.kind != ADD for e in entries):
            self.found.violate("I6", where, "a changelog manifest deletes files")
        rows = rows_of(entries)
        if s.changelog_record_count is not None and rows != s.changelog_record_count:
            self.found.violate(
                "I8", where, f"changelogRecordCount is {s.changelog_record_count}, its files hold {rows}"
            )
        self.needed.remember(entries, s, by=where if where.startswith("changelog-") else CHANGES + where)

    # tags

    def tags(self) -> list[str]:
        listed = self.store.io.list(self.store.paths.tag_dir)
        return [s.name for s in listed if not s.is_dir and s.name.startswith("tag-")]

    def tag(self, name: str) -> None:
        """I2: what a tag keeps is there."""
        try:
            s = refs.tagged(self.store, name.removeprefix("tag-"))
        except TablestoreError as e:
            self.found.violate("I2", name, str(e))
            return
        self.resolve(name, s)
        base = self.reader.manifests(name, s.base_manifest_list, s.base_manifest_list_size)
        delta = self.reader.manifests(name, s.delta_manifest_list, s.delta_manifest_list_size)
        if base is not None and delta is not None:
            state = LiveEntries(self.named)
            for m in base + delta:
                state.apply(self.found, name, self.reader.manifest(name, m))
            self.needed.remember(state, s, by=name)
            self.beside(name, s, state)
            self.layout(name, state, self.named.by_partition)
