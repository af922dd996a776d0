"""Loss of power, again and again: what a table answered for is there afterwards.

`run(seed, crashes, mode)` lets tables live on a disk of `disk.py` (writes, deletes, compactions, expiry,
rollbacks, tags, changed schemas), takes the power away at random places of what was done and opens what is
left. With mode `commit` the newest snapshot must be the last one answered for (or one of the call that was
under way), with its rows; tags, columns and consumers, too. With `process` some snapshot must be readable as
soon as anything was removed. The next life of a table begins on what a crash left.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tests.crash.disk import MODELS, DiskIO, after_crash, parent

ROOT, PLACE = "/lake", "/lake/d.db/t"
KEYS = 60
CRASHES_A_LIFE, STEPS_A_LIFE = 40, 8
KINDS: dict[str, dict[str, Any]] = {
    "keyed": {"bucket": 2},
    "changelog": {"bucket": 1, "changelog-producer": "input", "manifest.merge-min-count": 3},
    "vectors": {"bucket": 1, "deletion-vectors.enabled": True},
    "changes last": {"bucket": 1, "changelog-producer": "input", "changelog.num-retained.min": 2000},
    "dynamic": {"bucket": -1, "dynamic-bucket.target-row-num": 20},
}
_SNAPSHOT = re.compile(r".*/t/snapshot/snapshot-(\d+)")
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class CrashReport:
    """How many crashes there were, and what each that lost something lost."""

    mode: str
    seed: int
    crashes: int
    lives: int
    lost: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"durability {self.mode}, seed {self.seed}: {self.crashes} crashes in {self.lives} lives"
        return "\n".join([f"{head}, {len(self.lost)} lost something", *self.lost[:10]])


@dataclass
class Life:
    """A disk on which a table lived, and what was true of the table then."""

    disk: DiskIO
    answered: list[tuple[int, dict[str, Any]]] = field(default_factory=list)  # entries of the log, facts
    rows: dict[str, Rows] = field(default_factory=dict)  # by uuid of the snapshot
    steps: list[str] = field(default_factory=list)


def run(seed: int, crashes: int, mode: str, *, lying: str = "") -> CrashReport:
    """So many crashes. `lying`: syncs of paths that it matches do nothing, so that much must be lost."""
    rng, lost, done, lives = random.Random(f"{seed} {mode}"), list[str](), 0, 0
    start: dict[str, bytes] | None = None
    rows: dict[str, Rows] = {}
    while done < crashes:
        lives += 1
        try:
            life = _live(start, rows, mode, rng, lying=lying)
        except TablestoreError as e:
            assert start is not None, "nothing was lost yet"
            lost.append(f"life {lives}, on what the crash before left: {type(e).__name__}: {e}")
            start, rows, done = None, {}, done + 1
            continue
        start, rows = None, {}
        for _ in range(min(CRASHES_A_LIFE, crashes - done)):
            at, model = rng.randint(0, len(life.disk.log)), rng.choice(MODELS)
            left = after_crash(life.disk, at, model, rng)
            problem = _problem(life, at, left, mode, whole=rng.random() < 0.2)
            done += 1
            if problem is not None:
                step = next(
                    (s for s, (end, _) in zip(life.steps, life.answered, strict=True) if end >= at), ""
                )
                lost.append(f"life {lives}, {model}, entry {at} of {len(life.disk.log)}, {step}: {problem}")
            elif mode == "commit" and at >= life.answered[0][0] and rng.random() < 0.2:
                start, rows = left, life.rows
    return CrashReport(mode, seed, done, lives, tuple(lost))


# a life


def _live(
    start: dict[str, bytes] | None, rows: dict[str, Rows], mode: str, rng: random.Random, *, lying: str
) -> Life:
    life = Life(DiskIO(start, lying=lying, seed=rng.randrange(1 << 30)), rows=dict(rows))
    if start is None:
        kind = KINDS[rng.choice(list(KINDS))]
        options = {"write-only": rng.random() < 0.3, "snapshot.num-retained.min": 1000, **kind}
        lake = ts.connect(ROOT, io=life.disk)
        lake.create_table(
            "d.t",
            schema={"id": ts.BIGINT, "v": ts.INT},
            primary_key=["id"],
            options={"tablestore.durability": mode, "tablestore.write.threads": 0, **options},
        )
        _answered(life, "create")
    else:
        _answered(life, "start")
    for _ in range(STEPS_A_LIFE):
        name = rng.choices(list(STEPS), [weight for weight, _ in STEPS.values()])[0]
        t = ts.open(PLACE, io=life.disk)
        try:
            STEPS[name][1](t, rng)
        except TablestoreError as e:
            if not isinstance(e, ts.InvalidRequest | ts.NotFound | ts.AlreadyExists):
                raise
        _answered(life, name)
    return life


def _write(t: ts.Table, rng: random.Random) -> None:
    keys = sorted(rng.sample(range(KEYS), rng.randint(1, 25)))
    t.write(pa.table({"id": keys, "v": pa.array([rng.randrange(1000) for _ in keys], pa.int32())}))


def _tag(t: ts.Table, rng: random.Random) -> None:
    names = _facts(t)["tags"]
    if names and rng.random() < 0.4:
        t.tags.delete(rng.choice(names))
    else:
        t.tags.create(f"t{rng.randrange(100)}", rng.choice(t.store.snapshots.ids() or [1]))


def _alter(t: ts.Table, rng: random.Random) -> None:
    t.alter(ts.add(f"c{rng.randrange(1000)}", ts.INT))


def _branch(t: ts.Table, rng: random.Random) -> None:
    ids = t.store.snapshots.ids()
    name = f"b{rng.randrange(100)}"
    t.tags.create(f"of-{name}", rng.choice(ids or [1]))
    t.branches.create(name, f"of-{name}")
    _write(t.branch(name), rng)
    if rng.random() < 0.6:
        t.branches.fast_forward(name)
    if rng.random() < 0.3:
        t.branches.delete(name)


def _roll_back(t: ts.Table, rng: random.Random) -> None:
    ids = t.store.snapshots.ids()
    if ids:
        t.rollback(snapshot=rng.choice(ids[-3:]))


def _expire(t: ts.Table, rng: random.Random) -> None:
    t.expire_snapshots(keep=rng.choice((1, 1, 2, 3)))


def _overwrite(t: ts.Table, rng: random.Random) -> None:
    keys = sorted(rng.sample(range(KEYS), 10))
    t.overwrite(pa.table({"id": keys, "v": pa.array(keys, pa.int32())}))


STEPS: dict[str, tuple[int, Callable[[ts.Table, random.Random], object]]] = {
    "write": (10, _write),
    "delete": (2, lambda t, rng: t.delete(ts.col("id") < rng.randrange(KEYS))),
    "compact": (3, lambda t, rng: t.compact(full=True)),
    "expire": (3, _expire),
    "rollback": (1, _roll_back),
    "tag": (2, _tag),
    "branch": (1, _branch),
    "alter": (1, _alter),
    "overwrite": (1, _overwrite),
    "orphans": (1, lambda t, rng: t.remove_orphans("0 s", dry_run=False, force=True)),
    "consumer": (1, lambda t, rng: t.consumers.reset(f"c{rng.randrange(3)}", 1)),
}


def _answered(life: Life, step: str) -> None:
    """Note what is true now, after what the step says was done."""
    t = ts.open(PLACE, io=life.disk)
    for snapshot in t.store.snapshots.all():
        if snapshot.uuid not in life.rows:
            life.rows[snapshot.uuid] = _rows(t.at(snapshot=snapshot.id))
    life.steps.append(step)
    life.answered.append((len(life.disk.log), _facts(t)))


def _facts(t: ts.Table) -> dict[str, Any]:
    return {
        "columns": t.schema.names,
        "tags": sorted(r["tag_name"] for r in t.inspect.tags().to_pylist()),
        "branches": sorted(r["branch_name"] for r in t.inspect.branches().to_pylist()),
        "consumers": sorted(map(str, t.inspect.consumers().to_pylist())),
    }


def _rows(t: ts.Table) -> Rows:
    return t.scan(["id", "v"]).to_arrow().sort_by("id").to_pylist()


# after a crash


def _problem(life: Life, at: int, left: dict[str, bytes], mode: str, *, whole: bool) -> str | None:
    """What is wrong with the table that a crash left; None if all that must be there is."""
    before = [facts for end, facts in life.answered if end <= at]
    if mode == "process":
        if not before or not _removed(life, at):
            return None
        return _readable(life, left) or (_mended(life, left) if whole else None)
    if not before:
        return None
    io = DiskIO(left)
    try:
        t = ts.open(PLACE, io=io)
        newest = t.store.snapshots.latest()
        uuid = newest.uuid if newest is not None else None
        if uuid not in set(_newest_since(life, max(end for end, _ in life.answered if end <= at), at)):
            return f"the newest snapshot is {newest.id if newest else None}, which is not what was answered"
        if uuid in life.rows and _rows(t) != life.rows[uuid]:
            return f"snapshot {newest.id if newest else 0} has other rows"
        under_way = len(before) if len(before) < len(life.answered) else -1
        following = life.answered[under_way][1]
        if life.steps[under_way] == "branch":  # it comes and goes
            following = following | {what: fact for what, fact in _facts(t).items() if what != "consumers"}
        actual = _facts(t)
        for what, value in actual.items():
            if value not in (before[-1][what], following[what]):
                return f"{what} {value}, where {before[-1][what]} was answered"
        if whole:
            _write(t, random.Random(at))
            violations = ts.open(PLACE, io=io).check()
            if violations:
                return f"after the next write: {violations[0]}"
    except TablestoreError as e:
        return f"{type(e).__name__}: {e}"
    return None


def _readable(life: Life, left: dict[str, bytes]) -> str | None:
    """None if some snapshot can be read, and has its rows."""
    first = ""
    try:
        t = ts.open(PLACE, io=DiskIO(left))
        for snapshot_id in reversed(t.store.snapshots.ids()):
            try:
                past = t.at(snapshot=snapshot_id)
                uuid = t.store.snapshots.get(snapshot_id).uuid
                if uuid in life.rows and _rows(past) == life.rows[uuid]:
                    return None
            except TablestoreError as e:
                first = first or f"{type(e).__name__}: {e}"
    except TablestoreError as e:
        return f"not opened: {type(e).__name__}: {e}"
    return f"no snapshot can be read; {first or 'there is none'}"


def _mended(life: Life, left: dict[str, bytes]) -> str | None:
    """None if the table is mended to a sound one whose rows it had once."""
    io = DiskIO(left)
    try:
        repair = ts.mend(PLACE, io=io, dry_run=False)
        t = ts.open(PLACE, io=io)
        newest = t.store.snapshots.latest()
        if newest is None or (newest.uuid in life.rows and _rows(t) != life.rows[newest.uuid]):
            return f"mended, it has other rows: {newest}"
        if repair.remaining:
            return f"mended, but left is {repair.remaining[0]}"
        violations = ts.open(PLACE, io=io).check()
    except TablestoreError as e:
        return f"not mended: {type(e).__name__}: {e}"
    return f"mended, but {violations[0]}" if violations else None


def _removed(life: Life, at: int) -> bool:
    """Whether a snapshot was removed by then."""
    return any(c.what == "unlink" and _SNAPSHOT.fullmatch(c.path) for c in life.disk.log[:at])


def _newest_since(life: Life, since: int, at: int) -> Iterator[str | None]:
    """Uuids of the newest snapshot at entry `since` of the log and at every later one up to `at`."""
    there = {p: f.data for p, f in life.disk.start.files.items() if _SNAPSHOT.fullmatch(p)}
    written: dict[str, bytes] = {}
    for i, change in enumerate(life.disk.log[:at]):
        if i == since:
            yield _newest(there)
        if change.what == "data" and change.file is not None and change.path.endswith(".tmp"):
            written[change.path] = change.data
        if change.what == "rename" and _SNAPSHOT.fullmatch(change.target):
            there[change.target] = written[change.path]
        elif change.what == "link" and change.file is not None and _SNAPSHOT.fullmatch(change.path):
            there[change.path] = change.file.data
        elif change.what == "unlink" and _SNAPSHOT.fullmatch(change.path):
            there.pop(change.path, None)
        if i >= since:
            yield _newest(there)
    yield _newest(there)


def _newest(there: dict[str, bytes]) -> str | None:
    if not there:
        return None
    last = max(there, key=lambda path: int(path.rpartition("-")[2]))
    assert parent(last).endswith("snapshot")
    return json.loads(there[last])["uuid"]
