"""Mending: of damage, then of the doctor's findings, whose calls are carried out or previewed.

A damaged table goes back to its newest sound state and broken files are put aside (FORMAT.md 25.10), by the
plan of `insight.doctor.repair_plan`. It is carried out and made again until nothing is left; then what
commits and the log left half done is completed, so that `check` finds nothing. Nothing is deleted: each file
moves to `tablestore/damaged/<moment>/<its place>`, snapshots newest first, so that a kill leaves a table at a
snapshot in between and the same call goes on. No writer should be running.

The calls are data of the doctor's rules (`insight/doctor/finding.py`); nothing is evaluated. A preview
changes nothing: compaction, expiry and orphans by their dry runs, an ALTER against the schema.
`insight/doctor/mending.py` plans which findings are mended. Called by `Table.mend`, `tablestore.mend` and the
shell's doctor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.format import schema_change
from tablestore.format.schema_change import Change
from tablestore.format.snapshot import to_json
from tablestore.insight.doctor import Diagnosis, Finding
from tablestore.insight.doctor.finding import MendingCall
from tablestore.insight.doctor.mending import (
    Mended,
    Repair,
    due,
    option_changes,
    preview_of,
    repair_of,
    require_mendable,
)
from tablestore.insight.doctor.repair_plan import INTERRUPTED, LOG, RepairPlan, plans_of
from tablestore.io.paths import is_object_location
from tablestore.meta import changelogs
from tablestore.meta.store import Store
from tablestore.table import finishing, rebuilding, writes
from tablestore.table.handle import Handle
from tablestore.table.table import Table
from tablestore.write.alter import altered
from tablestore.write.commit.committer import Committer

log = logging.getLogger(__name__)
_ROUNDS = 5


def repair(store: Store, name: str, *, dry_run: bool) -> Repair:
    """Mend a table (or branch), its branches included.

    Raises Corrupt, before anything is changed, for damage that leaves no sound state.
    """
    done = more = _round(store, name, dry_run=dry_run)
    for _ in range(0 if dry_run else _ROUNDS):
        if not more.changes:
            return done
        more = _round(_opened_again(store), name, dry_run=False)
        done = done.then(more)
    return done


def _opened_again(store: Store) -> Store:
    """The table under the schema that it has now."""
    paths = store.paths
    return Store.open(paths.root, io=store.io, env=store.env, branch=paths.branch, salvage=True)


def _round(store: Store, name: str, *, dry_run: bool) -> Repair:
    """Look at everything once, and put aside what is broken."""
    plans = plans_of(store, Handle(store, name).log)
    moment = datetime.fromtimestamp(store.env.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    left = [] if dry_run else [text for plan in plans for text in _carry_out(plan, name, moment)]
    done = repair_of(name, store, plans, moment)
    if done.changes and not dry_run:
        log.info("mended %s: %d files put aside", store.paths.root, len(done.moved))
    return replace(done, remaining=(*done.remaining, *left), dry_run=dry_run)


def _carry_out(plan: RepairPlan, name: str, moment: str) -> list[str]:
    """Carry out the plan: files that are restored first, so that a call after a kill knows the tags'
    snapshots. What is unfinished waits for a round in which nothing else is to be done. As texts, what could
    not be made again."""
    store = plan.store
    if plan.unfinished and not (plan.aside or plan.tagged or plan.beside):
        _complete(plan, name, moment)
    left = _beside(plan, moment)
    again = {store.paths.snapshot(i): to_json(tag.snapshot) for i, tag in plan.restored.items()}
    _rewrite(store, again, moment)
    for name, snapshot in plan.tagged.items():
        store.io.replace(store.paths.tag(name), to_json(snapshot), after=store.after)
    if plan.passed is not None:
        Committer(_opened_again(store)).merge_manifests(writes.batch_request(store))
    for path in plan.aside:
        if path not in again:
            _put_aside(store, path, store.paths.damaged(moment, path))
    for path, value in plan.hints.items():
        store.io.replace(path, str(value).encode())
    ids = changelogs.ids(store)
    if ids:
        changelogs.hint(store, earliest=ids[0], latest=ids[-1])
    return left


def _beside(plan: RepairPlan, moment: str) -> list[str]:
    """Make again what is damaged beside the rows; as texts, what could not be."""
    store, left = plan.store, []
    for path in sorted(plan.beside.file_indexes):
        _put_aside(store, path, store.paths.damaged(moment, path))
        try:
            why = rebuilding.file_index(store, path)
        except (TablestoreError, OSError) as e:
            why = str(e)
        left += [] if why is None else [f"{path}: {why}"]
    for path in sorted(plan.beside.hash_indexes):
        whole = path == store.paths.manifest(path.rpartition("/")[2])
        again = rebuilding.with_index_manifest if whole else rebuilding.with_hash_index
        _rewrite(store, again(store, path), moment)
        _put_aside(store, path, store.paths.damaged(moment, path))
    _rewrite(store, rebuilding.without_statistics(store, plan.beside.statistics), moment)
    return left


def _rewrite(store: Store, files: dict[str, bytes], moment: str) -> None:
    """Put new bytes in the place of files, of which a copy is put aside."""
    for path, data in files.items():
        if store.io.exists(path):
            store.io.write(store.paths.damaged(moment, path), store.io.read(path))
        store.io.replace(path, data)


def _put_aside(store: Store, path: str, target: str) -> None:
    """Move a file to the folder of damaged ones. Nothing is done for a missing one, or one that is there
    already, for another branch."""
    try:
        if store.io.exists(target):
            return
        if is_object_location(path):
            store.io.write(target, store.io.read(path))
            store.io.delete(path)
        else:
            store.io.move(path, target)
    except FileNotFoundError:
        log.info("%s is missing: nothing to put aside", path)


def _complete(plan: RepairPlan, name: str, moment: str) -> None:
    """Repair the log, of whose damaged files a copy is put aside, and compact what a commit left."""
    store, rules = plan.store, {v.invariant for v in plan.unfinished}
    committer = writes.with_log(Handle(store, name)) if LOG in rules else None
    if committer is not None:
        for violation in plan.unfinished:
            path = violation.where
            if path.startswith(store.paths.root) and store.io.exists(path) and not store.io.is_dir(path):
                store.io.write(store.paths.damaged(moment, path), store.io.read(path))
        for bucket, rows in sorted(committer.repair().items()):
            plan.lost.append(f"{rows:,} rows of bucket {bucket}, which only the log had")
    if INTERRUPTED in rules:
        finishing.look_up_all(store)


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
