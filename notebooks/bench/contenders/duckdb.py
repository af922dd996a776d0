"""Contender: duckdb, in an environment of its own: a table with a primary key in a database file. It is no
lake table: one process at a time, no history. Compaction is a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

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
            "get_many": _get_many,
            "compact": _compact,
        }
    )


@contextmanager
def _open(path: str) -> Iterator[duckdb.DuckDBPyConnection]:
    Path(path).mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect(f"{path}/lineitem.duckdb")
    try:
        yield connection
    finally:
        connection.close()


def _read(files: str, months: str) -> Answer:
    return line_items.total(line_items.read(files.split(","), months=months == "true"))


def _load(path: str, files: str) -> Answer:
    batches = line_items.read(files.split(","), months=False)
    first = next(batches)
    with _open(path) as db:
        empty = pa.Table.from_batches([first.slice(0, 0)])
        db.register("s", empty)
        columns = db.execute("describe s").fetchall()
        fields = ", ".join(f"{name} {kind} not null" for name, kind, *_ in columns)
        db.execute(f"create table t ({fields}, primary key (l_orderkey, l_linenumber))")

        def every() -> Iterator[pa.RecordBatch]:
            yield first
            yield from batches

        db.register("s", pa.RecordBatchReader.from_batches(first.schema, every()))
        db.execute("insert into t select * from s")
    return {}


def _changes(path: str, files: str, sql: str) -> Answer:
    with _open(path) as db:

        def change(batches: list[pa.RecordBatch]) -> None:
            db.register("s", pa.Table.from_batches(batches))
            db.execute(sql)

        return line_items.timed(files.split(","), change)


def _upserts(path: str, files: str) -> Answer:
    """One statement a file."""
    return _changes(path, files, "insert or replace into t select * from s")


def _deletes(path: str, files: str) -> Answer:
    return _changes(path, files, f"delete from t using s where {SAME_KEY}")


def _scan(path: str) -> Answer:
    with _open(path) as db:
        return line_items.total(_batches(db.execute("select * from t")))


def _batches(result: duckdb.DuckDBPyConnection) -> pa.RecordBatchReader:
    return result.to_arrow_reader(line_items.BATCH_ROWS)


def _gets(path: str, file: str) -> Answer:
    with _open(path) as db:

        def get(key: dict[str, int]) -> dict[str, Any] | None:
            where = " and ".join(f"{name} = {value}" for name, value in key.items())
            rows = _batches(db.execute(f"select * from t where {where}")).read_all().to_pylist()
            return rows[0] if rows else None

        return line_items.looked_up(file, get)


def _get_many(path: str, file: str) -> Answer:
    with _open(path) as db:
        return line_items.total(_batches(db.execute(f"select t.* from t, '{file}' s where {SAME_KEY}")))


def _compact(path: str) -> Answer:
    with _open(path) as db:
        db.execute("checkpoint")
    return {}


if __name__ == "__main__":
    main()
