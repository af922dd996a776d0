"""Recovery: brings a damaged table back to its newest sound state and puts broken files aside (FORMAT.md
25.10).

The plan is `insight.doctor.repair_plan`'s. Nothing is deleted: each file moves to
`tablestore/damaged/<moment>/<its place>`, snapshots newest first, so that a kill leaves a table at a snapshot
in between and the same call goes on. No writer should be running. Called by `Table.mend`, `tablestore.mend`
and the shell's doctor.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime

from tablestore.format.snapshot import to_json
from tablestore.insight.doctor.repair_plan import Repair, RepairPlan, plans_of, repair_of
from tablestore.io.paths import is_object_location
from tablestore.meta import changelogs
from tablestore.meta.store import Store

log = logging.getLogger(__name__)


def repair(store: Store, name: str, *, dry_run: bool) -> Repair:
    """Mend a table (or branch), its branches included.

    Raises Corrupt, before anything is changed, for damage that leaves no sound state.
    """
    plans, left = plans_of(store)
    moment = datetime.fromtimestamp(store.env.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    done = replace(repair_of(name, store, plans, moment), dry_run=dry_run)
    done = replace(done, remaining=(*done.remaining, *left))
    if not dry_run:
        for plan in plans:
            _carry_out(plan, moment)
        log.info("mended %s: %d files put aside", store.paths.root, len(done.moved))
    return done


def _carry_out(plan: RepairPlan, moment: str) -> None:
    """Carry out the plan: files that are restored first, so that a call after a kill knows the tags'
    snapshots."""
    store = plan.store
    again = {store.paths.snapshot(i): tag for i, tag in plan.restored.items()}
    for path, tag in again.items():
        if store.io.exists(path):
            store.io.write(store.paths.damaged(moment, path), store.io.read(path))
        store.io.replace(path, to_json(tag.snapshot))
    for path in plan.aside:
        if path not in again:
            _put_aside(store, path, store.paths.damaged(moment, path))
    for path, value in plan.hints.items():
        store.io.replace(path, str(value).encode())
    known = changelogs.ids(store)
    if known:
        changelogs.hint(store, earliest=known[0], latest=known[-1])


def _put_aside(store: Store, path: str, target: str) -> None:
    """Move a file to the folder of damaged ones; a missing file is logged."""
    try:
        if is_object_location(path):
            store.io.write(target, store.io.read(path))
            store.io.delete(path)
        else:
            store.io.move(path, target)
    except FileNotFoundError:
        log.info("%s is missing: nothing to put aside", path)
