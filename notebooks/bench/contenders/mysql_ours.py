"""Contender: our reader of MariaDB and MySQL: rows over one connection, images of the binlog, an ingest."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.compute as pc

import tablestore as ts
from notebooks.bench.contenders.serve import Answer, serve
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.binlog import RowImages, read_log
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.mysql.snapshot import read_range, read_view


def main() -> None:
    serve({"rows": _rows, "images": _images, "spark": _spark, "ingest": _ingest})


def _rows(url: str, password_file: str, table: str) -> Answer:
    address = Address.parse(url, password_file=password_file)
    rows = keys = 0
    with Connection.open(address) as connection:
        source = SourceTable.read(connection, address.database, table)
        with read_view(connection, dialect_of(connection)):
            for batch in read_range(connection, source):
                rows += batch.num_rows
                keys += pc.sum(batch.column(0)).as_py() or 0
    return {"rows": rows, "keys": keys}


def _images(url: str, password_file: str, table: str, start: str, end: str) -> Answer:
    address = Address.parse(url, password_file=password_file)
    with Connection.open(address) as connection:
        source = SourceTable.read(connection, address.database, table)
    first, last = (LogPosition.from_json(json.loads(text)) for text in (start, end))
    images = keys = 0
    for piece in read_log(address, [source], start=first, until=last):
        if isinstance(piece, RowImages):
            images += piece.batch.num_rows
            keys += pc.sum(piece.batch.column(0)).as_py()
    return {"images": images, "keys": keys}


def _spark() -> Answer:
    """The Spark session that an ingest runs on."""
    ts.spark.session("bench cdc", cores=2)
    return {}


def _ingest(url: str, password_file: str, warehouse: str, chunk_rows: str) -> Answer:
    lake: Any = ts.connect(warehouse)
    job = lake.ingest(
        url,
        into="dwd_lineitem",
        options={"bucket": 4},
        password_file=password_file,
        follow=False,
        chunk_rows=int(chunk_rows),
    )
    job.wait()
    table = lake.table("default.dwd_lineitem")
    return {"rows": table.scan().count(), "batches": len(job.reports())}


if __name__ == "__main__":
    main()
