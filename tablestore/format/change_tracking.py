"""Which commits write changelog files: the options `tablestore.change-tracking` of a table and
`tablestore.change-tracking.<partition path>` of single partitions (FORMAT.md 13.6).

The path is `dt=2026-01-01/region=eu`, names and values escaped as in directories, values always as SQL casts
them to text. What the option of a partition says goes before that of the table. Pure. Writers ask it in
`write/buckets.py`, readers of changes in `read/changes/streamable.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidOption, InvalidRequest, SchemaMismatch
from tablestore.core.options.names import CHANGE_TRACKING
from tablestore.core.options.table_options import TableOptions, parsed
from tablestore.core.options.values import boolean
from tablestore.format import binary_row
from tablestore.format.binary_row import Raw
from tablestore.format.predicates import literal
from tablestore.format.schema import TableSchema
from tablestore.format.text import cast_text
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import STRING
from tablestore.io.paths import escape, unescaped

_OF_PARTITION = CHANGE_TRACKING + "."


@dataclass(frozen=True, slots=True)
class ChangeTracking:
    """Whether commits of a table track changes, and those of partitions, by path, that say otherwise."""

    of_table: bool
    of_partitions: Mapping[str, bool]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ChangeTracking:
        """What stored options say; raises InvalidOption for a value that is neither true nor false."""
        by_key = {k: parsed(k, v, boolean) for k, v in options.items() if k.startswith(_OF_PARTITION)}
        return cls(
            parsed(CHANGE_TRACKING, options.get(CHANGE_TRACKING, "true"), boolean),
            {k.removeprefix(_OF_PARTITION): v for k, v in by_key.items()},
        )

    @property
    def is_complete(self) -> bool:
        """Whether the changes of every partition are tracked."""
        return self.of_table and all(self.of_partitions.values())

    def tracks(self, path: str) -> bool:
        """Whether the changes of the partition of this path are tracked."""
        return self.of_partitions.get(path, self.of_table)


def option_of(path: str) -> str:
    """The name of the option of a partition; of the table for an empty path."""
    return _OF_PARTITION + path if path else CHANGE_TRACKING


def path_of(schema: TableSchema, options: TableOptions, values: Sequence[Raw]) -> str:
    """`dt=2026-01-01/region=eu` of the raw values of a partition; NULL is named as in directories."""
    default = options.partition_default_name
    texts = (
        default if value is None else cast_text(value, f.type)
        for value, f in zip(values, schema.partition_fields, strict=True)
    )
    return "/".join(
        f"{escape(key)}={escape(text)}" for key, text in zip(schema.partition_keys, texts, strict=True)
    )


def path_of_values(schema: TableSchema, partition: Mapping[str, Any]) -> str:
    """The path of the partition with these values of its columns.

    Raises InvalidRequest unless there is one value for each partition column, and that of its type.
    """
    if not schema.partition_keys:
        raise InvalidRequest("the table has no partitions")
    for name in (*partition, *schema.partition_keys):
        if name not in partition or name not in schema.partition_keys:
            keys = ", ".join(schema.partition_keys)
            raise InvalidRequest(f"a partition has one value for each of {keys}, not {dict(partition)}")
    values = [_raw(partition[f.name], f) for f in schema.partition_fields]
    return path_of(schema, TableOptions.parse(schema.options), values)


def _raw(value: Any, f: Any) -> Raw:
    if value is None:
        return None
    try:
        bound = literal.raw(literal.plain(value), f.type)
    except ValueError as e:
        raise InvalidRequest(f"partition column {f.name!r}: {e}") from None
    if bound.value is None or not bound.exact:
        raise InvalidRequest(f"partition column {f.name!r}: {value!r} is no value of {f.type}")
    return bound.value


def partition_at(schema: TableSchema, path: str) -> bytes | None:
    """The serialized partition of a path, None where its text gives no value of the columns' types."""
    default = TableOptions.parse(schema.options).partition_default_name
    arrays = []
    for part, f in zip(path.split("/"), schema.partition_fields, strict=True):
        text = unescaped(part.partition("=")[2])
        try:
            arrays.append(casts.cast(pa.array([None if text == default else text]), STRING, f.type))
        except SchemaMismatch:
            return None
    return binary_row.encode_many(arrays, [f.type for f in schema.partition_fields])[0]


def require_partitions_exist(schema: TableSchema) -> None:
    """Raise InvalidOption for an option that names what cannot be a partition of the table."""
    for path in ChangeTracking.of(schema.options).of_partitions:
        names = tuple(unescaped(part.partition("=")[0]) for part in path.split("/"))
        if names != schema.partition_keys or "=" not in path:
            form = "/".join(f"{escape(key)}=…" for key in schema.partition_keys)
            there = f"a partition is {form}" if form else "the table has no partitions"
            raise InvalidOption(f"option {option_of(path)!r} names no partition: {there}")
