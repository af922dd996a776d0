"""`ts.merging`: runs of Arrow rows through a merge engine, step by step, with no table on disk;
`ts.merging_events`: single rows, one after another, and the state after each.

The runs become what a writer would have flushed: conformed to one schema, numbered from the oldest run on,
sorted by key. For pictures and lessons; memory is the runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest
from tablestore.core.options.rules import require_known
from tablestore.core.options.table_options import TableOptions, as_text, current_names
from tablestore.format import rowkind
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.format.schema import TableSchema, create_schema
from tablestore.format.types.arrow_types import DataField, from_arrow
from tablestore.insight.explain.merge_steps import Merging, RunRows, event_steps, merged_steps
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.validate import validate
from tablestore.write.arrow_input import as_batches
from tablestore.write.conform import conform

MOST_ROWS, MOST_EVENTS = 100_000, 1_000
ROW_KIND = "rowkind"


@checked
def merging(
    runs: Sequence[Any],
    engine: str = "deduplicate",
    *,
    primary_key: Sequence[str] | str,
    options: Mapping[str, Any] | None = None,
    limit: int = 10,
    drops_deletes: bool = True,
) -> Merging:
    """How sorted `runs` (newest first; anything Arrow-like) become one under a merge `engine`, for the first
    `limit` keys.

    `primary_key` names the key columns, `options` are those of a table. A column `rowkind` ("+I", "-U", "+U",
    "-D") gives row kinds. `drops_deletes=False`: older runs are not part of the merge, so deletes are kept.
    Raises InvalidRequest for a key that is twice in a run and for runs whose columns differ, InvalidOption
    for options that do not fit.

    >>> newer, older = [{"k": 1, "v": "b"}], [{"k": 1, "v": "a"}, {"k": 2, "v": "c"}]
    >>> ts.merging([newer, older], primary_key="k").rows.to_pylist()
    [{'k': 1, 'v': 'b'}, {'k': 2, 'v': 'c'}]
    """
    tables = [_table(run) for run in runs]
    if not tables:
        raise InvalidRequest("merging([]): give at least one run, newest first")
    schema, parsed = _engine(tables, engine, primary_key, options)
    if sum(run.num_rows for run in tables) > MOST_ROWS:
        raise InvalidRequest(
            f"merging takes {MOST_ROWS:,} rows at most: write them to a table and look there"
        )
    named, next_number = [], 0
    for age, run in enumerate(reversed(tables)):  # older runs have smaller sequence numbers
        named.append(RunRows(f"L0 #{age + 1}", 0, _kv(run, schema, next_number, len(tables) - age), age + 1))
        next_number += run.num_rows
    return merged_steps(named[::-1], schema, parsed, limit=limit, drops_deletes=drops_deletes)


@checked
def merging_events(
    events: Any,
    engine: str = "deduplicate",
    *,
    primary_key: Sequence[str] | str,
    options: Mapping[str, Any] | None = None,
    last: int | None = None,
) -> Merging:
    """Rows fed to a merge `engine` one at a time, the oldest first: a step an event, with the state of its
    key after it (`states`), what each row so far is to it, and why.

    `events` are anything Arrow-like; a column `rowkind` ("+I", "-U", "+U", "-D"; NULL is "+I") says what an
    event is. `primary_key` names the key columns, `options` are those of a table. The states are those of
    readers while nothing has been compacted; a key with one row has that row, unmerged; an event that is
    refused changes nothing. `last`: the steps of the last events only. Raises as `merging` does.

    >>> events = [{"k": 1, "n": 4}, {"k": 1, "n": 6}, {"k": 1, "n": 4, "rowkind": "-D"}]
    >>> sums = {"fields.n.aggregate-function": "sum"}
    >>> played = ts.merging_events(events, "aggregation", primary_key="k", options=sums)
    >>> played.states["n"].to_pylist()
    [4, 10, 6]
    """
    rows = _table(events)
    if not 0 < rows.num_rows <= MOST_EVENTS:
        raise InvalidRequest(
            f"merging_events takes 1 to {MOST_EVENTS:,} rows, oldest first, not {rows.num_rows:,}"
        )
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 1):
        raise InvalidRequest(f"last {last!r} must be a number of events, 1 or more")
    if ROW_KIND in rows.column_names:
        at = rows.column_names.index(ROW_KIND)
        rows = rows.set_column(at, ROW_KIND, pc.fill_null(rows[ROW_KIND].cast(pa.string()), "+I"))
    schema, parsed = _engine([rows], engine, primary_key, options)
    runs = [
        RunRows(f"event {n + 1}", 0, _kv(rows.slice(n, 1), schema, n, n + 1)) for n in range(rows.num_rows)
    ]
    return event_steps(runs[::-1], schema, parsed, last=last)


def _engine(
    runs: Sequence[pa.Table],
    engine: str,
    primary_key: Sequence[str] | str,
    options: Mapping[str, Any] | None,
) -> tuple[TableSchema, TableOptions]:
    """The schema and the options of a table of these rows; raises for options that do not fit."""
    keys = (primary_key,) if isinstance(primary_key, str) else tuple(primary_key)
    schema = _schema(runs, keys, {**as_text(options), "merge-engine": engine})
    parsed = TableOptions.parse(schema.options)
    validate(schema, parsed)
    return schema, parsed


def _table(run: Any) -> pa.Table:
    batches = list(as_batches(run))
    return pa.Table.from_batches(batches) if batches else pa.table({})


def _schema(runs: Sequence[pa.Table], keys: tuple[str, ...], options: Mapping[str, str]) -> TableSchema:
    """One schema for all runs: the columns of the first that has any, types as Arrow unifies them."""
    require_known(options)
    try:
        columns = pa.unify_schemas(
            [run.schema for run in runs if run.num_columns], promote_options="permissive"
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidRequest(f"the runs have columns of different types: {error}") from None
    fields = [f for f in columns if f.name != ROW_KIND]
    data_fields = tuple(DataField(i, f.name, from_arrow(_known(f.type))) for i, f in enumerate(fields))
    return create_schema(
        data_fields,
        primary_key=keys,
        partition_by=(),
        options=current_names({"bucket": "1", **options}, keyed=True),
        comment=None,
        time_millis=0,
    )


def _known(t: pa.DataType) -> pa.DataType:
    """Columns that hold nothing but NULL are text."""
    return pa.string() if pa.types.is_null(t) else t


def _kv(run: pa.Table, schema: TableSchema, first_number: int, age: int) -> pa.RecordBatch:
    """The run as a writer flushes it. `age`: the run's place from the newest on, for messages."""
    kinds = np.zeros(run.num_rows, dtype=np.int8)
    if ROW_KIND in run.column_names:
        kinds = rowkind.parse(run.column(ROW_KIND)).to_numpy(zero_copy_only=False)
        run = run.drop_columns([ROW_KIND])
    if not run.num_columns:
        run = pa.table([pa.array([], f.type) for f in schema.arrow], schema=schema.arrow)
    whole = run.combine_chunks().to_batches()
    values = conform(whole[0] if whole else pa.RecordBatch.from_pylist([], run.schema), schema)
    numbers = np.arange(first_number, first_number + values.num_rows)
    names = [SEQUENCE, KIND, *values.schema.names]
    rows = pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(kinds), *values.columns], names)
    if not rows.num_rows:
        return rows
    codes = key_columns.codes(key_columns.of_batch(rows, schema.key_fields))
    order = np.argsort(codes, kind="stable")
    repeats = np.flatnonzero(np.diff(codes[order]) == 0)
    if len(repeats):
        at = int(order[repeats[0]])
        key = ", ".join(f"{f.name} = {rows.column(f.name)[at].as_py()!r}" for f in schema.key_fields)
        raise InvalidRequest(f"run {age} has key {key} twice: a run has each key once; make two runs of it")
    return pc.take(rows, pa.array(order))
