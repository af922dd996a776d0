"""Tables that are joined with, facts, and the same join row by row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
from tablestore.table.lookup_join.join import LookupJoin
from tablestore.table.table import Table

Row = dict[str, Any]


KINDS = ("+I", "+U", "-D", "+I")


def made(path: Path, *, key: tuple[str, ...] = ("k",), by: tuple[str, ...] = (), **options: Any) -> Table:
    return ts.connect(str(path)).create_table(
        "d.dim",
        schema={"k": ts.INT, "p": "INT NOT NULL", "v": ts.STRING, "n": ts.BIGINT},
        primary_key=list(key),
        partition_by=list(by),
        options={"bucket": 2 if key else -1} | options,
    )


def some(rng: random.Random, rows: int, kinds: tuple[str, ...] = KINDS) -> list[Row]:
    return [
        {
            "k": rng.randrange(30),
            "p": rng.randrange(2),
            "v": rng.choice(["a", "b", "c", None]),
            "n": rng.choice([1, 2, None]),
            "kind": rng.choice(kinds),
        }
        for _ in range(rows)
    ]


def plainly(facts: list[Row], rows: list[Row], on: dict[str, str], names: dict[str, str], how: str) -> list:
    """The same join, row by row."""
    collected = []
    for fact in facts:
        met = [r for r in rows if all(r[ours] is not None and r[ours] == fact[f] for ours, f in on.items())]
        collected += [fact | {as_: r[n] for n, as_ in names.items()} for r in met]
        if not met and how == "left":
            collected.append(fact | dict.fromkeys(names.values()))
    return collected


def in_order(rows: list[Row]) -> list:
    return sorted((list(r.values()) for r in rows), key=repr)


GIVEN = {"v": "name", "n": "many"}


FACTS = pa.schema([(n, pa.int64()) for n in ("id", "k", "p")] + [("v", pa.large_string()), ("n", pa.int32())])


def some_facts(rng: random.Random) -> list[Row]:
    return [
        {"id": i, "k": rng.choice([None, *range(35)]), "p": rng.randrange(3)}
        | {"v": rng.choice(["a", "b", "z", None]), "n": rng.choice([1, 2, 9, None])}
        for i in range(rng.choice([0, 1, 12]))
    ]


def one_change(t: Table, rng: random.Random, kinds: tuple[str, ...]) -> None:
    chance = rng.random()
    if chance < 0.1:
        t.compact(full=True)
    elif chance < 0.15 and set(t.partition_by) <= set(t.primary_key):
        t.overwrite([{"k": k, "p": k % 2, "v": "o", "n": 2} for k in rng.sample(range(30), 4)])
    elif chance < 0.2:
        t.expire_snapshots(keep=1)
    else:
        rows = some(rng, rng.randrange(1, 9), kinds)
        if t.store.schema.row_count_field is not None:
            rows = [r | {"v": r["v"] or "d", "n": r["n"] or 3} for r in rows]
        t.write(rows, row_kind_column="kind")


def names(join: LookupJoin, *keys: int) -> list[Any]:
    return join.join({"k": list(keys)})["v"].to_pylist()
