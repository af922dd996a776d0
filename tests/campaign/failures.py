"""One operation of the store fails under a verb: before it, after it, as the death of the process, or because
the disk is full from then on.

Afterwards the table is sound and the verb is wholly done or not at all; an error other than CommitUnknown
means not at all; called again, it ends as one that never failed. On a full disk expiry still frees space.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import tablestore as ts
from tablestore.core.errors import CommitUnknown, TablestoreError, Unavailable
from tablestore.insight.check.findings import Violation
from tests.campaign.lives import LIVES, rows_of
from tests.campaign.outcome import Outcome
from tests.campaign.verbs import VERBS, Verb, fitting, history
from tests.faults import FaultyIO, Killed, failures

INTERRUPTED = "I13"
"""The rule of `check` that names a commit whose compaction a kill left to the next call."""
FAILURES = 8
"""A turn, of one verb on one kind of table."""


def run(seed: int, folder: Path) -> Outcome:
    """Some failures of one verb on one kind of table."""
    draw = random.Random(f"{seed} failures")
    verb, life = draw.choice(fitting())
    return fail(verb, life, draw, folder, full_disk=False)


def run_full(seed: int, folder: Path) -> Outcome:
    """The disk is full from some operation on."""
    draw = random.Random(f"{seed} full disk")
    verb, life = draw.choice(fitting())
    return fail(verb, life, draw, folder, full_disk=True)


def fail(verb: str, life: str, draw: random.Random, folder: Path, *, full_disk: bool) -> Outcome:
    start, act = folder / "start", VERBS[verb].act(LIVES[life])
    history(ts.connect(str(start)), LIVES[life])
    shutil.copytree(start, folder / "whole")
    counting = FaultyIO()
    act(_table(folder / "whole", counting))
    before, after = state(start), state(folder / "whole")
    places = [(n, "full") for n in range(counting.count)] if full_disk else failures(counting.log)
    chosen = draw.sample(places, min(FAILURES, len(places)))
    wrong = list[str]()
    if VERBS[verb].same_rows and before[0] != after[0]:
        wrong.append(f"{verb} on {life}: changed rows")
    for at, mode in chosen:
        shutil.copytree(start, folder / "try")
        io = FaultyIO(at, mode)
        place = f"{verb} on {life}, {mode} {counting.log[at]}: "
        wrong += [place + text for text in _fail_once(folder / "try", VERBS[verb], act, io, before, after)]
        shutil.rmtree(folder / "try")
    counts = Counter({f"{verb}": len(chosen)})
    return Outcome(len(chosen), counts, tuple(wrong))


def _table(root: Path, io: Any = None) -> ts.Table:
    return (ts.connect(str(root)) if io is None else ts.connect(str(root), io=io)).table("d.t")


def state(root: Path) -> tuple[Any, ...]:
    """What a verb may change: rows, columns, tags, branches."""
    table = _table(root)
    return rows_of(table), tuple(table.schema.names), table.tags.names(), table.branches.names()


def _fail_once(root: Path, verb: Verb, act: Any, io: FaultyIO, before: Any, after: Any) -> list[str]:
    """What is wrong after one failure and after the verb was called again."""
    error: BaseException | None = None
    try:
        act(_table(root, io))
    except (TablestoreError, Killed) as e:
        error = e
    wrong = [f"open {path}" for path in io.open_outputs]
    try:
        actual = state(root)
        wrong += [str(v) for v in _table(root).check() if not _is_half_way(verb, v)]
        if actual not in (before, after) and not verb.stepwise:
            wrong.append("half done")
        refused = isinstance(error, TablestoreError) and not isinstance(error, CommitUnknown)
        if refused and actual != before and (verb.stepwise or actual == after):
            wrong.append(f"done, although it raised {error!r}")
        if error is None and actual != after:
            wrong.append("not done, although it said nothing")
        if io.mode == "full":
            wrong += _free(root, io)
        act(_table(root))
        if state(root) != after:
            wrong.append("not as it must be after it was called again")
        if any(v.invariant == INTERRUPTED for v in _table(root).check()):
            _table(root).compact()  # as that line says: a verb that finds nothing to do compacts nothing
        wrong += [f"{v}, after it was called again" for v in _table(root).check()]
    except TablestoreError as e:
        wrong.append(f"{error!r}, then {type(e).__name__}: {e}")
    return wrong


def _is_half_way(verb: Verb, violation: Violation) -> bool:
    """Whether a failure may leave that until the verb is called again: a compaction to do, or the gap behind
    an expired snapshot that a rollback has put back."""
    gap = verb.stepwise and violation.invariant == "I1" and violation.text.endswith("are missing")
    return violation.invariant == INTERRUPTED or gap


def _free(root: Path, io: FaultyIO) -> list[str]:
    """Expiry on the disk that is full: it must go, and let go of files."""
    copy = root.with_name("freed")
    shutil.copytree(root, copy)
    try:
        full = FaultyIO(0, "full")
        rows, before = rows_of(_table(copy)), _bytes(copy)
        done = _table(copy, full).expire_snapshots(keep=1)
        wrong = [] if _bytes(copy) < before or not done.snapshots else ["expiry on a full disk freed nothing"]
        return wrong + (["expiry on a full disk changed rows"] if rows_of(_table(copy)) != rows else [])
    except Unavailable as e:
        return [f"a full disk cannot be freed: {e}"]
    finally:
        shutil.rmtree(copy)


def _bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
