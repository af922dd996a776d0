"""`ts.advise_buckets`: how many buckets a table should have, from its rows or from data to be written.

Bytes a row: of a table its live files; of data a sample is written to a scratch table and measured, so the
encodings are the engine's own. Skew: the table's bucket function over the keys. Memory: a sample of 131,072
rows, one batch, and the counts of `insight.doctor.bucket_advice`. Of more than `sample_rows` rows only some
slices (of a table: splits) are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options.table_options import as_text
from tablestore.format.schema import TableSchema
from tablestore.insight.doctor.bucket_advice import (
    GUIDANCE,
    BucketAdvice,
    KeyCounts,
    Question,
    call_of,
    propose,
)
from tablestore.io.scratch import scratch_folder
from tablestore.table.lake import connect
from tablestore.table.table import Table
from tablestore.write.arrow_input import as_batches
from tablestore.write.conform import conform
from tablestore.write.routing import routing

_ENCODED = 131_072
_PIECE = 32_768  # rows of one batch in the sample that is encoded
_STRING = pa.string()  # what a column without a value may be
_OWN = ("bucket", "bucket-key", "write-only")


@checked
def advise_buckets(
    data: Any,
    *,
    primary_key: Sequence[str] | None = None,
    partition_by: Sequence[str] | None = None,
    bucket_key: Sequence[str] | None = None,
    rows: int | None = None,
    growth: float = 1.0,
    target_bytes: int = GUIDANCE[1],
    parallelism: int = 1,
    options: Mapping[str, Any] | None = None,
    sample_rows: int = 2_000_000,
) -> BucketAdvice:
    """A number of buckets for `data`, anything Arrow-like or an existing table, with its arithmetic.

    `primary_key`, `partition_by` and `bucket_key` default to the table's, `options` to its options. `rows`:
    how many the table will have (None: those of `data`); `growth`: times its size; `target_bytes`: of a
    bucket; `parallelism`: buckets of a partition that are to be written at once; `sample_rows`: from which
    the size of a row is measured. Raises SchemaMismatch for NULL keys and InvalidRequest for keys that
    determine no bucket.

    >>> ts.advise_buckets(orders, rows=50_000_000).buckets >= 1
    True
    """
    _require_numbers(rows, growth, target_bytes, parallelism, sample_rows)
    primary_key, partition_by, bucket_key = map(_names, (primary_key, partition_by, bucket_key))
    keys = (tuple(primary_key or ()), tuple(partition_by or ()), tuple(bucket_key or ()))
    table = data if isinstance(data, Table) else None
    if table is not None:
        sample = _of_table(table, primary_key, partition_by, bucket_key, sample_rows)
    else:
        sample = _of_data(data, *keys, as_text(options), sample_rows)
    counts, scratch = sample.counts, sample.scratch
    question = Question(
        rows=sample.rows if rows is None else rows,
        counted=counts.rows,
        bytes_per_row=sample.bytes_per_row,
        measured=sample.measured,
        target_bytes=target_bytes,
        growth=growth,
        parallelism=parallelism,
        bucket_key=scratch.bucket_key,
    )
    names = [scratch.table.store.partition_text(p) for p in counts.partitions]
    same = (
        table is not None
        and not (primary_key or partition_by)
        and table.store.options.bucket > 0
        and scratch.bucket_key == table.store.schema.bucket_keys
    )
    call = "table.rescale({n})" if same else call_of({"bucket-key": ",".join(keys[2])} if bucket_key else {})
    dynamic = bool(scratch.table.primary_key and scratch.table.partition_by and not bucket_key)
    return propose(counts.counts, names, question, call=call, dynamic=dynamic)


@dataclass(frozen=True)
class _Sample:
    """Facts about the rows: counts by bucket hash, rows in all, bytes of one."""

    scratch: _SampleTable
    counts: KeyCounts
    rows: int
    bytes_per_row: float
    measured: str


def _of_data(
    data: Any,
    primary_key: tuple[str, ...],
    partition_by: tuple[str, ...],
    bucket_key: tuple[str, ...],
    options: dict[str, Any],
    sample_rows: int,
) -> _Sample:
    """The facts about Arrow-like data, read slice by slice: the more there are, the fewer of them."""
    batches = as_batches(data)
    first = next((b for b in batches if b.num_rows), None)
    scratch = _SampleTable(_schema_of(data, first), primary_key, partition_by, bucket_key, options)
    counts = KeyCounts(scratch.schema, scratch.bucket_key, scratch.function)
    rows, stride, limit = 0, 1, sample_rows
    some = (p for b in chain([first] if first is not None else [], batches) for p in routing.pieces(b))
    for i, piece in enumerate(some):
        rows += piece.num_rows
        if i % stride == 0:
            fitted = conform(piece, scratch.schema)
            counts.add(fitted)
            scratch.keep(fitted)
        if counts.rows >= limit:
            stride, limit = stride * 2, limit + sample_rows
    return _Sample(scratch, counts, rows, *scratch.measure())


def _of_table(
    table: Table,
    primary_key: Sequence[str] | None,
    partition_by: Sequence[str] | None,
    bucket_key: Sequence[str] | None,
    sample_rows: int,
) -> _Sample:
    """The facts about a table: keys of all its splits, or of every second, third …; bytes of its live
    files."""
    schema, o = table.store.schema, table.store.options
    keys = table.primary_key if primary_key is None else tuple(primary_key)
    parts = schema.partition_keys if partition_by is None else tuple(partition_by)
    own = tuple(bucket_key or (o.bucket_key if primary_key is None else ()))
    if not (own or keys) and o.bucket > 0:  # a change-log table: every column is its key
        own = schema.bucket_keys
    function = {"bucket-function.type": o.bucket_function} if len(own or keys) == 1 else {}
    names = list(dict.fromkeys((*keys, *parts, *own)))
    arrow = pa.schema([table.schema.field(n) for n in names if n in table.schema.names])
    scratch = _SampleTable(arrow, keys, parts, own, function)
    counts = KeyCounts(scratch.schema, scratch.bucket_key, scratch.function)
    splits = table.scan(names).plan().splits
    rows = sum(s.rows for s in splits)
    step = max(1, -(-rows // sample_rows))
    for split in splits[::step]:
        for batch in table.read_split(split, columns=names):
            counts.add(conform(batch, scratch.schema))
    live = table.store.manifests.live_entries(table.store.snapshots.latest())
    written, size = int(live.numbers("row_count").sum()), int(live.numbers("file_size").sum())
    measured = f"{written:,} rows in {len(live):,} live files"
    return _Sample(scratch, counts, counts.rows if step == 1 else rows, size / max(written, 1), measured)


def _names(columns: Sequence[str] | None) -> Sequence[str] | None:
    """Column names as a tuple; a single text is one name."""
    return [columns] if isinstance(columns, str) else columns


def _require_numbers(
    rows: int | None, growth: float, target_bytes: int, parallelism: int, sample_rows: int
) -> None:
    wholes = {"target_bytes": target_bytes, "parallelism": parallelism, "sample_rows": sample_rows}
    wholes |= {} if rows is None else {"rows": rows}
    for name, value in wholes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidRequest(f"{name} {value!r} must be a whole number, from 1 on")
    if isinstance(growth, bool) or not isinstance(growth, int | float) or not 0 < growth < 1e9:
        raise InvalidRequest(f"growth {growth!r} must be a positive number: times the size of today")


def _schema_of(data: Any, first: pa.RecordBatch | None) -> pa.Schema:
    """The columns of the data, also of data without rows."""
    if first is not None:
        return first.schema
    schema = getattr(data, "schema", None)
    if not isinstance(schema, pa.Schema):
        raise InvalidRequest("the data are empty and name no columns: pass an Arrow table or some rows")
    return schema


class _SampleTable:
    """A table of the same columns and keys, in which a sample is encoded. Not thread-safe."""

    def __init__(
        self,
        arrow: pa.Schema,
        primary_key: tuple[str, ...],
        partition_by: tuple[str, ...],
        bucket_key: tuple[str, ...],
        options: Mapping[str, Any],
    ) -> None:
        bucket_key = bucket_key or tuple(
            n.strip() for n in options.get("bucket-key", "").split(",") if n.strip()
        )
        for name in (*primary_key, *partition_by, *bucket_key):
            if name not in arrow.names:
                raise NotFound.among("column", name, arrow.names)
        if not primary_key and not bucket_key:
            raise InvalidRequest("without primary_key or bucket_key no row has a bucket: name one of them")
        fixed = {k: v for k, v in options.items() if k not in _OWN}
        fixed |= {"bucket": 1, "write-only": True}
        fixed |= {"bucket-key": ",".join(bucket_key)} if bucket_key else {}
        self.table = connect(scratch_folder(self)).create_table(
            "scratch.sample",
            schema=pa.schema([(f.name, _STRING if f.type == pa.null() else f.type) for f in arrow]),
            primary_key=list(primary_key),
            partition_by=list(partition_by),
            options=fixed,
        )
        self.function = self.table.store.options.bucket_function
        self.bucket_key = bucket_key or self.schema.bucket_keys
        self._sample: list[pa.RecordBatch] = []
        self._held = 0

    @property
    def schema(self) -> TableSchema:
        """The schema of the table, with its keys."""
        return self.table.store.schema

    def keep(self, batch: pa.RecordBatch) -> None:
        """Take some rows of a batch into the sample."""
        if self._held < _ENCODED:
            self._sample.append(batch.slice(0, min(_PIECE, _ENCODED - self._held)))
            self._held += self._sample[-1].num_rows

    def measure(self) -> tuple[float, str]:
        """(bytes a row, how they were measured) of the sample in data files."""
        if not self._held:
            return 0.0, "no rows"
        self.table.write(pa.Table.from_batches(self._sample))
        live = self.table.store.manifests.live_entries(self.table.store.snapshots.latest())
        written, size = int(live.numbers("row_count").sum()), int(live.numbers("file_size").sum())
        o = self.table.store.options
        return size / written, f"{written:,} rows written as {o.file_format} {o.file_compression}"
