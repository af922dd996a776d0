"""The metadata that the doctor's rules look at: one snapshot added up by bucket, and the newest commits.

Manifests, snapshot files, tags and consumers are read; data files are neither opened nor listed. Memory and
time are bound by the live entries of the snapshot (columns, no objects) and by the newest commits, of which
`Limits` says how many. Made once for a diagnosis; the rules only compute. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tablestore.core.errors import NotFound
from tablestore.format import compaction_record
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import ADD, ManifestFileMeta
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.loop import pick
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.levels.sorted_run import Levels
from tablestore.meta import consumers, expiry_rules, refs
from tablestore.meta.entries import EMPTY, Entries
from tablestore.meta.expiry_rules import Bound
from tablestore.meta.store import Store
from tablestore.read.scan.split_generator import bucket_numbers

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers above which a rule gives a finding (of `newer_share` and `bucket_min_bytes`: below). Bytes are
    those of files on the disk."""

    runs: int = 8  # sorted runs of a bucket, whatever its trigger
    small_files: int = 10  # files of a bucket that combining would save
    merged_bytes: int = 256 * MIB  # bytes that a scan merges for a few newer rows
    newer_share: float = 0.05  # ... which are at most this share of them
    bucket_bytes: int = GIB  # Paimon's guidance: 200 MB to 1 GB a bucket
    bucket_min_bytes: int = 20 * MIB  # a tenth of what the guidance says
    many_buckets: int = 8  # fewer are never too many
    skew: float = 3.0  # the largest against the mean
    skew_bytes: int = 64 * MIB  # a smaller one is never too large
    deleted_share: float = 0.2  # of rows that are deletes, or marked as deleted
    deleted_rows: int = 1_000
    kept_bytes: int = 64 * MIB  # kept for tags, consumers and old snapshots only
    kept_share: float = 0.5  # ... and this share of the live bytes
    kept_snapshots: int = 10
    consumer_ms: int = 86_400_000  # a consumer that stands still so long is stale
    waiting_ms: int = 3_600_000  # postponed rows may wait so long
    manifests: int = 100
    dead_entries: int = 10_000  # entries of files that are gone, beside the live ones
    commits: int = 100  # newest commits that are looked at
    entries: int = 100_000  # ... whose manifests hold so many entries at most
    tags: int = 20  # tags whose files are added up
    lost_races: int = 20  # retries of these commits, since others were first
    stalls: int = 3  # waits for compaction among these commits
    decisions: int = 20  # buckets whose compaction is decided for evidence


@dataclass(frozen=True)
class BucketPlaces:
    """The buckets of a snapshot, added up: one number each in arrays of one length."""

    partition: Sequence[bytes]
    bucket: np.ndarray
    total: np.ndarray
    files: np.ndarray
    size: np.ndarray
    rows: np.ndarray
    deletes: np.ndarray
    level0: np.ndarray
    runs: np.ndarray

    def __len__(self) -> int:
        return len(self.bucket)


@dataclass(frozen=True)
class _Commit:
    """A snapshot with the manifests of its delta and its changelog."""

    snapshot: Snapshot
    delta: Sequence[ManifestFileMeta]
    changelog: Sequence[ManifestFileMeta]

    @classmethod
    def of(cls, store: Store, snapshot: Snapshot) -> _Commit:
        name, read = snapshot.changelog_manifest_list, store.manifests.read_list
        with store.manifests.expiring(snapshot):
            return cls(snapshot, read(snapshot.delta_manifest_list), [] if name is None else read(name))

    @property
    def entries(self) -> int:
        """Entries to be read for it."""
        return _entries(self.delta) + _entries(self.changelog)


def _entries(manifests: Sequence[ManifestFileMeta]) -> int:
    return sum(m.num_added + m.num_deleted for m in manifests)


class Facts:
    """Metadata of `snapshot`, each part read when a rule first asks for it."""

    def __init__(self, store: Store, snapshot: Snapshot, limits: Limits) -> None:
        self.store, self.snapshot, self.limits = store, snapshot, limits
        self.schema, self.options = store.schema, store.options
        self.keyed = bool(store.schema.primary_keys)

    @cached_property
    def manifests(self) -> list[ManifestFileMeta]:
        """Manifests of the snapshot's state."""
        return self.store.manifests.manifests(self.snapshot)

    @cached_property
    def _live(self) -> Entries:
        return self.store.manifests.live_entries(self.snapshot)

    @cached_property
    def waiting(self) -> Entries:
        """Files of postponed buckets."""
        return self._live.filter(self._live.numbers("bucket") == POSTPONE_BUCKET)

    @cached_property
    def live(self) -> Entries:
        """Live files of real buckets."""
        return self._live.filter(self._live.numbers("bucket") != POSTPONE_BUCKET)

    @cached_property
    def group(self) -> np.ndarray:
        """The place of each live file, an index into `places`."""
        return bucket_numbers(self.live) if len(self.live) else np.zeros(0, dtype=np.int64)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Bytes of each live file."""
        return self.live.numbers("file_size")

    @cached_property
    def places(self) -> BucketPlaces:
        """Each bucket's numbers."""
        live, group = self.live, self.group
        count = int(group.max()) + 1 if len(group) else 0
        first = np.full(count, len(group), dtype=np.int64)
        np.minimum.at(first, group, np.arange(len(group)))
        distinct, codes = live.partitions()
        levels = live.numbers("level")
        upper = np.unique((group << 16 | levels)[levels > 0]) >> 16  # one run a level
        level0 = np.bincount(group[levels == 0], minlength=count)
        return BucketPlaces(
            partition=[distinct[c] for c in codes[first]],
            bucket=live.numbers("bucket")[first],
            total=live.numbers("total_buckets")[first],
            files=np.bincount(group, minlength=count),
            size=added(group, self.sizes, count),
            rows=added(group, live.numbers("row_count"), count),
            deletes=added(group, live.numbers("delete_count"), count),
            level0=level0,
            runs=level0 + np.bincount(upper, minlength=count),
        )

    def name(self, place: int) -> str:
        """`dt=2026-01-01/bucket-3`."""
        partition = self.store.partition_text(self.places.partition[place])
        return "/".join(t for t in (partition, f"bucket-{self.places.bucket[place]}") if t)

    def decision(self, place: int) -> Decision:
        """What the engine's own rules say of a bucket now."""
        return self.decided(self.live.filter(self.group == place))

    def decided(self, entries: Entries) -> Decision:
        """What the engine's own rules say of a bucket with these live files."""
        levels = Levels.of((e.file for e in entries), self.options.num_levels, self.store.key_order)
        return pick(levels, self.rules, PickContext.at(self.store.env.local_now_ms(), levels))

    def files_by_place(self) -> Iterator[Entries]:
        """The live files of each place, in turn."""
        order = np.argsort(self.group, kind="stable")
        ends = np.cumsum(np.bincount(self.group, minlength=len(self.places))).tolist()
        for start, end in zip([0, *ends], ends, strict=False):
            yield self.live.take(order[start:end])

    @cached_property
    def records(self) -> list[CompactionRecord]:
        """The records of the compactions of `commits`; other engines keep none."""
        records: list[CompactionRecord] = []
        for s in self.commits:
            text = (s.properties or {}).get(compaction_record.PROPERTY)
            if text is not None and s.commit_kind == COMPACT:
                path = self.store.paths.snapshot(s.id)
                records += compaction_record.from_property(text, path)
        return records

    @cached_property
    def rules(self) -> CompactionOptions:
        """What the options ask of compaction."""
        return CompactionOptions.of(self.options)

    @cached_property
    def backlog(self) -> np.ndarray:
        """What makes writers of each bucket wait: its sorted runs, or, leveled, its files of level 0."""
        return self.places.level0 if self.rules.leveled else self.places.runs

    @property
    def trigger(self) -> int:
        """The backlog that starts a compaction."""
        return self.rules.level0_trigger if self.rules.leveled else self.rules.trigger

    @cached_property
    def snapshot_ids(self) -> list[int]:
        """Every snapshot that is kept, up to this one."""
        return [i for i in self.store.snapshots.ids() if i <= self.snapshot.id]

    @cached_property
    def _newest(self) -> list[_Commit]:
        """The newest commits with their lists, oldest first, within the limits of commits and entries."""
        commits: list[_Commit] = []
        left = self.limits.entries
        for snapshot_id in reversed(self.snapshot_ids[-self.limits.commits :]):
            try:
                commit = _Commit.of(self.store, self.store.snapshots.get(snapshot_id))
            except NotFound:  # expired meanwhile
                break
            left -= commit.entries
            if left < 0 and commits:
                break
            commits.append(commit)
        return commits[::-1]

    @cached_property
    def commits(self) -> list[Snapshot]:
        """The newest commits up to this one, oldest first, as many as `limits` allow."""
        return [c.snapshot for c in self._newest]

    @cached_property
    def deltas(self) -> list[Entries]:
        """What each of `commits` changed, read together."""
        return self._of_lists([c.delta for c in self._newest])

    @cached_property
    def changelogs(self) -> list[Entries]:
        """The changelog files of each of `commits`."""
        return self._of_lists([c.changelog for c in self._newest])

    def _of_lists(self, lists: Sequence[Sequence[ManifestFileMeta]]) -> list[Entries]:
        with self.store.manifests.expiring(*self.commits):
            entries = self.store.manifests.read_manifests([m for some in lists for m in some])
        ends = np.cumsum([_entries(some) for some in lists]).tolist()
        return [entries[a:b] if b > a else EMPTY for a, b in zip([0, *ends], ends, strict=False)]

    @cached_property
    def last_compaction(self) -> int | None:
        """Id of the newest COMPACT snapshot among `commits`."""
        return max((s.id for s in self.commits if s.commit_kind == COMPACT), default=None)

    @cached_property
    def consumers(self) -> dict[str, int]:
        """The next snapshot of every stream reader."""
        return consumers.all_next(self.store)

    @cached_property
    def consumer_bounds(self) -> list[Bound]:
        """Bounds of the consumers that keep snapshots, not only changelogs, from expiring."""
        return expiry_rules.consumer_bounds(self.store)

    @cached_property
    def tags(self) -> list[refs.Tag]:
        """Every tag."""
        return refs.all_tags(self.store)


def added(group: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Sums of whole numbers by group, exact."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, group, values)
    return sums


def gone_bytes(delta: Entries) -> int:
    """Bytes of the files that a commit removed; a file that it only moved to another level does not count."""
    kinds = delta.numbers("kind")
    names = delta.table.column("file_name").to_numpy(zero_copy_only=False)
    again = np.isin(names, names[kinds == ADD])
    return int(delta.numbers("file_size")[(kinds != ADD) & ~again].sum())
