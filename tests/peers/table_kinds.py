"""Kinds of tables that engines share, and what may be done to each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tablestore as ts
from tablestore.format.types.arrow_types import parse_type
from tests.peers.java_paimon import JavaPaimon

Options = Mapping[str, object] | None
Columns = Mapping[str, str]
COLUMNS = {"p": "STRING", "k": "INT", "v": "INT", "s": "STRING", "d": "DECIMAL(20,2)", "t": "TIMESTAMP(6)"}
DV = {"deletion-vectors.enabled": "true"}
# without the option our streams tell what an OVERWRITE replaced, Java's do not
SILENT = {"streaming-read-overwrite": "false"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "7"}
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
    names: tuple[str, ...] = ("a", "b/c", "é=")  # of partitions

    def create(
        self, where: Path, options: Options = None, *, name: str = "d.t", columns: Columns = COLUMNS
    ) -> str:
        """Where our new table of this kind is, in the lake at `where`."""
        table = ts.connect(str(where)).create_table(
            name,
            schema={n: parse_type(t) for n, t in columns.items()},
            primary_key=list(self.keys),
            partition_by=list(self.partitions),
            options=self._with(options),
        )
        return table.location

    def create_in_java(
        self, java: JavaPaimon, path: str, options: Options = None, columns: Columns = COLUMNS
    ) -> str:
        """`path`, where Java makes a table of this kind."""
        types = {n: f"{t} NOT NULL" if n in self.keys else t for n, t in columns.items()}
        keys = {"primary_keys": self.keys, "partition_keys": self.partitions}
        java.create(path, types, **keys, options=self._with(options))
        return path

    def _with(self, options: Options) -> dict[str, object]:
        return {"bucket": "-1", "snapshot.num-retained.min": "1000", **self.options, **(options or {})}

    def partition_values(self) -> list[str | None]:
        """Names of partitions; NULL where no key has it."""
        return [*self.names, *([] if "p" in self.keys else [None])]


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
    "dynamic buckets": TableKind(DYNAMIC, ("p", "k"), ("p",), overwrites=False),
    "across partitions": TableKind(DYNAMIC, ("k",), ("p",), overwrites=False),
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

BUCKET_KINDS = {
    "append": TableKind({"compaction.min.file-num": "3"}, (), kinds="+"),
    "append, partitioned": TableKind({"compaction.min.file-num": "2"}, (), ("p",), kinds="+"),
    "append, buckets": TableKind(
        {"bucket": "3", "bucket-key": "k", "compaction.min.file-num": "3"}, (), kinds="+"
    ),
    "append, buckets, partitioned, hive": TableKind(
        {"bucket": "2", "bucket-key": "v,k", "bucket-function.type": "hive"}, (), ("p",), "+", evolves=False
    ),
    "fixed, hive": TableKind({"bucket": "3", "bucket-function.type": "hive"}),
    "fixed, mod": TableKind(
        {"bucket": "3", "bucket-key": "k", "bucket-function.type": "mod"}, ("p", "k"), ("p",)
    ),
    "dynamic": TableKind(DYNAMIC, overwrites=False),
    "dynamic, partitioned": TableKind(DYNAMIC, ("p", "k"), ("p",), overwrites=False),
    "dynamic, most buckets": TableKind(
        {**DYNAMIC, "dynamic-bucket.max-buckets": "2"}, kinds="+", overwrites=False
    ),
    "dynamic, initial buckets, deletion vectors": TableKind(
        {**DYNAMIC, "dynamic-bucket.initial-buckets": "3", **DV},
        ("p", "k"),
        ("p",),
        overwrites=False,
        names=("a", "b", "é="),
    ),
    "cross-partition": TableKind(DYNAMIC, partitions=("p",), overwrites=False),
    "cross-partition, partial-update": TableKind(
        {**DYNAMIC, "merge-engine": "partial-update"},
        **{"partitions": ("p",), "kinds": "+", "evolves": False, "overwrites": False},
    ),
    # Java names its lookup files after the partition, so a slash there is a directory that does not exist
    "cross-partition, first-row": TableKind(
        {**DYNAMIC, "merge-engine": "first-row"},
        **{"partitions": ("p",), "kinds": "+", "evolves": False, "overwrites": False},
        names=("a", "b", "é="),
    ),
    "cross-partition, aggregation": TableKind(
        {**DYNAMIC, "merge-engine": "aggregation", "fields.v.aggregate-function": "max"},
        **{"partitions": ("p",), "kinds": "+", "evolves": False, "overwrites": False},
    ),
    "unique per partition": TableKind({"bucket": "2"}, ("k",), ("p",)),
}
