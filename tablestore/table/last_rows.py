"""The last row of each key of a stream: upserts go in, full changes come out.

Rows lie in memory (`lsm/lookup/memtable.py`) up to a write buffer, then in a scratch table on the local disk
(`scratch_rows.py`), and new ones in memory again. A small step looks the rows before it up in both, and is
merged with them as a compaction with lookups merges level 0 with older levels. A large step goes through the
scratch table, whose changelog is what comes out. Memory: two write buffers, and a small step with its
changes. Belongs to one thread. Used by `normalize.py` and pieces of logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Unsupported
from tablestore.core.options.table_options import TableOptions
from tablestore.format import rowkind
from tablestore.format.parquet.schema import KIND, SEQUENCE, kv_schema
from tablestore.format.schema import TableSchema, create_schema
from tablestore.lsm.lookup.memtable import Memtable
from tablestore.lsm.merge import changelog
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.changelog import ChangelogSpec, RowWindow
from tablestore.lsm.merge.keys import Component
from tablestore.lsm.merge.merge_function import grouped, joined, kinds_of, merge_function, plain, take
from tablestore.lsm.merge.validate import wanted_rows
from tablestore.meta.store import Store
from tablestore.read.changes.change import Read, StateSize
from tablestore.read.changes.incremental import change_schema, moves
from tablestore.table.scratch_rows import Batches, ScratchRows
from tablestore.write.conform import conform

_MEMORY_BYTES = 128 << 20  # a million rows of 100 bytes
_SMALL_BYTES = 4 << 20  # of a step that is merged in memory
_MERGING = (
    *("sequence.field", "sequence.field.sort-order", "ignore-delete", "deduplicate.ignore-delete"),
    "ignore-update-before",
)
_BEFORE_ALL = -1  # sequence number of rows that were spilled


@dataclass(frozen=True, slots=True)
class LastRowChanges:
    """The changes of one step: called, it gives them, `rowkind` first; as often as one likes. `moves`: keys
    may move to other partitions, so a row is deleted before another is inserted."""

    rows: int
    moves: bool
    read: Read

    def __call__(self) -> Iterator[pa.RecordBatch]:
        if not self.moves:
            yield from self.read()
            return
        for deletes in (True, False):
            for batch in self.read():
                gone = pc.equal(batch.column(0), rowkind.TEXTS[rowkind.DELETE])
                chosen = batch.filter(gone if deletes else pc.invert(gone))
                if chosen.num_rows:
                    yield chosen


class LastRows:
    """The last row of each key, in the columns `names`; a change in none of those `asked` for is silent."""

    def __init__(self, source: Store, names: Sequence[str], asked: Iterable[str]) -> None:
        self._schema, self._moves = _schema_of(source, names, asked), moves(source)
        self._env = source.env
        self._options = TableOptions.parse(self._schema.options)
        self._shown = change_schema(source, names)
        self._function = merge_function(self._schema, self._options)
        self._changelog = ChangelogSpec.of(self._schema, self._options, produced=True)
        self._memory = Memtable(self._schema.key_fields)
        self._scratch: ScratchRows | None = None
        self._rows, self._sequence = 0, 0

    @property
    def size(self) -> StateSize:
        """How many rows there are, and how large they are in memory and on the disk."""
        memory = self._memory.bytes
        return StateSize(self._rows, memory + (0 if self._scratch is None else self._scratch.bytes), memory)

    def fill(self, batches: Batches) -> None:
        """Begin with these rows (`rowkind` first, all +I); they are no changes."""
        rows = (batch.remove_column(0) for batch in batches)
        some, more = _up_to(rows, self._options.write_buffer_bytes)
        if more is not None:
            self._rows = self._on_disk.fill(chain(some, more))
        elif some:
            batch = self._stored(joined([conform(b, self._schema) for b in some]), None)
            window = self._window(batch)
            self._memory.add(take(batch, window.first_rows), drop_deletes=False)
            self._rows = len(window.first_rows)

    def apply(self, batches: Batches) -> LastRowChanges:
        """Take upserts and deletes, their kinds as texts in the first column; gives what they changed."""
        some, more = _up_to(batches, min(_SMALL_BYTES, self._options.write_buffer_bytes))
        if more is not None:
            self._spill()
            on_disk = self._on_disk.apply(chain(some, more))
            self._rows += on_disk.rows - 2 * on_disk.deletes
            return LastRowChanges(on_disk.rows, self._moves, on_disk)
        changes = self._merged(some)
        gone = 0 if changes is None else int(rowkind.retracts(kinds_of(changes)).sum())
        rows = 0 if changes is None else changes.num_rows
        self._rows += rows - 2 * gone
        if self._memory.bytes > self._options.write_buffer_bytes:
            self._spill()
        if changes is None or not rows:
            return LastRowChanges(0, self._moves, lambda: iter(()))
        columns = [changes.column(n) for n in self._schema.names]
        shown = pa.RecordBatch.from_arrays(
            [rowkind.texts(changes.column(KIND)), *columns], schema=self._shown
        )
        return LastRowChanges(rows, self._moves, lambda: iter((shown,)))

    def _merged(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
        """What these upserts and deletes changed, as kv rows in key order; None for no rows."""
        kept = []
        for batch in batches:
            kinds = rowkind.parse(batch.column(0))
            values = conform(batch.remove_column(0), self._schema)
            keep = wanted_rows(self._options, kinds.to_numpy(zero_copy_only=False))
            if keep is not None:
                values, kinds = values.filter(keep), kinds.filter(keep)
            if values.num_rows:
                kept.append(self._stored(values, kinds))
        if not kept:
            return None
        window = self._window(joined(kept))
        keys = take(window.rows, window.first_rows)
        for places, rows in self._find(key_columns.of_batch(keys, self._schema.key_fields)):
            window = window.with_older(rows, places, self._function)
        merged = changelog.looked_up(window, self._function, self._changelog)
        self._memory.add(merged.rows, drop_deletes=self._scratch is None)
        return merged.changes

    def _window(self, rows: pa.RecordBatch) -> RowWindow:
        """Rows of level 0, grouped by key."""
        codes = key_columns.codes(key_columns.of_batch(rows, self._schema.key_fields))
        groups = grouped(codes, self._function.sequence.numbers(rows))
        return RowWindow(rows, codes, np.zeros(rows.num_rows, np.int8), groups)

    def _find(self, wanted: Sequence[Component]) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
        """(positions among these keys, the row before of each), each position once."""
        missing = np.ones(len(wanted[0]), dtype=bool)
        for places, rows in self._memory.find(wanted):
            missing[places] = False
            yield places, rows
        if self._scratch is None or not missing.any():
            return
        places = np.flatnonzero(missing)
        hits = self._scratch.find(key_columns.taken(wanted, places))
        if hits is None or hits.rows is None:
            return
        rows = plain(hits.rows)
        number = rows.schema.get_field_index(SEQUENCE)
        before = pa.array(np.full(rows.num_rows, _BEFORE_ALL))
        yield places[hits.asked], rows.set_column(number, rows.schema.field(number), before)

    def _stored(self, values: pa.RecordBatch, kinds: pa.Array | None) -> pa.RecordBatch:
        """Values as kv rows with the next sequence numbers."""
        first, self._sequence = self._sequence, self._sequence + values.num_rows
        numbers = pa.array(np.arange(first, self._sequence))
        kinds = pa.array(np.zeros(values.num_rows, np.int8)) if kinds is None else kinds
        return pa.RecordBatch.from_arrays([numbers, kinds, *values.columns], schema=kv_schema(self._schema))

    @property
    def _on_disk(self) -> ScratchRows:
        if self._scratch is None:
            self._scratch = ScratchRows(self._schema, self._env)
        return self._scratch

    def _spill(self) -> None:
        """Move the rows in memory to the disk."""
        rows = self._memory.drain()
        if rows is not None:
            self._on_disk.put(rows)


def _up_to(
    batches: Batches, limit_bytes: int
) -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch] | None]:
    """(the first batches, the rest), which is None where all together are no larger than the limit."""
    first, size, rest = [], 0, iter(batches)
    for batch in rest:
        first.append(batch)
        size += batch.nbytes
        if size > limit_bytes:
            return first, rest
    return first, None


def _schema_of(source: Store, names: Sequence[str], asked: Iterable[str]) -> TableSchema:
    """The schema of the rows and of their scratch table. Partition columns are in its key: a row may move to
    another one."""
    schema, options = source.schema, source.options
    keys = tuple(dict.fromkeys((*schema.primary_keys, *schema.partition_keys)))
    for name in keys:
        if schema.by_name[name].type.nullable:
            raise Unsupported(
                f"normalising a stream of a table whose partition column {name!r} may be NULL",
                "normalize=False",
            )
    given = {k: v for k, v in schema.options.items() if k in _MERGING}
    silent = [n for n in names if n not in asked and n not in keys]
    given |= {"bucket": "1", "changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"}
    given["tablestore.history.enabled"] = "false"
    if silent:
        given["changelog-producer.row-deduplicate-ignore-fields"] = ",".join(silent)
    given["write-buffer-size"] = f"{min(_MEMORY_BYTES, options.write_buffer_bytes)} b"
    fields = tuple(replace(f, default=None, description=None) for f in schema.columns(tuple(names)))
    return create_schema(
        fields,
        primary_key=keys,
        partition_by=(),
        options=given,
        comment=None,
        time_millis=source.env.now_ms(),
    )
