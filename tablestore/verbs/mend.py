"""Mending: damage first (`recovery`), then the doctor's findings, by carrying out or previewing their calls.

The calls are data of the doctor's rules (`insight/doctor/finding.py`); nothing is evaluated. A preview
changes nothing: compaction, expiry and orphans by their dry runs, an ALTER against the schema.
`insight/doctor/mending.py` plans which findings are mended. Called by `Table.mend`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from tablestore.core.errors import InvalidRequest
from tablestore.format import schema_change
from tablestore.format.schema_change import Change
from tablestore.insight.doctor import Diagnosis, Finding
from tablestore.insight.doctor.finding import MendingCall
from tablestore.insight.doctor.mending import Mended, due, option_changes, preview_of, require_mendable
from tablestore.table.table import Table
from tablestore.verbs.recovery import repair
from tablestore.write.alter import altered


def mend(table: Table, what: Finding | Diagnosis | None, *, dry_run: bool, decided: bool) -> Mended:
    """Carry out, or preview, what mends one finding or all of a diagnosis (None: of one made now).

    Of a diagnosis each finding is mended at most once, and only if it is still there: one compaction often
    mends more than one. Without either damage is looked for first; if files are put aside for it, nothing
    else is done. Raises InvalidRequest for a single finding that asks for a decision, unless `decided`, or
    that no call mends; Corrupt for damage that leaves nothing sound.
    """
    if isinstance(what, Finding):
        require_mendable(what, decided=decided or dry_run)
        texts = _carried_out(table, what, dry_run=dry_run)
        after = None if dry_run else table.refresh().inspect.doctor()
        return Mended(((what, texts),), after=after, dry_run=dry_run)
    if what is None:
        damage = repair(table.store, table.name, dry_run=dry_run)
        if damage.changes:
            return Mended((), dry_run=dry_run, repair=damage)
        mended = mend(table, table.inspect.doctor(), dry_run=dry_run, decided=decided)
        return replace(mended, repair=damage) if damage else mended
    now = what
    if not isinstance(now, Diagnosis):
        raise InvalidRequest(
            f"mend() takes what inspect.doctor() or readers() gives, or one of its findings, not {now!r}"
        )
    if dry_run:
        chosen = due(now, decided=decided)
        previews = tuple((f, _carried_out(table, f, dry_run=True)) for f in chosen)
        return Mended(previews, tuple(f for f in now if f not in chosen), dry_run=True)
    tried: set[tuple[str, str]] = set()
    done: list[tuple[Finding, tuple[str, ...]]] = []
    while True:
        now = _again(table.refresh(), now)
        waiting = due(now, decided=decided, tried=tried)
        if not waiting:
            return Mended(tuple(done), tuple(f for f in now if (f.kind, f.where) not in tried), now)
        first = waiting[0]
        tried.add((first.kind, first.where))
        done.append((first, _carried_out(table, first, dry_run=False)))


def _again(table: Table, before: Diagnosis) -> Diagnosis:
    if before.readers:
        return table.inspect.readers()
    return table.inspect.doctor(listing=before.listing, **asdict(before.limits))


def _carried_out(table: Table, finding: Finding, *, dry_run: bool) -> tuple[str, ...]:
    """The result of each call; after an ALTER further calls are made on the altered table."""
    texts, table = [], table.refresh()
    for call in finding.calls:
        texts.append(_preview(table, call) if dry_run else str(_done(table, call)))
        if call.alters:
            table = _previewed(table, call) if dry_run else table.refresh()
    return tuple(texts)


def _done(table: Table, call: MendingCall) -> object:
    if call.alters:
        before = table.store.schema.options
        return option_changes(before, table.alter(_change(call)).store.schema.options)
    table = table.with_options(call.options) if call.options else table
    verbs: dict[str, Callable[..., Any]] = {
        "compact": lambda **named: table.compact(**named).text,
        "rescale": table.rescale,
        "expire_snapshots": lambda **named: table.expire_snapshots(**named).text,
        "compact_manifests": table.compact_manifests,
        "remove_orphans": table.remove_orphans,
        "consumers.delete": partial(_forgotten, table),
        "tags.delete": table.tags.delete,
        "log.repair": partial(_repaired, table),
    }
    return verbs[call.verb](*call.arguments, **call.keywords)


def _forgotten(table: Table, consumer: str) -> str:
    table.consumers.delete(consumer)
    return f"consumer {consumer} is forgotten"


def _repaired(table: Table) -> str:
    assert table.log is not None, "only a log is found damaged"
    lost = table.log.repair()
    if not lost:
        return "the log goes on; the files of the table have all that is known of its rows"
    return "\n".join(f"bucket {b} of the log: {rows:,} rows are lost" for b, rows in sorted(lost.items()))


def _preview(table: Table, call: MendingCall) -> str:
    """What a call would do; changes nothing."""
    if call.alters:
        return option_changes(table.store.schema.options, _previewed(table, call).store.schema.options)
    named = {k: v for k, v in call.keywords.items() if k not in ("until_quiet", "dry_run")}
    if call.verb == "compact":
        first = "the first round; " if "until_quiet" in call.keywords else ""
        table = table.with_options(call.options) if call.options else table
        return first + table.compact(**named, dry_run=True).text
    if call.verb == "expire_snapshots":
        return table.expire_snapshots(**named, dry_run=True).text
    if call.verb == "remove_orphans":
        return repr(table.remove_orphans(dry_run=True))
    return preview_of(table.store, call)


def _change(call: MendingCall) -> Change:
    return getattr(schema_change, call.verb)(*call.arguments)


def _previewed(table: Table, call: MendingCall) -> Table:
    """The table under the schema that an ALTER would give, which is not stored."""
    schema = altered(table.store, table.store.schemas.latest(), [_change(call)])
    return type(table)(table.store.with_schema(schema), table.name)
