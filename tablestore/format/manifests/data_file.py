"""DataFileMeta: one data file as manifests describe it (FORMAT.md 8.3).

A value without its encoding: what picks a compaction needs no Avro, no Arrow and no numpy, so that rules
also run where these are not (tests/test_without_arrow.py). `manifest` turns it into bytes and back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tablestore.format.avro.container import CarriedField

APPEND_SOURCE, COMPACT_SOURCE = 0, 1
EMPTY_ROW = bytes(12)


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minimum, maximum (serialized BinaryRows) and null counts, one position a column."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] | None = ()


EMPTY_STATS = SimpleStats()


@dataclass(frozen=True, slots=True)
class DataFileMeta:
    """One data file. `min_key`, `max_key`: serialized BinaryRow of the trimmed primary key, exact; `carried`:
    fields of later releases, which stay with it."""

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence: int
    max_sequence: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None
    delete_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    carried: tuple[CarriedField, ...] = field(default=(), compare=False, repr=False)

    def upgraded(self, level: int) -> DataFileMeta:
        """The same file at another level: no byte of it changes."""
        return replace(self, level=level)
