"""Planning a repair: what of a damaged table is sound, what is broken, and what has to go (FORMAT.md 25.10).

The rules of `check` say what is broken and who needs it. The newest sound snapshot becomes the newest, as by
a rollback. Snapshots below a damaged one go, since ids must follow one another; those that can be read get a
tag each. A snapshot file is made again from a tag that kept it. Schemas go only where nothing that stays
needs them. A branch without a sound state goes as a whole. Every data file is read once, as `check` reads it:
a loss of power can leave one in full length that holds zeros.

What is beside the rows costs no snapshot. Indexes of files and hash indexes are made again from the rows.
Checksums are put aside: nobody knows any more what was written. Statistics are left out of the snapshots that
name them. Changes cannot be made again: streams must not pass over them, so the snapshots up to there go, and
tags keep their rows. Plans only; `table.rebuilding` and `verbs.mend` carry them out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tablestore.core.errors import Corrupt, NotFound, TablestoreError
from tablestore.format.snapshot import Snapshot
from tablestore.insight.check.check import Violation, examine
from tablestore.insight.check.findings import (
    BESIDE,
    CHANGES,
    CHECKSUMS,
    FILE_INDEXES,
    HASH_INDEXES,
    STATISTICS,
)
from tablestore.io.paths import join
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.log import Log
from tablestore.meta import consumers, positions, refs
from tablestore.meta.store import Store


@dataclass
class DamageBeside:
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


INTERRUPTED, LOG = "I13", "I14"
_UNREADABLE = ("I1", "I2", "I9")  # of a snapshot or tag: its rows cannot be read
_SCHEMA = re.compile(r"schema-(\d+)")


@dataclass
class RepairPlan:
    """What is to be done to one branch: files put `aside`, in order, snapshots `restored` from tags or
    `tagged` by name, `hints` written anew, damage `beside` the rows; as texts what is `lost`, and what is
    `remaining` damage."""

    store: Store
    broken: list[str] = field(default_factory=list)
    newest: int | None = None
    aside: list[str] = field(default_factory=list)
    restored: dict[int, refs.Tag] = field(default_factory=dict)
    tagged: dict[str, Snapshot] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    beside: DamageBeside = field(default_factory=DamageBeside)
    passed: int | None = None
    """The newest snapshot, where its changes are lost: an empty commit comes on top of it first."""
    unfinished: list[Violation] = field(default_factory=list)
    """What a commit left to compact, and what an embedded log lacks."""
    lost: list[str] = field(default_factory=list)
    remaining: list[str] = field(default_factory=list)

    @property
    def rebuilt(self) -> list[str]:
        """As texts what is made again, and what is completed."""
        texts = {INTERRUPTED: "is completed: the table is compacted", LOG: "is completed: log.repair()"}
        return self.beside.rebuilt + [f"{v.where}: {v.text}; {texts[v.invariant]}" for v in self.unfinished]


def plans_of(store: Store, log: Log | None) -> list[RepairPlan]:
    """The plan of a table (or branch), with its `log`, then those of its branches.

    Raises Corrupt for damage that leaves nothing to go back to.
    """
    plans = [plan_of(store, log)]
    for branch in refs.branches(store) if store.paths.branch == refs.MAIN else ():
        try:
            root = store.paths.root
            plans.append(plan_of(Store.open(root, io=store.io, env=store.env, branch=branch, salvage=True)))
        except (Corrupt, NotFound) as e:
            plans.append(_without_branch(refs.on_branch(store, branch), str(e)))
    return plans


def _without_branch(store: Store, why: str) -> RepairPlan:
    """The plan for a branch that has no sound state left: all files of its own go, its first schema first."""
    plan = RepairPlan(store, broken=[why])
    paths = store.paths
    plan.aside = [paths.schema(0)]
    own = (paths.schema_dir, paths.snapshot_dir, paths.tag_dir, paths.changelog_dir, paths.consumer_dir)
    for folder in own:
        plan.aside += [join(folder, s.name) for s in store.io.list(folder, hidden=True) if not s.is_dir]
    plan.aside = list(dict.fromkeys(plan.aside))
    plan.lost = ["the branch itself, of which no snapshot and no tag is sound"]
    return plan


def plan_of(store: Store, log: Log | None = None) -> RepairPlan:
    """What is to be done to one branch, with its `log`."""
    findings = examine(store, branches=False, log=log)
    damage = _Damage.of(findings.holders)
    plan = RepairPlan(store)
    snapshot_ids = store.snapshots.ids()
    tags = {t.snapshot.id: t for t in _sound_tags(store, damage)}
    sound = {i for i in snapshot_ids if i not in damage.snapshots}
    gaps = set(range(snapshot_ids[0], snapshot_ids[-1] + 1)) - set(snapshot_ids) if snapshot_ids else set()
    plan.restored = {i: t for i, t in tags.items() if i in damage.snapshots or i in gaps}
    sound |= plan.restored.keys()
    lost = [v.where for v in findings.holders if v.where == store.paths.snapshot_dir]
    if (snapshot_ids or lost) and not sound:
        if not tags:
            raise _hopeless(store, damage)
        last = max(tags)
        plan.restored, sound = {last: tags[last]}, {last}
    plan.newest = newest = max(sound, default=None)
    oldest = newest
    while oldest is not None and oldest - 1 in sound:
        oldest -= 1
    going: list[int] = []
    if newest is not None and oldest is not None:
        plan.restored = {i: t for i, t in plan.restored.items() if oldest <= i <= newest}
        later = sorted((i for i in snapshot_ids if i > newest), reverse=True)
        going = [*later, *(i for i in snapshot_ids if i < oldest)]
        going += [i for i in plan.restored if i in snapshot_ids]
        plan.aside += positions.paths_after(store, newest)  # or commits that are lost would count as replays
        plan.aside += [store.paths.snapshot(i) for i in going]
        earlier = [i for i in snapshot_ids if i < oldest]
        plan.tagged = _tags_for([store.snapshots.get(i) for i in earlier if i in sound], tags)
        _add_losses(plan, sorted(later), [i for i in earlier if i not in sound], newest)
    _set_refs_aside(plan, damage)
    _set_schemas_aside(plan, damage)
    gone = {f"snapshot-{i}" for i in going} | damage.tags.keys() | damage.changelogs.keys()
    plan.broken = list(dict.fromkeys([*damage.texts, *plan.broken]))
    for violation, holders in findings.holders.items():
        mended = bool(holders) and holders <= gone
        if mended and violation.where.startswith(f"{store.paths.root}/") and _is_file(store, violation.where):
            plan.aside.append(violation.where)
        elif not mended and not _follows(violation, holders, gone, plan):
            if violation.invariant == INTERRUPTED or (
                violation.invariant == LOG and isinstance(log, EmbeddedLog)
            ):
                plan.unfinished.append(violation)
            elif not plan.beside.take(violation.where, holders, gone):
                plan.remaining.append(str(violation))
    if isinstance(log, EmbeddedLog):
        torn = set(log.torn_end()) - {v.where for v in plan.unfinished}
        plan.unfinished += [Violation(LOG, path, "is torn") for path in sorted(torn)]
    _set_changes_aside(plan, [i for i in sorted(sound) if i not in going], tags)
    plan.aside += sorted(plan.beside.checksums)
    plan.lost += plan.beside.lost
    plan.aside = list(dict.fromkeys(plan.aside))
    _set_hints(plan, snapshot_ids, going)
    return plan


@dataclass
class _Damage:
    """Snapshots, tags, changelogs and schemas that cannot be read, each with the reason."""

    snapshots: dict[int, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    changelogs: dict[str, str] = field(default_factory=dict)
    schemas: dict[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, holders_of: Mapping[Violation, frozenset[str]]) -> _Damage:
        damage = cls()
        for violation, holders in holders_of.items():
            if violation.invariant not in _UNREADABLE:
                continue
            damage.texts.append(f"{violation.where}: {violation.text.removeprefix(f'{violation.where}: ')}")
            for holder in holders:
                kind, _, rest = holder.partition("-")
                if kind == "snapshot":
                    damage.snapshots.setdefault(int(rest), violation.where)
                elif kind in ("tag", "changelog"):
                    group = damage.tags if kind == "tag" else damage.changelogs
                    group.setdefault(holder, violation.where)
            if not holders and _SCHEMA.fullmatch(violation.where.rpartition("/")[2]):
                damage.schemas.setdefault(violation.where, violation.text)
        return damage


def _sound_tags(store: Store, damage: _Damage) -> list[refs.Tag]:
    return [refs.tag(store, n) for n in refs.tag_names(store) if f"tag-{n}" not in damage.tags]


def _hopeless(store: Store, damage: _Damage) -> Corrupt:
    """The error where no snapshot and no tag is sound; it names the file that the newest one lacks."""
    if not damage.snapshots:
        text = "put back a copy of the newest snapshot's file: nothing can make it again"
        return Corrupt(store.paths.snapshot_dir, "its snapshots are missing", remedy=text)
    newest = max(damage.snapshots)
    text = (
        f"snapshot {newest} needs it, and no older snapshot and no tag is sound: put back a copy of the file"
    )
    return Corrupt(next(iter(damage.schemas), damage.snapshots[newest]), "is damaged or missing", remedy=text)


def _set_refs_aside(plan: RepairPlan, damage: _Damage) -> None:
    """Tags, changelogs and consumers that cannot be read."""
    store = plan.store
    for name in damage.tags:
        plan.aside.append(join(store.paths.tag_dir, name))
        plan.lost.append(f"tag {name.removeprefix('tag-')}, which cannot be read")
    for name in damage.changelogs:
        plan.aside.append(join(store.paths.changelog_dir, name))
        plan.lost.append(f"changes of expired snapshot {name.removeprefix('changelog-')}")
    for name in consumers.names(store):
        try:
            consumers.next_snapshot(store, name)
        except Corrupt as e:
            plan.broken.append(str(e))
            plan.aside.append(e.path)
            plan.lost.append(f"the place of consumer {name}: its stream starts again")


def _set_schemas_aside(plan: RepairPlan, damage: _Damage) -> None:
    """Damaged schemas from the oldest of them on, if nothing that stays was written under one of these."""
    store = plan.store
    ids = store.schemas.ids()
    bad = {int(m[1]) for path in damage.schemas if (m := _SCHEMA.fullmatch(path.rpartition("/")[2]))}
    bad |= set(range(ids[-1] + 1)) - set(ids) if ids else set()
    if not bad:
        return
    first = min(bad)
    needed = _schemas_needed(plan, damage)
    if any(i >= first for i in needed):
        later = ", ".join(str(i) for i in sorted(needed) if i >= first)
        text = (
            f"what can be read needs schema {later}: put back a copy of the file, nothing can make it again"
        )
        raise Corrupt(store.paths.schema(first), "is damaged or missing", remedy=text)
    going = [i for i in reversed(ids) if i >= first]
    plan.aside += [store.paths.schema(i) for i in going]
    plan.lost.append(
        f"ALTERs of schema {', '.join(map(str, sorted(going)))}: the columns and options are those of "
        f"schema {first - 1}"
    )


def _schemas_needed(plan: RepairPlan, damage: _Damage) -> set[int]:
    """Schema ids of what stays: of the snapshots and tags, and of the files that their rows lie in."""
    store, needed = plan.store, set[int]()
    going = set(plan.aside)
    states = [t.snapshot for t in _sound_tags(store, damage)]
    for snapshot_id in store.snapshots.ids():
        if store.paths.snapshot(snapshot_id) not in going:
            states.append(store.snapshots.get(snapshot_id))
    for state in states:
        needed.add(state.schema_id)
        entries = store.manifests.live_entries(state)
        needed |= set(entries.numbers("schema_id").tolist())
    return needed


def _follows(violation: Violation, holders: frozenset[str], gone: set[str], plan: RepairPlan) -> bool:
    """Whether a violation ends with the repair: a gap that closes, a file that is put aside."""
    if violation.where in plan.aside or violation.where in (
        plan.store.paths.snapshot_dir,
        plan.store.paths.schema_dir,
    ):
        return True
    related = {h.rpartition(" of ")[2] for h in holders}
    return bool(related) and related <= gone


def _tags_for(snapshots: Iterable[Snapshot], tags: Mapping[int, refs.Tag]) -> dict[str, Snapshot]:
    """The snapshots that no tag keeps for good, under the names of their tags."""
    return {
        f"mended-{s.id}": s
        for s in snapshots
        if s.id not in tags or tags[s.id].snapshot != s or tags[s.id].retained_seconds is not None
    }


def _set_changes_aside(plan: RepairPlan, staying: list[int], tags: Mapping[int, refs.Tag]) -> None:
    """Snapshots up to one whose changes cannot be read: no stream may pass over these. Their rows stay under
    tags."""
    last, store = plan.beside.changes, plan.store
    if last is None or plan.restored:  # then the next round does it
        return
    going = [i for i in staying if i <= last]
    plan.tagged |= _tags_for(map(store.snapshots.get, going), tags)
    plan.aside += [store.paths.snapshot(i) for i in going]
    plan.passed = last if last == plan.newest else None


def _add_losses(plan: RepairPlan, later: list[int], earlier: list[int], newest: int) -> None:
    store = plan.store
    if later:
        plan.lost.append(
            f"{_snapshots(later)} with what {'it' if len(later) == 1 else 'they'} changed: "
            + "; ".join(_change_of(store, i) for i in later)
        )
        plan.lost += _positions_lost(store, later, newest)
        plan.lost += [
            f"consumer {name} has read on to snapshot {n - 1}: its stream starts again with latest-full"
            for name, n in _next_of_consumers(store).items()
            if n > newest + 1
        ]
        plan.lost.append(
            "nothing names the files that only these snapshots had: remove_orphans() takes them away"
        )
    if earlier:
        plan.lost.append(f"time travel to {_listed(earlier)}; rows of the present are not concerned")


def _snapshots(ids: list[int]) -> str:
    return f"snapshot {ids[0]}" if len(ids) == 1 else f"snapshots {ids[0]}..{ids[-1]}"


def _listed(ids: list[int]) -> str:
    """`snapshots 1, 3`."""
    return f"{'snapshot' if len(ids) == 1 else 'snapshots'} {', '.join(map(str, ids))}"


def _change_of(store: Store, snapshot_id: int) -> str:
    try:
        snapshot = store.snapshots.get(snapshot_id)
    except TablestoreError:
        return f"{snapshot_id} cannot be read, so its rows are not known"
    rows = snapshot.delta_record_count
    counted = "" if rows is None else f"of {rows:+,} stored rows"
    return f"{snapshot_id} {snapshot.commit_kind} {counted}".rstrip()


def _positions_lost(store: Store, later: list[int], newest: int) -> list[str]:
    """Streams of writers whose last commits are among the later snapshots."""
    after: dict[str, positions.Position] = {}
    texts = []
    for snapshot_id in later:
        try:
            snapshot = store.snapshots.get(snapshot_id)
            after |= positions.of(snapshot) if positions.is_ours(snapshot) else {}
        except TablestoreError:
            texts = [f"streams of commits go back to where snapshot {newest} has them, and commit again"]
    try:
        before = positions.known(store, store.snapshots.get(newest))
    except TablestoreError:
        before = {}
    for user, (identifier, _) in after.items():
        earlier = before.get(user)
        if earlier is None or earlier[0] < identifier:
            back = f"back to {earlier[0]}" if earlier else "to its beginning"
            texts.append(
                f"stream {user!r} of commits goes from identifier {identifier} {back}: it commits again"
            )
    return texts


def _next_of_consumers(store: Store) -> dict[str, int]:
    next_snapshots = {}
    for name in consumers.names(store):
        try:
            next_snapshots[name] = consumers.next_snapshot(store, name) or 0
        except Corrupt:
            continue
    return next_snapshots


def _set_hints(plan: RepairPlan, snapshot_ids: list[int], going: list[int]) -> None:
    """LATEST and EARLIEST as they must be, where they name no snapshot that stays."""
    store = plan.store
    stay = sorted((set(snapshot_ids) - set(going)) | plan.restored.keys())
    stay = [i for i in stay if store.paths.snapshot(i) not in plan.aside or i in plan.restored]
    for name, value in (("EARLIEST", stay[0]), ("LATEST", stay[-1])) if stay else ():
        path = join(store.paths.snapshot_dir, name)
        try:
            text = store.io.read(path).decode(errors="replace").strip()
        except FileNotFoundError:
            continue
        if not text.isdigit() or int(text) not in stay or (going and int(text) != value):
            plan.hints[path] = value


def _is_file(store: Store, path: str) -> bool:
    return store.io.exists(path) and not store.io.is_dir(path)
