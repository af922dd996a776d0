"""Small LSM trees for tests: file metadata without files, and the lines of text cases."""

from __future__ import annotations

import re
from typing import Any

from tablestore.core.options.table_options import memory_size
from tablestore.format import binary_row
from tablestore.format.manifests.manifest import EMPTY_STATS, DataFileMeta
from tablestore.format.types.arrow_types import BIGINT

KEY = (BIGINT.not_null(),)
_LINE = re.compile(r"L(\d+) \[(-?\d+),(-?\d+)\] (\d+)-(\d+) (\w+)(?: deletes=(\d+|\?))?")


def key_bytes(value: int) -> bytes:
    """A serialized key of one BIGINT."""
    return binary_row.encode([value], KEY)


def data_file(name: str, low: int, high: int, **fields: Any) -> DataFileMeta:
    """Metadata of a file with keys low..high; everything else may be given."""
    facts = {
        "file_size": 1 << 20,
        "row_count": 1000,
        "min_sequence": 0,
        "max_sequence": 999,
        "level": 0,
    } | fields
    facts = {"schema_id": 0, "delete_count": 0, "creation_time_ms": 0} | facts
    return DataFileMeta(
        file_name=name,
        min_key=key_bytes(low),
        max_key=key_bytes(high),
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        **facts,
    )


def parse_file(line: str, name: str) -> DataFileMeta:
    """`L0 [3,9] 40-44 2MB [deletes=3|?]`: level, keys, sequence numbers, size."""
    match = _LINE.fullmatch(line.strip())
    assert match, f"not a file line: {line!r}"
    level, low, high, first, last = map(int, match.groups()[:5])
    deletes = None if match[7] == "?" else int(match[7] or 0)
    return data_file(
        name,
        low,
        high,
        level=level,
        min_sequence=first,
        max_sequence=last,
        file_size=memory_size(match[6]),
        delete_count=deletes,
    )
