"""Contender: mysql-replication, in an environment of its own: row images of the binlog as Python values."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from notebooks.bench.contenders.serve import Answer, serve

_IMAGES = ("values", "before_values", "after_values")


def main() -> None:
    serve({"images": _images})


def _images(url: str, password_file: str, table: str, start: str, end: str) -> Answer:
    at = urlsplit(url)
    stream = BinLogStreamReader(
        {
            "host": at.hostname,
            "port": at.port,
            "user": at.username,
            "passwd": Path(password_file).read_text(encoding="utf-8"),
        },
        server_id=77_001,
        log_file=json.loads(start)[0],
        log_pos=json.loads(start)[1],
        resume_stream=True,
        only_events=[DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent],
        only_tables=[table],
    )
    images = keys = 0
    for event in stream:
        if stream.log_pos > json.loads(end)[1]:
            break
        for row in event.rows:
            values = [row[name] for name in _IMAGES if name in row]
            images += len(values)
            keys += sum(value["l_orderkey"] for value in values)
    stream.close()
    return {"images": images, "keys": keys}


if __name__ == "__main__":
    main()
