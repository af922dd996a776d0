"""What this version can read, decided from schema and options before a byte of data is read.

Readable: tables without primary key, and primary-key tables of every merge engine (of postponed buckets, like
in Paimon, what is compacted). What this version can write is less: `write/supported.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow.compute as pc

from tablestore.core.errors import Unsupported
from tablestore.core.options.rules import refusal_of_stored
from tablestore.core.options.table_options import TableOptions
from tablestore.core.options.values import DATA_FORMATS
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.schema import ROW_COUNT_OPTION, TableSchema, require_plain_map
from tablestore.format.types.arrow_types import to_arrow
from tablestore.io.paths import file_format
from tablestore.lsm.merge.counted import require_counts
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store


def require_readable(
    schema: TableSchema, options: TableOptions, columns: Sequence[str] | None = None
) -> None:
    """Raise Unsupported naming what of this table cannot be read.

    Of the column types only those of `columns` (None: all) and of the keys matter.
    """
    refusal = refusal_of_stored(schema.options, keyed=bool(schema.primary_keys), writing=False)
    if refusal is not None:
        raise refusal
    if ROW_COUNT_OPTION in schema.options:
        require_counts(schema, schema.options[ROW_COUNT_OPTION])
    if options.file_format not in DATA_FORMATS:
        raise Unsupported(f"file.format {options.file_format!r}")
    wanted = schema.names if columns is None else (*columns, *schema.primary_keys, *schema.partition_keys)
    for name in wanted:
        require_plain_map(schema, name)
        to_arrow(schema.by_name[name].type)


def readable_condition(
    store: Store, where: Predicate | None, columns: Sequence[str] | None
) -> Predicate | None:
    """The condition of a read of `columns` (None: all), bound to the table's schema.

    Raises Unsupported naming what of the table, of `columns` or of those of the condition cannot be read.
    """
    bound = None if where is None else predicate.bind(where, store.schema)
    asked = None if columns is None else (*columns, *(bound.columns if bound is not None else ()))
    require_readable(store.schema, store.options, asked)
    return bound


def require_readable_files(files: Entries, schema_of: Callable[[int], TableSchema]) -> None:
    """`require_readable_file` for many files; only unusual ones are checked one by one."""
    names, rare = files.table.column("file_name"), np.zeros(len(files), dtype=bool)
    plain = pc.match_substring_regex(names, rf"\.({'|'.join(DATA_FORMATS)})$")
    for unusual in (pc.invert(plain), pc.is_valid(files.table.column("write_cols"))):
        rare |= unusual.to_numpy()
    for entry in files.filter(rare) if rare.any() else ():
        require_readable_file(entry.file, schema_of(entry.file.schema_id))
    _require_whole_rows(files)


def _require_whole_rows(files: Entries) -> None:
    """Raise Unsupported where two files hold columns of the same rows, as data evolution leaves them."""
    tracked = pc.is_valid(files.table.column("first_row_id"))
    if not pc.any(tracked).as_py():
        return
    tracked_files = files.filter(tracked.to_numpy())
    first = tracked_files.numbers("first_row_id")
    order = np.argsort(first, kind="stable")
    ends = (first + tracked_files.numbers("row_count"))[order]
    if (ends[:-1] > first[order][1:]).any():
        raise Unsupported("data-evolution.enabled", "data files that hold some columns of rows of others")


def require_readable_file(file: DataFileMeta, schema: TableSchema) -> None:
    """Raise Unsupported for a data file in a form this version does not read; `schema` is the file's own."""
    if file_format(file.file_name) not in DATA_FORMATS:
        raise Unsupported(
            f"data files such as {file.file_name!r}", f"formats read: {', '.join(DATA_FORMATS)}"
        )
    if file.write_cols is not None and not set(schema.names) <= set(file.write_cols):
        raise Unsupported("data files that hold some columns only", file.file_name)
