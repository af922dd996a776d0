"""Contender: pypaimon, with its native core (`native`) or without (`python`). Runs in pypaimon's environment.

pypaimon has no compaction. Its native routes fall back to Python where they do not apply. With `native` that
is an error for writing and reading, so that no figure of the one stands under the name of the other; commits
to a file-system catalog are always in Python.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory
from pypaimon.read.table_read import TableRead
from pypaimon.schema.data_types import PyarrowFieldParser

from notebooks.bench.contenders import line_items
from notebooks.bench.contenders.serve import Answer, serve

NATIVE = ("write.native.enabled", "read.native.enabled", "commit.native.enabled")
KIND = "l_kind"


def main(native: bool) -> None:
    if native:
        TableRead._native_fallback = _no_fallback
    steps: dict[str, Callable[..., Answer]]
    steps = {"load": _load, "update": _update, "scan": _scan, "commits": _commits, "plan": _plan}
    all_steps: dict[str, Callable[..., Answer]] = {n: functools.partial(s, native) for n, s in steps.items()}
    changing = {"upserts": _upserts, "deletes": _deletes, "gets": _gets}
    serve(all_steps | {n: functools.partial(s, native) for n, s in changing.items()} | {"read": _read})


def _no_fallback(_: TableRead, reason: str, *__: Any, **___: Any) -> None:
    raise RuntimeError(f"pypaimon reads without its native core: {reason}")


def _open(native: bool, path: str) -> Any:
    """The table in directory WAREHOUSE/DATABASE.db/TABLE."""
    place = Path(path)
    catalog = CatalogFactory.create({"warehouse": str(place.parents[1])})
    table = catalog.get_table(f"{place.parent.name.removesuffix('.db')}.{place.name}")
    return table.copy(dict.fromkeys(NATIVE, "true" if native else "false"))


def _read(files: str, months: str) -> Answer:
    return line_items.total(line_items.read(files.split(","), months=months == "true"))


def _load(native: bool, path: str, files: str) -> Answer:
    table = _open(native, path)
    _write(native, table, line_items.read(files.split(","), months=_has_months(table)))
    return {}


def _update(native: bool, path: str, files: str) -> Answer:
    table = _open(native, path)
    _write(native, table, line_items.changed(files.split(","), months=_has_months(table)))
    return {}


def _has_months(table: Any) -> bool:
    return any(field.name == "l_year" for field in table.fields)


def _write(native: bool, table: Any, batches: Iterable[pa.RecordBatch], *, kind: str = "+I") -> None:
    """One commit. A table that is deleted from has a column of row kinds, pypaimon's only way to delete."""
    schema = PyarrowFieldParser.from_paimon_schema(table.fields)
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    try:
        for batch in batches:
            if KIND in schema.names:
                batch = batch.append_column(schema.field(KIND), pa.repeat(kind, len(batch)))
            writer.write_arrow_batch(batch.cast(schema))
        commit.commit(writer.prepare_commit())
        if native and type(writer).__name__ != "NativeTableWrite":
            raise RuntimeError("pypaimon writes without its native core")
    finally:
        writer.close()
        commit.close()


def _upserts(native: bool, path: str, files: str) -> Answer:
    """One commit a file."""
    table = _open(native, path)
    return line_items.timed(files.split(","), lambda batches: _write(native, table, batches))


def _deletes(native: bool, path: str, files: str) -> Answer:
    table = _open(native, path)
    return line_items.timed(files.split(","), lambda batches: _write(native, table, batches, kind="-D"))


def _gets(native: bool, path: str, file: str) -> Answer:
    """One plan and one read a key."""
    table = _open(native, path)

    def get(key: dict[str, int]) -> dict[str, Any] | None:
        builder = table.new_read_builder()
        predicates = builder.new_predicate_builder()
        builder = builder.with_filter(
            predicates.and_predicates([predicates.equal(k, v) for k, v in key.items()])
        )
        rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
        return rows[0] if rows else None

    return line_items.looked_up(file, get)


def _scan(native: bool, path: str) -> Answer:
    builder = _open(native, path).new_read_builder()
    splits = builder.new_scan().plan().splits()
    return line_items.total(builder.new_read().to_arrow_batch_reader(splits))


def _commits(native: bool, path: str, count: str, rows: str) -> Answer:
    table = _open(native, path)
    times = []
    for batch in line_items.small(int(count), int(rows)):
        began = time.perf_counter()
        _write(native, table, [batch])
        times.append(time.perf_counter() - began)
    return {"ms": ",".join(f"{t * 1000:.3f}" for t in times)}


def _plan(native: bool, path: str, where: str = "", _: str = "") -> Answer:
    """`where` is `column=number` or nothing."""
    column, _, value = where.partition("=")
    began = time.perf_counter()
    builder = _open(native, path).new_read_builder()
    if where:
        builder = builder.with_filter(builder.new_predicate_builder().equal(column, int(value)))
    splits = builder.new_scan().plan().splits()
    return {"ms": f"{(time.perf_counter() - began) * 1000:.3f}", "splits": len(splits)}


if __name__ == "__main__":
    main(sys.argv[1] == "native")
