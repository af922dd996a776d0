"""Two engines take turns on one table of every kind: write, delete, overwrite, compact, evolve, tag, expire.

After each turn both see the same rows and `check` finds nothing; at the end also every tag, every snapshot
that is left and the changes of a stream. A round is a seed; `--rounds 50` plays ten of them with every kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.types.arrow_types import DataType, parse_type
from tablestore.read.changes.stream_start import Cursor
from tests.peers import values
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaError, JavaPaimon
from tests.peers.table_kinds import BUCKET_KINDS, KINDS, TableKind

pytestmark = pytest.mark.peer
TURNS = 8
ALL_KINDS = KINDS | {f"buckets: {name}": kind for name, kind in BUCKET_KINDS.items()}


class Round:
    """One table and its two users."""

    def __init__(self, java: JavaPaimon, kind: TableKind, where: Path, seed: int) -> None:
        self.java, self.kind, self.rng = java, kind, random.Random(seed)
        self.turn, self.next_id, self.tags = 0, 0, list[str]()
        options = {"num-sorted-run.compaction-trigger": str(self.rng.choice([2, 3, 5]))}
        options |= {"file.format": self.rng.choice(kind.formats)}
        options |= {"manifest.merge-min-count": str(self.rng.choice([3, 30]))}
        if self.rng.random() < 0.5:
            self.path = kind.create_in_java(java, str(where / "d.db" / "t"), options)
        else:
            self.path = kind.create(where, options)

    @property
    def ours(self) -> ts.Table:
        return ts.open(self.path)

    def types(self) -> dict[str, DataType]:
        return {f.name: f.type for f in self.ours.store.schema.fields}

    def rows(self, count: int) -> pa.Table:
        columns = {}
        for name, t in self.types().items():
            if name == "k":
                columns[name] = pa.array([self.rng.randrange(40) for _ in range(count)], pa.int32())
            elif name == "p":
                columns[name] = pa.array(
                    [self.rng.choice(self.kind.partition_values()) for _ in range(count)]
                )
            elif name == "v" and t.root == "INT":
                columns[name] = pa.array(
                    [self.rng.choice([None, 1, 2, 50]) for _ in range(count)], pa.int32()
                )
            else:
                columns[name] = values.column(self.rng, t, count)
        return pa.table(columns)

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
        full, before = self.rng.random() < 0.6, in_order(cells(self.ours.scan().to_arrow()))
        if self.rng.random() < 0.5:
            self.next_id += 1
            self.java.compact(self.path, full=full, identifier=self.next_id)
            turn = f"java compacts, full {full}"
        else:
            self.ours.compact(full=full)
            turn = f"we compact, full {full}"
        if not self.kind.keys:  # of some keyed tables rows are seen from then on
            assert in_order(cells(self.ours.scan().to_arrow())) == before, turn
        return turn

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
        rows = table.scan().to_arrow()
        assert in_order(cells(rows, self.types())) == self.java.rows(self.path), place
        if self.kind.keys and set(self.kind.partitions) <= set(self.kind.keys):
            keys = [tuple(row.values()) for row in rows.select(list(self.kind.keys)).to_pylist()]
            assert len(keys) == len(set(keys)), f"{place}: a key is there twice"
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
        ours = [(Cursor.parse(s.cursor).snapshot, in_order(cells(s.to_arrow(), self.types()))) for s in steps]
        assert [step for step in ours if step[1]] == expected, place

    def _same(self, ours: ts.Table, place: str, options: dict[str, Any]) -> None:
        rows = ours.scan().to_arrow()
        types = {f.name: f.type for f in ours.scan().store.schema.fields}
        assert in_order(cells(rows, types)) == self.java.rows(self.path, options=options), place


TURN_KINDS: list[tuple[int, Callable[[Round], str]]] = [
    (8, Round.write),
    (3, Round.compact),
    (2, Round.delete),
    (1, Round.overwrite),
    (2, Round.evolve),
    (1, Round.tag),
    (1, Round.expire),
]


@pytest.mark.parametrize("name", ALL_KINDS)
@pytest.mark.sample(1, all=12)
def test_two_engines_take_turns(java: JavaPaimon, tmp_path: Path, name: str, seeds: tuple[int, ...]) -> None:
    for seed in seeds[: max(1, len(seeds) // 5)]:
        played: list[str] = []
        play = Round(java, ALL_KINDS[name], tmp_path / str(seed), seed)
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
