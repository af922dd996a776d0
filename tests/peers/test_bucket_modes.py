"""Overwrites in every bucket mode, rows that wait, row ids and partitions, with Java Paimon and pypaimon."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.types.arrow_types import parse_type
from tablestore.insight.inspect.system import row_tracking
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon
from tests.peers.pypaimon import PyPaimon
from tests.peers.table_kinds import BUCKET_KINDS, TableKind

pytestmark = pytest.mark.peer
FIELDS = {"p": "STRING", "k": "INT", "v": "STRING"}


def drawn(rng: random.Random, mode: TableKind) -> tuple[list[list[object]], list[str]]:
    """Rows and their kinds. Keys come again; partitions hold a NULL where they may."""
    count = rng.randrange(1, 30)
    blank = [""] if "p" in mode.keys else []
    partitions, texts = [*mode.partition_values(), *blank], [None, "x", "longer text é"]
    rows = [[rng.choice(partitions), rng.randrange(40), rng.choice(texts)] for _ in range(count)]
    kinds = ["-D" if "D" in mode.kinds and rng.random() < 0.2 else "+I" for _ in range(count)]
    return rows, kinds


def fewer(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """One seed in five: there are many modes."""
    return seeds[: max(1, len(seeds) // 5)]


def as_table(rows: list[list[object]], kinds: list[str]) -> pa.Table:
    p, k, v = zip(*rows, strict=True)
    types = pa.schema([("p", pa.string()), ("k", pa.int32()), ("v", pa.string()), ("kind", pa.string())])
    return pa.table({"p": p, "k": k, "v": v, "kind": kinds}, schema=types)


def ours(location: str, snapshot: int | None = None) -> list[list[object]]:
    t = ts.open(location)
    return in_order(cells((t if snapshot is None else t.at(snapshot=snapshot)).scan().to_arrow()))


WAITING = TableKind({"bucket": "-2", "postpone.default-bucket-num": "2"}, ("p", "k"), ("p",))


@pytest.mark.large
def test_rows_wait_in_postponed_buckets_until_our_compaction(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in fewer(seeds):
        rng = random.Random(seed)
        location = WAITING.create(tmp_path / str(seed), columns=FIELDS)
        state: dict[tuple[object, object], object] = {}
        identifier = 0
        for turn in range(8):
            waiting: list[tuple[list[object], str]] = []
            for _ in range(rng.randrange(1, 3)):
                rows, kinds = drawn(rng, WAITING)
                if rng.random() < 0.5:
                    identifier += 1
                    java.write(location, rows, kinds=kinds, identifier=identifier)
                else:
                    ts.open(location).write(as_table(rows, kinds), row_kind_column="kind")
                waiting += zip(rows, kinds, strict=True)
            shown = in_order([[p, k, v] for (p, k), v in state.items()])
            assert java.rows(location) == ours(location) == shown, f"seed {seed}"
            ts.open(location).compact(full=rng.random() < 0.3)
            for (p, k, v), kind in waiting:
                state.pop((p, k), None)
                if kind == "+I":
                    state[p, k] = v
            shown = in_order([[p, k, v] for (p, k), v in state.items()])
            assert ours(location) == shown, f"seed {seed} turn {turn}"
            assert java.rows(location) == shown, f"seed {seed} turn {turn}"
            assert ts.open(location).check() == [], f"seed {seed} turn {turn}"
            assert {f["total_buckets"] for f in java.files(location)} <= {2}


def test_java_streams_what_waits_in_our_postponed_files(java: JavaPaimon, tmp_path: Path) -> None:
    t = ts.open(WAITING.create(tmp_path, columns=FIELDS))
    rows = [["a", 1, "x"], ["b", 2, None], ["a", 1, "y"]]
    t.write(as_table(rows, ["+I", "+I", "-D"]), row_kind_column="kind")
    streamed = [c for step in java.stream(t.location) for c in step["changes"]]
    assert sorted(streamed, key=str) == sorted(
        [["+I", *rows[0]], ["+I", *rows[1]], ["-D", *rows[2]]], key=str
    )
    files = java.files(t.location)
    assert {(f["bucket"], f["total_buckets"], f["level"]) for f in files} == {(-2, -2, 0)}
    assert {(f["min_seq"], f["max_seq"], tuple(f["value_stats_cols"])) for f in files} == {(-1, -1, ())}
    assert all(f["name"].startswith("data--u-") and f["name"].endswith(".avro") for f in files)


@pytest.mark.parametrize("name", BUCKET_KINDS)
@pytest.mark.sample(1, all=9)
def test_both_overwrite_in_every_mode(java: JavaPaimon, tmp_path: Path, name: str) -> None:
    mode = BUCKET_KINDS[name]
    location = mode.create(tmp_path, columns=FIELDS)
    rng = random.Random(name)
    crossing = "cross" in name

    def rows_of(partition: str | None) -> list[list[object]]:
        own = [partition] if partition else ["a", "b/c"]
        return [[rng.choice(own), k, f"{rng.random():.3f}"] for k in rng.sample(range(50), 12)]

    ts.open(location).write(as_table(rows := rows_of(None), ["+I"] * len(rows)).drop(["kind"]))
    for turn in range(4):
        rows = rows_of(rng.choice([None, "a"]))
        named = mode.partitions and all(r[0] == "a" for r in rows) and not crossing
        if turn % 2 and not crossing:  # Java's assigner would retract rows in the table it replaces
            java.write(location, rows, overwrite={}, identifier=2 * turn)
        else:
            partition = {"p": "a"} if named else None
            dynamic = False if crossing else None
            data = as_table(rows, ["+I"] * len(rows)).drop(["kind"])
            ts.open(location).overwrite(data, partition=partition, dynamic=dynamic)
        read = ours(location)
        replaced = {r[0] for r in rows} if mode.partitions and not crossing else {"a", "b/c"}
        assert in_order([r for r in read if r[0] in replaced]) == in_order(rows), f"turn {turn}"
        assert java.rows(location) == read, f"turn {turn}"
        assert ts.open(location).check() == [], f"turn {turn}"
        more = rows_of(None)
        if turn % 2:
            ts.open(location).write(as_table(more, ["+I"] * len(more)).drop(["kind"]))
        else:
            java.write(location, more, identifier=2 * turn + 1)
        assert java.rows(location) == ours(location), f"turn {turn}, written on"
    assert ts.open(location).check() == []


def test_row_ids_stay_whoever_compacts(java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    mode = TableKind({"row-tracking.enabled": "true", "compaction.min.file-num": "2"}, (), kinds="+")
    for seed in fewer(seeds):
        rng = random.Random(seed)
        location = mode.create(tmp_path / str(seed), columns=FIELDS)
        before: dict[object, object] = {}
        for turn in range(8):
            act = rng.choice(["java write", "our write", "compact", "java compact"]) if turn else "our write"
            rows, kinds = drawn(rng, mode)
            if act == "java write":
                java.write(location, rows, identifier=turn)
            elif act == "our write":
                ts.open(location).write(as_table(rows, kinds).drop(["kind"]))
            elif act == "compact":
                ts.open(location).compact(full=True)
            else:
                java.compact(location, identifier=turn)
            store = ts.open(location).store
            read = cells(row_tracking(store, store.snapshots.latest()))
            place = f"seed {seed} turn {turn} {act}"
            assert in_order(read) == in_order(java.read(location, suffix="row_tracking").rows), place
            now = {row[3]: row for row in read}
            assert len(now) == len(read), place
            assert {i: now[i] for i in before} == before, place
            some = ts.open(location).scan(where=ts.col("k") > 20).to_arrow()
            assert in_order(java.read(location, where=[">", "k", 20]).rows) == in_order(cells(some)), place
            before = now
            assert ts.open(location).check() == [], place


PARTITIONS = {
    "s": ("STRING", [None, "", " ", "a/b=c:d%e", "é中[x]", "back\\slash{}^", "tab\there", "plain & +"]),
    "i": ("INT", [None, -5, 0]),
    "b": ("BOOLEAN", [None, True]),
    "d": ("DATE", [None, "2024-01-02", "1969-12-31"]),
    "t3": ("TIMESTAMP(3)", [None, "2024-01-02 03:04:00.000", "2024-01-02 03:04:05.670"]),
    "t6": ("TIMESTAMP(6)", [None, "2024-01-02 03:04:05.000001"]),
    "n": ("DECIMAL(10, 2)", [None, "1.50", "-0.25"]),
    "w": ("DECIMAL(20, 2)", [None, "1.50"]),
    "f": ("DOUBLE", [None, "1.0", "1.0E10"]),
}


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.sample(6)
def test_partition_directories_are_those_of_java(
    java: JavaPaimon, tmp_path: Path, name: str, legacy: bool
) -> None:
    text, values = PARTITIONS[name]
    types = {"k": parse_type("INT"), name: parse_type(text)}
    options = {"partition.legacy-name": legacy, "partition.default-name": "__none__"}
    t = ts.connect(str(tmp_path)).create_table("d.t", schema=types, partition_by=[name], options=options)
    theirs = str(tmp_path / "d.db" / "theirs")
    fields = {"k": "INT", name: text}
    java.create(theirs, fields, partition_keys=[name], options=options)
    rows = [[k, v] for k, v in enumerate(values)]
    java.write(theirs, rows)
    read = ts.open(theirs).scan().to_arrow()
    assert in_order(cells(read, types)) == in_order(java.read(theirs).rows)
    t.write(read)
    assert java.rows(t.location) == in_order(cells(read, types))

    def folders(location: str) -> list[str]:
        return sorted(p.parent.name for p in Path(location).glob("*/bucket-0"))

    assert folders(t.location) == folders(theirs)
    assert t.check() == ts.open(theirs).check() == []


def test_what_pypaimon_postpones_is_placed_by_us(tmp_path: Path) -> None:
    peer = PyPaimon(tmp_path)
    location = WAITING.create(tmp_path, columns=FIELDS)
    rng = random.Random("pypaimon")
    state: dict[tuple[object, object], object] = {}
    for turn in range(4):
        rows, kinds = drawn(rng, TableKind({}, WAITING.keys, kinds="+"))
        data = as_table(rows, kinds).drop(["kind"])
        if turn % 2:
            ts.open(location).write(data)
        else:
            peer.write("d.t", data)
        state |= {(p, k): v for p, k, v in rows}
        if turn:
            ts.open(location).compact()
            shown = in_order([[p, k, v] for (p, k), v in state.items()])
            assert ours(location) == shown, f"turn {turn}"
            assert in_order(cells(peer.read("d.t").select(["p", "k", "v"]))) == shown, f"turn {turn}"
            assert ts.open(location).check() == [], f"turn {turn}"
