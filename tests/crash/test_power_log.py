"""Loss of power under a table with an embedded log: what was answered for is there, in log and files."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt
from tests.crash.disk import MODELS, DiskIO, after_crash
from tests.log.followed import Followed
from tests.log.held import log_view

ROOT, CRASHES = "/lake", 15
SPECS: dict[str, dict[str, Any]] = {
    "transactional": {},
    "eventual": {"log.consistency": "eventual"},
    "tiered": {"tablestore.tiering.enabled": "true"},
}


def table(io: DiskIO) -> ts.Table:
    return ts.connect(ROOT, io=io).table("d.t")


def lived(kind: str, rng: random.Random) -> tuple[DiskIO, list[tuple[int, dict[int, int]]]]:
    """A disk on which rows were written, and after how many entries of its log which rows were answered
    for."""
    disk = DiskIO(seed=rng.randrange(1 << 30))
    options = {"log.system": "embedded", "bucket": 2, "tablestore.durability": "commit", **SPECS[kind]}
    schema = {"k": ts.INT, "v": ts.INT}
    ts.connect(ROOT, io=disk).create_table("d.t", schema=schema, primary_key=["k"], options=options)
    rows: dict[int, int] = {}
    answered = [(len(disk.log), dict(rows))]
    for v in range(6):
        keys = rng.sample(range(8), 3)
        table(disk).write([{"k": k, "v": v} for k in keys])
        rows |= dict.fromkeys(keys, v)
        answered.append((len(disk.log), dict(rows)))
        if kind == "tiered" and rng.random() < 0.3:
            log_view(table(disk)).finish()
    return disk, answered


def state(t: ts.Table, start: str) -> dict[int, int]:
    actual = Followed(1)
    for step in t.stream(start=start, timeout=0.0):
        actual.take(step)
    return dict(actual.rows.keys())


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.sample(1)
def test_what_was_answered_for_outlasts_every_loss_of_power(kind: str, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = random.Random(f"{kind} {seed}")
        disk, answered = lived(kind, rng)
        for _ in range(CRASHES):
            at, model = rng.randint(answered[0][0], len(disk.log)), rng.choice(MODELS)
            io = DiskIO(after_crash(disk, at, model, rng))
            last = max(i for i, (end, _) in enumerate(answered) if end <= at)
            allowed = [rows for _, rows in answered[last : last + 2]]
            where = f"{kind}, seed {seed}, {model}, entry {at}"
            log_view(table(io)).finish()
            actual = {r["k"]: r["v"] for r in table(io).scan().to_arrow().to_pylist()}
            assert actual in allowed, where
            assert state(table(io), "earliest") == state(table(io), "latest-full") == actual, where
            table(io).write([{"k": 9, "v": 9}])
            assert state(table(io), "earliest") == actual | {9: 9}, where
            log_view(table(io)).finish()
            assert table(io).scan().count() == len(actual) + 1, where
            assert table(io).check() == [], where


@pytest.mark.large
@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.sample(1)
def test_mending_ends_with_a_clean_check(kind: str, seeds: tuple[int, ...]) -> None:
    """Without syncs anything may be torn: what is left is mended in one call, or nothing can be read."""
    torn = 0
    for seed in seeds:
        rng = random.Random(f"{kind} {seed}")
        disk = DiskIO(seed=rng.randrange(1 << 30))
        options = {"log.system": "embedded", "bucket": 2, "tablestore.durability": "process", **SPECS[kind]}
        options["deletion-vectors.enabled"] = kind != "tiered" and rng.random() < 0.5
        schema = {"k": ts.INT, "v": ts.INT}
        ts.connect(ROOT, io=disk).create_table("d.t", schema=schema, primary_key=["k"], options=options)
        table(disk).write([{"k": 1, "v": -1}])
        disk = DiskIO({path: file.data for path, file in disk.names.files.items()}, seed=seed)
        for v in range(6):
            table(disk).write([{"k": k, "v": v} for k in rng.sample(range(8), 3)])
            if rng.random() < 0.3:
                table(disk).compact()
        for _ in range(CRASHES):
            io = DiskIO(after_crash(disk, rng.randint(0, len(disk.log)), rng.choice(MODELS), rng))
            torn += bool(table(io).check())
            try:
                assert ts.mend(f"{ROOT}/d.db/t", io=io, dry_run=False).remaining == ()
            except Corrupt:
                with pytest.raises(Corrupt):
                    table(io).scan().count()
                continue
            assert table(io).check() == []
            table(io).write([{"k": 1, "v": 9}])
            assert table(io).check() == []
    assert torn
