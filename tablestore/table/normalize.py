"""The normaliser of streams: upserts as a table stores them → changes that hold what was before.

Without a changelog producer a commit adds rows by key: a +I or +U may replace a row or repeat it, a −D may
name a key that is not there. Normalised, rows that did not change are silent, updates are −U/+U pairs, a −D
has the old values, and deletes of absent keys are nothing: replayed on the state before the first, the
changes give the state after each step. (A stream from "earliest" knows nothing before: keys are new when it
first meets them.) Its state, the last row of each key, is `last_rows.py`, and gone with the stream. A filter
applies to what comes out: a row that enters it is +I, one that leaves it −D. Belongs to one thread. Called by
`Table.stream`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.format import rowkind
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import condition
from tablestore.lsm.merge.groups import joined
from tablestore.lsm.merge.keys import equal_rows
from tablestore.meta.store import Store
from tablestore.read.changes.change import Change, Read, StateSize
from tablestore.read.changes.first_state import state_before
from tablestore.read.changes.incremental import change_schema
from tablestore.read.changes.log_start import files_alone
from tablestore.read.changes.log_stream import log_stream
from tablestore.read.changes.overwritten import with_overwrites
from tablestore.read.changes.stream import StreamRequest, stream
from tablestore.read.changes.stream_start import place_of_consumer
from tablestore.read.changes.streamable import is_upsert_stream, require_streamable
from tablestore.read.scan.pruning import TRUE, Filters
from tablestore.read.table_log import TableLog
from tablestore.table.last_rows import LastRows

LOOK_UP = "lookup"
_NO_KEY = "a stream without a primary key gives each row once: there is no key to go by"
Steps = Callable[[Store, StreamRequest], Generator[Change]]


def follow(
    store: Store,
    request: StreamRequest,
    *,
    normalize: bool | str | None = None,
    log: TableLog | None = None,
) -> Iterator[Change]:
    """The steps of a stream, normalised where that is asked for (None: where the table has upserts only and
    `scan.remove-normalize` does not say otherwise), looked up where `normalize` is "lookup"; of the `log`
    where the table has one and nothing stands against it."""
    looks_up = normalize == LOOK_UP
    if normalize is not None and not isinstance(normalize, bool) and not looks_up:
        raise InvalidRequest(f"stream normalize {normalize!r} must be True, False, None or {LOOK_UP!r}")
    reason = None
    if log is not None:
        reason = files_alone(store, as_written=normalize is False, look_up=looks_up)
        if reason is None:
            return _of_log(store, request, log, normalize)
    if looks_up:
        return stream(store, replace(request, look_up=True), reason=reason)
    if normalize is not False:
        require_streamable(store)
        store = store if store.schema.primary_keys else with_overwrites(store)
    if normalize is None:
        normalize = is_upsert_stream(store) and not store.options.remove_normalize
    elif normalize:
        _require_normalizable(store)
    steps = partial(stream, reason=reason)
    return NormalizedStream(store, request, steps) if normalize else steps(store, request)


def _of_log(
    store: Store, request: StreamRequest, log: TableLog, normalize: bool | str | None
) -> Iterator[Change]:
    """The steps of a stream of a log."""
    steps = partial(log_stream, log=log, as_written=normalize is False)
    if normalize is None:
        normalize = log.upserts and not store.options.remove_normalize
    elif normalize and not store.schema.shown.primary_keys:
        raise InvalidRequest(_NO_KEY)
    return NormalizedStream(store, request, steps) if normalize else steps(store, request)


def _require_normalizable(store: Store) -> None:
    producer, engine = store.options.changelog_producer, store.options.merge_engine
    if not store.schema.shown.primary_keys:
        raise InvalidRequest(_NO_KEY)
    if producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION):
        raise InvalidRequest(
            f"changelog-producer {producer.value} writes changes with what was before; to leave out pairs of "
            "equal rows set 'changelog-producer.row-deduplicate'"
        )
    if engine is not MergeEngine.DEDUPLICATE:
        raise Unsupported(f"normalising a stream of merge-engine {engine.value}", "its rows are no states")


class NormalizedStream:
    """The steps of a stream, normalised; `steps` gives them as they are written. `state` is how much it keeps
    for that now."""

    def __init__(self, store: Store, request: StreamRequest, steps: Steps = stream) -> None:
        schema, columns = store.schema, request.columns
        request.require_valid()
        self._names = tuple(columns if columns is not None else schema.names)
        where = condition(request.where, schema)
        bound = None if where is None else predicate.bind(where, schema)
        filters = Filters.of(bound, schema)
        below = [p for p in (filters.partition, filters.key) if p != TRUE]
        rest = [p for p in predicate.conjuncts(bound) if p not in _parts(below)] if bound is not None else []
        self._rest = predicate.all_of(*rest) if rest else None
        sequence = store.options.sequence_fields
        asked = {*self._names, *(c for p in rest for c in p.columns)}
        needed = {*asked, *schema.primary_keys, *schema.partition_keys, *sequence}
        self._store = store
        self._from_nothing = request.start == "earliest" and not _goes_on(store, request)
        self._below = predicate.all_of(*below) if below else None
        self._kept = tuple(n for n in schema.names if n in needed)
        self._raw = steps(store, replace(request, columns=self._kept, where=self._below, normalized=True))
        self._last: LastRows | None = None
        self._full: Change | None = None
        self._asked = asked

    @property
    def state(self) -> StateSize:
        """How much the normaliser keeps."""
        return self._last.size if self._last is not None else StateSize(0, 0)

    def __iter__(self) -> NormalizedStream:
        return self

    def __next__(self) -> Change:
        for change in self._raw:
            if change.full:
                self._full = change
                return self._shaped(change, change._read)
            try:
                if change._looked_up:
                    self._forget()
                    if next(change._read(), None) is not None:
                        return self._shaped(change, change._read)
                    continue
                changes = self._rows(change).apply(change._read())
            except BaseException:
                self.close()  # else the next call would pass this step over
                raise
            if changes.rows:
                return self._shaped(change, changes)
        raise StopIteration

    def close(self) -> None:
        """End the stream; its steps stay readable."""
        self._raw.close()
        self._last = None

    def _forget(self) -> None:
        """Let the next change begin from the state before it: an OVERWRITE replaces rows whatever their
        sequence, also where deletes are ignored."""
        self._last = self._full = None
        self._from_nothing = False

    def _rows(self, change: Change) -> LastRows:
        """The last rows before a change: those of the first step, or of the snapshot before."""
        if self._last is not None:
            return self._last
        last = LastRows(self._store, self._kept, self._asked)
        if self._from_nothing:
            self._last = last
            return last
        full, self._full = self._full, None
        try:
            if full is not None:
                last.fill(full._read())
            else:
                self._fill(last, change)
        except NotFound:
            if full is None:
                raise
            last = LastRows(self._store, self._kept, self._asked)  # the other has some of the rows
            self._fill(last, change)  # the first step's snapshot expired meanwhile
        self._last = last
        return last

    def _fill(self, last: LastRows, change: Change) -> None:
        if change._before is None:
            last.fill(self._before(change.snapshot))
            return
        last.fill(change._before.rows())
        last.apply(change._before.behind())

    def _before(self, snapshot: int) -> Iterator[pa.RecordBatch]:
        schema = change_schema(self._store, self._kept)
        for batch in state_before(self._store, snapshot, self._kept, self._below):
            kinds = pa.repeat(pa.scalar(rowkind.TEXTS[rowkind.INSERT]), batch.num_rows)
            yield pa.RecordBatch.from_arrays([kinds, *batch.columns], schema=schema)

    def _shaped(self, change: Change, read: Read) -> Change:
        """The step with the columns and rows that were asked for."""
        schema = change_schema(self._store, self._names)
        if self._rest is None:
            shaped = partial(_selected, read, schema)
        else:
            shaped = partial(_entering, read, schema, self._rest)
        return replace(change, schema=schema, _read=shaped, state=self.state)

    def __repr__(self) -> str:
        return f"NormalizedStream({self._store.paths.root}: {', '.join(self._names)}; state {self.state})"


def _goes_on(store: Store, request: StreamRequest) -> bool:
    """Whether the consumer of the request, or of the options, has a place to go on from."""
    consumer = store.options.consumer_id if request.consumer is None else request.consumer
    return place_of_consumer(store, consumer) is not None


def _parts(some: Iterable[Predicate]) -> list[Predicate]:
    return [part for p in some for part in predicate.conjuncts(p)]


def _selected(read: Read, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in read():
        yield pa.RecordBatch.from_arrays([batch.column(n) for n in schema.names], schema=schema)


def _entering(read: Read, schema: pa.Schema, where: Predicate) -> Iterator[pa.RecordBatch]:
    """Changes as seen through a filter: of a −U/+U pair with one half inside it that half comes, as −D or +I;
    pairs that are equal in the columns asked for are silent."""
    before, after = (rowkind.TEXTS[k] for k in (rowkind.UPDATE_BEFORE, rowkind.UPDATE_AFTER))
    pending: pa.RecordBatch | None = None  # a −U at the end of a batch waits for its +U
    for batch in read():
        rows = batch if pending is None else joined([pending, batch])
        pending = None
        if rows.column(0)[-1].as_py() == before:
            rows, pending = rows.slice(0, rows.num_rows - 1), rows.slice(rows.num_rows - 1)
        if rows.num_rows:
            yield from _inside(rows, schema, where, before, after)
    assert pending is None, "a −U has its +U"


def _inside(
    rows: pa.RecordBatch, schema: pa.Schema, where: Predicate, before: str, after: str
) -> Iterator[pa.RecordBatch]:
    inside = evaluate.mask(where, rows).to_numpy(zero_copy_only=False).astype(bool)
    kinds = np.asarray(rows.column(0).to_numpy(zero_copy_only=False), dtype=object)
    old = np.flatnonzero(kinds == before)
    new = old + 1
    assert (kinds[new] == after).all(), "a −U has its +U"
    both = inside[old] & inside[new]
    kinds[old[~both]], kinds[new[~both]] = rowkind.TEXTS[rowkind.DELETE], rowkind.TEXTS[rowkind.INSERT]
    values = rows.select(schema.names[1:])
    same = np.flatnonzero(both)
    same = same[equal_rows(values.take(pa.array(old[same])), values.take(pa.array(new[same])))]
    inside[old[same]] = inside[new[same]] = False
    changes = [pa.array(kinds, pa.string()), *values.columns]
    kept = pa.RecordBatch.from_arrays(changes, schema=schema).filter(pa.array(inside))
    if kept.num_rows:
        yield kept
