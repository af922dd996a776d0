"""Statistics files (`statistics/stat-<uuid>-<i>`, JSON): results of ANALYZE ⇄ bytes (FORMAT.md 20.5).

Bounds are texts as Java's serializers print them: a DATE is its epoch day, a TIMESTAMP its SQL text. Unknown
fields are ignored, absent ones left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tablestore.core.errors import Corrupt, FileMissing, brief
from tablestore.format import checksums
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store

_COLUMN = {
    "column_id": "colId",
    "distinct_count": "distinctCount",
    "min": "min",
    "max": "max",
    "null_count": "nullCount",
    "avg_len": "avgLen",
    "max_len": "maxLen",
}


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column: a large `distinct_count` is an estimate, lengths are bytes or characters."""

    column_id: int
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    avg_len: int | None = None
    max_len: int | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of one snapshot: rows after merging, their share of the bytes, and columns by name."""

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None = None
    merged_record_size: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


def columns_json(columns: Mapping[str, ColumnStatistics]) -> dict[str, dict[str, Any]]:
    """The JSON form of column statistics; absent values are left out."""
    rows = {}
    for name, c in columns.items():
        values = {key: getattr(c, attribute) for attribute, key in _COLUMN.items()}
        rows[name] = {key: value for key, value in values.items() if value is not None}
    return rows


def to_json(statistics: Statistics) -> bytes:
    """The bytes of a statistics file."""
    body: dict[str, Any] = {"snapshotId": statistics.snapshot_id, "schemaId": statistics.schema_id}
    if statistics.merged_record_count is not None:
        body["mergedRecordCount"] = statistics.merged_record_count
    if statistics.merged_record_size is not None:
        body["mergedRecordSize"] = statistics.merged_record_size
    body["colStats"] = columns_json(statistics.columns)
    return json.dumps(body, indent=2, ensure_ascii=False).encode()


def from_json(data: bytes, path: str) -> Statistics:
    """Read a statistics file; raises Corrupt naming `path`."""
    try:
        body = json.loads(data)
        columns = {n: _column(c) for n, c in (body.get("colStats") or {}).items()}
        rows, size = (_whole(body.get(k), k) for k in ("mergedRecordCount", "mergedRecordSize"))
        snapshot_id, schema_id = (_whole(body[k], k) for k in ("snapshotId", "schemaId"))
        if snapshot_id is None or schema_id is None:
            raise ValueError("snapshotId or schemaId is null")
        return Statistics(snapshot_id, schema_id, rows, size, columns)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Corrupt(path, f"not a statistics file: {brief(e)}") from e


def _column(body: Mapping[str, Any]) -> ColumnStatistics:
    values: dict[str, Any] = {a: body.get(k) for a, k in _COLUMN.items()}
    for attribute, value in values.items():
        if attribute in ("min", "max"):
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{attribute} is {value!r}")
        else:
            _whole(value, attribute)
    if values["column_id"] is None:
        raise ValueError("colId is missing")
    return ColumnStatistics(**values)


def _whole(value: Any, what: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"{what} is {value!r}")
    return value


def read(store: Store, snapshot: Snapshot | None) -> Statistics | None:
    """The statistics that `snapshot` names, None if it has none."""
    if snapshot is None or snapshot.statistics is None:
        return None
    path = store.paths.statistics(snapshot.statistics)
    with store.manifests.expiring(snapshot):
        try:
            return from_json(checksums.require_named(path, store.io.read(path)), path)
        except FileNotFoundError:
            raise FileMissing(path) from None


def write(store: Store, statistics: Statistics) -> str:
    """Write a new statistics file; returns its name."""
    data = to_json(statistics)
    name = f"stat-{checksums.named(store.env.uuid(), data)}-0"
    store.io.write(store.paths.statistics(name), data)
    return name
