"""Runs inside pypaimon's environment: one JSON request a line on stdin, one JSON answer a line on stdout.

Rows travel as Arrow IPC files named in the request. Nothing of the project is imported here. Every
request opens its table anew, so what another process committed in between is seen.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.schema.data_types import PyarrowFieldParser

Request = dict[str, Any]


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not look like an answer
    for line in sys.stdin:
        try:
            request = json.loads(line)
            answer = {"ok": True, "value": OPERATIONS[request["operation"]](request)}
        except Exception as error:  # the answer is the error, whatever it is
            name = type(error).__name__
            answer = {"ok": False, "error": f"{name}: {error}", "traceback": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


def create(request: Request) -> None:
    catalog = _catalog(request)
    catalog.create_database(request["table"].split(".")[0], True)
    schema = Schema.from_pyarrow_schema(
        _rows(request["rows"]).schema,
        partition_keys=request["partition_keys"],
        primary_keys=request["primary_keys"],
        options=request["options"],
    )
    catalog.create_table(request["table"], schema, False)


def read(request: Request) -> int:
    """Write the rows of the table to `out`; their number."""
    builder = _table(request).new_read_builder()
    if request["columns"] is not None:
        builder = builder.with_projection(request["columns"])
    splits = builder.new_scan().plan().splits()
    schema = PyarrowFieldParser.from_paimon_schema(builder.read_type())
    rows = builder.new_read().to_arrow(splits) if splits else None
    if rows is None:
        rows = schema.empty_table()
    with pa.OSFile(request["out"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return int(rows.num_rows)


def write(request: Request) -> int | None:
    """Commit `rows`; the id of the newest snapshot afterwards."""
    table = _table(request)
    builder = table.new_batch_write_builder()
    if request["overwrite"]:
        builder = builder.overwrite({})
    writer, commit = builder.new_write(), builder.new_commit()
    try:
        writer.write_arrow(_rows(request["rows"]).cast(_arrow_schema(table)))
        commit.commit(writer.prepare_commit())
    finally:
        writer.close()
        commit.close()
    newest = _table(request).snapshot_manager().get_latest_snapshot()
    return None if newest is None else int(newest.id)


def snapshots(request: Request) -> list[dict[str, Any]]:
    manager = _table(request).snapshot_manager()
    newest = manager.get_latest_snapshot()
    if newest is None:
        return []
    oldest = manager.try_get_earliest_snapshot()
    actual = (manager.get_snapshot_by_id(number) for number in range(oldest.id, newest.id + 1))
    return [
        {
            "id": snapshot.id,
            "schema_id": snapshot.schema_id,
            "commit_kind": snapshot.commit_kind,
            "commit_user": snapshot.commit_user,
            "commit_identifier": snapshot.commit_identifier,
            "total_record_count": snapshot.total_record_count,
            "delta_record_count": snapshot.delta_record_count,
        }
        for snapshot in actual
        if snapshot is not None
    ]


def tables(request: Request) -> list[str]:
    return sorted(_catalog(request).list_tables(request["table"]))


def _catalog(request: Request) -> Any:
    return CatalogFactory.create({"warehouse": request["warehouse"]})


def _table(request: Request) -> Any:
    table = _catalog(request).get_table(request["table"])
    return table.copy(request["options"]) if request.get("options") else table


def _arrow_schema(table: Any) -> pa.Schema:
    return PyarrowFieldParser.from_paimon_schema(table.fields)


def _rows(path: str) -> pa.Table:
    with pa.OSFile(path, "rb") as source:
        return pa.ipc.open_file(source).read_all()


OPERATIONS = {"create": create, "read": read, "write": write, "snapshots": snapshots, "tables": tables}

if __name__ == "__main__":
    main()
