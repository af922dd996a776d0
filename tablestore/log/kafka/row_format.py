"""Rows of a table ⇄ messages of its topic, whole columns at a time.

The key is the primary key as JSON, absent without one. The value is the row (`row_values.py`). In a log of
upserts a delete is a key without a value: other columns of such a row are NULL, or empty where the table
allows no NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidOption, SchemaMismatch
from tablestore.format import rowkind
from tablestore.format.messages import json_text
from tablestore.format.messages.encodings import Encoding
from tablestore.format.messages.messages import Changes, Messages, typed_rows
from tablestore.format.messages.row_json import json_objects
from tablestore.format.types.data_type import DataField, DataType, to_arrow
from tablestore.log.kafka.row_values import ValueFormat


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
