"""A program that captures a database, made to be killed: `capture_program.py LAKE URL PASSWORD_FILE`. Prints
`batch` after each batch, and runs until it is killed or its stdin ends."""

from __future__ import annotations

import sys
from typing import Any

import tablestore as ts
from tablestore.spark import session as spark_session

DATABASE, USER = "shop", "capture"


def start(lake: ts.Lake, url: str, password_file: str, **more: Any) -> Any:
    """Start the capture, or go on with it."""
    return lake.ingest(
        f"{url}/{DATABASE}",
        into="ods",
        name=USER,
        password_file=password_file,
        interval="100ms",
        chunk_rows=60,
        options={"bucket": 1},
        **more,
    )


def main(warehouse: str, url: str, password_file: str) -> None:
    job = start(
        ts.connect(warehouse),
        url,
        password_file,
        spark=spark_session("capture-program", cores=2, memory="512m"),
        on_batch=lambda report: print("batch", flush=True),
    )
    sys.stdin.read()
    job.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
