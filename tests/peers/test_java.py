"""Java Paimon 2.0.0 opens what this engine wrote, goes on with it, and this engine goes on with what Java
did."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon
from tests.tables import KEEP_ALL, TableSpec

pytestmark = pytest.mark.peer


ROWS = TableSpec(
    {"k": ts.BIGINT, "s": ts.STRING, "v": ts.INT, "d": ts.DOUBLE},
    primary_key=("k",),
    options=KEEP_ALL | {"bucket": 2},
)


def ours(t: ts.Table, snapshot: int | None = None) -> list[list[object]]:
    t = ts.open(t.location)
    return in_order(cells((t if snapshot is None else t.at(snapshot=snapshot)).scan().to_arrow()))


def changes(rng: random.Random, n: int) -> list[tuple[str, int, str, int | None, float]]:
    found = []
    for _ in range(n):
        k = rng.randrange(60)
        kind = "-D" if rng.random() < 0.25 else "+I"
        found.append((kind, k, f"row {k} é", rng.choice([None, k * 3]), k / 4 + 0.125))
    return found


def as_table(rows: list[tuple]) -> pa.Table:
    kinds, k, s, v, d = zip(*rows, strict=True)
    columns = {"kind": kinds, "k": k, "s": s, "v": pa.array(v, pa.int32()), "d": d}
    return pa.table(columns)


def levels(t: ts.Table) -> list[list[object]]:
    found = ts.open(t.location).inspect.levels().to_pylist()
    columns = ("bucket", "level", "rows", "deletes", "file_name")
    return sorted(([f[c] for c in columns] for f in found), key=str)


@pytest.mark.large
def test_the_two_engines_take_turns_on_one_table(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        t = ROWS.create(tmp_path / str(seed), {"num-sorted-run.compaction-trigger": rng.choice([2, 3, 5])})
        for turn in range(12):
            rows = changes(rng, rng.randrange(1, 40))
            act = rng.choice(["java write", "our write", "our compact", "java compact", "our full compact"])
            if act == "java write":
                java.write(t.location, [r[1:] for r in rows], kinds=[r[0] for r in rows], identifier=turn)
            elif act == "our write" or turn == 0:
                ts.open(t.location).write(
                    as_table(rows), row_kind_column="kind", user="python", identifier=turn
                )
            elif act == "java compact":
                java.compact(t.location, identifier=turn)
            else:
                ts.open(t.location).compact(full="full" in act)
            place = f"seed {seed} turn {turn} {act}"
            assert java.rows(t.location) == ours(t), place
            assert java.levels(t.location) == levels(t), place
            assert ts.open(t.location).check() == [], place
        for snapshot in ts.open(t.location).store.snapshots.ids():
            assert java.rows(t.location, snapshot) == ours(t, snapshot), f"seed {seed} snapshot {snapshot}"


def test_java_sees_our_snapshots(java: JavaPaimon, tmp_path: Path) -> None:
    t = ROWS.create(tmp_path)
    t.write(as_table([("+I", 1, "a", 2, 0.5)]), row_kind_column="kind", user="me", identifier=4)
    t.compact(full=True)
    t.truncate()
    found = java.snapshots(t.location)
    mine = ts.open(t.location).inspect.snapshots().to_pylist()
    keys = ("snapshot_id", "commit_kind", "commit_user", "commit_identifier", "total_record_count")
    assert [[s[k] for k in keys] for s in found] == [[s[k] for k in keys] for s in mine]
    assert [s["commit_kind"] for s in found] == ["APPEND", "COMPACT", "OVERWRITE"]
    assert java.rows(t.location) == []


def test_java_reads_every_scalar_type(java: JavaPaimon, tmp_path: Path) -> None:
    types = {
        "b": ts.BOOLEAN,
        "i8": ts.TINYINT,
        "i16": ts.SMALLINT,
        "i32": ts.INT,
        "f": ts.FLOAT,
        "d9": ts.DECIMAL(9, 2),
        "d18": ts.DECIMAL(18, 4),
        "d38": ts.DECIMAL(38, 10),
        "c": ts.CHAR(4),
        "vc": ts.VARCHAR(10),
        "day": ts.DATE,
        "t": ts.TIME(3),
        "ts3": ts.TIMESTAMP(3),
        "ts6": ts.TIMESTAMP(6),
        "ts9": ts.TIMESTAMP(9),
        "ltz": ts.TIMESTAMP_LTZ(6),
        "by": ts.BYTES,
    }
    t = ts.connect(str(tmp_path)).create_table("d.all", schema={"k": ts.INT, **types}, primary_key=["k"])
    values = {
        "k": pa.array([1, 2], pa.int32()),
        "b": [True, None],
        "i8": pa.array([-128, None], pa.int8()),
        "i16": pa.array([-32768, None], pa.int16()),
        "i32": pa.array([2**31 - 1, None], pa.int32()),
        "f": pa.array([1.5, None], pa.float32()),
        "d9": [Decimal("-1234567.89"), None],
        "d18": [Decimal("12345678901234.5678"), None],
        "d38": [Decimal("-1234567890123456789012345678.0123456789"), None],
        "c": ["ab", None],
        "vc": ["é中", None],
        "day": pa.array([19724, None], pa.int32()).cast(pa.date32()),
        "t": pa.array([3723004, None], pa.int32()).cast(pa.time32("ms")),
        "ts3": pa.array([1704164645678, None], pa.timestamp("ms")),
        "ts6": pa.array([1704164645678901, None], pa.timestamp("us")),
        "ts9": pa.array([1704164645678901234, None], pa.timestamp("ns")),
        "ltz": pa.array([1704164645678901, None], pa.timestamp("us", "UTC")),
        "by": [b"\x00\xff", None],
    }
    t.write(pa.table(values))
    first = [True, -128, -32768, 2147483647, 1.5, "-1234567.89", "12345678901234.5678"]
    first += ["-1234567890123456789012345678.0123456789", "ab", "é中", "2024-01-02", "01:02:03.004"]
    first += ["2024-01-02 03:04:05.678", "2024-01-02 03:04:05.678901", "2024-01-02 03:04:05.678901234"]
    expected = [[1, *first, "2024-01-02 03:04:05.678901Z", {"hex": "00ff"}], [2, *[None] * len(types)]]
    assert java.rows(t.location) == expected == ours(t)
    t.compact(full=True)
    assert java.rows(t.location) == expected


def test_java_reads_partitions_of_odd_values(java: JavaPaimon, tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.p",
        schema={"k": ts.INT, "p": ts.STRING, "day": ts.DATE},
        primary_key=["k", "p", "day"],
        partition_by=["p", "day"],
    )
    odd = ["plain", "a/b=c:d%e", "é中[x]", "back\\slash{}^", " ", "", "tab\there"]
    days = pa.array([19723 + i for i in range(len(odd))], pa.int32()).cast(pa.date32())
    t.write(pa.table({"k": pa.array(range(len(odd)), pa.int32()), "p": odd, "day": days}))
    found = ours(t)
    assert sorted(row[1] for row in found) == sorted(odd)
    assert java.rows(t.location) == found
    assert t.check() == []
