"""Tiering from a real Fluss: lake = log, each row once, whoever is killed meanwhile."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablestore as ts
from notebooks.bench.tier_scale import with_leaders
from tablestore.core.errors import TablestoreError
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.tables import FlussTable
from tablestore.fluss.write import TableWriter
from tablestore.format.types.arrow_types import BIGINT, INT, STRING
from tests.fluss.all_types import TYPES, random_rows
from tests.peers.java_paimon import JavaPaimon
from tests.servers.fluss import KILLED_SESSION_SECONDS, LAKE, Fluss
from tests.suite import counterparts

COLUMNS = {"id": BIGINT, "text": STRING}


def until(true: Callable[[], object], seconds: float = 240.0, what: str = "") -> None:
    over = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < over, f"it never came to that: {what}"
        time.sleep(0.1)


def numbers(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "text": [f"row {i}" for i in ids]})


@contextlib.contextmanager
def service(fluss: Fluss, lake: ts.Lake, tables: Sequence[FlussTable], **options: object) -> Iterator[object]:
    actual = lake.tier(f"fluss://{fluss.address}", tables=[str(t.path) for t in tables], **options)
    try:
        yield actual
    finally:
        actual.stop()


def in_lake(lake: ts.Lake, table: FlussTable) -> pa.Table:
    path = str(table.path)
    return lake.table(path).scan().to_arrow() if path in lake else table.arrow_schema.empty_table()


def log_end(fluss: Fluss, table: FlussTable) -> dict[object, int]:
    return dict(fluss.admin.offsets(table, fluss.admin.buckets(table)))


def is_tiered(fluss: Fluss, table: FlussTable) -> bool:
    """Whether the cluster knows a lake snapshot with all that is in the log now."""
    try:
        lake_snapshot = fluss.admin.lake_snapshot(table.path)
    except FlussError as e:
        if e.code != ErrorCode.UNKNOWN_SERVER_ERROR:
            raise
        return False  # a 0.9 removes the file of the snapshot before while it reads it for an answer
    wanted = {bucket: at for bucket, at in log_end(fluss, table).items() if at}
    return lake_snapshot is not None and all(lake_snapshot.offsets.get(b) == at for b, at in wanted.items())


def require_log_in_lake(fluss: Fluss, lake: ts.Lake, table: FlussTable) -> None:
    """Each row of the log is in the lake once, by bucket and offset."""
    actual = in_lake(lake, table)
    batches = sorted(fluss.read(table), key=lambda records: (records.bucket, records.base))
    log = [
        (b.bucket.bucket, b.base + i, row)
        for b in batches
        for i, row in enumerate(b.rows.column("id").to_pylist())
    ]
    columns = (actual[name].to_pylist() for name in ("__bucket", "__offset", "id"))
    assert sorted(zip(*columns, strict=True)) == log
    assert lake.table(str(table.path)).check() == []


@pytest.fixture(scope="module")
def java() -> Iterator[JavaPaimon]:
    counterparts.need("Java Paimon")
    with JavaPaimon() as peer:
        yield peer


def of_all_types(first: int, count: int, seed: int) -> pa.Table:
    days = pa.array([f"day-{i % 3}" for i in range(first, first + count)])
    keys = [pa.array(range(first, first + count), pa.int64()), days]
    rows = random_rows(count, seed)
    return pa.table([*keys, *rows.columns], names=["id", "day", *rows.schema.names])


def same(actual: pa.Table, wanted: pa.Table) -> None:
    """The rows are equal, but for the forms that times have in a log and in a lake."""
    assert actual.num_rows == wanted.num_rows
    order = [("id", "ascending")]
    actual, wanted = actual.sort_by(order), wanted.sort_by(order)
    for name in wanted.schema.names:
        stored = wanted[name].cast(actual.schema.field(name).type)
        assert actual[name].equals(stored), name


def test_tables_of_all_types_are_tiered_while_rows_come(fluss: Fluss, tmp_path: Path, java: JavaPaimon):
    columns = {"id": BIGINT.not_null(), "day": STRING.not_null(), **TYPES}
    log = fluss.table(columns, buckets=2, properties=LAKE)
    keyed = fluss.table(columns, key=["id"], buckets=2, properties=LAKE)
    parts = fluss.table(columns, key=["id", "day"], partitions=["day"], buckets=1, properties=LAKE)
    tables = [log, keyed, parts]
    writers = [TableWriter(fluss.cluster, table) for table in tables]
    lake = ts.connect(tmp_path)
    first, second = of_all_types(0, 300, 1), of_all_types(250, 300, 2)
    writers[0].append(first)
    for writer in writers[1:]:
        writer.upsert(first)
    with service(fluss, lake, tables) as job:
        until(lambda: all(is_tiered(fluss, table) for table in tables), what="the first rows")
        writers[0].append(second)
        for writer in writers[1:]:
            writer.upsert(second)
            writer.delete(second.slice(0, 20))
        until(lambda: all(is_tiered(fluss, table) for table in tables), what="more rows")
        until(
            lambda: all(
                table_state.state == "Tiered" and table_state.lag_rows == 0 for table_state in job.tables()
            )
        )
        assert {table_state.table: table_state.reason for table_state in job.tables()} == {
            str(t.path): "" for t in tables
        }
    rows = pa.concat_tables([first, second])
    for kind, table in (("log", log), ("keyed", keyed), ("parts", parts)):
        actual = in_lake(lake, table)
        if kind == "log":
            assert sorted(actual["id"].to_pylist()) == sorted(rows["id"].to_pylist())
            same(actual.filter(pc.less(actual["id"], 250)), first.slice(0, 250))
        elif kind == "keyed":
            same(actual, pa.concat_tables([first.slice(0, 250), second.slice(20)]))
        created = lake.table(str(table.path))
        assert created.check() == []
        assert created.store.snapshots.latest().commit_user == "__fluss_lake_tiering"
        ours = sorted(actual["id"].to_pylist())
        assert (
            sorted(row[0] for row in java.read(created.location, columns=["id", "decimal_18"]).rows) == ours
        )
    assert lake.table(str(parts.path)).scan(where=ts.col("day") == "day-1").count() > 0


def test_a_snapshot_of_keys_is_read_where_the_lake_has_nothing(fluss: Fluss, tmp_path: Path):
    table = fluss.table({"id": BIGINT.not_null(), "v": INT}, key=["id"], buckets=2, properties=LAKE)
    writer = TableWriter(fluss.cluster, table)
    for turn in range(3):
        ids = np.arange(500)
        writer.upsert(pa.table({"id": ids, "v": np.full(500, turn, dtype=np.int32)}))
    until(lambda: len(fluss.admin.kv_snapshots(table)) == 2, what="snapshots of both buckets")
    writer.upsert(pa.table({"id": np.arange(5), "v": np.full(5, 9, dtype=np.int32)}))
    lake = ts.connect(tmp_path)
    with service(fluss, lake, [table], follow=False) as job:
        assert job.wait(240)
        assert [split.kind for split in job.rounds()[0].splits] == ["snapshot", "snapshot"]
    rows = in_lake(lake, table).sort_by("id")
    assert rows["v"].to_pylist() == [9] * 5 + [2] * 495
    assert is_tiered(fluss, table)


class Appending:
    """A thread that appends to a log table until its block ends; servers may go and come meanwhile."""

    def __init__(self, fluss: Fluss, table: FlussTable) -> None:
        self._writer, self._ended = TableWriter(fluss.cluster, table, seconds=240), threading.Event()
        self._may_append = threading.Event()
        self._may_append.set()
        self.rows, self._error = 0, None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._writer.append(numbers(self.rows, 500))
            except TablestoreError as e:
                self._error = e
                return
            self.rows += 500
            self._ended.wait(0.02)
            self._may_append.wait()

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """No rows come. A server that is killed loses what it got after it last wrote down how far its
        replicas are, every five seconds: with one replica nobody else has that."""
        self._may_append.clear()
        time.sleep(6)
        yield
        self._may_append.set()

    def __enter__(self) -> Appending:
        self._thread.start()
        return self

    def end(self) -> None:
        self._ended.set()
        self._may_append.set()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.end()
        assert self._error is None, self._error


class JobProcess:
    """`./workbench tier` in a process of its own."""

    def __init__(self, fluss: Fluss, lake: Path, *tables: FlussTable, options: Sequence[str] = ()) -> None:
        self._command = [sys.executable, "-P", "-m", "notebooks.cli", "tier", *options]
        self._command += ["--from", f"fluss://{fluss.address}", "--warehouse", str(lake), "--poll", "100ms"]
        self._command += [text for table in tables for text in ("--tables", str(table.path))]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()

    def stop(self) -> int:
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(240)


@pytest.mark.large
def test_kills_of_job_and_servers_leave_each_row_once(
    killed_fluss: Fluss, tmp_path: Path, seeds: tuple[int, ...]
):
    """A kill a round of `--rounds`, three without it; the job is killed again while the coordinator is
    down."""
    # A server that is killed leaves index files of full size, which it copies with their segments and cannot
    # read then: what is to be read to the last row stays on its disk.
    local = {**LAKE, "table.log.tiered.local-segments": "10000"}
    table = killed_fluss.table(COLUMNS, buckets=2, properties=local)
    lake, job = ts.connect(tmp_path), JobProcess(killed_fluss, tmp_path, table, options=["--log-columns"])
    kills = ["job", "tablet-0", "coordinator"] * (1 + len(seeds) // 3)
    rng = np.random.default_rng(seeds[0])
    job.start()
    with contextlib.closing(job), Appending(killed_fluss, table) as appending:
        for kill in kills[: len(seeds) if len(seeds) > 5 else 3]:
            before = in_lake(lake, table).num_rows
            until(
                lambda least=before: in_lake(lake, table).num_rows > least,
                what=f"rows before {kill}",
                seconds=300,
            )
            time.sleep(float(rng.random()) / 2)
            if kill == "job":
                job.kill()
                job.start()
                continue
            with appending.resting() if kill == "tablet-0" else contextlib.nullcontext():
                killed_fluss.servers.kill(kill)
                if kill == "coordinator":
                    job.kill()
                time.sleep(KILLED_SESSION_SECONDS + 1)  # so long its node in ZooKeeper outlives it
                killed_fluss.servers.start(kill)
                if kill == "coordinator":
                    job.start()
        appending.end()
        until(lambda: is_tiered(killed_fluss, table), seconds=300, what="the end of the log")
        assert job.stop() == 130
    assert in_lake(lake, table).num_rows >= appending.rows
    require_log_in_lake(killed_fluss, lake, table)


@pytest.mark.large
def test_two_services_at_once_and_tables_that_fail_or_are_made_again(fluss: Fluss, tmp_path: Path):
    table, bad, again = (fluss.table(COLUMNS, buckets=2, properties=LAKE) for _ in range(3))
    lake = ts.connect(tmp_path)
    lake.create_table(str(bad.path), schema={"other": ts.INT})
    TableWriter(fluss.cluster, bad).append(numbers(0, 10))
    TableWriter(fluss.cluster, again).append(numbers(0, 100))
    tables = [table, bad, again]

    def refusals() -> list[str]:
        """Why rounds of the bad table failed."""
        rounds = [*first_service.rounds(), *two.rounds()]
        return [r.reason for r in rounds if r.table == str(bad.path) and r.outcome == "failed"]

    with (
        service(fluss, lake, tables, name="one", log_columns=True, poll="50ms") as first_service,
        service(fluss, lake, tables, name="two", log_columns=True, poll="50ms") as two,
    ):
        with Appending(fluss, table):
            until(lambda: in_lake(lake, again).num_rows == 100)
            fluss.admin.drop_table(again.path)
            created = with_leaders(fluss.admin, again.path, again.descriptor)
            TableWriter(fluss.cluster, created).append(numbers(1000, 7))
            until(lambda: in_lake(lake, created).num_rows == 7)
        until(lambda: is_tiered(fluss, table))
        until(lambda: bool(refusals()))
        rounds = [*first_service.rounds(), *two.rounds()]
    assert str(table.path) in {r.table for r in rounds if r.outcome == "committed"}
    assert any("it has no column" in why or "no column 'other'" in why for why in refusals()), refusals()
    require_log_in_lake(fluss, lake, table)
    require_log_in_lake(fluss, lake, created)
    assert lake.table(str(again.path)).at(tag=f"fluss-table-{again.table_id}").scan().count() == 100


@pytest.mark.large
def test_a_service_waits_for_a_coordinator_that_is_starting(killed_fluss: Fluss, tmp_path: Path):
    """It listens some time before it can answer."""
    table = killed_fluss.table(COLUMNS, properties=LAKE)
    TableWriter(killed_fluss.cluster, table).append(numbers(0, 10))
    lake = ts.connect(tmp_path)
    killed_fluss.servers.stop("coordinator")
    starting = threading.Thread(target=killed_fluss.servers.start, args=("coordinator",))
    starting.start()
    with service(killed_fluss, lake, [table], follow=False, wait="5min") as job:
        assert job.wait(240)
        assert [
            (round_report.outcome, round_report.rows, round_report.reason) for round_report in job.rounds()
        ] == [("committed", 10, "")]
    starting.join()


def test_a_partition_that_is_dropped_ends_its_splits_only(fluss: Fluss, tmp_path: Path):
    columns: Mapping[str, ts.DataType] = {"id": BIGINT, "day": STRING.not_null()}
    table = fluss.table(columns, partitions=["day"], buckets=1, properties=LAKE)
    writer = TableWriter(fluss.cluster, table)
    rows = pa.table({"id": range(100), "day": ["a", "b"] * 50})
    writer.append(rows)
    lake = ts.connect(tmp_path)
    with service(fluss, lake, [table], follow=False) as job:
        assert job.wait(240)
    fluss.admin.drop_partition(table.path, {"day": "a"})
    writer.append(rows.filter(pc.equal(rows["day"], "b")))
    with service(fluss, lake, [table], follow=False) as job:
        assert job.wait(240)
        assert [(round_report.outcome, round_report.rows) for round_report in job.rounds()][-1] == (
            "incomplete",
            50,
        )
    assert in_lake(lake, table).num_rows == 150
