"""Messages of one partition, and their decoding: rows before and after a change → rows of the columns' types
with their kinds, in the order of the changes; where one does not decode, which one and why.

Whole batches are decoded at once. Only if that fails is the batch halved until the messages at fault stand
alone: then the first is an error, or each is left out, counted and logged, as the option
`ignore-parse-errors` says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest, MissingPackage, SchemaMismatch, Unsupported
from tablestore.format.messages.encodings import Encoding, typed
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tablestore.format.types.data_type import DataField

_OPS = ("c", "r", "d", "u")


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of one table in the order they happened, and the kind (int8) of each."""

    rows: pa.RecordBatch
    kinds: pa.Array

    @property
    def num_rows(self) -> int:
        """How many rows there are, before images included."""
        return self.rows.num_rows


def inserted(rows: pa.RecordBatch) -> Changes:
    """Rows that are all new."""
    return Changes(rows, pa.array(np.full(rows.num_rows, INSERT, np.int8)))


def merged(ops: pa.Array, before: pa.RecordBatch, after: pa.RecordBatch) -> Changes:
    """The images that Debezium's ops mean: `c` and `r` give +I of `after`, `d` gives −D of `before`, `u` −U
    of
    `before` and +U of `after`. Raises Unsupported for an op without rows."""
    codes = pc.index_in(ops, value_set=pa.array(_OPS)).fill_null(9).to_numpy(zero_copy_only=False)
    if (codes == 9).any():
        strange = ops[int(np.argmax(codes == 9))]
        raise Unsupported(f"change event with op {strange.as_py()!r}", why="c, r, u and d have rows")
    if (codes <= 1).all():
        return inserted(after)
    if (codes == 2).all():
        return Changes(before, pa.array(np.full(len(codes), DELETE, np.int8)))
    old, new = np.flatnonzero(codes >= 2), np.flatnonzero(codes != 2)
    order = np.argsort(np.concatenate([old * 2, new * 2 + 1]), kind="stable")
    kinds = np.concatenate(
        [np.where(codes[old] == 2, DELETE, UPDATE_BEFORE), np.where(codes[new] == 3, UPDATE_AFTER, INSERT)]
    )
    both = pa.Table.from_batches([before.take(pa.array(old)), after.take(pa.array(new))])
    rows = both.take(pa.array(order)).combine_chunks().to_batches()[0]
    return Changes(rows, pa.array(kinds[order].astype(np.int8)))


def typed_rows(changes: Changes, columns: Sequence[DataField], encodings: Sequence[Encoding]) -> Changes:
    """The changes with the columns' types. Raises SchemaMismatch naming a column that a value does not fit,
    or that is NOT NULL and has none."""
    arrays = []
    for array, f, encoding in zip(changes.rows.columns, columns, encodings, strict=True):
        arrays.append(typed(array, f, encoding))
        if not f.type.nullable and arrays[-1].null_count:
            raise SchemaMismatch(f"column {f.name!r} is NOT NULL and has no value")
    schema = pa.schema([f.arrow for f in columns])
    if not columns:
        return changes
    return Changes(pa.RecordBatch.from_arrays(arrays, schema=schema), changes.kinds)


def require_image(ops: pa.Array, of_ops: Sequence[str], image: pa.Array, side: str, hint: str = "") -> None:
    """Raise SchemaMismatch where a change of these ops lacks its row."""
    lacks = pc.and_(pc.is_in(ops, pa.array(list(of_ops))), image.is_null())
    if pc.any(lacks).as_py():
        op = ops[pc.index(lacks, True).as_py()]
        raise SchemaMismatch(f"a change with op {op.as_py()!r} has no {side!r}{hint}")


log = logging.getLogger(__name__)
T = TypeVar("T")


class BadMessage(InvalidRequest):
    """A message that its format cannot read; `topic`, `partition`, `offset` and `reason` say which and
    why."""

    def __init__(self, topic: str, partition: int, offset: int, reason: str) -> None:
        self.topic, self.partition, self.offset, self.reason = topic, partition, offset, reason
        super().__init__(f"topic {topic!r}, partition {partition}, offset {offset}: {reason}")


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one partition in their order. A value (or key) of NULL is a tombstone. `metadata`: a struct
    of `timestamp`, `timestamp-type` and `headers`, where they were asked for."""

    topic: str
    partition: int
    offsets: np.ndarray
    keys: pa.BinaryArray
    values: pa.BinaryArray
    metadata: pa.StructArray | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def slice(self, start: int, length: int) -> Messages:
        """Some of them."""
        offsets = self.offsets[start : start + length]
        keys, values = self.keys.slice(start, length), self.values.slice(start, length)
        metadata = None if self.metadata is None else self.metadata.slice(start, length)
        return Messages(self.topic, self.partition, offsets, keys, values, metadata)

    def take(self, rows: np.ndarray) -> Messages:
        """Those at these places."""
        places = pa.array(rows)
        keys, values = self.keys.take(places), self.values.take(places)
        metadata = None if self.metadata is None else self.metadata.take(places)
        return Messages(self.topic, self.partition, self.offsets[rows], keys, values, metadata)


class MessageFormat(Protocol):
    """How messages become changes of rows. Frozen and picklable."""

    @property
    def columns(self) -> tuple[DataField, ...]:
        """What a row has."""

    @property
    def appends(self) -> bool:
        """Whether all changes are +I."""

    def of(self, columns: tuple[DataField, ...]) -> MessageFormat:
        """The same format with rows of fewer columns."""

    def decode(self, messages: Messages) -> Changes:
        """The changes, in the order of the messages. Raises InvalidRequest where any cannot be read."""


def decoded(
    messages: Messages,
    format: MessageFormat,
    *,
    skip_bad: bool = False,
    bad: Callable[[BadMessage, Messages], None] = lambda error, message: None,
) -> Iterator[tuple[Messages, Changes]]:
    """The changes that messages mean, with those messages. Raises BadMessage for the first that cannot be
    read; with `skip_bad` it is logged, given to `bad`, and left out instead."""

    def at_fault(error: BadMessage, message: Messages) -> None:
        if not skip_bad:
            raise error from None
        log.warning("message left out: %s", error)
        bad(error, message)

    for part, changes in readable(messages, format.decode, at_fault):
        if changes.num_rows:
            yield part, changes


def readable(
    messages: Messages, read: Callable[[Messages], T], bad: Callable[[BadMessage, Messages], None]
) -> Iterator[tuple[Messages, T]]:
    """What `read` gives of the messages, in order, with those it is of; each that it cannot read is given to
    `bad` and left out."""
    if not len(messages):
        return
    try:
        value = read(messages)
    except MissingPackage:
        raise
    except InvalidRequest as e:
        if len(messages) > 1:
            half = len(messages) // 2
            for part in (messages.slice(0, half), messages.slice(half, len(messages) - half)):
                yield from readable(part, read, bad)
            return
        bad(BadMessage(messages.topic, messages.partition, int(messages.offsets[0]), str(e)), messages)
        return
    yield messages, value
