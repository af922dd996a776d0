"""The same life, once with each engine: tables of every kind and option come out alike, file by file.

Both write the same rows into a table of their own, without compaction first, then with a full one. Compared
are rows, snapshots, every manifest entry but for names and sizes (levels, keys, sequence numbers, statistics,
counts), index files, changes; then each reads the other's table, and Java's system tables show ours as
`inspect` does. A round is a seed and takes a sample of kinds × options.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.types.arrow_types import DataType, parse_type
from tests.peers import values
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaError, JavaPaimon
from tests.peers.table_kinds import COLUMNS, KINDS, TableKind

pytestmark = [pytest.mark.peer, pytest.mark.large]
A_ROUND = 4
OPTIONS: list[dict[str, str]] = [
    {"metadata.stats-mode": "full"},
    {"metadata.stats-mode": "counts"},
    {"metadata.stats-mode": "none"},
    {"metadata.stats-mode": "truncate(3)", "metadata.stats-dense-store": "false"},
    {"fields.s.stats-mode": "none", "metadata.stats-keep-first-n-columns": "3"},
    {"manifest.merge-min-count": "2"},
    {"manifest.compression": "deflate"},
    {"file.compression": "snappy"},
    {"data-file.thin-mode": "true"},
    {"data-file.prefix": "part-"},
    {"write-buffer-for-append": "true"},
    {"num-levels": "3"},
    {"source.split.target-size": "1 kb", "source.split.open-file-cost": "100 b"},
    {"partition.legacy-name": "false"},
]
FORMATS = ("parquet", "orc", "avro")
DERIVED = ("name", "size", "extra_files", "embedded_index_bytes", "partition_stats")


class Twins:
    """Two tables with one schema: `mine` written by us, `its` by Java."""

    def __init__(
        self, java: JavaPaimon, kind: TableKind, where: Path, extra: dict[str, str], seed: int
    ) -> None:
        self.java, self.kind, self.rng = java, kind, random.Random(seed)
        self.compacted = False
        options = {"write-only": "true", **extra}
        self.mine = kind.create(where, options, name="ours.t")
        self.its = kind.create_in_java(java, str(where / "java.db" / "t"), options)

    def write(self, number: int) -> None:
        """The same rows into both. Each key once: what a buffer makes of several is another test's."""
        keys = self.rng.sample(range(40), self.rng.randrange(1, 30))
        types = {n: parse_type(t) for n, t in COLUMNS.items()}
        others = values.table(self.rng, {n: t for n, t in types.items() if n not in "pkv"}, len(keys))
        places = pa.array([["a", "b/c", "é="][k % 3] for k in keys])
        rows = pa.table({"p": places, "k": pa.array(keys, pa.int32())})
        rows = rows.append_column("v", pa.array([self.rng.choice([None, 1, 9]) for _ in keys], pa.int32()))
        for name in others.column_names:
            rows = rows.append_column(name, others.column(name))
        deletes = self.kind.keys and "D" in self.kind.kinds
        kinds = ["-D" if deletes and self.rng.random() < 0.25 else "+I" for _ in keys]
        self.java.write(self.its, rows, kinds=kinds, identifier=number, user="w", write_only=True)
        rows = rows.append_column("_kind", pa.array(kinds))
        ts.open(self.mine).write(rows, row_kind_column="_kind", user="w", identifier=number)

    def compact(self, number: int) -> None:
        """Fully; of an append table without buckets the small files, as both choose them."""
        self.java.compact(self.its, identifier=number, user="w")
        full = bool(self.kind.keys) or "bucket" in self.kind.options
        ts.open(self.mine).with_options({"write-only": "false"}).compact(full=full)

    def shape(self, path: str) -> dict[str, Any]:
        """What must be alike in both, as Java reads it.

        Numbers of rows that follow a compaction may be higher in ours: deleted rows keep theirs.
        """
        left_out = (*DERIVED, *(("min_seq", "max_seq") if self.compacted and self.kind.keys else ()))
        files = [{k: v for k, v in f.items() if k not in left_out} for f in self.java.files(path)]
        columns = ("snapshot_id", "schema_id", "commit_kind", "total_record_count", "delta_record_count")
        snapshots = [[s[c] for c in columns] for s in self.java.snapshots(path)]
        index = [[e["partition"], e["bucket"], e["type"], e["rows"]] for e in self.java.index_files(path)]
        marks = [d[3] for e in self.java.index_files(path) for d in e.get("dv_ranges") or ()]
        shape = {"files": sorted(files, key=repr), "snapshots": snapshots, "index": sorted(index, key=repr)}
        splits = [[s["partition"], s["bucket"], s["raw"], len(s["files"])] for s in self.java.splits(path)]
        return {**shape, "marks": sorted(marks), "splits": sorted(splits, key=repr)}

    def agree(self, place: str) -> None:
        mine, its = self.shape(self.mine), self.shape(self.its)
        for what in its:
            assert mine[what] == its[what], f"{place}: {what}"
        rows = self.java.rows(self.its)
        types = {f.name: f.type for f in ts.open(self.mine).store.schema.fields}
        for path in (self.mine, self.its):
            assert self.ours(path, types) == rows, place
            assert [str(v) for v in ts.open(path).check()] == [], place
        assert self.java.rows(self.mine) == rows, place

    def ours(self, path: str, types: dict[str, DataType]) -> list[list[Any]]:
        return in_order(cells(ts.open(path).scan().to_arrow(), types))

    def changes_agree(self, place: str) -> None:
        answers = [
            [[s["next"], in_order(s["changes"])] for s in self.java.stream(path, 1) if s["changes"]]
            for path in (self.mine, self.its)
        ]
        assert answers[0] == answers[1], place

    def inspected_alike(self, place: str) -> None:
        table = ts.open(self.mine)
        for name in ("files", "snapshots", "manifests"):
            ours = getattr(table.inspect, name)()
            read = self.java.read(self.mine, suffix=name)
            assert ours.column_names == [f[0] for f in read.fields], f"{place} ${name}"
            assert in_order(cells(ours)) == in_order(read.rows), f"{place} ${name}"


def cases(seed: int) -> list[tuple[str, dict[str, str]]]:
    """A sample of kinds with options."""
    rng = random.Random(seed)
    kinds = rng.sample(sorted(KINDS), A_ROUND)
    return [(k, {**rng.choice(OPTIONS), "file.format": rng.choice(KINDS[k].formats)}) for k in kinds]


def test_both_engines_make_the_same_table_of_the_same_rows(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for number, (seed, (name, extra)) in enumerate((s, c) for s in seeds[::2] for c in cases(s)):
        place = f"seed {seed}: {name}, {extra}"
        try:
            live(Twins(java, KINDS[name], tmp_path / str(number), extra, seed), place)
        except (JavaError, ts.TablestoreError) as e:
            e.add_note(place)
            raise


def live(twins: Twins, place: str) -> None:
    """Three commits, a full compaction, one more commit."""
    for commit in range(3):
        twins.write(commit)
    twins.agree(f"{place} as written")
    twins.compact(3)
    twins.agree(f"{place} compacted")
    twins.compacted = True
    twins.write(4)
    twins.agree(f"{place} written on")
    twins.changes_agree(place)
    twins.inspected_alike(place)
