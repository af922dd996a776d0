"""What a repair of a damaged table does, or did: `Repair`, the value that `mend` gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from tablestore.core import quantities
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
