"""`check`: does a table keep the format's invariants? Branches, tags and changelogs included.

It reads everything anew, by rules written down a second time here. Snapshots are walked oldest first, keeping
the live files as each delta leaves them; every base list must give that same state. Then the data files
themselves are opened (`check_data`). Damage of any kind becomes a violation, never an exception. Known quirks
of other writers are notes: they are reported by `examine`, not by `check`. What expires, or is rolled back,
while it is looked at is no damage: what only such snapshots needed is dropped at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.core.options.rules import notes_on
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format import checksums
from tablestore.format import schema as schema_format
from tablestore.format import snapshot as snapshot_format
from tablestore.format.binary_row import DamagedRow
from tablestore.format.compaction_record import FOLLOWED
from tablestore.format.manifests import manifest as manifest_format
from tablestore.format.manifests.manifest import ADD, DELETE, DataFileMeta, ManifestEntry, ManifestFileMeta
from tablestore.format.schema import TableSchema
from tablestore.format.snapshot import ANALYZE, APPEND, BATCH_IDENTIFIER, COMPACT, Snapshot
from tablestore.insight.check.data import DataCheck
from tablestore.insight.check.findings import Findings, Violation
from tablestore.insight.check.index import IndexCheck
from tablestore.insight.check.levels import live_once
from tablestore.io.paths import POSTPONE_BUCKET, join
from tablestore.meta import changelogs, refs, statistics
from tablestore.meta.deletion_files import Place
from tablestore.meta.identity import UUID
from tablestore.meta.store import Store

__all__ = ["Findings", "Violation", "check", "examine"]
T = TypeVar("T")
Live = dict[tuple[Any, ...], ManifestEntry]
_PYTHON_WRITER = "python"  # start of the writerVersion of one that never counts deletes
_OURS = UUID  # an option of every table made here
_TRIES = 5  # where every snapshot expires while it is looked at
CHANGES = "changes of "  # before a snapshot's name: what its rows do not need
STATISTICS = "statistics of "


@dataclass(slots=True)
class _Needed:
    """A file that was named, and who needs it: snapshots `first` to `last` for their rows, and `others`."""

    entry: ManifestEntry
    first: int | None = None
    last: int | None = None
    others: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        """The names of all who need it."""
        if self.first is not None and self.last is not None:
            yield from (f"snapshot-{i}" for i in range(self.first, self.last + 1))
        yield from self.others

    @property
    def text(self) -> str:
        """Who needs it, shortly."""
        return f"snapshot {self.first}" if self.first is not None else ", ".join(self.others[:3])


def check(store: Store, *, data: bool = True) -> list[Violation]:
    """What is wrong with a table; empty if nothing is. `data` False leaves the data files closed."""
    return examine(store, data=data).violations


def examine(store: Store, *, data: bool = True, branches: bool = True) -> Findings:
    """Violations, and notes on what could not be looked at or is a known quirk of its writer."""
    found = Findings()
    try:
        for _ in range(_TRIES):
            found = Findings()
            if _Check(store, found, data, branches).run():
                break
    except (TablestoreError, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as e:
        found.violate("I2", store.paths.root, f"the check stopped: {e!r}")
    found.note_unsummed()
    return found


@dataclass
class _Check:
    """One examination. Reads every metadata file itself; manifests once."""

    store: Store
    found: Findings
    data: bool
    whole: bool = True  # branches included
    entries: dict[str, list[ManifestEntry]] = field(default_factory=dict)
    files: dict[str, _Needed] = field(default_factory=dict)
    readable: set[int] = field(default_factory=set)  # ids of the schemas that can be read
    lenient: set[str] = field(default_factory=set)  # files whose delete counts their writer never sets
    at_once: set[Place] = field(default_factory=set)  # buckets that two writers wrote at once
    followed: dict[tuple[Any, ...], int] = field(
        default_factory=dict
    )  # files to be compacted by their commit

    def run(self) -> bool:
        """Whether something that was looked at is still there, so that its findings mean something."""
        self.schemas()
        for text in notes_on(self.store.schema.options):
            self.found.note(text)
        snapshots = self.snapshots()
        live: Live | None = None
        before: Snapshot | None = None
        for snapshot in snapshots:
            name = f"snapshot-{snapshot.id}"
            with self.found.about([name]):
                live = self.guarded(name, partial(self.step, before, live, snapshot))
            before = snapshot
        for name in self.tags():
            with self.found.about([name]):
                self.guarded(name, partial(self.tag, name))
        self.changelogs()
        self.identifiers(snapshots)
        self.presence()
        if self.data:
            self.contents(snapshots, list(live.values()) if live is not None else [])
        if self.store.paths.branch == refs.MAIN and self.whole:
            self.branches()
        self.found.without(self.is_gone)
        return not snapshots or any(not self.is_gone(f"snapshot-{s.id}") for s in reversed(snapshots))

    def contents(self, snapshots: list[Snapshot], newest: list[ManifestEntry]) -> None:
        """What the data files hold."""
        files = DataCheck(self.store, self.found, self.lenient, self.at_once)
        files.run((n.entry, n) for n in self.files.values())
        with self.found.about([f"snapshot-{s.id}" for s in snapshots[-1:]]):
            files.order(newest)
            if snapshots:
                self.guarded("levels", lambda: live_once(self.store, self.found, snapshots[-1], newest))
                self.guarded("levels", partial(self.visible, newest))
            if snapshots and newest and self.hashed:
                self.guarded("index", lambda: self.indexes.hashes(snapshots[-1], newest))

    def is_gone(self, holder: str) -> bool:
        """Whether a snapshot, tag or changelog that was looked at is there no more."""
        name = holder.removeprefix(CHANGES).removeprefix(STATISTICS)
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
                found = self.read(path, lambda data, path=path: snapshot_format.from_json(data, path))
                if found is not None:
                    self.guarded(path, partial(self.changelog, name, found))

    def branches(self) -> None:
        """The same for every branch; files that the table names too are not opened twice."""
        for name in refs.branches(self.store):
            own = Findings()
            try:
                store = Store.open(self.store.paths.root, io=self.store.io, env=self.store.env, branch=name)
                part = _Check(store, own, False, entries=self.entries)
                part.run()
                if self.data:
                    new = [(n.entry, n) for path, n in part.files.items() if path not in self.files]
                    DataCheck(store, own, part.lenient).run(new)
                    own.without(part.is_gone)
            except (TablestoreError, OSError) as e:
                own.violate("I2", self.store.paths.branch_dir, str(e))
            self.found.files |= own.files
            self.found.unsummed |= own.unsummed
            for v in own.violations:
                self.found.violate(v.invariant, f"branch {name}: {v.where}", v.text)

    # schemas

    def schemas(self) -> None:
        """I9: ids run without gaps; field ids are unique, never used again, never above the highest."""
        ids = self.store.schemas.ids()
        if ids != list(range(len(ids))):
            self.found.violate("I9", self.store.paths.schema_dir, f"schema ids {ids} have gaps")
        gone: set[int] = set()
        last: TableSchema | None = None
        for schema_id in ids:
            path = self.store.paths.schema(schema_id)
            schema = self.read(path, lambda data, path=path: schema_format.from_json(data, path))
            if schema is None:
                continue
            self.readable.add(schema_id)
            self.schema(path, schema_id, schema, gone, last)
            gone |= (set(last.by_id) if last is not None else set()) - set(schema.by_id)
            last = schema

    def schema(
        self, path: str, schema_id: int, s: TableSchema, gone: set[int], last: TableSchema | None
    ) -> None:
        ids = [f.id for f in s.fields]
        if s.id != schema_id:
            self.found.violate("I1", path, f"holds id {s.id}")
        if len(set(ids)) < len(ids) or len(set(s.names)) < len(s.names):
            self.found.violate("I9", path, "a field id or name is there twice")
        if ids and max(ids) > s.highest_field_id:
            self.found.violate(
                "I9", path, f"field id {max(ids)} is above highestFieldId {s.highest_field_id}"
            )
        if last is not None and s.highest_field_id < last.highest_field_id:
            self.found.violate(
                "I9", path, f"highestFieldId fell from {last.highest_field_id} to {s.highest_field_id}"
            )
        if gone & set(ids):
            self.found.violate(
                "I9", path, f"field ids {sorted(gone & set(ids))} were dropped before and are used again"
            )

    # snapshots

    def snapshots(self) -> list[Snapshot]:
        """Every snapshot that can be read; ids must follow one another."""
        ids = self.store.snapshots.ids()
        if ids and len(ids) <= ids[-1] - ids[0]:  # a listing is no moment: some may have gone during it
            ids = self.store.snapshots.ids()
        for a, b in pairwise(ids):
            if b != a + 1:
                self.found.violate(
                    "I1", self.store.paths.snapshot_dir, f"snapshots {a + 1}..{b - 1} are missing"
                )
        found = []
        for snapshot_id in ids:
            path = self.store.paths.snapshot(snapshot_id)
            with self.found.about([f"snapshot-{snapshot_id}"]):
                snapshot = self.read(path, lambda data, path=path: snapshot_format.from_json(data, path))
                if snapshot is None:
                    continue
                if snapshot.id != snapshot_id:
                    self.found.violate("I1", path, f"holds id {snapshot.id}")
            found.append(snapshot)
        return found

    def step(self, before: Snapshot | None, live: Live | None, snapshot: Snapshot) -> Live | None:
        """The live files after `snapshot`, checked against those before; None if they cannot be known."""
        where = f"snapshot-{snapshot.id}"
        self.resolve(where, snapshot)
        base = self.list(where, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        delta = self.list(where, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        if base is None or delta is None:
            return None
        state = self.apply(f"{where} base", {}, self.all_entries(where, base))
        if (
            live is not None
            and before is not None
            and before.id + 1 == snapshot.id
            and state.keys() != live.keys()
        ):
            lost, more = len(live.keys() - state.keys()), len(state.keys() - live.keys())
            text = f"its base is not the state of snapshot {before.id}: {lost} files are gone, {more} are new"
            self.found.violate("I6", where, text)
        changed = self.all_entries(where, delta)
        if self.keyed and snapshot.commit_kind != COMPACT:
            self.at_once |= _numbered_at_once(state.values(), changed)
        total = _rows(state.values())
        state = self.apply(f"{where} delta", state, changed)
        self.counts(where, snapshot, total, changed)
        self.kind(where, snapshot, changed)
        if FOLLOWED in (snapshot.properties or {}):
            added = (e for e in changed if e.kind == ADD and e.file.level == 0)
            self.followed |= {e.identity: snapshot.id for e in added}
        with self.found.about([CHANGES + where]):
            self.guarded(where, lambda: self.changelog(where, snapshot))
        self.remember(state.values(), snapshot)
        self.beside(where, snapshot, state)
        self.layout(where, state)
        return state

    def beside(self, where: str, snapshot: Snapshot, state: Live) -> None:
        """Index files, row ids and statistics of a snapshot."""
        self.indexes.snapshot(where, snapshot, list(state.values()))
        with self.found.about([STATISTICS + where]):
            self.guarded(where, lambda: statistics.read(self.store, snapshot))

    def resolve(self, where: str, snapshot: Snapshot) -> TableSchema | None:
        """I9: the snapshot's schema is there."""
        try:
            return self.store.schemas.get(snapshot.schema_id)
        except (NotFound, TablestoreError) as e:
            self.found.violate("I9", where, f"schema {snapshot.schema_id}: {e}")
            return None

    def apply(self, where: str, state: Live, entries: Iterable[ManifestEntry]) -> Live:
        """I6: an ADD is of a file that is not live, a DELETE of one that is."""
        after = dict(state)
        for e in entries:
            if e.kind == ADD:
                if e.identity in after:
                    self.found.violate(
                        "I6", where, f"{e.file.file_name} at level {e.file.level} is added twice"
                    )
                after[e.identity] = e
            elif after.pop(e.identity, None) is None:
                self.found.violate(
                    "I6", where, f"{e.file.file_name} at level {e.file.level} is deleted but not live"
                )
        return after

    def counts(self, where: str, s: Snapshot, before: int, changed: list[ManifestEntry]) -> None:
        """I8: record counts are sums over entries."""
        delta = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in changed)
        if s.delta_record_count is not None and s.delta_record_count != delta:
            text = f"deltaRecordCount is {s.delta_record_count}, its entries sum to {delta}"
            self.found.violate("I8", where, text)
        if s.total_record_count is not None and s.total_record_count != before + delta:
            text = f"totalRecordCount is {s.total_record_count}, the live files hold {before + delta}"
            if _OURS in self.store.schema.options:
                self.found.violate("I8", where, text)
            else:
                self.found.note(f"{where}: {text}: its writer may count merged rows")

    def kind(self, where: str, s: Snapshot, changed: list[ManifestEntry]) -> None:
        """What each kind of commit may do."""
        deletes = sum(e.kind == DELETE for e in changed)
        if s.commit_kind == APPEND and deletes:
            self.found.violate("I6", where, f"an APPEND deletes {deletes} files")
        if s.commit_kind == ANALYZE and changed:
            self.found.violate("I6", where, f"an ANALYZE changes {len(changed)} files")
        if (
            s.commit_kind == COMPACT
            and any(e.kind == ADD and e.file.level == 0 for e in changed)
            and self.keyed
            and not any(e.bucket == POSTPONE_BUCKET for e in changed)  # rows that waited come as if written
        ):
            self.found.violate("I7", where, "a COMPACT writes into level 0")

    def visible(self, newest: list[ManifestEntry]) -> None:
        """I13: what a commit was to compact itself does not wait at level 0. A commit that is under way gets
        a second look."""
        left = {e.identity for e in newest} & self.followed.keys()
        if left:
            try:
                now = self.store.manifests.live_entries(self.store.snapshots.latest())
                left &= {e.identity for e in now}
            except TablestoreError:
                pass  # the newest snapshot is damaged, which is a violation of its own
        full = self.store.options.changelog_producer is ChangelogProducer.FULL_COMPACTION
        remedy = "compact(full=True)" if full else "compact()"
        files = Counter(self.followed[identity] for identity in left)
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
        manifests = self.list(where, s.changelog_manifest_list, s.changelog_manifest_list_size)
        if manifests is None:
            return
        entries = self.all_entries(where, manifests)
        if any(e.kind != ADD for e in entries):
            self.found.violate("I6", where, "a changelog manifest deletes files")
        rows = _rows(entries)
        if s.changelog_record_count is not None and rows != s.changelog_record_count:
            self.found.violate(
                "I8", where, f"changelogRecordCount is {s.changelog_record_count}, its files hold {rows}"
            )
        self.remember(entries, s, by=where if where.startswith("changelog-") else CHANGES + where)

    def layout(self, where: str, state: Live) -> None:
        """I4: files of a level do not overlap in keys.

        One file is at one level only; a partition has one number of buckets.
        """
        buckets: dict[tuple[bytes, int], list[DataFileMeta]] = {}
        totals: dict[bytes, set[int]] = {}
        for e in state.values():
            buckets.setdefault((e.partition, e.bucket), []).append(e.file)
            if e.bucket != POSTPONE_BUCKET:
                totals.setdefault(e.partition, set()).add(e.total_buckets)
            if e.total_buckets > 0 and not 0 <= e.bucket < e.total_buckets:
                self.found.violate(
                    "I10", where, f"{e.file.file_name} is in bucket {e.bucket} of {e.total_buckets}"
                )
        for partition, some in totals.items():
            if len(some) > 1:
                text = (
                    f"partition {self.store.partition_text(partition)!r} mixes bucket counts {sorted(some)}"
                )
                self.found.violate("I10", where, text)
        for (partition, bucket), files in buckets.items():
            place = f"{where} {self.store.partition_text(partition)}/bucket-{bucket}".replace(" /", " ")
            for name, count in Counter(f.file_name for f in files).items():
                if count > 1:
                    self.found.violate("I6", place, f"{name} is live at {count} levels")
            if self.keyed and bucket != POSTPONE_BUCKET:  # postponed rows wait unsorted
                self.runs(place, files)

    def runs(self, where: str, files: list[DataFileMeta]) -> None:
        levels: dict[int, list[tuple[Any, Any, str]]] = {}
        for f in files:
            low, high = self.store.key_order(f.min_key), self.store.key_order(f.max_key)
            if high < low:
                self.found.violate("I4", f"{where}/{f.file_name}", "its greatest key is below its least")
            levels.setdefault(f.level, []).append((low, high, f.file_name))
        for level, spans in levels.items():
            spans.sort()
            for (_, end, a), (begin, _, b) in pairwise(spans) if level > 0 else ():
                if begin <= end:
                    self.found.violate("I4", where, f"{a} and {b} overlap in keys at level {level}")

    def identifiers(self, snapshots: list[Snapshot]) -> None:
        """I11: a user's streaming identifiers increase.

        Only the snapshots of one commit share one: first the rows, then the COMPACT.
        """
        last: dict[str, Snapshot] = {}
        for s in snapshots:
            if s.commit_identifier == BATCH_IDENTIFIER:
                continue
            before = last.get(s.commit_user)
            last[s.commit_user] = s
            if before is None or s.commit_identifier > before.commit_identifier:
                continue
            same = s.commit_identifier == before.commit_identifier
            if same and s.commit_kind == COMPACT and before.commit_kind != COMPACT:
                continue
            if s.commit_kind in (ANALYZE, COMPACT) or before.commit_kind == ANALYZE:
                continue  # maintenance under the same user: not a replay of rows
            after = f"{before.commit_identifier} in snapshot {before.id}"
            text = f"identifier {s.commit_identifier} of user {s.commit_user!r} follows {after}"
            self.found.violate("I11", f"snapshot-{s.id}", text)

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
        base = self.list(name, s.base_manifest_list, s.base_manifest_list_size)
        delta = self.list(name, s.delta_manifest_list, s.delta_manifest_list_size)
        if base is not None and delta is not None:
            state = self.apply(name, {}, self.all_entries(name, base + delta))
            self.remember(state.values(), s, by=name)
            self.beside(name, s, state)
            self.layout(name, state)

    # files

    def list(self, where: str, name: str, size: int | None) -> list[ManifestFileMeta] | None:
        """A manifest list; I2 if it is missing, damaged or of another size."""
        path = self.store.paths.manifest(name)
        data = self.read(path, lambda data: data, where=where)
        if data is None:
            return None
        if size is not None and size != len(data):
            self.found.violate("I2", path, f"has {len(data)} bytes, {where} says {size}")
        return self.guarded(path, lambda: manifest_format.decode_list(data, path))

    def all_entries(self, where: str, manifests: Iterable[ManifestFileMeta]) -> list[ManifestEntry]:
        return [e for m in manifests for e in self.manifest(where, m)]

    def manifest(self, where: str, m: ManifestFileMeta) -> list[ManifestEntry]:
        """A manifest's entries; I2 and I8 when it is not as its list says, for each who names it."""
        if m.file_name in self.entries:
            return self.entries[m.file_name]
        path = self.store.paths.manifest(m.file_name)
        data = self.read(path, lambda data: data, where=where)
        if data is None:
            return []
        found = self.guarded(path, lambda: manifest_format.decode_entries(data, path))
        kinds = Counter(e.kind for e in found or ())
        counts, promised = (kinds[ADD], kinds[DELETE]), (m.num_added, m.num_deleted)
        if len(data) != m.file_size:
            self.found.violate("I2", path, f"has {len(data)} bytes, its list says {m.file_size}")
        if counts != promised:
            text = f"holds {counts[0]} added, {counts[1]} deleted; its list says "
            self.found.violate("I8", path, f"{text}{promised[0]} added, {promised[1]} deleted")
        if found is not None and len(data) == m.file_size and counts == promised:
            self.entries[m.file_name] = found
        return found or []

    def remember(self, entries: Iterable[ManifestEntry], snapshot: Snapshot, *, by: str = "") -> None:
        """Note the files that a snapshot needs for its rows, or `by` another name."""
        python = (snapshot.writer_version or "").startswith(_PYTHON_WRITER)
        for e in entries:
            path = self.guarded(
                e.file.file_name, lambda e=e: self.store.file_path(e.partition, e.bucket, e.file)
            )
            if path is None:
                continue
            needed = self.files.get(path)
            if needed is None:
                needed = self.files[path] = _Needed(e)
                if python:
                    self.lenient.add(e.file.file_name)
            if by:
                needed.others = (*needed.others, by)
            else:
                needed.first = snapshot.id if needed.first is None else needed.first
                needed.last = snapshot.id

    def presence(self) -> None:
        """I2: every file that a snapshot, tag or changelog names is there, in its size."""
        folders: dict[str, dict[str, int]] = {}
        for path, needed in sorted(self.files.items()):
            folder, _, name = path.rpartition("/")
            if folder not in folders:
                folders[folder] = {s.name: s.size for s in self.store.io.list(folder)}
            with self.found.about(needed):
                if needed.entry.file.schema_id not in self.readable:
                    schema = self.store.paths.schema(needed.entry.file.schema_id)
                    self.found.violate("I9", schema, "data files need it, and it cannot be read")
                for wanted in (name, *needed.entry.file.extra_files):
                    if wanted not in folders[folder]:
                        self.found.violate("I2", f"{folder}/{wanted}", f"is missing; {needed.text} needs it")
                size, promised = folders[folder].get(name), needed.entry.file.file_size
                if size is not None and size != promised:
                    self.found.violate("I2", path, f"has {size} bytes, its manifest says {promised}")

    def read(self, path: str, parse: Callable[[bytes], T], *, where: str = "") -> T | None:
        """A metadata file, or a violation."""
        try:
            data = checksums.require_named(path, self.store.io.read(path))
            self.found.looked_at(path, checksum=checksums.is_named(path) or checksums.is_sealed(data))
            return parse(data)
        except FileNotFoundError:
            self.found.violate("I2", path, f"is missing; {where} needs it" if where else "is missing")
        except (TablestoreError, OSError) as e:
            self.found.violate("I2", path, str(e))
        return None

    def guarded(self, where: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except DamagedRow as e:
            self.found.violate("I2", self.holder(e.row) or where, e.problem)
        except TablestoreError as e:
            self.found.violate("I2", where, str(e))
        return None

    def holder(self, row: bytes) -> str | None:
        """The manifest with a damaged key, partition or statistic."""
        for name, entries in self.entries.items():
            for e in entries:
                f = e.file
                stats = (f.key_stats, f.value_stats)
                rows = (
                    e.partition,
                    f.min_key,
                    f.max_key,
                    *(r for s in stats for r in (s.min_values, s.max_values)),
                )
                if row in rows:
                    return self.store.paths.manifest(name)
        return None


def _numbered_at_once(before: Iterable[ManifestEntry], changed: Iterable[ManifestEntry]) -> set[Place]:
    """Buckets whose new rows are not numbered above all that were there: their writer began before those
    came, so that lower numbers lie above higher ones for good."""
    lowest: dict[Place, int] = {}
    for e in changed:
        if e.kind == ADD:
            place = e.partition, e.bucket
            lowest[place] = min(lowest.get(place, e.file.min_sequence), e.file.min_sequence)
    return {
        (e.partition, e.bucket)
        for e in before
        if e.file.max_sequence >= lowest.get((e.partition, e.bucket), e.file.max_sequence + 1)
    }


def _rows(entries: Iterable[ManifestEntry]) -> int:
    return sum(e.file.row_count for e in entries)
