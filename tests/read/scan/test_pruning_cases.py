"""Which files of a bucket a filter leaves out, by each rule once: `cases/pruning.txt`.

`f0 p=1 bucket=0/2 L5 k=0..9 v=3..7`: one file of ten rows; its number of buckets after the slash; `v=null`:
all are NULL, no `v`: no statistics; `index=3,5`: a Bloom filter of these values lies in its entry. `where` is
the filter; `options` are those of the table (`p` partitions it, `k` is its key unless `keyless`; `from=L4`: a
scan that begins at this level).
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tablestore.core.options.table_options import TableOptions
from tablestore.format import binary_row, stats
from tablestore.format.file_index.writing import FileIndexes, index_specs
from tablestore.format.manifests.manifest import ADD, ManifestEntry
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate_text import parse
from tablestore.format.schema import TableSchema, create_schema
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import BIGINT, INT, DataField
from tablestore.meta.entries import Entries
from tablestore.read.scan.pruning import Filters, Pruner
from tests import text_cases
from tests.lsm.trees import data_file

CASES = Path(__file__).parent / "cases" / "pruning.txt"
_FILE = re.compile(
    r"(\w+) p=(\d) bucket=(-?\d+)/(-?\d+) L(\d) k=(\d+)\.\.(\d+)(?: v=(\S+))?(?: index=(\S+))?"
)


def schema_of(options: dict[str, str], *, keyed: bool) -> TableSchema:
    fields = (DataField(0, "k", BIGINT), DataField(1, "p", INT), DataField(2, "v", BIGINT))
    created = create_schema(
        fields,
        primary_key=("k", "p") if keyed else (),
        partition_by=("p",),
        options={},
        comment=None,
        time_millis=0,
    )
    return replace(created, options=options)


def entry(line: str, schema: TableSchema) -> ManifestEntry:
    match = _FILE.fullmatch(line)
    assert match, f"not a file: {line}"
    name, values, indexed = match[1], match[8], match[9]
    partition, bucket, total, level, low, high = map(int, match.groups()[1:7])
    keys = ColumnStats(low, high, 0, 10)
    if values == "null":
        value_stats = ColumnStats(None, None, 10, 10)
    else:
        value_stats = ColumnStats(*map(int, values.split("..")), 0, 10) if values else None
    types = [f.type.as_nullable() for f in schema.fields]
    columns = [keys, ColumnStats(partition, partition, 0, 10), value_stats]
    some = [i for i, column in enumerate(columns) if column is not None]
    meta = data_file(
        name,
        low,
        high,
        level=level,
        row_count=10,
        value_stats_cols=tuple(schema.names[i] for i in some),
        embedded_index=bloom(indexed, schema) if indexed else None,
    )
    meta = replace(
        meta,
        key_stats=stats.encode([keys], types[:1]),
        value_stats=stats.encode([columns[i] for i in some], [types[i] for i in some]),
    )
    return ManifestEntry(ADD, binary_row.encode([partition], [INT]), bucket, total, meta)


def bloom(values: str, schema: TableSchema) -> bytes:
    indexed = schema.with_options({"file-index.bloom-filter.columns": "v"})
    indexes = FileIndexes(index_specs(indexed))
    indexes.update(pa.record_batch({"v": pa.array(list(map(int, values.split(","))), pa.int64())}))
    return indexes.finish()


def outcome(lines: list[str]) -> str:
    words = next((line.split()[1:] for line in lines if line.startswith("options")), [])
    keyed = "keyless" not in words
    set_options = text_cases.settings([w for w in words if "=" in w])
    min_level = int(set_options.pop("from", "L0")[1:])
    schema = schema_of({"bucket": "2", "bucket-key": "k"} | set_options, keyed=keyed)
    entries = [entry(line, schema) for line in lines if not line.startswith(("where", "options"))]
    where = next((line.removeprefix("where ") for line in lines if line.startswith("where")), "")
    pruner = Pruner(
        schema,
        TableOptions.parse(schema.options),
        Filters.of(predicate.bind(parse(where), schema) if where else None, schema),
        lambda partition: binary_row.decode(partition, [INT]),
        lambda _: schema,
    )
    verdicts = pruner.prune(entries, min_level=min_level)
    kept = pruner.keep(Entries.of(entries), min_level=min_level)
    assert kept.tolist() == [v.kept for v in verdicts], "by columns as by file"
    return "\n".join(
        f"{v.entry.file.file_name}: "
        + (f"read{f', {v.note}' if v.note else ''}" if v.kept else f"skipped by {v.rule}: {v.text}")
        for v in verdicts
    )


def test_every_rule_of_pruning(rewrite: bool) -> None:
    text_cases.check(CASES, outcome, rewrite=rewrite)
