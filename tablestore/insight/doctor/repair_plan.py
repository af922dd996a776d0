"""Planning a repair: what of a damaged table is sound, what is broken, and what has to go (FORMAT.md 25.10).

The rules of `check` say what is broken and who needs it. The newest sound snapshot becomes the newest, as by
a rollback; snapshots below a damaged one go too, since ids must follow one another (their rows are part of
the newer ones). A snapshot file is made again from a tag that kept it. Schemas go only where nothing that
stays needs them. Every data file is read once, as `check` reads it: a loss of power can leave one in full
length that holds zeros. Plans only; `table.recovery` carries them out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tablestore.core import quantities
from tablestore.core.errors import Corrupt, NotFound, TablestoreError
from tablestore.format.snapshot import Snapshot
from tablestore.insight.check.check import Violation, examine
from tablestore.io.paths import join
from tablestore.meta import consumers, positions, refs
from tablestore.meta.store import Store

_UNREADABLE = ("I1", "I2", "I9")  # of a snapshot or tag: its rows cannot be read
_SCHEMA = re.compile(r"schema-(\d+)")


@dataclass(frozen=True, slots=True)
class Repair:
    """What is broken, and what was done (`dry_run`: would be) about it.

    `moved`: files put aside, as (place in the table, place they have then); `restored`: snapshots made again
    from tags; `lost`: what is given up, as texts; `remaining`: what a repair does not mend, with the remedy.
    """

    table: str
    broken: tuple[str, ...] = ()
    newest: int | None = None
    moved: tuple[tuple[str, str], ...] = ()
    restored: tuple[str, ...] = ()
    hints: tuple[tuple[str, int], ...] = ()
    lost: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    dry_run: bool = True

    def __bool__(self) -> bool:
        """Whether something is broken."""
        return bool(self.broken or self.changes or self.remaining)

    @property
    def changes(self) -> bool:
        """Whether a repair changes the table; what is `remaining` it does not touch."""
        return bool(self.moved or self.restored or self.hints)

    @property
    def text(self) -> str:
        """What is broken, moved, restored and lost, line by line."""
        if not self:
            return f"{self.table}: nothing is broken"
        lines = [f"{self.table}: {quantities.many(len(self.broken), 'thing')} broken"]
        lines += _listed("broken", self.broken)
        if self.newest is not None and self.changes:
            lines.append(
                f"  newest   snapshot {self.newest} {'would be' if self.dry_run else 'is'} the newest"
            )
        lines += _listed("restored", self.restored)
        lines += _listed("aside", [f"{a} → {b}" for a, b in self.moved])
        lines += _listed("hint", [f"{path} = {value}" for path, value in self.hints])
        lines += _listed("lost", self.lost)
        lines += _listed("remains", self.remaining)
        if self.dry_run and self.changes:
            lines.append("a preview: nothing was changed; call again with dry_run=False")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text


def _listed(title: str, texts: Iterable[str], limit: int = 20) -> list[str]:
    some = list(texts)
    more = [f"  {title:8} … and {len(some) - limit} more"] if len(some) > limit else []
    return [f"  {title:8} {text}" for text in some[:limit]] + more


@dataclass
class RepairPlan:
    """What is to be done to one branch: files put `aside`, in order, snapshots `restored` from tags, `hints`
    written anew; as texts what is `lost`, and what is `remaining` damage."""

    store: Store
    broken: list[str] = field(default_factory=list)
    newest: int | None = None
    aside: list[str] = field(default_factory=list)
    restored: dict[int, refs.Tag] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    remaining: list[str] = field(default_factory=list)


def plans_of(store: Store) -> tuple[list[RepairPlan], list[str]]:
    """The plan of a table (or branch), then those of its branches; and what is damaged beyond a plan.

    Raises Corrupt for damage that leaves nothing to go back to.
    """
    plans, left = [plan_of(store)], []
    for branch in refs.branches(store) if store.paths.branch == refs.MAIN else ():
        try:
            root = store.paths.root
            plans.append(plan_of(Store.open(root, io=store.io, env=store.env, branch=branch, salvage=True)))
        except (Corrupt, NotFound) as e:
            left.append(f"branch {branch}: {e}; branches.delete({branch!r}) removes it")
    return plans, left


def plan_of(store: Store) -> RepairPlan:
    """What is to be done to one branch."""
    found = examine(store, branches=False)
    damage = _Damage.of(found.holders)
    plan = RepairPlan(store)
    known = store.snapshots.ids()
    tags = {t.snapshot.id: t for t in _sound_tags(store, damage)}
    sound = {i for i in known if i not in damage.snapshots}
    gaps = set(range(known[0], known[-1] + 1)) - set(known) if known else set()
    plan.restored = {i: t for i, t in tags.items() if i in damage.snapshots or i in gaps}
    sound |= plan.restored.keys()
    if known and not sound:
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
        later = sorted((i for i in known if i > newest), reverse=True)
        going = [*later, *(i for i in known if i < oldest)]
        going += [i for i in plan.restored if i in known]
        plan.aside += positions.paths_after(store, newest)  # or commits that are lost would count as replays
        plan.aside += [store.paths.snapshot(i) for i in going]
        _add_losses(plan, sorted(later), [i for i in known if i < oldest], newest)
    _set_refs_aside(plan, damage)
    _set_schemas_aside(plan, damage, found.holders)
    gone = {f"snapshot-{i}" for i in going} | damage.tags.keys() | damage.changelogs.keys()
    plan.broken = list(dict.fromkeys([*damage.texts, *plan.broken]))
    for violation, holders in found.holders.items():
        mended = bool(holders) and holders <= gone
        if mended and violation.where.startswith(f"{store.paths.root}/") and _is_file(store, violation.where):
            plan.aside.append(violation.where)
        elif not mended and not _follows(violation, holders, gone, plan):
            plan.remaining.append(f"{violation}{_remedy(holders)}")
    plan.aside = list(dict.fromkeys(plan.aside))
    _set_hints(plan, known, going)
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
    def of(cls, found: Mapping[Violation, frozenset[str]]) -> _Damage:
        damage = cls()
        for violation, holders in found.items():
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


def _set_schemas_aside(plan: RepairPlan, damage: _Damage, found: Mapping[Violation, frozenset[str]]) -> None:
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


def _remedy(holders: frozenset[str]) -> str:
    """What to do about damage that takes no row away."""
    if any(h.startswith("changes of ") for h in holders):
        return "; its rows are sound, only its changes cannot be read: expiring the snapshot takes this away"
    if any(h.startswith("statistics of ") for h in holders):
        return "; its rows are sound: analyze() writes statistics anew, expiring the snapshot takes this away"
    return ""


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
        plan.lost.append(f"time travel to {_snapshots(earlier)}; rows of the present are not concerned")


def _snapshots(ids: list[int]) -> str:
    return f"snapshot {ids[0]}" if len(ids) == 1 else f"snapshots {ids[0]}..{ids[-1]}"


def _change_of(store: Store, snapshot_id: int) -> str:
    try:
        found = store.snapshots.get(snapshot_id)
    except TablestoreError:
        return f"{snapshot_id} cannot be read, so its rows are not known"
    rows = found.delta_record_count
    return (
        f"{snapshot_id} {found.commit_kind} {'' if rows is None else f'of {rows:+,} stored rows '}".rstrip()
    )


def _positions_lost(store: Store, later: list[int], newest: int) -> list[str]:
    """Streams of writers whose last commits are among the later snapshots."""
    after: dict[str, positions.Position] = {}
    texts = []
    for snapshot_id in later:
        try:
            found = store.snapshots.get(snapshot_id)
            after |= _committed_by(found)
        except TablestoreError:
            texts = [f"streams of commits go back to where snapshot {newest} has them, and commit again"]
    try:
        before = positions.known(store, store.snapshots.get(newest))
    except TablestoreError:
        before = {}
    for user, (identifier, _) in after.items():
        known = before.get(user)
        if known is None or known[0] < identifier:
            back = f"back to {known[0]}" if known else "to its beginning"
            texts.append(
                f"stream {user!r} of commits goes from identifier {identifier} {back}: it commits again"
            )
    return texts


def _committed_by(snapshot: Snapshot) -> dict[str, positions.Position]:
    return positions.of(snapshot) if positions.is_ours(snapshot) else {}


def _next_of_consumers(store: Store) -> dict[str, int]:
    found = {}
    for name in consumers.names(store):
        try:
            found[name] = consumers.next_snapshot(store, name) or 0
        except Corrupt:
            continue
    return found


def _set_hints(plan: RepairPlan, known: list[int], going: list[int]) -> None:
    """LATEST and EARLIEST as they must be, where they name no snapshot that stays."""
    store = plan.store
    stay = sorted((set(known) - set(going)) | plan.restored.keys())
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


def repair_of(name: str, store: Store, plans: Sequence[RepairPlan], moment: str) -> Repair:
    """The plans of a table and its branches as one `Repair`; `moment` names the folder of files put aside."""
    root = f"{store.paths.root}/"

    def short(path: str) -> str:
        return path.removeprefix(root)

    def texts(which: str) -> tuple[str, ...]:
        found = []
        for plan in plans:
            branch = plan.store.paths.branch
            of = "" if branch == store.paths.branch else f"branch {branch}: "
            found += [of + text.replace(root, "") for text in getattr(plan, which)]
        return tuple(found)

    return Repair(
        name,
        broken=texts("broken"),
        newest=plans[0].newest,
        moved=tuple(
            (short(path), short(store.paths.damaged(moment, path))) for plan in plans for path in plan.aside
        ),
        restored=tuple(
            f"snapshot {i} from tag {tag.name}" for plan in plans for i, tag in plan.restored.items()
        ),
        hints=tuple((short(path), value) for plan in plans for path, value in plan.hints.items()),
        lost=texts("lost"),
        remaining=texts("remaining"),
    )
