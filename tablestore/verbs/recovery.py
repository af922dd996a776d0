"""Recovery: brings a damaged table back to its newest sound state and puts broken files aside (FORMAT.md
25.10).

The plan is `insight.doctor.repair_plan`'s. It is carried out and made again until nothing is left; then what
commits and the log left half done is completed, so that `check` finds nothing. Nothing is deleted: each file
moves to `tablestore/damaged/<moment>/<its place>`, snapshots newest first, so that a kill leaves a table at a
snapshot in between and the same call goes on. No writer should be running. Called by `Table.mend`,
`tablestore.mend` and the shell's doctor.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime

from tablestore.core.errors import TablestoreError
from tablestore.format.snapshot import to_json
from tablestore.insight.doctor.mending import Repair, repair_of
from tablestore.insight.doctor.repair_plan import INTERRUPTED, LOG, RepairPlan, plans_of
from tablestore.io.paths import is_object_location
from tablestore.meta import changelogs
from tablestore.meta.store import Store
from tablestore.table import finishing, rebuilding, writes
from tablestore.table.handle import Handle
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
        more = _round(_again(store), name, dry_run=False)
        done = done.then(more)
    return done


def _again(store: Store) -> Store:
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
        Committer(_again(store)).merge_manifests(writes.batch_request(store))
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
