"""Contender: delta-rs, in an environment of its own. Upserts and deletes are merges on the key; a delta table
has no key of its own, so nothing checks the load. Lookups are SQL by its query engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from notebooks.bench.contenders import line_items
from notebooks.bench.contenders.serve import Answer, serve

SAME_KEY = "t.l_orderkey = s.l_orderkey and t.l_linenumber = s.l_linenumber"


def main() -> None:
    serve(
        {
            "read": _read,
            "load": _load,
            "upserts": _upserts,
            "deletes": _deletes,
            "scan": _scan,
            "gets": _gets,
            "compact": _compact,
        }
    )


def _read(files: str, months: str) -> Answer:
    return line_items.total(line_items.read(files.split(","), months=months == "true"))


def _load(path: str, files: str) -> Answer:
    batches = line_items.read(files.split(","), months=False)
    first = next(batches)
    Path(path).mkdir(parents=True)

    def every() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    write_deltalake(path, pa.RecordBatchReader.from_batches(first.schema, every()), mode="append")
    return {}


def _merge(table: DeltaTable, batches: list[pa.RecordBatch]) -> Any:
    rows = pa.Table.from_batches(batches)
    return table.merge(rows, predicate=SAME_KEY, source_alias="s", target_alias="t")


def _upserts(path: str, files: str) -> Answer:
    """One merge a file."""
    table = DeltaTable(path)

    def upsert(batches: list[pa.RecordBatch]) -> None:
        _merge(table, batches).when_matched_update_all().when_not_matched_insert_all().execute()

    return line_items.timed(files.split(","), upsert)


def _deletes(path: str, files: str) -> Answer:
    table = DeltaTable(path)
    return line_items.timed(
        files.split(","), lambda rows: _merge(table, rows).when_matched_delete().execute()
    )


def _query(path: str, sql: str) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_stream(QueryBuilder().register("t", DeltaTable(path)).execute(sql))


def _scan(path: str) -> Answer:
    return line_items.total(_query(path, "select * from t"))


def _gets(path: str, file: str) -> Answer:
    table = DeltaTable(path)
    query = QueryBuilder().register("t", table)

    def get(key: dict[str, int]) -> dict[str, Any] | None:
        where = " and ".join(f"{name} = {value}" for name, value in key.items())
        fetched = pa.RecordBatchReader.from_stream(query.execute(f"select * from t where {where}"))
        rows = fetched.read_all().to_pylist()
        return rows[0] if rows else None

    return line_items.looked_up(file, get)


def _compact(path: str) -> Answer:
    DeltaTable(path).optimize.compact()
    return {}


if __name__ == "__main__":
    main()
