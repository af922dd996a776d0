"""Mending: damage first (`recovery`), then what the doctor found: its calls carried out, or foretold.

The calls are data of the engine's own rules (`insight/doctor/calls.py`); nothing is evaluated. A preview
changes nothing: compaction, expiry and orphans by their dry runs, an ALTER against the schema. What gives
something up is carried out only when the caller has decided, what no call mends never. Called by
`Table.mend`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from textwrap import indent
from typing import Any, Protocol, Self

from tablestore.core import quantities
from tablestore.core.errors import InvalidRequest
from tablestore.format import schema_change
from tablestore.format.schema_change import Change
from tablestore.insight.doctor import Diagnosis, Finding
from tablestore.insight.doctor.calls import Call
from tablestore.meta.store import Store
from tablestore.table.recovery import Repair, repair
from tablestore.write.alter import altered


class Mendable(Protocol):
    """The verbs of a `Table` that calls name."""

    store: Store
    name: str
    inspect: Any
    tags: Any
    consumers: Any
    alter: Callable[..., Self]
    with_options: Callable[[Mapping[str, Any]], Self]
    refresh: Callable[[], Self]
    compact: Callable[..., Any]
    rescale: Callable[..., Any]
    expire_snapshots: Callable[..., Any]
    compact_manifests: Callable[[], Any]
    remove_orphans: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Mended:
    """What was done (`dry_run`: would be) about findings: each with what its calls told; `left` those that
    ask for a decision or that no call mends; `after` what the doctor says then. `repair`: what was broken;
    where something was put aside the doctor looks at the next call."""

    done: tuple[tuple[Finding, tuple[str, ...]], ...]
    left: tuple[Finding, ...] = ()
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
        for found, told in self.done:
            lines.append(f"{found.kind}{f' · {found.where}' if found.where else ''}: {found.remedy}")
            lines += [f"    decide: {found.asks}"] if found.asks and self.dry_run else []
            lines += [indent(t, "    ") for t in told]
        for found in self.left:
            why = f"decide: {found.asks}" if found.mends else f"look: {found.remedy}"
            lines.append(f"left alone: {found.kind} · {found.where}: {why}")
        if self.dry_run:
            lines.append("a preview: nothing was changed; call again with dry_run=False")
        elif self.after is not None:
            lines.append(f"the doctor now: {self.after.summary}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text


def mend(table: Mendable, what: Finding | Diagnosis | None, *, dry_run: bool, decided: bool) -> Mended:
    """Carry out, or foretell, what mends one finding or all of a diagnosis (None: of one made now).

    Of a diagnosis each finding is mended at most once, and only if it is still there: one compaction often
    takes several away. Without either damage is looked for first and, if something is put aside for it,
    alone. Raises InvalidRequest for a single one that asks, unless `decided`, or that no call mends; Corrupt
    for damage that leaves nothing to go back to.
    """
    if isinstance(what, Finding):
        _require_mendable(what, decided=decided or dry_run)
        told = _carried_out(table, what, dry_run=dry_run)
        after = None if dry_run else table.refresh().inspect.doctor()
        return Mended(((what, told),), after=after, dry_run=dry_run)
    if what is None:
        found = repair(table.store, table.name, dry_run=dry_run)
        if found.changes:
            return Mended((), dry_run=dry_run, repair=found)
        done = mend(table, table.inspect.doctor(), dry_run=dry_run, decided=decided)
        return replace(done, repair=found) if found else done
    now = what
    if not isinstance(now, Diagnosis):
        raise InvalidRequest(f"mend() takes what inspect.doctor() gives, or one of its findings, not {now!r}")
    if dry_run:
        chosen = [f for f in now if f.mends and (decided or not f.asks)]
        done = [(f, _carried_out(table, f, dry_run=True)) for f in chosen]
        return Mended(tuple(done), tuple(f for f in now if f not in chosen), dry_run=True)
    tried: set[tuple[str, str]] = set()
    done = []
    while True:
        now = table.refresh().inspect.doctor(listing=now.listing, **asdict(now.limits))
        due = [f for f in now if f.mends and (decided or not f.asks) and (f.kind, f.where) not in tried]
        if not due:
            return Mended(tuple(done), tuple(f for f in now if (f.kind, f.where) not in tried), now)
        tried.add((due[0].kind, due[0].where))
        done.append((due[0], _carried_out(table, due[0], dry_run=False)))


def _require_mendable(found: Finding, *, decided: bool) -> None:
    if not found.mends:
        raise InvalidRequest(f"no call mends {found.kind!r} by itself; look first: {found.remedy}")
    if found.asks and not decided:
        raise InvalidRequest(f"{found.kind!r}: {found.asks}; if that is right, call again with decided=True")


def _carried_out(table: Mendable, found: Finding, *, dry_run: bool) -> tuple[str, ...]:
    """What each call told; an altered table is what the calls after it are made on."""
    told, table = [], table.refresh()
    for call in found.calls:
        told.append(_foretold(table, call) if dry_run else str(_done(table, call)))
        if call.alters:
            table = _previewed(table, call) if dry_run else table.refresh()
    return tuple(told)


def _done(table: Mendable, call: Call) -> object:
    if call.alters:
        before = table.store.schema.options
        return _difference(before, table.alter(_change(call)).store.schema.options)
    table = table.with_options(call.under) if call.under else table
    verbs: dict[str, Callable[..., Any]] = {
        "compact": lambda **named: table.compact(**named).text,
        "rescale": table.rescale,
        "expire_snapshots": lambda **named: table.expire_snapshots(**named).text,
        "compact_manifests": table.compact_manifests,
        "remove_orphans": table.remove_orphans,
        "consumers.delete": lambda name: table.consumers.delete(name) or f"consumer {name} is forgotten",
        "tags.delete": table.tags.delete,
    }
    return verbs[call.verb](*call.given, **call.named)


def _foretold(table: Mendable, call: Call) -> str:
    """What a call would do; nothing is changed."""
    if call.alters:
        return _difference(table.store.schema.options, _previewed(table, call).store.schema.options)
    named = {k: v for k, v in call.named.items() if k not in ("until_quiet", "dry_run")}
    if call.verb == "compact":
        first = "the first round; " if "until_quiet" in call.named else ""
        table = table.with_options(call.under) if call.under else table
        return first + table.compact(**named, dry_run=True).text
    if call.verb == "expire_snapshots":
        return table.expire_snapshots(**named, dry_run=True).text
    if call.verb == "remove_orphans":
        return repr(table.remove_orphans(dry_run=True))
    snapshot, manifests = table.store.snapshots.latest(), table.store.manifests
    if call.verb == "rescale":
        live = manifests.live_entries(snapshot)
        size, rows = (int(live.numbers(n).sum()) for n in ("file_size", "row_count"))
        held = f"{rows:,} rows in {quantities.many(len(live), 'file')}, {quantities.size(size)}"
        return f"{held}, are written anew into {quantities.many(call.given[0], 'bucket')} a partition"
    if call.verb == "compact_manifests":
        found = manifests.manifests(snapshot) if snapshot else []
        held = quantities.size(sum(m.file_size for m in found))
        return f"{quantities.many(len(found), 'manifest')} of {held} are merged; no data file is read"
    if call.verb == "tags.delete":
        return f"tag {call.given[0]} goes, with the files that nothing else needs"
    return f"consumer {call.given[0]} is forgotten; the next expiry may take what it held"


def _change(call: Call) -> Change:
    return getattr(schema_change, call.verb)(*call.given)


def _previewed(table: Mendable, call: Call) -> Mendable:
    """The table under the schema that an ALTER would give; nothing is stored."""
    schema = altered(table.store, table.store.schemas.latest(), [_change(call)])
    return type(table)(table.store.with_schema(schema), table.name)


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    keys = [k for k in sorted({*before, *after}) if before.get(k) != after.get(k)]
    lines = [f"option {k}: {before.get(k, 'not set')} → {after.get(k, 'not set')}" for k in keys]
    return "\n".join(lines) or "the options say so already"
