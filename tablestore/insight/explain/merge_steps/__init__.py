"""Runs of kv rows and a merge function → one step a key: inputs, who won each column, the output, why.

The merge function merges each key by itself, so a key that cannot be merged is reported and the others stand.
A delete that wins is dropped where no older run is left out of the merge (I7), as compaction does and as a
reader sees it; else it is kept. Pure; for windows of a few keys: a step costs a merge. Used by
`Inspect.merging` and `ts.merging`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.options.table_options import TableOptions
from tablestore.format import rowkind
from tablestore.format.parquet.schema import SEQUENCE
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.schema import TableSchema
from tablestore.insight.explain.merge_steps.reasons import COMPUTED, NOTHING, Trace, Why, engine_of, traced
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.changelog import NewestLevels
from tablestore.lsm.merge.groups import MergeFunction, joined, kinds_of, plain
from tablestore.lsm.merge.merge_function import merge_function

KEPT, DROPPED, REFUSED = "kept", "dropped", "refused"
RUNS = result_schema("run int32, name string, level int32, snapshot_id int64, rows int32")
INPUTS = result_schema("step int32, run int32, sequence int64, row_kind string, part string")
OUTPUTS = result_schema("step int32, fate string, row_kind string, sequence int64, run int32, why string")
CELLS = pa.schema({"input": pa.int32(), "column": pa.string(), "part": pa.string()})
COLUMNS = pa.schema(
    {"step": pa.int32(), "column": pa.string(), "run": pa.int32(), "how": pa.string(), "why": pa.string()}
)


@dataclass(frozen=True)
class RunRows:
    """What one sorted run has in the window: kv rows, and how to call it."""

    name: str
    level: int
    rows: pa.RecordBatch
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class StepPlace:
    """Which bucket was merged, and which keys of it: `first` … `last` on its key axis, None if not known.

    `unread`: why readers pass over some of these runs, empty where they merge them all.
    """

    partition: str = ""
    bucket: int | None = None
    snapshot_id: int | None = None
    first: float | None = None
    last: float | None = None
    more: bool = False
    unread: str = ""


@dataclass(frozen=True)
class Merging:
    """The merge of a window of keys, as Arrow tables.

    `runs` newest first. `inputs`: a row for each (step, run) that has the key, its values at the same place
    of `input_rows`; `cells`: what that row was to each column. `outputs`: one row a step with its fate (kept,
    dropped, refused) and `why`, its values in `output_rows` (NULL where there is none); `columns`: for each
    step and column the run that has the value (NULL: none, or more than one), `how` and `why`. `by_event`:
    runs are single rows, and a step is the state of a key after one of them.
    """

    engine: str
    primary_key: tuple[str, ...]
    runs: pa.Table
    inputs: pa.Table
    input_rows: pa.Table
    cells: pa.Table
    outputs: pa.Table
    output_rows: pa.Table
    columns: pa.Table
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    functions: tuple[tuple[str, str], ...] = ()
    output: str = ""
    drops_deletes: bool = True
    place: StepPlace = StepPlace()
    by_event: bool = False

    @property
    def rows(self) -> pa.Table:
        """The rows that are there after the merge."""
        return self.output_rows.filter(self._there)

    @property
    def _there(self) -> pa.ChunkedArray:
        kept = pc.equal(self.outputs["fate"], KEPT)
        return pc.and_(kept, pc.is_in(self.outputs["row_kind"], pa.array(["+I", "+U"])))

    @property
    def states(self) -> pa.Table:
        """One row a step: its fate and why, and the row that is there after it, NULL if there is none."""
        gone = pc.invert(self._there).to_numpy()
        index = pa.array(np.arange(len(gone)), mask=gone)
        columns = [column.take(index) for column in self.output_rows.columns]
        steps = self.outputs.select(["step", "fate", "why"])
        names = [f"{n}_" if n in steps.column_names else n for n in self.output_rows.column_names]
        return pa.table([*steps.columns, *columns], [*steps.column_names, *names])

    def __len__(self) -> int:
        return self.outputs.num_rows

    def __repr__(self) -> str:
        return f"Merging({self.engine}: {self.runs.num_rows} runs, {len(self)} keys)"


def merged_steps(
    runs: Sequence[RunRows],
    schema: TableSchema,
    options: TableOptions,
    *,
    limit: int,
    drops_deletes: bool = True,
    output: str = "",
    place: StepPlace = StepPlace(),
) -> Merging:
    """The merge of the first `limit` keys of these runs (newest first; each key once a run, keys rising)."""
    function = merge_function(schema, options)
    function = NewestLevels(function) if options.merges_by_level else function
    rows, run_of = _old_to_new(runs, schema)
    codes = key_columns.codes(key_columns.of_batch(rows, schema.key_fields)) if rows.num_rows else np.zeros(0)
    wanted = np.unique(codes)[:limit]
    ending = drops_deletes, output
    key_steps = [
        _step(number, np.flatnonzero(codes == code), rows, run_of, runs, function, ending)
        for number, code in enumerate(wanted)
    ]
    return _assembled(key_steps, runs, schema, options, function, ending, place)


def event_steps(
    events: Sequence[RunRows], schema: TableSchema, options: TableOptions, *, last: int | None = None
) -> Merging:
    """The state of a key after each of these events (newest first, one row each): a step an event, the merge
    of all rows its key has had so far. What is refused changes nothing. `last`: the steps of the last events
    only."""
    function = merge_function(schema, options)
    rows, run_of = _old_to_new(events, schema)
    codes = key_columns.codes(key_columns.of_batch(rows, schema.key_fields))
    taken = np.ones(len(codes), dtype=bool)
    first = 0 if last is None else max(0, len(codes) - last)
    steps = []
    for n in range(len(codes)):
        places = np.flatnonzero((codes[: n + 1] == codes[n]) & taken[: n + 1])
        step = _step(n - first, places, rows, run_of, events, function, (True, ""))
        taken[n] = step.fate != REFUSED
        steps.append(step)
    merging = _assembled(steps[first:], events, schema, options, function, (True, ""), StepPlace())
    return replace(merging, by_event=True)


def _old_to_new(runs: Sequence[RunRows], schema: TableSchema) -> tuple[pa.RecordBatch, np.ndarray]:
    """All rows, those of older runs first, and the run of each."""
    some = [(n, run.rows) for n, run in reversed(list(enumerate(runs)))]
    if not some:
        return pa.RecordBatch.from_pylist([], schema.arrow), np.zeros(0, dtype=np.int64)
    rows = plain(joined([plain(batch) for _, batch in some]))
    return rows, np.concatenate([np.full(batch.num_rows, n) for n, batch in some])


@dataclass(frozen=True, slots=True)
class _MergeOfKey:
    number: int
    inputs: pa.RecordBatch
    runs: tuple[int, ...]
    trace: Trace
    why: Why
    fate: str


def _step(
    number: int,
    places: np.ndarray,
    rows: pa.RecordBatch,
    run_of: np.ndarray,
    runs: Sequence[RunRows],
    function: MergeFunction,
    ending: tuple[bool, str],
) -> _MergeOfKey:
    some = rows.take(pa.array(places))
    mine = tuple(int(run_of[i]) for i in places)
    trace = traced(function, some, np.array([runs[n].level for n in mine], dtype=np.int8))
    drops, output = ending
    fate, ending_text = _fate(trace, drops, output)
    why = Why(function, some, trace, [runs[n].name for n in mine], ending_text)
    return _MergeOfKey(number, some, mine, trace, why, fate)


def _fate(trace: Trace, drops: bool, output: str) -> tuple[str, str]:
    """What becomes of the output, and why, if it takes the key away."""
    if trace.failure:
        return REFUSED, ""
    if not trace.row.num_rows:
        return DROPPED, ""
    if not rowkind.retracts(kinds_of(trace.row))[0]:
        return KEPT, ""
    if drops:
        below = f"Nothing lies below {output}" if output else "No older run is left"
        return DROPPED, f"{below}, so the key is dropped."
    return KEPT, "Older runs are not part of this merge, so the delete is kept for them."


def _assembled(
    steps: Sequence[_MergeOfKey],
    runs: Sequence[RunRows],
    schema: TableSchema,
    options: TableOptions,
    function: MergeFunction,
    ending: tuple[bool, str],
    place: StepPlace,
) -> Merging:
    engine = engine_of(function)
    drops, output = ending
    counts = [sum(n in step.runs for step in steps) for n in range(len(runs))]
    run_rows = [(n, r.name, r.level, r.snapshot_id, counts[n]) for n, r in enumerate(runs)]
    names = schema.names
    nullable = pa.schema([f.arrow.with_nullable(True) for f in schema.fields])
    inputs: list[tuple[object, ...]] = []
    input_rows: list[pa.RecordBatch] = []
    cells: list[tuple[object, ...]] = []
    for step in steps:
        for i in sorted(range(len(step.runs)), key=step.runs.__getitem__):
            cells += [(len(inputs), name, parts[i]) for name, parts in step.trace.parts.items()]
            kind = rowkind.TEXTS[int(kinds_of(step.inputs)[i])]
            sequence = step.inputs.column(SEQUENCE)[i].as_py()
            inputs.append((step.number, step.runs[i], sequence, kind, step.trace.parts_of_rows[i]))
            input_rows.append(step.inputs.select(names).slice(i, 1))
    functions = getattr(engine, "functions", ())
    listed = functions.values() if hasattr(functions, "values") else functions
    return Merging(
        options.merge_engine.value,
        schema.primary_keys,
        table_of(RUNS, run_rows),
        table_of(INPUTS, inputs),
        _rows(input_rows, nullable),
        table_of(CELLS, cells),
        table_of(OUTPUTS, [_output(step) for step in steps]),
        _rows([_output_row(step, names, nullable) for step in steps], nullable),
        table_of(COLUMNS, [row for step in steps for row in _columns(step, schema)]),
        groups=tuple((", ".join(g.names), g.guarded) for g in getattr(engine, "groups", ())),
        functions=tuple((f.field.name, f.name) for f in listed),
        output=output,
        drops_deletes=drops,
        place=place,
    )


def _output(step: _MergeOfKey) -> tuple[object, ...]:
    """Fate, kind, sequence, the run of a row that won whole, and the sentence."""
    result, origins = step.trace.row, set(step.trace.origin.values())
    kind = rowkind.TEXTS[int(kinds_of(result)[0])] if result.num_rows else None
    sequence = result.column(SEQUENCE)[0].as_py() if result.num_rows else None
    whole = origins.pop() if len(origins) == 1 else NOTHING
    run = step.runs[whole] if whole >= 0 else None
    return step.number, step.fate, kind, sequence, run, step.why.sentence()


def _output_row(step: _MergeOfKey, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    if step.trace.row.num_rows:
        return step.trace.row.select(names)
    return pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema)


def _columns(step: _MergeOfKey, schema: TableSchema) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for name in schema.names:
        if name in schema.primary_keys:
            continue
        origin = step.trace.origin[name]
        how = "computed" if origin == COMPUTED else "null" if origin == NOTHING else "chosen"
        run = step.runs[origin] if origin >= 0 else None
        rows.append((step.number, name, run, how, step.why.column(name)))
    return rows


def _rows(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    arrays = [pa.RecordBatch.from_arrays(plain(b).columns, schema=schema) for b in batches]
    return pa.Table.from_batches(arrays, schema)
