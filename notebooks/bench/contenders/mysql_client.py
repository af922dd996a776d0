"""Contender: mysqlclient, in an environment of its own: rows of a query over one connection, unbuffered, as
Arrow batches of the types that the table has."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import MySQLdb
import MySQLdb.cursors
import pyarrow as pa
import pyarrow.compute as pc

from notebooks.bench.contenders.serve import Answer, serve

_MONEY = pa.decimal128(15, 2)
_TYPES = [*[pa.int64()] * 3, pa.int32(), *[_MONEY] * 4, *[pa.string()] * 2, *[pa.date32()] * 3]
_TYPES += [pa.string()] * 3
_BATCH_ROWS = 65_536


def main() -> None:
    serve({"rows": _rows})


def _rows(url: str, password_file: str, table: str) -> Answer:
    at = urlsplit(url)
    connection = MySQLdb.connect(
        host=at.hostname,
        port=at.port,
        user=at.username,
        password=Path(password_file).read_text(encoding="utf-8"),
        database=at.path.strip("/"),
        conv={},  # bytes, which Arrow casts
        cursorclass=MySQLdb.cursors.SSCursor,
    )
    rows = keys = 0
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        while fetched := cursor.fetchmany(_BATCH_ROWS):
            columns = [
                pa.array(values, pa.binary()).cast(pa.string()).cast(kind)
                for values, kind in zip(zip(*fetched, strict=True), _TYPES, strict=True)
            ]
            rows += len(fetched)
            keys += pc.sum(columns[0]).as_py()
    connection.close()
    return {"rows": rows, "keys": keys}


if __name__ == "__main__":
    main()
