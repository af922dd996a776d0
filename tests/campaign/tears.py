"""One file of a table is torn: removed, cut short, zeroed, or another file of its kind in its place. Mending
gives back whatever could still be read.

After one call of `mend` the table has the rows of the newest snapshot that could be read, the rows of every
snapshot and tag that could be read, here and in branches, are in one still, `check` finds nothing and writers
go on. A tear that nobody notices (`check` is clean) is counted and not mended.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import tablestore as ts
from tablestore.core.errors import Corrupt, NotFound, TablestoreError
from tablestore.meta import manifest_cache, refs
from tests.campaign.lives import LIVES, Life, Rows, rows_of
from tests.campaign.outcome import Outcome
from tests.campaign.verbs import COMMITS, SEED, history

TEARS = 6
"""A turn, of the files of one table."""
BUCKETS = (("bucket", -1), ("dynamic-bucket.target-row-num", 5))
TORN: Mapping[str, Life] = LIVES | {
    life.name: life
    for life in (
        Life(
            "deduplicate with indexes",
            (("file-index.bloom-filter.columns", "v"), ("file-index.in-manifest-threshold", "1 b")),
            deletes=True,
        ),
        Life("deduplicate in dynamic buckets", BUCKETS, deletes=True),
        Life("deduplicate in Avro", (("file.format", "avro"), ("changelog-producer", "input")), deletes=True),
        Life("deduplicate in ORC", (("file.format", "orc"), ("changelog-producer", "lookup")), deletes=True),
        Life(
            "deduplicate with old changes",
            (
                ("changelog-producer", "input"),
                ("changelog.num-retained.min", 100),
                ("changelog.num-retained.max", 100),
            ),
            deletes=True,
        ),
    )
}
MENDED = {"I1", "I2", "I9", "I13", "I14"}
"""Invariants that damaged files break. A sound file of other rows breaks others: `check` names it, and `mend`
leaves it where it is."""
State = dict[str, Rows | str]
"""What can be read, by where it is asked for: rows, or why they cannot be."""


def _other_file(path: Path, draw: random.Random) -> bytes | None:
    """The bytes of another file of the same kind; None if there is none."""
    others = [
        p for p in _files(path.parent) if p != path and p.suffix == path.suffix and not p.name.isupper()
    ]
    others = [p for p in others if p.read_bytes() != path.read_bytes()]
    return draw.choice(others).read_bytes() if others else None


TEAR: Mapping[str, Callable[[Path, random.Random], bytes | None]] = {
    "removed": lambda path, draw: None,
    "cut": lambda path, draw: path.read_bytes()[: path.stat().st_size // 2],
    "zeroed": lambda path, draw: bytes(path.stat().st_size),
    "exchanged": _other_file,
}


def run(seed: int, folder: Path) -> Outcome:
    """Some tears of the files of one kind of table."""
    draw = random.Random(f"{seed} tears")
    return tear(draw.choice(sorted(TORN)), draw, folder, TEARS)


def tear(life: str, draw: random.Random, folder: Path, count: int | None = None) -> Outcome:
    """`count` tears of a kind of table, None for each file in each way."""
    make(folder / "whole", TORN[life])
    root = folder / "whole" / "d.db" / "t"
    cases = [(p.relative_to(root), how) for p in _files(root) for how in TEAR]
    chosen = cases if count is None else draw.sample(cases, min(count, len(cases)))
    before = state(_opened(root))
    counts, wrong = Counter[str](), list[str]()
    for name, how in chosen:
        shutil.copytree(folder / "whole", folder / "torn")
        try:
            place = folder / "torn" / "d.db" / "t"
            outcome, texts = _once(place, name, how, before, draw, lagging=TORN[life].lagging)
        except TablestoreError as e:
            outcome, texts = "failed", [f"{type(e).__name__}: {e}"]
        counts[f"{how} {outcome}"] += 1
        wrong += [f"{name} of {life} {how}: {text}" for text in texts]
        shutil.rmtree(folder / "torn")
    return Outcome(len(chosen), counts, tuple(wrong))


def make(root: Path, life: Life) -> ts.Table:
    """A table with all kinds of files: history, statistics, a tag, a branch of its own rows, a consumer."""
    table = history(ts.connect(str(root)), life)
    table.analyze()
    rows = life.step(SEED, 0, COMMITS)
    kinds = {"row_kind_column": "kind"} if "kind" in rows.column_names else {}
    table.write(rows, user="w0", identifier=COMMITS, **kinds)
    table.alter(ts.add("extra", ts.INT))
    table.branch("side").write(rows, user="w0", identifier=COMMITS, **kinds)
    table.consumers.reset("reader", table.store.snapshots.latest_id() or 1)
    return table.refresh()


def _files(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.is_file() and "damaged" not in p.parts)


def _opened(root: Path) -> ts.Table:
    """The table as another process opens it."""
    manifest_cache.LOCAL.clear()
    return ts.open(str(root))


def state(table: ts.Table) -> State:
    """The rows of each snapshot and tag, here and in branches."""
    actual = _own(table, "")
    for name in table.branches.names():
        try:
            actual |= _own(table.branch(name), f"branch {name} ")
        except TablestoreError as e:
            actual[f"branch {name}"] = str(e)
    return actual


def _own(table: ts.Table, of: str) -> State:
    actual: State = {f"{of}snapshot {n}": _read(table, snapshot=n) for n in table.store.snapshots.ids()}
    return actual | {f"{of}tag {n}": _read(table, tag=n) for n in table.tags.names()}


def _read(table: ts.Table, **asked: int | str) -> Rows | str:
    try:
        past = table.at(**asked)
        return rows_of(past, columns=[n for n in past.schema.names if n != "extra"])
    except TablestoreError as e:
        return str(e)


def _once(
    root: Path, name: Path, how: str, whole: State, draw: random.Random, *, lagging: bool
) -> tuple[str, list[str]]:
    data = TEAR[how](root / name, draw)
    if data is None and how == "exchanged":
        return "alone", []
    if data is None:
        os.unlink(root / name)
    else:
        (root / name).write_bytes(data)
    torn, rules = _torn(root)
    if not rules & MENDED:
        return "unnoticed" if not rules else "left", []
    readable = {where: rows for where, rows in torn.items() if rows == whole.get(where)}
    try:
        repair = ts.mend(str(root), dry_run=False)
    except Corrupt as e:
        own = sorted(where for where in readable if not where.startswith("branch "))
        return "hopeless", [f"hopeless, though {own} could be read: {e}"] if own else []
    if lagging:  # of a snapshot that lacks a file at level 0 scans read all but the rows that wait there
        newest = max((w for w in readable if w.startswith("snapshot ")), key=_number, default="")
        readable = {w: rows for w, rows in readable.items() if w == newest or "tag " in w}
    text = repr(repair)
    return "mended", [f"{problem}\n{text}" for problem in _problems(root, readable, whole, draw)]


def _torn(root: Path) -> tuple[State, set[str]]:
    """What can be read of a torn table, and the invariants that it breaks."""
    try:
        table = _opened(root)
        return state(table), {v.invariant for v in table.check()}
    except (Corrupt, NotFound):
        return {}, {"I2"}


def _problems(root: Path, readable: State, whole: State, draw: random.Random) -> Iterator[str]:
    table = _opened(root)
    for violation in table.check():
        yield f"not clean: {violation}"
    after = state(table)
    ids = table.store.snapshots.ids()
    tagged = _tagged(table, "")
    for name in table.branches.names():
        tagged |= _tagged(table.branch(name), f"branch {name} ")
    for where, rows in readable.items():
        kept = after.get(where, after.get(tagged.get(where, "")))
        if kept != rows and rows not in after.values():
            yield f"lost {where}: {kept if isinstance(kept, str) or kept is None else 'other rows'}"
    for where, rows in after.items():
        if isinstance(rows, str):
            yield f"still there is {where}: {rows}"
    best = max((int(w.rpartition(" ")[2]) for w in readable if w.startswith("snapshot ")), default=None)
    if best is not None:
        if not ids:
            yield "no snapshot is left"
        elif after[f"snapshot {ids[-1]}"] not in _since(best, readable, whole):
            yield f"the newest snapshot, {ids[-1]}, has not the rows of {best}"
    again = ts.mend(str(root), dry_run=True)
    if again:
        yield f"not mended at once: {again}"
    life_rows = LIVES["deduplicate"].step(SEED, 1, 1).drop_columns(["kind"])
    names = [n for n in life_rows.column_names if n in table.schema.names]
    if set(names) == {"k", "w", "v"}:
        table.write(life_rows)
        table = _opened(root)
        for violation in table.check():
            yield f"not clean after the next write: {violation}"


def _number(where: str) -> int:
    return int(where.rpartition(" ")[2])


def _since(best: int, readable: State, whole: State) -> Iterator[Rows | str]:
    """Rows that the table may have: those of the best snapshot, or of a later one whose compaction was done
    again."""
    yield readable[f"snapshot {best}"]
    later = (where for where in whole if where.startswith("snapshot ") and _number(where) > best)
    yield from (whole[where] for where in later)


def _tagged(table: ts.Table, of: str) -> dict[str, str]:
    """The tag that keeps a snapshot, by the place of the snapshot."""
    return {f"{of}snapshot {t.snapshot.id}": f"{of}tag {t.name}" for t in refs.all_tags(table.store)}
