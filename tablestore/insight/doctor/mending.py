"""Planning a mend: which findings are due, what a call would do, and the values that `Table.mend` gives:
what was done about findings (`Mended`), or of a damaged table (`Repair`).

Plans only: `verbs.mend` carries calls out. What gives something up is due only when the caller has decided,
what no call mends never.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Self

from tablestore.core import quantities
from tablestore.core.errors import InvalidRequest
from tablestore.insight.doctor.finding import Diagnosis, Finding, MendingCall
from tablestore.insight.doctor.repair_plan import RepairPlan
from tablestore.meta.store import Store


@dataclass(frozen=True, slots=True)
class Repair:
    """What is broken, and what was done (`dry_run`: would be) about it.

    `moved`: files put aside, as (place in the table, place they have then); `restored`: snapshots made again
    from tags; `tagged`: snapshots that a tag keeps from now on; `rebuilt`: what was made again from rows, and
    what was completed; `lost`: what is given up, as texts; `remaining`: what a repair does not mend, with the
    remedy.
    """

    table: str
    broken: tuple[str, ...] = ()
    newest: int | None = None
    moved: tuple[tuple[str, str], ...] = ()
    restored: tuple[str, ...] = ()
    tagged: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
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
        return bool(self.moved or self.restored or self.tagged or self.rebuilt or self.hints)

    def then(self, more: Self) -> Self:
        """This repair with the one that followed it."""
        return replace(
            self,
            broken=tuple(dict.fromkeys((*self.broken, *more.broken))),
            newest=more.newest,
            moved=(*self.moved, *more.moved),
            restored=(*self.restored, *more.restored),
            tagged=(*self.tagged, *more.tagged),
            rebuilt=tuple(dict.fromkeys((*self.rebuilt, *more.rebuilt))),
            hints=(*self.hints, *more.hints),
            lost=tuple(dict.fromkeys((*self.lost, *more.lost))),
            remaining=more.remaining,
        )

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
        lines += _listed("tagged", self.tagged)
        lines += _listed("rebuilt", self.rebuilt)
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


def repair_of(name: str, store: Store, plans: Sequence[RepairPlan], moment: str) -> Repair:
    """The plans of a table and its branches as one `Repair`; `moment` names the folder of files put aside."""
    root = f"{store.paths.root}/"

    def short(path: str) -> str:
        return path.removeprefix(root)

    def texts(which: str) -> tuple[str, ...]:
        texts = []
        for plan in plans:
            branch = plan.store.paths.branch
            of = "" if branch == store.paths.branch else f"branch {branch}: "
            texts += [of + text.replace(root, "") for text in getattr(plan, which)]
        return tuple(texts)

    return Repair(
        name,
        broken=texts("broken"),
        newest=plans[0].newest,
        moved=tuple(
            (short(path), short(store.paths.damaged(moment, path))) for plan in plans for path in plan.aside
        ),
        tagged=tuple(f"snapshot {s.id} as tag {name}" for plan in plans for name, s in plan.tagged.items()),
        rebuilt=texts("rebuilt"),
        restored=tuple(
            f"snapshot {i} from tag {tag.name}" for plan in plans for i, tag in plan.restored.items()
        ),
        hints=tuple((short(path), value) for plan in plans for path, value in plan.hints.items()),
        lost=texts("lost"),
        remaining=texts("remaining"),
    )


@dataclass(frozen=True, slots=True)
class Mended:
    """What was done (`dry_run`: would be) about findings.

    `done` has each finding with what its calls returned, `remaining` those that ask for a decision or that no
    call mends, `after` the diagnosis afterwards, `repair` what was broken. A call that repairs the table ends
    there: the doctor looks at it in the next call.
    """

    done: tuple[tuple[Finding, tuple[str, ...]], ...]
    remaining: tuple[Finding, ...] = ()
    after: Diagnosis | None = None
    dry_run: bool = False
    repair: Repair | None = None

    @property
    def text(self) -> str:
        """Finding by finding."""
        if self.repair is not None and self.repair.changes:
            return self.repair.text
        lines = [] if self.done else ["nothing to mend by itself"]
        lines = [self.repair.text, *lines] if self.repair else lines
        for finding, texts in self.done:
            lines.append(f"{finding.kind}{f' · {finding.where}' if finding.where else ''}: {finding.remedy}")
            lines += [f"    decide: {finding.asks}"] if finding.asks and self.dry_run else []
            lines += [indent(t, "    ") for t in texts]
        for finding in self.remaining:
            why = f"decide: {finding.asks}" if finding.mends else f"look: {finding.remedy}"
            lines.append(f"left alone: {finding.kind} · {finding.where}: {why}")
        if self.dry_run:
            lines.append("a preview: nothing was changed; call again with dry_run=False")
        elif self.after is not None:
            lines.append(f"the doctor now: {self.after.summary}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text


def require_mendable(finding: Finding, *, decided: bool) -> None:
    """Raise InvalidRequest for a finding that no call mends, or that asks for a decision not made."""
    if not finding.mends:
        raise InvalidRequest(f"no call mends {finding.kind!r} by itself; look first: {finding.remedy}")
    if finding.asks and not decided:
        raise InvalidRequest(
            f"{finding.kind!r}: {finding.asks}; if that is right, call again with decided=True"
        )


def due(
    diagnosis: Diagnosis, *, decided: bool, tried: Collection[tuple[str, str]] = ()
) -> tuple[Finding, ...]:
    """The findings of a diagnosis that calls mend, without those already tried (by kind and place)."""
    return tuple(
        f for f in diagnosis if f.mends and (decided or not f.asks) and (f.kind, f.where) not in tried
    )


def preview_of(store: Store, call: MendingCall) -> str:
    """What a call without a dry run of its own would do."""
    snapshot, manifests = store.snapshots.latest(), store.manifests
    if call.verb == "rescale":
        live = manifests.live_entries(snapshot)
        size, rows = (int(live.numbers(n).sum()) for n in ("file_size", "row_count"))
        files = f"{rows:,} rows in {quantities.many(len(live), 'file')}, {quantities.size(size)}"
        return f"{files}, are written anew into {quantities.many(call.arguments[0], 'bucket')} a partition"
    if call.verb == "compact_manifests":
        manifest_files = manifests.manifests(snapshot) if snapshot else []
        size = sum(m.file_size for m in manifest_files)
        merged = f"{quantities.many(len(manifest_files), 'manifest')} of {quantities.size(size)} are merged"
        return f"{merged}; no data file is read"
    if call.verb == "tags.delete":
        return f"tag {call.arguments[0]} goes, with the files that nothing else needs"
    if call.verb == "log.repair":
        return "the log goes on without what is damaged; streams from before it go on with files"
    return f"consumer {call.arguments[0]} is forgotten; the next expiry may take what it kept"


def option_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """`option k: 4 → 8`, a line an option."""
    keys = [k for k in sorted({*before, *after}) if before.get(k) != after.get(k)]
    lines = [f"option {k}: {before.get(k, 'not set')} → {after.get(k, 'not set')}" for k in keys]
    return "\n".join(lines) or "the options say so already"
