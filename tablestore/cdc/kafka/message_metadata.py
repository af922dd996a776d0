"""What is known of a message beside its value, as columns of rows: keys and types are Flink's, `key` is ours.

Only formats with a row for each message have such columns: of a message that changes several rows, or none,
it would not be said which row they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.errors import SchemaMismatch
from tablestore.format.messages.messages import Changes, Messages
from tablestore.format.types.arrow_types import BIGINT, BYTES, INT, MAP, STRING, TIMESTAMP_LTZ
from tablestore.format.types.data_type import DataField, DataType

METADATA: dict[str, tuple[str, DataType]] = {
    "topic": ("the topic", STRING.not_null()),
    "partition": ("the number of the partition", INT.not_null()),
    "offset": ("the place in the partition", BIGINT.not_null()),
    "timestamp": ("the time of the message; NULL if it has none", TIMESTAMP_LTZ(3)),
    "timestamp-type": ("NoTimestampType, CreateTime or LogAppendTime", STRING.not_null()),
    "headers": ("the headers; of equal keys all are there", MAP(STRING.not_null(), BYTES).not_null()),
    "key": ("the bytes of the key; NULL if it has none", BYTES),
}


@dataclass(frozen=True, slots=True)
class MessageMetadata:
    """A column of rows with one of `METADATA`."""

    field: DataField
    key: str

    def require_valid(self) -> None:
        """Raise SchemaMismatch for another type than that of the metadata, or a wider one."""
        is_, declared = METADATA[self.key][1], self.field.type
        wider = (is_.root, declared.root) == ("INT", "BIGINT")
        finer = is_.root == declared.root == "TIMESTAMP_LTZ" and declared.precision >= is_.precision
        if not (wider or finer or _kind(is_) == _kind(declared)):
            raise SchemaMismatch(
                f"METADATA column {self.field.name!r} is {declared}; {self.key!r} of a message is {is_}"
            )

    def values(self, messages: Messages) -> pa.Array:
        """The metadata of each message."""
        count = len(messages)
        match self.key:
            case "topic":
                values: pa.Array = pa.repeat(pa.scalar(messages.topic), count)
            case "partition":
                values = pa.array(np.full(count, messages.partition, np.int32))
            case "offset":
                values = pa.array(messages.offsets)
            case "key":
                values = messages.keys
            case _:
                assert messages.metadata is not None, "messages are read with their metadata"
                values = messages.metadata.field(self.key)
        return values.cast(self.field.arrow.type)


def one_row_each(
    messages: Messages, changes: Changes, decode: Callable[[Messages], Changes]
) -> Iterator[tuple[Messages, Changes]]:
    """Messages with their rows, one each, of messages that gave a row at most: those that gave none are left
    out."""
    if changes.num_rows == len(messages):
        yield messages, changes
    elif len(messages) > 1:
        half = len(messages) // 2
        for part in (messages.slice(0, half), messages.slice(half, len(messages) - half)):
            yield from one_row_each(part, decode(part), decode)


def _kind(t: DataType) -> str:
    """The type without NOT NULL, at any depth."""
    return str(t.as_nullable()).replace(" NOT NULL", "")
