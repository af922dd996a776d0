"""One input through every changelog producer: four tables in a folder that is removed at once.

Each batch is one commit. The changes are read back by the engine's own streams, their cost from the
directories; the sum a consumer keeps is added up from the changes alone and compared with the table's.
Bounded by the input, which is small: it is written four times. Called by `ChangelogView.producers`.
"""

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tablestore as ts
from widgets.changelog.model import (
    KIND,
    SNAPSHOT,
    Producer,
    ProducersModel,
    Total,
    changelog_model,
)
from widgets.kit import format as fmt

PRODUCERS = {
    "none": "raw rows of each commit",
    "input": "what the source sent",
    "lookup": "old row looked up when L0 compacts",
    "full-compaction": "difference of two full compactions",
}
MAX_ROWS = 20_000
FULL_EVERY = {"full-compaction.delta-commits": "2"}


def table_of(batch: Any) -> pa.Table:
    """An Arrow table of anything Arrow-like or a list of dicts."""
    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, list):
        return pa.Table.from_pylist(batch)
    return pa.table(batch)


def through_producers(
    batches: Sequence[Any],
    *,
    primary_key: Sequence[str] | str,
    options: Mapping[str, Any] | None = None,
    measure: str | None = None,
) -> ProducersModel:
    """Write every batch to a table of each producer and read its changes back.

    A column `rowkind` gives row kinds. `measure` is the column a consumer adds up; by default the first
    number outside the key.
    """
    keys = (primary_key,) if isinstance(primary_key, str) else tuple(primary_key)
    tables = [table_of(batch) for batch in batches]
    if sum(batch.num_rows for batch in tables) > MAX_ROWS:
        raise ts.InvalidRequest(f"producers takes {MAX_ROWS:,} rows at most: it writes them four times")
    if not tables:
        raise ts.InvalidRequest("producers([]): give at least one batch; each is one commit")
    schema = pa.unify_schemas([b.schema for b in tables], promote_options="permissive")
    fields = [f for f in schema if f.name != KIND]
    measure = measure or next((f.name for f in fields if f.name not in keys and _is_number(f.type)), None)
    with tempfile.TemporaryDirectory(prefix="producers-") as folder:
        lake = ts.connect(folder)
        producers = [
            _producer(lake, name, pa.schema(fields), tables, keys, dict(options or {}), measure)
            for name in PRODUCERS
        ]
    return ProducersModel(len(tables), tuple(producers))


def _is_number(t: pa.DataType) -> bool:
    return pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)


def _producer(
    lake: ts.Lake,
    name: str,
    schema: pa.Schema,
    batches: Sequence[pa.Table],
    keys: tuple[str, ...],
    options: Mapping[str, Any],
    measure: str | None,
) -> Producer:
    """One producer's table; what the engine refuses is shown, not raised."""
    own = {"bucket": "1", **options, "changelog-producer": name}
    if name == "full-compaction":
        own = {**FULL_EVERY, **own}
    try:
        table = lake.create_table(
            f"scratch.{name.replace('-', '_')}", schema=schema, primary_key=keys, options=own
        )
        for batch in batches:
            table.write(batch, row_kind_column=KIND if KIND in batch.column_names else None)
    except ts.TablestoreError as error:
        return Producer(name, PRODUCERS[name], error=f"{type(error).__name__}: {error}")
    return _produced(table, name, keys, measure)


def _produced(table: ts.Table, name: str, keys: tuple[str, ...], measure: str | None) -> Producer:
    changes, _ = read_changes(table, start="earliest", until=None, normalize=False)
    commits = table.inspect.commits()
    pairs = list(zip(commits["snapshot_id"].to_pylist(), commits["commit_kind"].to_pylist(), strict=True))
    files = table.inspect.storage().files
    mine = files.filter(pc.equal(files["kind"], "changelog"))
    ids = changes[SNAPSHOT].to_pylist()
    return Producer(
        name,
        PRODUCERS[name],
        changelog_model(changes, pairs, primary_key=keys, producer=name),
        rows=changes.num_rows,
        files=mine.num_rows,
        bytes=pc.sum(mine["bytes"]).as_py() or 0,
        first=min(ids, default=None),
        last=max(ids, default=None),
        snapshots=len(pairs),
        total=None if measure is None else _total(table, changes, measure),
    )


def read_changes(
    table: ts.Table,
    *,
    start: int | str,
    until: int | None,
    normalize: bool | None,
    limit: int | None = None,
    batches: int | None = None,
) -> tuple[pa.Table, tuple[int, ...]]:
    """Changes of each snapshot with its id in front, at most `limit` rows a snapshot out of `batches` of it;
    and the snapshots of which there may be more. A batch is of one file, or of a part of it."""
    parts, cut = [], []
    for step in table.stream(start=start, until=until, follow=False, normalize=normalize):
        if step.full:
            continue
        rows, whole = _first_rows(step, limit, batches)
        cut += [] if whole else [step.snapshot]
        ids = pa.array([step.snapshot] * rows.num_rows, pa.int64())
        parts.append(rows.add_column(0, SNAPSHOT, ids))
    if parts:
        return pa.concat_tables(parts), tuple(cut)
    shape = [pa.field(SNAPSHOT, pa.int64()), pa.field(KIND, pa.string()), *table.schema]
    return pa.schema(shape).empty_table(), ()


def _first_rows(step: Any, limit: int | None, batches: int | None) -> tuple[pa.Table, bool]:
    """The first rows of a step, and whether they are all; what is not asked for is not read."""
    batches_kept: list[pa.RecordBatch] = []
    left, whole = limit, True
    for batch in step.batches:
        if (left is not None and left <= 0) or len(batches_kept) == batches:
            whole = False
            break
        batches_kept.append(batch if left is None else batch.slice(0, left))
        whole = batches_kept[-1].num_rows == batch.num_rows
        left = None if left is None else left - batch.num_rows
        if not whole:
            break
    return pa.Table.from_batches(batches_kept, step.schema), whole


def _total(table: ts.Table, changes: pa.Table, measure: str) -> Total:
    """What a consumer has that adds +I and +U and subtracts −U and −D, against the table's own sum."""
    gone = pc.is_in(changes[KIND], pa.array(["-U", "-D"]))
    plus = pc.sum(changes[measure].filter(pc.invert(gone))).as_py() or 0
    minus = pc.sum(changes[measure].filter(gone)).as_py() or 0
    kept, truth = plus - minus, _sum(table, measure)
    newest = max(table.inspect.snapshots()["snapshot_id"].to_pylist(), default=0)
    last = max(changes[SNAPSHOT].to_pylist(), default=0)
    shown = [fmt.value(v) or "0" for v in (kept, truth)]
    if kept == truth:
        return Total(measure, shown[0], shown[1], "right", f"the table says {shown[1]} too")
    if last < newest and kept == (_sum(table.at(snapshot=last), measure) if last else 0):
        why = f"true at #{last}; the table is at #{newest} and says {shown[1]}"
        return Total(measure, shown[0], shown[1], "late", why)
    why = f"the table says {shown[1]}: no −U took the old values out of the sum"
    return Total(measure, shown[0], shown[1], "wrong", why)


def _sum(table: ts.Table, measure: str) -> Any:
    return pc.sum(table.scan(columns=[measure]).to_arrow()[measure]).as_py() or 0
