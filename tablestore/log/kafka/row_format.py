"""Rows of a table ⇄ messages of its topic, whole columns at a time.

The key is the primary key as JSON, absent without one. In a log of upserts a delete is a key without a value:
other columns of such a row are NULL, or empty where the table allows no NULL.

The value is of the format that `log.format` names. `json` is the row alone, without a kind. The events of
Flink's `debezium-json` and `debezium-avro` have the row as their `after` or `before`; they know inserts and
deletes only, so a field `kind` of ours names the kind of an update. Events that Debezium writes are read as
well, where they are of op c, r or d.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidOption, SchemaMismatch
from tablestore.format import rowkind
from tablestore.format.messages import debezium_avro, json_text
from tablestore.format.messages.debezium_avro import KIND, avro_events, event_schema, require_avro
from tablestore.format.messages.debezium_json import Handling, joined
from tablestore.format.messages.encodings import Encoding
from tablestore.format.messages.messages import Changes, Messages, require_image, typed_rows
from tablestore.format.messages.registry_client import Registry, registered
from tablestore.format.messages.row_json import json_objects, require_writable
from tablestore.format.types.data_type import DataField, DataType, to_arrow

T = TypeVar("T")
R = TypeVar("R")
_LARGE_ROWS = 1000


def overlapped(batches: Iterable[T], work: Callable[[T], R], rows: Callable[[T], int]) -> Generator[R]:
    """What `work` makes of each batch, in their order. Memory: two batches and what is made of them."""
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(1) as worker:
        for batch in batches:
            if not waiting and rows(batch) < _LARGE_ROWS:
                yield work(batch)
                continue
            waiting.append(worker.submit(work, batch))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        for pending in waiting:
            yield pending.result()


_AFTER, _BEFORE = '{"before":null,"after":', '{"before":'
_ENVELOPE = {"op": json_text.TEXT, KIND: json_text.TEXT}
_OPS = ("c", "d", "r")
_Side = tuple[pa.Array, pa.RecordBatch]  # objects, NULL where there is none, and their columns


class ValueFormat(Protocol):
    """How rows are values. Frozen."""

    @property
    def kinds(self) -> bool:
        """Whether a value has the kind of its row."""

    def require_valid(self) -> None:
        """Raise Unsupported for a column that no value can hold."""

    def encode(self, kinds: pa.Array, rows: pa.RecordBatch) -> pa.Array:
        """A value for each row, text or binary."""

    def decode(self, values: pa.Array, wanted: tuple[DataField, ...]) -> Changes:
        """The rows of values, none NULL, with these columns. Raises SchemaMismatch for values that others
        wrote and that are no rows of the table."""


@dataclass(frozen=True)
class JsonRows:
    """Rows with these columns alone, as JSON."""

    columns: tuple[DataField, ...]
    kinds = False

    def require_valid(self) -> None:
        require_writable(self.columns)

    def encode(self, kinds: pa.Array, rows: pa.RecordBatch) -> pa.Array:
        return json_objects(rows, self.columns)

    def decode(self, values: pa.Array, wanted: tuple[DataField, ...]) -> Changes:
        objects = json_text.parsed(values, json_text.shape(wanted))
        rows = json_text.images(objects, wanted, values, lambda message, _: message)
        kinds = pa.array(np.full(len(values), rowkind.INSERT, np.int8))
        return typed_rows(Changes(rows, kinds), wanted, [Encoding()] * len(wanted))


@dataclass(frozen=True)
class JsonEventRows:
    """Events of rows with these columns, as JSON."""

    columns: tuple[DataField, ...]
    kinds = True

    def require_valid(self) -> None:
        require_writable(self.columns)

    def encode(self, kinds: pa.Array, rows: pa.RecordBatch) -> pa.Array:
        retracts = pa.array(rowkind.retracts(kinds.to_numpy(zero_copy_only=False)))
        start = pc.if_else(retracts, _BEFORE, _AFTER)
        ends = pa.array(
            [
                ',"op":"c"}',
                ',"after":null,"op":"d","kind":"-U"}',
                ',"op":"c","kind":"+U"}',
                ',"after":null,"op":"d"}',
            ]
        )  # by row kind
        values = json_objects(rows, self.columns)
        return pc.binary_join_element_wise(start, values, ends.take(kinds), "")

    def decode(self, values: pa.Array, wanted: tuple[DataField, ...]) -> Changes:
        image = json_text.shape(wanted)
        events = json_text.parsed(values, {**_ENVELOPE, "after": image})
        news = pc.struct_field(events, "after")
        after = json_text.images(news, wanted, values, lambda m, _: m["after"])

        def before() -> _Side:  # most batches have no deletes, and a parse costs most of all
            olds = pc.struct_field(json_text.parsed(values, {"before": image}), "before")
            return olds, json_text.images(olds, wanted, values, lambda m, _: m["before"])

        op, kind = events.field("op"), events.field(KIND)
        return _changes(op, kind, before, (news, after), wanted, [Encoding()] * len(wanted))


@dataclass(frozen=True)
class AvroEventRows:
    """Events of rows with these columns, as Avro. The schema is registered under `subject` when the first
    rows are written."""

    columns: tuple[DataField, ...]
    registry: Registry
    subject: str
    kinds = True

    def require_valid(self) -> None:
        require_avro(self.columns)

    @cached_property
    def _schema_id(self) -> int:
        return registered(self.registry, self.subject, event_schema(self.columns))

    def encode(self, kinds: pa.Array, rows: pa.RecordBatch) -> pa.Array:
        return avro_events(kinds, rows, self.columns, self._schema_id)

    def decode(self, values: pa.Array, wanted: tuple[DataField, ...]) -> Changes:
        parts = []
        for event, bodies in debezium_avro.by_schema(self.registry, values):
            names = ("op", KIND) if KIND in debezium_avro.fields_of(event) else ("op",)
            before, after, op, *kind = debezium_avro.sides_and_texts(event, bodies, names)
            encodings = debezium_avro.encodings_of(event, wanted, Handling())
            kinds = kind[0] if kind else pa.nulls(len(op))
            old = partial(_side, before, wanted)
            parts.append(_changes(op, kinds, old, _side(after, wanted), wanted, encodings))
        return joined(parts, wanted)


def _side(objects: pa.Array, wanted: tuple[DataField, ...]) -> _Side:
    return objects, debezium_avro.image(objects, wanted)


def _changes(
    op: pa.Array,
    kind: pa.Array,
    before: Callable[[], _Side],
    after: _Side,
    wanted: tuple[DataField, ...],
    encodings: Sequence[Encoding],
) -> Changes:
    """The row of each event: of deletes that before, of others that after."""
    if pc.all(pc.is_in(op, pa.array(_OPS))).as_py() is False:  # of no values it is NULL
        raise SchemaMismatch("the message is no event with op c, r or d")
    deletes = pc.equal(op, "d")
    kinds = rowkind.parse(pc.coalesce(kind.cast(pa.string()), pc.if_else(deletes, "-D", "+I")))
    other = rowkind.retracts(kinds.to_numpy()) != deletes.to_numpy(zero_copy_only=False)
    if other.any():
        at = int(np.argmax(other))
        raise SchemaMismatch(f"an event with op {op[at].as_py()!r} has kind {kind[at].as_py()!r}")
    require_image(op, ("c", "r"), after[0], "after")
    rows = after[1]
    if not pc.any(deletes).as_py():
        return typed_rows(Changes(rows, kinds), wanted, encodings)
    olds, old_rows = before()
    require_image(op, ("d",), olds, "before")
    others = pc.invert(deletes)
    parts = [
        typed_rows(Changes(side.filter(chosen), kinds.filter(chosen)), wanted, encodings)
        for side, chosen in ((old_rows, deletes), (rows, others))
    ]
    order = np.argsort(others.to_numpy(zero_copy_only=False), kind="stable")
    changes, places = joined(parts, wanted), pa.array(np.argsort(order))
    return Changes(changes.rows.take(places), changes.kinds.take(places))


@dataclass(frozen=True)
class RowFormat:
    """How rows with these columns are written. `keys`: names of the primary key; `upsert`: the log holds the
    newest rows of keys; `values`: how a row is the value of a message."""

    columns: tuple[DataField, ...]
    keys: tuple[str, ...]
    upsert: bool
    values: ValueFormat

    def require_valid(self) -> None:
        """Raise Unsupported for a column that no message can hold, InvalidOption where the format has no row
        kinds and the log needs them."""
        self.values.require_valid()
        if not self.values.kinds and self.keys and not self.upsert:
            raise InvalidOption(
                "option 'log.format' is json, which has no row kinds, and 'log.changelog-mode' is all: "
                "set 'log.format' = 'debezium-json' or 'debezium-avro'"
            )

    def encode(self, kinds: pa.Array, rows: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """(keys, values), texts or bytes, NULL where a message has none."""
        if self.keys:
            keys = json_objects(rows, self._of(self.keys))
        else:
            keys = pa.nulls(rows.num_rows, pa.string())
        values = self.values.encode(kinds, rows)
        if self.upsert:
            gone = pc.equal(kinds, rowkind.DELETE)
            values = pc.if_else(gone, pa.scalar(None, values.type), values)
        return keys, values

    def decode(self, messages: Messages, names: Sequence[str]) -> Changes:
        """The rows of messages with these columns. Raises SchemaMismatch for messages that others wrote and
        that are no rows of the table."""
        wanted = self._of(names)
        live = messages.values.is_valid()
        if pc.all(live).as_py() is not False:
            return self.values.decode(messages.values, wanted)
        if not self.keys:
            raise SchemaMismatch("a message without a value in the log of a table without a primary key")
        live_rows = np.flatnonzero(live.to_numpy(zero_copy_only=False))
        gone_rows = np.flatnonzero(~live.to_numpy(zero_copy_only=False))
        there = self.values.decode(messages.values.drop_null(), wanted)
        gone = self._deleted(messages.keys.take(pa.array(gone_rows)), wanted)
        order = np.argsort(np.concatenate([live_rows, gone_rows]), kind="stable")
        both = pa.Table.from_batches([there.rows, gone.rows]).take(pa.array(order)).combine_chunks()
        kinds = pa.concat_arrays([there.kinds, gone.kinds]).take(pa.array(order))
        return Changes(both.to_batches()[0], kinds)

    def _deleted(self, keys: pa.Array, wanted: tuple[DataField, ...]) -> Changes:
        named = tuple(f for f in wanted if f.name in self.keys)
        objects = json_text.parsed(keys, json_text.shape(named)) if named else None
        arrays: dict[str, pa.Array] = {}
        if objects is not None:
            texts = json_text.images(objects, named, keys, lambda message, _: message)
            of_keys = typed_rows(Changes(texts, keys), named, [Encoding()] * len(named)).rows
            arrays = dict(zip(of_keys.schema.names, of_keys.columns, strict=True))
        columns = [arrays[f.name] if f.name in arrays else _absent(f.type, len(keys)) for f in wanted]
        schema = pa.schema([f.arrow for f in wanted])
        kinds = pa.array(np.full(len(keys), rowkind.DELETE, np.int8))
        return Changes(pa.RecordBatch.from_arrays(columns, schema=schema), kinds)

    @cached_property
    def _by_name(self) -> dict[str, DataField]:
        return {f.name: f for f in self.columns}

    def _of(self, names: Sequence[str]) -> tuple[DataField, ...]:
        return tuple(self._by_name[name] for name in names)


def _absent(t: DataType, rows: int) -> pa.Array:
    """A column without values: NULL, or the empty value of its type where it allows no NULL."""
    arrow = to_arrow(t)
    if t.nullable:
        return pa.nulls(rows, arrow)
    if t.is_nested:
        return pa.array([{} if t.root == "ROW" else []] * rows, arrow)
    if t.is_string or t.is_binary:
        return pa.array([b"" if t.is_binary else ""] * rows, arrow)
    if pa.types.is_decimal(arrow):
        return pa.array(["0"] * rows, pa.string()).cast(arrow)
    zero = pa.array(np.zeros(rows, np.int64))
    narrow = zero.cast(pa.int32()) if arrow in (pa.date32(), pa.time32("ms")) else zero
    return narrow.cast(arrow)
