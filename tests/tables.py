"""Specs of the small tables that tests work on: what they look like, and how they are created.

A file whose tables share columns or options has a spec of its own: `KEYED.with_options(WRITE_ONLY)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tablestore as ts
from tablestore.core.env import SYSTEM, Env
from tablestore.format.schema import TableSchema, create_schema
from tablestore.format.types.arrow_types import DataField, DataType, parse_type
from tablestore.io.fileio import FileIO

WRITE_ONLY = {"write-only": True}
KEEP_ALL = {"snapshot.num-retained.min": 1000}


@dataclass(frozen=True)
class TableSpec:
    """Columns, keys and options of a table, and the environment that it lives in."""

    columns: Mapping[str, Any]
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    new_env: Callable[[], Env] = lambda: SYSTEM

    def with_options(self, options: Mapping[str, Any], **changes: Any) -> TableSpec:
        """This with more options; `changes` are other fields."""
        return replace(self, options={**self.options, **options}, **changes)

    def create(
        self,
        warehouse: Path | str,
        options: Mapping[str, Any] | None = None,
        *,
        io: FileIO | None = None,
        env: Env | None = None,
        **changes: Any,
    ) -> ts.Table:
        """The empty table `d.t` in the lake at `warehouse`, with more options; `changes` are other fields."""
        spec = self.with_options(options or {}, **changes)
        return ts.connect(warehouse, io=io, env=env or spec.new_env()).create_table(
            "d.t",
            schema=spec.columns,
            primary_key=spec.primary_key,
            partition_by=spec.partition_by,
            options=spec.options,
        )


KEYED = TableSpec({"k": ts.BIGINT, "v": ts.STRING}, primary_key=("k",))
"""One bucket."""
PARTITIONED = TableSpec(
    {"p": ts.STRING, "k": ts.INT, "v": ts.STRING}, primary_key=("p", "k"), partition_by=("p",)
)
"""One bucket in each partition."""
APPEND = replace(PARTITIONED, primary_key=())
"""Without a key."""


def schema_of(
    columns: Mapping[str, Any],
    *,
    primary_key: tuple[str, ...] = (),
    partition_by: tuple[str, ...] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> TableSchema:
    """The first schema of a table; its columns are types, texts of types, or whole fields."""
    fields = []
    for name, column in columns.items():
        kind = column if isinstance(column, DataType | DataField) else parse_type(column)
        fields.append(kind if isinstance(kind, DataField) else DataField(0, name, kind))
    return create_schema(
        tuple(fields),
        primary_key=primary_key,
        partition_by=partition_by,
        options=options or {},
        comment=comment,
        time_millis=0,
    )


def keys(table: ts.Table) -> list[int]:
    """The values of column `k`, ascending, as who opens the table anew reads them."""
    return sorted(ts.open(table.location).scan(["k"]).to_arrow()["k"].to_pylist())
