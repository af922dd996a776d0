"""Two engines take turns on one table of every kind: write, delete, overwrite, compact, evolve, tag, expire.

After each turn both see the same rows and `check` finds nothing; at the end also every tag, every snapshot
that is left and the changes of a stream. A round is a seed; `--rounds 50` plays ten of them with every kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.types.arrow_types import DataType, parse_type
from tablestore.read.changes.cursor import Cursor
from tests.peers import values
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaError, JavaPaimon

pytestmark = pytest.mark.peer
TURNS = 8
COLUMNS = {"p": "STRING", "k": "INT", "v": "INT", "s": "STRING", "d": "DECIMAL(20,2)", "t": "TIMESTAMP(6)"}
KEEP = {"snapshot.num-retained.min": "1000"}
DV = {"deletion-vectors.enabled": "true"}
# without the option our streams tell what an OVERWRITE replaced, Java's do not
SILENT = {"streaming-read-overwrite": "false"}
LOOKUP = {"changelog-producer": "lookup", **SILENT}
AGGREGATES = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
AGGREGATES |= {"fields.s.aggregate-function": "last_non_null_value", "fields.d.aggregate-function": "max"}


@dataclass(frozen=True)
class TableKind:
    """A kind of table, and what may be done to it."""

    options: dict[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ("k",)
    partitions: tuple[str, ...] = ()
    kinds: str = "+D"  # row kinds written: "+" inserts, "D" deletes too
    evolves: bool = True
    overwrites: bool = True
    formats: tuple[str, ...] = ("parquet", "orc", "avro")


KINDS = {
    "deduplicate": TableKind({"bucket": "2"}),
    "partitioned": TableKind({"bucket": "2"}, ("p", "k"), ("p",)),
    "sequence field": TableKind({"bucket": "1", "sequence.field": "t"}, evolves=False),
    "partial update": TableKind({"bucket": "1", "merge-engine": "partial-update"}, kinds="+", evolves=False),
    "aggregation": TableKind({"bucket": "1", **AGGREGATES}, kinds="+", evolves=False),
    "first row": TableKind({"bucket": "1", "merge-engine": "first-row", **LOOKUP}, kinds="+", evolves=False),
    "lookup changelog": TableKind({"bucket": "2", **LOOKUP}),
    "full changelog": TableKind({"bucket": "1", "changelog-producer": "full-compaction", **SILENT}),
    "input changelog": TableKind({"bucket": "1", "changelog-producer": "input", **SILENT}),
    "deletion vectors": TableKind({"bucket": "2", **DV}),
    "wide deletion vectors": TableKind({"bucket": "1", **DV, "deletion-vectors.bitmap64": "true", **LOOKUP}),
    "dynamic buckets": TableKind(
        {"bucket": "-1", "dynamic-bucket.target-row-num": "9"}, ("p", "k"), ("p",), overwrites=False
    ),
    "across partitions": TableKind(
        {"bucket": "-1", "dynamic-bucket.target-row-num": "9"}, ("k",), ("p",), "+", overwrites=False
    ),
    "append": TableKind({"compaction.min.file-num": "3"}, (), kinds="+"),
    "append, deletes": TableKind({**DV, "compaction.min.file-num": "3"}, (), ("p",), "+D"),
    "append, buckets": TableKind({"bucket": "2", "bucket-key": "k"}, (), ("p",), kinds="+"),
    "append, row ids": TableKind(  # Java cannot read an Avro file that stores row ids: index 2 out of bounds
        {"row-tracking.enabled": "true", "compaction.min.file-num": "2"},
        (),
        kinds="+",
        formats=("parquet", "orc"),
    ),
    "file indexes": TableKind(
        {"bucket": "1", "file-index.bitmap.columns": "v", "file-index.bloom-filter.columns": "s"}
    ),
}


class Round:
    """One table and its two users."""

    def __init__(self, java: JavaPaimon, kind: TableKind, where: Path, seed: int) -> None:
        self.java, self.kind, self.rng = java, kind, random.Random(seed)
        self.turn, self.next_id, self.tags = 0, 0, list[str]()
        options = {**KEEP, "num-sorted-run.compaction-trigger": str(self.rng.choice([2, 3, 5]))}
        options |= {"file.format": self.rng.choice(kind.formats)}
        options |= {"manifest.merge-min-count": str(self.rng.choice([3, 30]))}
        options |= {"bucket": "-1"} if "bucket" not in kind.options else {}
        self.path = str(where / "d.db" / "t")
        types = {n: f"{t} NOT NULL" if n in kind.keys else t for n, t in COLUMNS.items()}
        if self.rng.random() < 0.5:
            java.create(
                self.path,
                types,
                primary_keys=kind.keys,
                partition_keys=kind.partitions,
                options={**options, **kind.options},
            )
        else:
            ts.connect(str(where)).create_table(
                "d.t",
                schema={n: parse_type(t) for n, t in COLUMNS.items()},
                primary_key=list(kind.keys),
                partition_by=list(kind.partitions),
                options={**options, **kind.options},
            )

    @property
    def ours(self) -> ts.Table:
        return ts.open(self.path)

    def types(self) -> dict[str, DataType]:
        return {f.name: f.type for f in self.ours.store.schema.fields}

    def rows(self, count: int) -> pa.Table:
        made = {}
        for name, t in self.types().items():
            if name == "k":
                made[name] = pa.array([self.rng.randrange(40) for _ in range(count)], pa.int32())
            elif name == "p":
                made[name] = pa.array([self.rng.choice(["a", "b/c", "é="]) for _ in range(count)])
            elif name == "v" and t.root == "INT":
                made[name] = pa.array([self.rng.choice([None, 1, 2, 50]) for _ in range(count)], pa.int32())
            else:
                made[name] = values.column(self.rng, t, count)
        return pa.table(made)

    # what a turn may be

    def write(self) -> str:
        rows = self.rows(self.rng.randrange(1, 40))
        keyed_deletes = self.kind.keys and "D" in self.kind.kinds
        kinds = ["-D" if keyed_deletes and self.rng.random() < 0.25 else "+I" for _ in range(rows.num_rows)]
        self.next_id += 1
        if self.rng.random() < 0.5:
            self.java.write(self.path, rows, kinds=kinds, identifier=self.next_id)
            return "java writes"
        rows = rows.append_column("_kind", pa.array(kinds))
        self.ours.write(rows, row_kind_column="_kind", user="python", identifier=self.next_id)
        return "we write"

    def delete(self) -> str:
        key = self.rng.randrange(40)
        if self.kind.keys:
            if "D" not in self.kind.kinds:
                return self.write()
            self.ours.delete(ts.col("k") == key)
            return "we delete"
        if "D" not in self.kind.kinds:
            return self.write()
        if self.rng.random() < 0.5:
            self.next_id += 1
            self.java.delete(self.path, [">", "k", 30], identifier=self.next_id)
            return "java deletes"
        self.ours.delete(ts.col("k").between(key, key + 3))
        return "we delete"

    def overwrite(self) -> str:
        if not self.kind.overwrites:
            return self.write()
        rows = self.rows(5)
        if self.rng.random() < 0.5:
            self.next_id += 1
            self.java.write(self.path, rows, overwrite={}, identifier=self.next_id)
            return "java overwrites"
        self.ours.overwrite(rows)
        return "we overwrite"

    def compact(self) -> str:
        full = self.rng.random() < 0.6
        if self.rng.random() < 0.5:
            self.next_id += 1
            self.java.compact(self.path, full=full, identifier=self.next_id)
            return f"java compacts, full {full}"
        self.ours.compact(full=full)
        return f"we compact, full {full}"

    def evolve(self) -> str:
        if not self.kind.evolves:
            return self.compact()
        types = self.types()
        extra = [n for n in types if n.startswith("x")]
        act = self.rng.choice(["add", "add", "widen", "rename", "drop"])
        name = f"x{self.turn}"
        if act == "widen" and types["v"].root == "INT":
            changes = [{"change": "type", "name": "v", "type": "BIGINT"}], [ts.retype("v", ts.BIGINT)]
        elif act == "rename" and extra:
            changes = [{"change": "rename", "name": extra[0], "to": name}], [ts.rename(extra[0], name)]
        elif act == "drop" and extra:
            changes = [{"change": "drop", "name": extra[0]}], [ts.drop(extra[0])]
        else:
            text = self.rng.choice(["INT", "STRING", "DOUBLE", "ARRAY<INT>"])
            kind = {"type": "ARRAY", "element": "INT"} if text == "ARRAY<INT>" else text
            ours = ts.ARRAY(ts.INT) if text == "ARRAY<INT>" else parse_type(text)
            place = {"change": "add", "name": name, "type": kind, "after": "k"}
            changes = [place], [ts.add(name, ours, after="k")]
        if self.rng.random() < 0.5:
            self.java.alter(self.path, changes[0])
            return f"java alters: {changes[0]}"
        self.ours.alter(*changes[1])
        return f"we alter: {changes[0]}"

    def tag(self) -> str:
        if self.ours.store.snapshots.latest_id() is None:
            return self.write()
        name = f"tag{self.turn}"
        self.tags.append(name)
        if self.rng.random() < 0.5:
            self.java.create_tag(self.path, name)
            return f"java makes {name}"
        self.ours.tags.create(name)
        return f"we make {name}"

    def expire(self) -> str:
        if self.ours.store.snapshots.latest_id() is None:
            return self.write()
        if self.rng.random() < 0.5:
            self.java.expire(self.path, max=3, min=1)
            return "java expires"
        self.ours.expire_snapshots(keep=3)
        return "we expire"

    # what must hold

    def agree(self, place: str) -> None:
        table = self.ours
        assert in_order(cells(table.scan().to_arrow(), self.types())) == self.java.rows(self.path), place
        columns = ("bucket", "level", "rows", "deletes", "file_name")
        levels = sorted(([f[c] for c in columns] for f in table.inspect.levels().to_pylist()), key=str)
        assert levels == self.java.levels(self.path), place
        assert [str(v) for v in table.check()] == [], place

    def history_agrees(self, place: str) -> None:
        for snapshot in self.ours.store.snapshots.ids():
            self._same(
                self.ours.at(snapshot=snapshot), f"{place} at {snapshot}", {"scan.snapshot-id": snapshot}
            )
        for tag in self.tags:
            self._same(self.ours.at(tag=tag), f"{place} at {tag}", {"scan.tag-name": tag})
        first = self.ours.store.snapshots.earliest_id()
        if first is None:
            return
        expected = [
            (s["next"], in_order(s["changes"])) for s in self.java.stream(self.path, first) if s["changes"]
        ]
        steps = list(self.ours.stream(start=first, follow=False, normalize=False))
        found = [
            (Cursor.parse(s.cursor).snapshot, in_order(cells(s.to_arrow(), self.types()))) for s in steps
        ]
        assert [f for f in found if f[1]] == expected, place

    def _same(self, ours: ts.Table, place: str, options: dict[str, Any]) -> None:
        found = ours.scan().to_arrow()
        types = {f.name: f.type for f in ours.scan().store.schema.fields}
        assert in_order(cells(found, types)) == self.java.rows(self.path, options=options), place


TURN_KINDS: list[tuple[int, Callable[[Round], str]]] = [
    (8, Round.write),
    (3, Round.compact),
    (2, Round.delete),
    (1, Round.overwrite),
    (2, Round.evolve),
    (1, Round.tag),
    (1, Round.expire),
]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.sample(1, all=9)
def test_two_engines_take_turns(java: JavaPaimon, tmp_path: Path, name: str, seeds: tuple[int, ...]) -> None:
    for seed in seeds[: max(1, len(seeds) // 5)]:
        played: list[str] = []
        play = Round(java, KINDS[name], tmp_path / str(seed), seed)
        for turn in range(TURNS):
            play.turn = turn
            weights, acts = zip(*TURN_KINDS, strict=True)
            act = Round.write if turn == 0 else play.rng.choices(acts, weights)[0]
            place = f"{name}, seed {seed}: {played} then {act.__name__}"
            try:
                played.append(act(play))
            except (JavaError, ts.TablestoreError) as e:
                e.add_note(place)
                raise
            play.agree(f"{name}, seed {seed}: {played}")
        play.history_agrees(f"{name}, seed {seed}: {played}")
