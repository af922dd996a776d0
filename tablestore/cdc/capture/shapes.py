"""Shapes as JSON, in files by their digest, and shapes that grow with what messages say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tablestore.cdc.capture.source import ShapeColumn, TableShape
from tablestore.cdc.capture.target_shape import common_type
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataType
from tablestore.format.types.type_text import parse_type
from tablestore.io.paths import join, location
from tablestore.io.routed import file_io_for

VERSION = 1
FOLDER = "tablestore-source"


def to_json(shape: TableShape) -> dict[str, Any]:
    """A shape as a JSON object."""
    columns = [
        {"name": c.name, "type": str(c.type), "spelled": c.spelled, "comment": c.comment}
        for c in shape.columns
    ]
    return {
        "v": VERSION,
        "columns": columns,
        "primary_key": list(shape.primary_key),
        "comment": shape.comment,
        "partial": shape.partial,
    }


def of_json(item: Mapping[str, Any]) -> TableShape:
    """The shape of a JSON object."""
    columns = tuple(
        ShapeColumn(c["name"], parse_type(c["type"]), c["spelled"], c["comment"]) for c in item["columns"]
    )
    return TableShape(columns, tuple(item["primary_key"]), item["comment"], item["partial"])


@dataclass(frozen=True, slots=True)
class ShapeFiles:
    """Shapes of a capture beside its checkpoint: a file each, named by its digest, never changed."""

    checkpoint: str

    def put(self, shape: TableShape) -> str:
        """Keep a shape; gives its digest."""
        data = json.dumps(to_json(shape), sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()[:32]
        path = self.path(digest)
        io = file_io_for(path)
        if not io.exists(path):
            io.write_new(path, data)
        return digest

    def get(self, digest: str) -> TableShape | None:
        """The shape of a digest; None where its file is lost."""
        path = self.path(digest)
        try:
            return of_json(json.loads(file_io_for(path).read(path)))
        except FileNotFoundError:
            return None

    def path(self, digest: str) -> str:
        """Where the shape of a digest is."""
        return join(location(self.checkpoint), FOLDER, f"{digest}.json")


def grown(before: TableShape, after: tuple[ShapeColumn, ...], *, inferred: bool = False) -> TableShape:
    """The shape that takes rows of both: no column goes and none is renamed, new ones come last and may be
    NULL, types widen, and what has no common type becomes STRING. `inferred`: types are
    guesses from values, and one that does not widen is none."""
    new = {c.name: c for c in after}
    columns = tuple(
        _grown(c, new.get(c.name), c.name in before.primary_key, inferred) for c in before.columns
    )
    there = {c.name for c in before.columns}
    added = tuple(replace(c, type=c.type.as_nullable()) for c in after if c.name not in there)
    return replace(before, columns=(*columns, *added))


def _grown(before: ShapeColumn, after: ShapeColumn | None, in_key: bool, inferred: bool) -> ShapeColumn:
    if after is None:
        return before if in_key else replace(before, type=before.type.as_nullable())
    both = _of_guesses if inferred else _of_both
    kind = both(before.type.as_nullable(), after.type.as_nullable())
    if in_key or not (before.type.nullable or after.type.nullable):
        kind = kind.not_null()
    if kind == before.type:
        return before
    return replace(before, type=kind, spelled=after.spelled)


def _of_both(before: DataType, after: DataType) -> DataType:
    return common_type(before, after) or t.STRING


def _of_guesses(before: DataType, after: DataType) -> DataType:
    return t.DOUBLE if {before.root, after.root} == {"BIGINT", "DOUBLE"} else before
