"""The part of `check` for schemas: their ids and those of their fields."""

from __future__ import annotations

from functools import partial

from tablestore.format import schema as schema_format
from tablestore.format.schema import TableSchema
from tablestore.insight.check.findings import Findings
from tablestore.insight.check.metadata_reader import MetadataReader


def readable_schemas(reader: MetadataReader) -> set[int]:
    """Ids of the schemas that can be read. I9: ids run without gaps; field ids are unique, never used again,
    never above the highest."""
    store, findings, readable = reader.store, reader.found, set[int]()
    ids = store.schemas.ids()
    if ids != list(range(len(ids))):
        findings.violate("I9", store.paths.schema_dir, f"schema ids {ids} have gaps")
    gone: set[int] = set()
    last: TableSchema | None = None
    for schema_id in ids:
        path = store.paths.schema(schema_id)
        schema = reader.read(path, partial(schema_format.from_json, path=path))
        if schema is None:
            continue
        readable.add(schema_id)
        _schema(findings, path, schema_id, schema, gone, last)
        gone |= (set(last.by_id) if last is not None else set()) - set(schema.by_id)
        last = schema
    return readable


def _schema(
    findings: Findings, path: str, schema_id: int, s: TableSchema, gone: set[int], last: TableSchema | None
) -> None:
    ids = [f.id for f in s.fields]
    if s.id != schema_id:
        findings.violate("I1", path, f"holds id {s.id}")
    if len(set(ids)) < len(ids) or len(set(s.names)) < len(s.names):
        findings.violate("I9", path, "a field id or name is there twice")
    if ids and max(ids) > s.highest_field_id:
        findings.violate("I9", path, f"field id {max(ids)} is above highestFieldId {s.highest_field_id}")
    if last is not None and s.highest_field_id < last.highest_field_id:
        findings.violate(
            "I9", path, f"highestFieldId fell from {last.highest_field_id} to {s.highest_field_id}"
        )
    if gone & set(ids):
        findings.violate(
            "I9", path, f"field ids {sorted(gone & set(ids))} were dropped before and are used again"
        )
