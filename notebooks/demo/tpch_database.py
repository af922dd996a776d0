"""TPC-H in a database server: its eight tables, loaded fast, and the refresh functions as transactions.

Derived from TPC-H, not comparable to published results. Rows are those of `datasets.tpch`; where refresh
pairs are cut into transactions follows from the scale, the pair and the seed alone (`datasets.cdc.plan`).
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from datasets import tpch
from datasets.cdc import plan
from datasets.cdc.generate import chunk_count
from datasets.errors import DatasetError
from datasets.tpch.rows import OrderRows

DATABASE = "tpch"
Connect = Callable[[], Any]
"""Opens a connection of PyMySQL by somebody who may write, with LOAD DATA LOCAL allowed; for refresh pairs
one of psycopg that commits each statement is as good."""
Sizes = Literal["dbgen", "spec"]
DEFINITIONS: Mapping[str, str] = {
    definition.split()[2]: definition
    for definition in re.findall(
        r"CREATE TABLE \w+ [^;]+", (Path(__file__).parent / "tpch.sql").read_text(encoding="utf-8")
    )
}
"""The statement that makes each table, those that others refer to first."""
TABLES = tuple(DEFINITIONS)
TEXT = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
_LOADERS = 2
TWICE = "partsupp"
"""Below scale factor 0.02 the generator gives some of its keys twice; one row stays."""


def load(
    connect: Connect,
    scale_factor: tpch.Scale | str,
    *,
    tables: Sequence[str] = TABLES,
    database: str = DATABASE,
    show: Callable[[int], None] = lambda rows: None,
) -> int:
    """Make the database with these tables and fill them; gives the rows.

    `show` is called with the rows that were sent so far. The load is not in the binlog: it is what was there
    before. Raises what the server says, for instance that a table is there already.
    """
    scale = tpch.Scale.of(scale_factor)
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {database}")
        cursor.execute(f"USE {database}")
        for table in TABLES:
            if table in tables:
                cursor.execute(DEFINITIONS[table])
    return load_files(
        scale,
        tables,
        lambda table, path, count: _load_file(connect, f"{database}.{table}", path, count),
        show,
    )


def load_files(
    scale: tpch.Scale,
    tables: Sequence[str],
    load_file: Callable[[str, Path, Callable[[int], None]], int],
    show: Callable[[int], None],
) -> int:
    """Load the files of tables, some at once: `load_file(table, file, count)` gives the rows that are there
    then, and calls `count` with those that it sent. Gives all of them."""
    files = sorted(_files(scale, tables), key=lambda each: each[0] != "lineitem")  # the largest first
    sent, rows, lock = 0, 0, threading.Lock()

    def count(more: int) -> None:
        nonlocal sent
        with lock:
            sent += more
            show(sent)

    with ThreadPoolExecutor(_LOADERS) as pool:
        for loaded in pool.map(lambda each: load_file(each[0], each[1], count), files):
            rows += loaded
    return rows


def _files(scale: tpch.Scale, tables: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Tables and their files; those that change streams have are divided as there, and so made once."""
    for parts, some in (
        (chunk_count(scale), [t for t in tables if t in tpch.SCHEMAS]),
        (1, [t for t in tables if t not in tpch.SCHEMAS]),
    ):
        for table, paths in tpch.base(scale, some, parts=parts, progress=False).items():
            yield from ((table, path) for path in paths)


def _load_file(connect: Connect, table: str, path: Path, count: Callable[[int], None]) -> int:
    """One file by LOAD DATA LOCAL through a pipe; nothing of it lies on a disk as text."""
    with tempfile.TemporaryDirectory(prefix="workbench-load-") as folder:
        pipe = os.path.join(folder, "rows")
        os.mkfifo(pipe)
        feeder = threading.Thread(target=_feed, args=(pipe, path, count), daemon=True)
        feeder.start()
        try:
            with connect() as connection, connection.cursor() as cursor:
                cursor.execute("SET sql_log_bin = 0")
                loaded: int = cursor.execute(
                    f"LOAD DATA LOCAL INFILE '{pipe}' INTO TABLE {table} CHARACTER SET utf8mb4"
                )
        finally:
            _release(pipe)
            feeder.join()
        if loaded != (whole := pq.read_metadata(path).num_rows) and not table.endswith(TWICE):
            raise DatasetError(f"{table}: the server took {loaded:,} of {whole:,} rows")
        return loaded


def _feed(pipe: str, path: Path, count: Callable[[int], None]) -> None:
    try:
        with open(pipe, "wb", buffering=1 << 20) as out:
            for batch in tpch.read(path, batch_rows=1 << 16):
                csv.write_csv(batch, out, TEXT)
                count(batch.num_rows)
    except BrokenPipeError:
        return  # the server refused; its error is on its way


def _release(pipe: str) -> None:
    """Let go of a feeder that nobody ever read from."""
    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))


def refresh_sizes(scale: tpch.Scale) -> Sizes:
    """As dbgen cuts refresh sets, or where those are empty as specified."""
    return "dbgen" if scale.refresh_orders("dbgen") else "spec"


class RefreshWriter:
    """Refresh pairs as transactions of a database, by a thread: of each pair first the inserts of orders and
    then their lines (RF1), then the deletes of orders and then their lines (RF2), an order and its lines in
    one transaction. What was done before is not done again.

    `keep` ends an INSERT so that a row that is there stays, in the words of the server. `seconds_a_pair` 0:
    without a pause. `error` is what ended it early. In a `with` block it is stopped at the end.
    """

    def __init__(
        self,
        connect: Connect,
        scale_factor: tpch.Scale | str,
        *,
        pairs: int,
        seed: int = 0,
        seconds_a_pair: float = 1.0,
        database: str = DATABASE,
        tables: Sequence[str] = ("orders", "lineitem"),
        keep: str = "ON DUPLICATE KEY UPDATE {0} = {0}",
    ) -> None:
        self._keep = keep
        self._connect, self._scale = connect, tpch.Scale.of(scale_factor)
        self._pairs, self._seed, self._pause = pairs, seed, seconds_a_pair
        self._database, self._tables = database, tuple(tables)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refresh pairs", daemon=True)
        self.pairs_done, self.transactions, self.rows = 0, 0, 0
        self.commits: list[float] = []
        self.error: BaseException | None = None

    def __enter__(self) -> RefreshWriter:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End it after the transaction at hand."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def wait(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def finished(self) -> bool:
        """Whether every pair is in the database."""
        return self.pairs_done == self._pairs

    def _run(self) -> None:
        try:
            with self._connect() as connection:
                for pair in range(1, self._pairs + 1):
                    if not self._write_pair(connection, pair):
                        return
                    self.pairs_done = pair
        except BaseException as e:  # shown by who waits for the thread
            self.error = e

    def _write_pair(self, connection: Any, pair: int) -> bool:
        """Whether all of it was written."""
        sizes = refresh_sizes(self._scale)
        changes = tpch.refresh(self._scale, pair, sizes=sizes)
        cuts = [
            plan.transactions(self._scale, sizes, self._seed, pair=pair, half=half)
            for half in (plan.INSERTS, plan.DELETES)
        ]
        count = sum(map(len, cuts))
        due = time.monotonic()
        for half, transactions in enumerate(cuts):
            for first, last in zip(transactions.starts.tolist(), transactions.ends.tolist(), strict=True):
                due += self._pause / count
                if self._stopped.wait(max(0.0, due - time.monotonic())):
                    return False
                with connection.cursor() as cursor:
                    cursor.execute("BEGIN")
                    if half == plan.INSERTS:
                        self.rows += self._insert(cursor, changes.inserted, first, last)
                    else:
                        self.rows += self._delete(cursor, changes.delete_keys[first:last].to_pylist())
                connection.commit()
                self.transactions += 1
                self.commits.append(time.time())
        return True

    def _insert(self, cursor: Any, rows: OrderRows, first: int, last: int) -> int:
        """The orders of these places and their lines; one that is there already stays as it is."""
        begin, end = np.searchsorted(rows.line_order, [first, last]).tolist()
        of_tables = {
            "orders": rows.orders.slice(first, last - first),
            "lineitem": rows.lineitem.slice(begin, end - begin),
        }
        return sum(self._insert_into(cursor, table, of_tables[table]) for table in self._tables)

    def _insert_into(self, cursor: Any, table: str, rows: pa.RecordBatch) -> int:
        names = rows.schema.names
        marks = ", ".join(["%s"] * len(names))
        values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        statement = f"INSERT INTO {self._database}.{table} ({', '.join(names)}) VALUES ({marks})"
        cursor.executemany(f"{statement} {self._keep.format(names[0])}", list(values))
        return rows.num_rows

    def _delete(self, cursor: Any, keys: Iterable[int]) -> int:
        key_list = ", ".join(map(str, keys))
        statements = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
        rows = 0
        for table in self._tables:
            cursor.execute(f"DELETE FROM {self._database}.{table} WHERE {statements[table]} IN ({key_list})")
            rows += cursor.rowcount
        return rows
