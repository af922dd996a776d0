"""`inspect.edits()` and `inspect.stays()`: the life of a table as edits, one row a file from the snapshot
that adds it to the one that takes it away.

Both are made of the same columns (`FileHistory`). Files whose deletion vector changes end and begin again in
`edits`. Keys are texts, and numbers on the line of a bucket: those of `key_axis`, of the first key column in
which the keys of a bucket differ. They are decoded by columns where they are whole numbers, else each
distinct one once. Pure but for the store's texts and types. Used by `Inspect` and by simulations, whose edits
have the same form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format import binary_row
from tablestore.format.result_tables import result_schema
from tablestore.format.text import cast_text
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.key_axis import key_numbers
from tablestore.insight.inspect.columns import LEVELS, SOURCES, key_text
from tablestore.insight.inspect.file_history import BEFORE, LIVE, Lives
from tablestore.meta.store import Store

EDITS = pa.schema(
    [
        pa.field("added", pa.int64()),
        pa.field("removed", pa.int64()),
        *(f for f in LEVELS if f.name not in ("run", "min_key_pos", "max_key_pos")),
        pa.field("min_key_number", pa.float64()),
        pa.field("max_key_number", pa.float64()),
    ]
)
STAYS = result_schema(
    "partition string, bucket int32, level int32, bytes int64, rows int64, added int64, removed int64"
)
_SAME = {
    "bucket": "bucket",
    "level": "level",
    "file_name": "file_name",
    "rows": "row_count",
    "deletes": "delete_count",
    "bytes": "file_size",
    "min_sequence": "min_sequence",
    "max_sequence": "max_sequence",
    "schema_id": "schema_id",
    "creation_time": "creation_time_ms",
}


def edits(store: Store, lives: Lives | None) -> pa.Table:
    """A row a file and deletion vector. The schema's metadata has the ids of the snapshots that the rows give
    the state after: `first` and `last`."""
    if lives is None:
        return with_span(EDITS.empty_table(), None, None)
    at, added, removed, masked = _masked(lives)
    files = lives.files.take(pa.array(at)).combine_chunks()
    keys, plain = key_columns(files, store.key_types)
    level = files["level"].to_numpy()
    came = lives.added[at]  # the file's, not its deletion vector's
    columns = {new: files[old].cast(EDITS.field(new).type) for new, old in _SAME.items()} | keys
    columns |= {"added": _ids(added, BEFORE), "removed": _ids(removed, LIVE)}
    columns["partition"] = _partitions(store, files)
    columns["file_source"] = _sources(files["file_source"])
    columns["snapshot_id"] = pa.array(came, pa.int64(), mask=(came == BEFORE) | (level != 0))
    columns["masked_rows"] = pa.array(masked, pa.int64(), mask=masked < 0)
    changes = pa.table([columns[f.name] for f in EDITS], schema=EDITS)
    return with_span(changes, lives.first, lives.last, plain=plain)


def stays(store: Store, lives: Lives | None) -> pa.Table:
    """A row a file that any snapshot holds; `added` is NULL for what was there before the oldest one,
    `removed` for what is live."""
    if lives is None:
        return STAYS.empty_table()
    columns = {new: lives.files[old] for new, old in _SAME.items() if new in STAYS.names}
    columns |= {"added": _ids(lives.added, BEFORE), "removed": _ids(lives.removed, LIVE)}
    columns["partition"] = _partitions(store, lives.files)
    return pa.table([columns[f.name].cast(f.type) for f in STAYS], schema=STAYS)


def with_span(
    edits: pa.Table,
    first: int | None,
    last: int | None,
    *,
    plain: bool = True,
    axes: Mapping[str, tuple[float, float]] | None = None,
) -> pa.Table:
    """The table with what its metadata say: the `first` and `last` snapshot that it gives the state after;
    whether the numbers of keys are `plain`, so that further keys leave them as they are; and where the axis
    of a bucket ("day=mon/0") is known whatever is live, its two ends."""
    about = {"first": first, "last": last, "plain": plain, "axes": dict(axes or {})}
    return edits.replace_schema_metadata({"edits": json.dumps(about)})


def _ids(ids: np.ndarray, absent: int) -> pa.Array:
    return pa.array(ids, pa.int64(), mask=ids == absent)


def _partitions(store: Store, files: pa.Table) -> pa.Array:
    codes = files["partition"].combine_chunks().dictionary_encode()
    texts = [store.partition_text(p) for p in codes.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(codes.indices)


def _sources(source: pa.ChunkedArray) -> pa.Array:
    """APPEND or COMPACT; NULL for what is neither."""
    codes = source.combine_chunks().dictionary_encode()
    texts = [None if code is None else SOURCES.get(code) for code in codes.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(codes.indices)


def _masked(lives: Lives) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows as (file, added, removed, masked rows or −1), in the order in which they came: a file begins again
    with each new deletion vector."""
    count = len(lives)
    everything = np.arange(count), lives.added, lives.removed, np.full(count, -1)
    changes = [(name, at, rows) for at, some in lives.masks for name, rows in some.items()]
    if not changes:
        return everything
    names = lives.files["file_name"].combine_chunks()
    by_name: dict[str, list[tuple[int, int]]] = {}
    for name, at, rows in changes:
        by_name.setdefault(name, []).append((at, -1 if rows is None else rows))
    chosen = np.flatnonzero(pc.is_in(names, pa.array(list(by_name), names.type)).to_numpy(False))
    added, removed, masked = lives.added.copy(), lives.removed.copy(), np.full(count, -1)
    more: list[tuple[int, int, int, int]] = []
    for row, name in zip(chosen.tolist(), names.take(pa.array(chosen)).to_pylist(), strict=True):
        begin, end, before = max(int(added[row]), lives.first), int(removed[row]), len(more)
        for at, rows in by_name[name]:
            if at <= begin:
                masked[row] = rows
            elif at < end:
                if len(more) == before:
                    removed[row] = at
                else:
                    more[-1] = (*more[-1][:2], at, more[-1][3])
                more.append((row, at, end, rows))
    again = np.array(more, np.int64).reshape(-1, 4).T
    parts = [
        np.r_[first, two] for first, two in zip((everything[0], added, removed, masked), again, strict=True)
    ]
    order = np.argsort(parts[1], kind="stable")
    return parts[0][order], parts[1][order], parts[2][order], parts[3][order]


_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def key_columns(files: pa.Table, types: Sequence[DataType]) -> tuple[dict[str, pa.Array], bool]:
    """Columns `min_key`, `max_key`, `min_key_number`, `max_key_number` of files, and whether further keys
    would leave the numbers as they are. All are NULL in a table without keys."""
    count = files.num_rows
    if not types or not count:
        texts, numbers = pa.nulls(count, pa.string()), pa.nulls(count, pa.float64())
        return dict(zip(_NAMES, (texts, texts, numbers, numbers), strict=True)), True
    keys = pa.concat_arrays([files[name].combine_chunks() for name in ("min_key", "max_key")])
    columns = binary_row.integers(keys, types)
    bucket = np.tile(_buckets(files), 2)
    if columns is None:
        texts, (numbers, plain) = _texts(keys, types), _numbers(keys, bucket, types)
    else:
        texts, (numbers, plain) = _whole_texts(columns, types), _whole_numbers(columns, bucket)
    low, high = np.sort(numbers.reshape(2, count), axis=0)  # postponed: any order
    parts = texts.slice(0, count), texts.slice(count), pa.array(low), pa.array(high)
    return dict(zip(_NAMES, parts, strict=True)), plain


_NAMES = ("min_key", "max_key", "min_key_number", "max_key_number")


def _buckets(files: pa.Table) -> np.ndarray:
    """A number for each partition and bucket, from 0 on."""
    partition = files["partition"].combine_chunks().dictionary_encode().indices.to_numpy()
    bucket = files["bucket"].to_numpy().astype(np.int64)
    code = partition.astype(np.int64) * (int(bucket.max()) - int(bucket.min()) + 1) + bucket - bucket.min()
    return np.unique(code, return_inverse=True)[1].reshape(len(code))


def _texts(keys: pa.Array, types: Sequence[DataType]) -> pa.Array:
    codes = keys.dictionary_encode()
    return pa.array([key_text(k, types) for k in codes.dictionary.to_pylist()], pa.string()).take(
        codes.indices
    )


def _whole_texts(columns: Sequence[np.ndarray], types: Sequence[DataType]) -> pa.Array:
    parts = []
    for values, t in zip(columns, types, strict=True):
        if t.root in _WHOLE:
            parts.append(pc.cast(pa.array(values), pa.string()))
            continue
        distinct, codes = np.unique(values, return_inverse=True)
        texts = pa.array([cast_text(v, t) for v in distinct.tolist()], pa.string())
        parts.append(texts.take(pa.array(codes.reshape(len(values)))))
    inner = pc.binary_join_element_wise(*parts, ", ") if len(parts) > 1 else parts[0]
    return pc.binary_join_element_wise("[", inner, "]", "")


def _numbers(keys: pa.Array, bucket: np.ndarray, types: Sequence[DataType]) -> tuple[np.ndarray, bool]:
    numbers_by_row, all_plain = np.empty(len(keys)), True
    order = np.argsort(bucket, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(bucket[order])) + 1):
        codes = keys.take(pa.array(at)).dictionary_encode()
        numbers, plain = key_numbers(codes.dictionary.to_pylist(), types)
        numbers_by_row[at] = np.array(numbers)[codes.indices.to_numpy()]
        all_plain = all_plain and plain
    return numbers_by_row, all_plain


def _whole_numbers(columns: Sequence[np.ndarray], bucket: np.ndarray) -> tuple[np.ndarray, bool]:
    count = int(bucket.max()) + 1
    numbers, chosen = np.full(len(bucket), 0.5), np.full(count, -1)
    for i, values in enumerate(columns):
        low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
        np.minimum.at(low, bucket, values)
        np.maximum.at(high, bucket, values)
        # as numbers of a picture: two that are the same there do not differ
        fresh = (chosen < 0) & (high.astype(float) > low.astype(float))
        chosen[fresh] = i
        numbers = np.where(fresh[bucket], values.astype(float), numbers)
    return numbers, bool((chosen == 0).all())
