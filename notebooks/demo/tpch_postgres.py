"""TPC-H in PostgreSQL: the tables of `tpch_database`, loaded by COPY."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyarrow import csv

from datasets import tpch
from datasets.errors import DatasetError
from notebooks.demo.tpch_database import DATABASE, DEFINITIONS, TABLES, TEXT, TWICE, load_files

SCHEMA = "public"
KEEP = "ON CONFLICT DO NOTHING"
"""Ends an INSERT so that a row that is there stays."""


def load(
    connect: Callable[[str], Any],
    scale_factor: tpch.Scale | str,
    *,
    database: str = DATABASE,
    show: Callable[[int], None] = lambda rows: None,
) -> int:
    """Make the database with the tables of TPC-H and fill them; gives the rows.

    `connect` opens a connection of psycopg to a database, by somebody who may make one. `show` is called with
    the rows that were sent so far. Raises what the server says, for instance that the database is there.
    """
    scale = tpch.Scale.of(scale_factor)
    with connect("postgres") as connection:
        connection.execute(f"CREATE DATABASE {database}")
    with connect(database) as connection:
        for definition in DEFINITIONS.values():
            connection.execute(definition)

    def load_file(table: str, path: Path, count: Callable[[int], None]) -> int:
        """One file by COPY; where its keys may be there twice, by way of a table that has none."""
        into = "copied" if table == TWICE else table
        with connect(database) as connection, connection.cursor() as cursor:
            if into != table:
                cursor.execute(f"CREATE TEMPORARY TABLE {into} (LIKE {table})")
            with cursor.copy(f"COPY {into} FROM STDIN") as copy:
                for batch in tpch.read(path, batch_rows=1 << 16):
                    csv.write_csv(batch, text := BytesIO(), TEXT)
                    copy.write(text.getbuffer())
                    count(batch.num_rows)
            if into != table:
                cursor.execute(f"INSERT INTO {table} SELECT * FROM {into} {KEEP}")
            loaded: int = cursor.rowcount
        if loaded != (whole := pq.read_metadata(path).num_rows) and table != TWICE:
            raise DatasetError(f"{table}: the server took {loaded:,} of {whole:,} rows")
        return loaded

    return load_files(scale, TABLES, load_file, show)
