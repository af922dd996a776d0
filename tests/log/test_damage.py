"""Damage of the embedded log of a table: torn, missing, flipped and exchanged files, the folder gone.

The oracle is what was acknowledged. Whoever reads or writes afterwards sees all of it, or an error that names
the log; `check` and the doctor find what such an error came from. After `repair` the table has what its files
and the sound part of the log had, and every row that is written from then on.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.log.embedded import directory, roll_up
from tests.log.followed import Followed
from tests.log.held import log_view
from tests.tables import TableSpec

LOG = {"log.system": "embedded", "bucket": 2, "snapshot.num-retained.min": 1000}
KEYED = TableSpec({"k": ts.INT, "v": ts.BIGINT}, ("k",), options=LOG)
SYNCED = {"tablestore.durability": "commit"}
KINDS: dict[str, TableSpec] = {
    "transactional": KEYED,
    "synced": KEYED.with_options(SYNCED),
    "append": TableSpec({"k": ts.INT, "v": ts.BIGINT}, options={**LOG, "bucket-key": "k"}),
    "eventual": KEYED.with_options({"log.consistency": "eventual", **SYNCED}),
    "tiered": KEYED.with_options({"tablestore.tiering.enabled": "true", **SYNCED}),
}
SPAN = 4
DAMAGES = 3
Rows = Counter[tuple[int, int]]


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few files become a segment."""
    for module in (directory, roll_up):
        monkeypatch.setattr(module, "SPAN", SPAN)
        monkeypatch.setattr(module, "TIERS", (SPAN, SPAN**2, SPAN**3))
    monkeypatch.setattr("tablestore.log.embedded.log.SPAN", SPAN)


@dataclass
class Life:
    """A table that was written to, and what was acknowledged of it. `in_files`: the rows that its files have;
    `cursors`: those of readers, each with what it had read."""

    kind: str
    path: Path
    rng: random.Random
    rows: Rows = field(default_factory=Counter)
    in_files: Rows = field(default_factory=Counter)
    cursors: list[tuple[str, Rows]] = field(default_factory=list)
    number: int = 0

    def write(self, w: Any) -> None:
        """Some rows, new keys and old ones."""
        keys = sorted({self.rng.randrange(12) for _ in range(self.rng.randint(1, 4))})
        self.number += 1
        w.write([{"k": k, "v": self.number} for k in keys])
        self.rows = written(self.kind, self.rows, keys, self.number)

    def table(self) -> ts.Table:
        return opened(self.path)


def written(kind: str, rows: Rows, keys: list[int], value: int) -> Rows:
    kept = rows if kind == "append" else Counter({r: n for r, n in rows.items() if r[0] not in keys})
    return kept + Counter((k, value) for k in keys)


def lived(kind: str, path: Path, rng: random.Random) -> Life:
    """Writes, readers, compactions; the newest rows of eventual and tiered tables are in the log alone."""
    KINDS[kind].create(path)
    life = Life(kind, path, rng)
    for _ in range(rng.randint(4, 4 * SPAN)):
        life.write(life.table())
        if rng.random() < 0.2:
            life.table().compact(full=rng.random() < 0.5)
        if rng.random() < 0.2:
            actual = followed(path, "latest-full")
            life.cursors.append((actual.cursor or "", life.rows))
        if kind == "tiered" and rng.random() < 0.3:
            log_view(life.table()).finish()
    if kind == "tiered":
        log_view(life.table()).finish()
    life.in_files = life.rows
    if kind == "tiered" and rng.random() < 0.7:
        life.write(life.table())
    if kind == "eventual" and rng.random() < 0.7:
        with contextlib.suppress(Stopped), life.table().writer() as w:
            life.write(w)
            raise Stopped
    return life


class Stopped(Exception):
    """A writer ends before its commit."""


def opened(path: Path) -> ts.Table:
    """The table as another process opens it."""
    return ts.connect(str(path)).table("d.t")


def log_folder(path: Path) -> Path:
    return path / "d.db" / "t" / "tablestore" / "log"


def log_files(path: Path) -> list[Path]:
    return sorted(log_folder(path).glob("*.log"))


def followed(path: Path, start: Any, before: Rows | None = None) -> Followed:
    """What a stream gives that begins there and reads all that is there."""
    t = opened(path)
    actual = Followed(len(t.primary_key))
    if before is not None and t.primary_key:
        actual.states = {(k,): (v,) for k, v in before}
    elif before is not None:
        actual.counts = Counter(before)
    for step in t.stream(start=start, timeout=0.0):
        actual.take(step)
    return actual


def scanned(path: Path, *, log: bool) -> Rows:
    rows = opened(path).scan(log=log).to_arrow().to_pylist()
    return Counter((r["k"], r["v"]) for r in rows)


# damage: each changes files of the log at random, and says what it did


def torn(life: Life, path: Path) -> str:
    file = one(life, path)
    size = life.rng.randrange(file.stat().st_size)
    file.write_bytes(file.read_bytes()[:size])
    return f"{file.name} torn at {size}"


def flipped(life: Life, path: Path) -> str:
    file = one(life, path)
    data = bytearray(file.read_bytes())
    at, bit = life.rng.randrange(len(data)), life.rng.randrange(8)
    data[at] ^= 1 << bit
    file.write_bytes(data)
    return f"{file.name} flipped at {at}, bit {bit}"


def missing(life: Life, path: Path) -> str:
    files = log_files(path)
    first = max(0, len(files) - life.rng.randint(1, 3)) if life.rng.random() < 0.6 else 0
    gone = files[first:] if life.rng.random() < 0.5 else [life.rng.choice(files)]
    for file in gone:
        file.unlink()
    return f"{[f.name for f in gone]} missing"


def swapped(life: Life, path: Path) -> str:
    some, other = life.rng.sample(log_files(path), 2)
    one_, two = some.read_bytes(), other.read_bytes()
    some.write_bytes(two)
    other.write_bytes(one_)
    return f"{some.name} and {other.name} exchanged"


def other_table(life: Life, path: Path) -> Path:
    """Where another table with the same writes is."""
    other = path.parent / f"{path.name}-other-{life.rng.getrandbits(40)}"
    lived(life.kind, other, random.Random(life.rng.random()))
    return other


def foreign(life: Life, path: Path) -> str:
    """A file comes from the log of another table with the same writes."""
    other = other_table(life, path)
    names = {f.name for f in log_files(other)}
    files = [f for f in log_files(path) if f.name in names]
    file = life.rng.choice(files or log_files(path))
    shutil.copy(log_folder(other) / file.name if files else log_files(other)[-1], file)
    return f"{file.name} from another table"


def foreign_log(life: Life, path: Path) -> str:
    other = other_table(life, path)
    shutil.rmtree(log_folder(path))
    shutil.copytree(log_folder(other), log_folder(path))
    return "the log from another table"


def gone(life: Life, path: Path) -> str:
    shutil.rmtree(life.rng.choice((log_folder(path), log_folder(path).parent)))
    return "the folder gone"


def one(life: Life, path: Path) -> Path:
    """The newest file as often as any other."""
    files = log_files(path)
    return files[-1] if life.rng.random() < 0.5 else life.rng.choice(files)


WITHIN: tuple[Callable[[Life, Path], str], ...] = (torn, flipped, missing, swapped, foreign, foreign_log)
EVERY = (*WITHIN, gone)


def require_named(error: TablestoreError) -> None:
    """Raise AssertionError unless an error says that it is the log, and what to do."""
    text = str(error)
    assert "tablestore/log" in text or "the log " in text, text
    assert "repair()" in text or "latest-full" in text or "missing" in text, text


def complaints(life: Life, path: Path, whole: Rows, *, least: Rows | None = None) -> Iterator[str]:
    """The errors of reads of the log; those without one have `whole`, or at least the rows `least`."""
    reads: list[Callable[[], Rows]] = [
        lambda: scanned(path, log=True),
        *(lambda s=s: followed(path, s).rows for s in ("earliest", "latest-full")),
        *(lambda c=c, r=r: followed(path, c, r).rows for c, r in life.cursors[-2:]),
    ]
    assert scanned(path, log=False) == life.in_files
    for read in reads:
        try:
            content = read()
        except TablestoreError as e:
            require_named(e)
            yield str(e)
        else:
            assert content == whole or (least is not None and not least - content and not content - whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1)
def test_damage_hides_no_row_that_was_acknowledged(kind: str, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = random.Random(f"{kind} {seed}")
        life = lived(kind, tmp_path / str(seed), rng)
        assert list(complaints(life, life.path, life.rows)) == []
        assert life.table().check() == []
        for number in range(DAMAGES):
            path = tmp_path / f"{seed}-{number}"
            shutil.copytree(life.path, path)
            what = rng.choice(EVERY)(life, path)
            print(f"seed {seed}: {what}")
            try:
                follow(life, path)
            except BaseException as e:
                e.add_note(f"{kind}, seed {seed}: {what}")
                raise


def follow(life: Life, path: Path) -> None:
    """What is said of a damaged log, and what `repair` makes of it."""
    errors = list(complaints(life, path, life.rows))
    twin = path.parent / f"{path.name}-written"
    shutil.copytree(path, twin)
    try:
        opened(twin).write([{"k": 99, "v": 0}])
    except TablestoreError as e:
        require_named(e)
        errors.append(str(e))
        assert scanned(twin, log=False) == life.in_files
    else:
        new = Counter({(99, 0): 1})
        now = scanned(twin, log=seen_at_once(life))
        require_kept(life, now, new)
        if not errors:
            assert followed(twin, "latest-full").rows == now == life.rows + new
    shutil.rmtree(twin)
    t = opened(path)
    actual, kinds = t.check(), t.inspect.doctor().kinds
    expired = [e for e in errors if "latest-full" in e]  # what retention does, too
    assert actual or errors == expired, errors
    assert "damaged log" in kinds or all(v.text.startswith("rows ") for v in actual)  # it reads no rows
    lost = log_view(t).repair()
    assert not lost or life.rows != life.in_files
    opened(path).write([{"k": 99, "v": 1}])
    new = Counter({(99, 1): 1})
    now = scanned(path, log=seen_at_once(life))
    require_kept(life, now, new)
    t = opened(path)
    log_view(t).finish()
    t = opened(path)
    assert (t.check(), log_view(t).repair()) == ([], {})
    assert "damaged log" not in t.inspect.doctor().kinds
    life.in_files, in_files = now, life.in_files
    list(complaints(life, path, now))
    life.in_files = in_files
    assert followed(path, "latest-full").rows == now


def require_kept(life: Life, now: Rows, new: Rows) -> None:
    """Raise AssertionError unless the table has the rows of its files, or newer ones of their keys, and `new`
    ones, and no others than were acknowledged."""
    assert new <= now
    assert not now - (life.rows | life.in_files) - new
    newer = dict(life.rows.keys())
    for (k, v), count in life.in_files.items():
        assert now[k, v] == count or (life.kind != "append" and now[k, newer[k]] == 1), (k, v)


def seen_at_once(life: Life) -> bool:
    return life.kind in ("eventual", "tiered")
