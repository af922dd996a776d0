"""Deletes by key: no row is read where the key says all; old values where readers need them."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.tables import KEYED, PARTITIONED, WRITE_ONLY, TableSpec

EVERY_TYPE = TableSpec(
    {
        "k": ts.INT,
        "flag": ts.BOOLEAN.not_null(),
        "tiny": ts.TINYINT.not_null(),
        "n": ts.BIGINT.not_null(),
        "x": ts.FLOAT.not_null(),
        "amount": ts.DECIMAL(15, 2).not_null(),
        "wide": ts.DECIMAL(38, 3).not_null(),
        "day": ts.DATE.not_null(),
        "clock": ts.TIME(3).not_null(),
        "moment": ts.TIMESTAMP(3).not_null(),
        "fine": ts.TIMESTAMP(9).not_null(),
        "local": ts.TIMESTAMP_LTZ(6).not_null(),
        "code": ts.CHAR(3).not_null(),
        "text": ts.STRING.not_null(),
        "raw": ts.BYTES.not_null(),
        "fixed": ts.BINARY(4).not_null(),
        "v": ts.STRING,
        "list": ts.ARRAY(ts.INT),
    },
    primary_key=("k",),
    options={"bucket": 2, **WRITE_ONLY},
)
VALUED: dict[str, dict[str, Any]] = {
    "changelog": {"changelog-producer": "input"},
    "looked up": {"changelog-producer": "lookup"},
    "sequence field": {"sequence.field": "v"},
    "deletion vectors": {"deletion-vectors.enabled": True},
    "dynamic buckets": {"bucket": -1},
}


def written(table: ts.Table) -> list[dict[str, Any]]:
    """The rows that the newest APPEND snapshot added, by key."""
    snapshots = table.store.snapshots
    newest = max(i for i in snapshots.ids() if snapshots.get(i).commit_kind == "APPEND")
    rows = table.changes(since=newest - 1, until=newest, mode="delta").to_pylist()
    return sorted(rows, key=lambda row: row["k"])


def test_keys_alone_are_written_and_no_row_is_read(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path, WRITE_ONLY)
    table.write([{"k": k, "v": "a"} for k in range(4)])
    for path in Path(table.location).rglob("*.parquet"):
        path.rename(path.with_suffix(".away"))
    done = table.delete([{"k": 2}, {"k": 9}, {"k": 2}, {"k": 0}])
    for path in Path(table.location).rglob("*.away"):
        path.rename(path.with_suffix(".parquet"))
    assert (done.rows, len(done.snapshots)) == (3, 1)
    assert written(table) == [{"rowkind": "-D", "k": k, "v": None} for k in (0, 2, 9)]
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": "a"}, {"k": 3, "v": "a"}]
    assert table.check() == []


@pytest.mark.parametrize("options", VALUED.values(), ids=VALUED.keys())
def test_where_values_are_owed_the_old_ones_are_written(tmp_path: Path, options: dict[str, Any]) -> None:
    table = KEYED.create(tmp_path, options)
    table.write([{"k": k, "v": "a"} for k in range(4)])
    assert table.delete([{"k": 2}, {"k": 9}]).rows == 1
    assert written(table) == [{"rowkind": "-D", "k": 2, "v": "a"}]
    assert sorted(table.scan().to_arrow().column("k").to_pylist()) == [0, 1, 3]
    assert table.check() == []


def test_columns_that_may_not_be_null_are_zero_or_empty(tmp_path: Path) -> None:
    table = EVERY_TYPE.create(tmp_path)
    names = [name for name in EVERY_TYPE.columns if name not in ("k", "v", "list")]
    table.write([example(k) for k in range(20)])
    table.delete([{"k": k} for k in range(0, 20, 2)])
    first = written(table)[0]
    assert [name for name in names if first[name] is None] == []
    assert (first["amount"], first["text"], first["raw"], first["flag"]) == (Decimal("0.00"), "", b"", False)
    assert (first["v"], first["list"]) == (None, None)
    table.compact(full=True)
    rows = table.scan(["k", "n"]).to_arrow().to_pylist()
    assert sorted(row["k"] for row in rows) == list(range(1, 20, 2))
    assert all(row["n"] == row["k"] for row in rows)
    assert table.check() == []


def example(k: int) -> dict[str, Any]:
    """A row of `EVERY_TYPE`."""
    moment = datetime(2026, 1, 2, 3, 4, 5)
    numbers = {
        "k": k,
        "flag": True,
        "tiny": 1,
        "n": k,
        "x": 0.5,
        "amount": Decimal("1.25"),
        "wide": Decimal(7),
    }
    moments = {"day": moment.date(), "clock": moment.time(), "moment": moment, "fine": moment}
    texts = {"code": "abc", "text": "t", "raw": b"r", "fixed": b"1234", "v": "v", "list": [k]}
    return {**numbers, **moments, "local": moment.replace(tzinfo=UTC), **texts}


def test_no_partition_comes_of_a_delete(tmp_path: Path) -> None:
    table = PARTITIONED.create(tmp_path)
    assert table.delete([{"p": "x", "k": 1}]).snapshots == ()
    table.write([{"p": "x", "k": k, "v": "a"} for k in range(3)])
    assert table.delete([{"p": "z", "k": 1}]).snapshots == ()
    assert table.delete([{"p": "z", "k": 1}, {"p": "x", "k": 1}]).rows == 1
    live = table.store.manifests.live_entries(table.store.snapshots.latest())
    assert [table.store.partition_text(p) for p in live.partitions()[0]] == ["p=x"]
    assert sorted(table.scan(["k"]).to_arrow().column("k").to_pylist()) == [0, 2]


def test_a_stream_has_the_old_values_and_passes_absent_keys_over(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path, WRITE_ONLY)
    table.write([{"k": k, "v": "a"} for k in range(3)])
    table.delete([{"k": 1}, {"k": 7}])
    for normalize in (None, "lookup"):
        *_, last = table.stream(
            start="earliest" if normalize is None else 1, follow=False, normalize=normalize
        )
        rows = [row for batch in last.batches for row in batch.to_pylist()]
        assert rows == [{"rowkind": "-D", "k": 1, "v": "a"}]


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.sample(1)
def test_after_writes_deletes_and_compactions_the_rows_are_those_of_a_dict(
    tmp_path: Path, seeds: tuple[int, ...], partitioned: bool
) -> None:
    spec = (PARTITIONED if partitioned else KEYED).with_options({"bucket": 3})
    for seed in seeds:
        rng = random.Random(seed)
        table, model = spec.create(tmp_path / str(seed)), {}
        for step in range(12):
            keys = [key_of(rng, partitioned) for _ in range(rng.randrange(1, 30))]
            if rng.random() < 0.5:
                table.write([{**dict(key), "v": f"{step}"} for key in set(keys)])
                model |= dict.fromkeys(keys, f"{step}")
            else:
                table.delete([dict(key) for key in keys])
                model = {key: v for key, v in model.items() if key not in keys}
            if rng.random() < 0.3:
                table.compact(full=rng.random() < 0.5)
            rows = table.scan().to_arrow().to_pylist()
            assert {tuple((n, x) for n, x in row.items() if n != "v"): row["v"] for row in rows} == model
            assert len(rows) == len(model)
        assert table.check() == []


def key_of(rng: random.Random, partitioned: bool) -> tuple[tuple[str, Any], ...]:
    """The columns of a random key."""
    partition = (("p", rng.choice("xyz")),) if partitioned else ()
    return (*partition, ("k", rng.randrange(40)))
