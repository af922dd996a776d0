"""A cluster that one does not trust: every field of every answer is wrong once, and the client ends in one
error of ours or goes on rightly. Nothing outside of its folders is read or written, and memory is bounded.
"""

from __future__ import annotations

import contextlib
import gc
import random
import tempfile
import threading
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tablestore.core.env import SYSTEM
from tablestore.core.errors import TablestoreError
from tablestore.fluss import apis
from tablestore.fluss.admin import EARLIEST, LATEST, Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.heartbeat import HeartbeatRequest, TableEpoch
from tablestore.fluss.kv import lookup, snapshot_rows
from tablestore.fluss.log_scan import LogScan
from tablestore.fluss.tables import FlussTable, PartitionInfo, TableBucket
from tablestore.fluss.write import TableWriter
from tablestore.io.fileio import LocalFileIO
from tablestore.tiering.enumerator import AssignedTable
from tablestore.tiering.fluss_cluster import FlussTieringCluster
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.round import RoundParts, RoundProgress, TieringRound
from tablestore.tiering.runner import ThreadRunner
from tests.fluss.stranger import END, FRAMES, KEYED, LOG, PARTS, ROWS, Stranger, mutations
from tests.tiering.memory import MemoryLake

TIMEOUT, STALL = 0.5, 0.3
"""Seconds of a call, and of a bucket that gives nothing: what waits for a wrong answer waits so long."""
PATIENT = 120.0
"""The same for right answers, which a busy machine may give late."""
HANG = 240.0
MOST_BYTES = 96 << 20
MOST_OTHERS = 10
FRAME = ": its frame is "


class Watched(LocalFileIO):
    """Local files, and which of them were opened or looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: set[str] = set()

    def open_input(self, path: str) -> pa.NativeFile:
        self.paths.add(path)
        return super().open_input(path)

    def size(self, path: str) -> int:
        self.paths.add(path)
        return super().size(path)


class TriedClient:
    """What a user does with the cluster; `read` are the files that were read elsewhere."""

    def __init__(self, port: int, *, patient: bool) -> None:
        self.address = f"127.0.0.1:{port}"
        self.timeout, self.stall = (PATIENT, PATIENT) if patient else (TIMEOUT, STALL)
        self.cluster = Cluster(self.address, timeout=self.timeout)
        self.admin = Admin(self.cluster)
        self.files = Watched()

    def names(self) -> None:
        for database in self.admin.databases():
            for path in self.admin.tables(database):
                assert self.admin.table_exists(path) in (True, False)

    def tables(self) -> None:
        for defined in (LOG, KEYED, PARTS):
            table = self.admin.table(defined.path)
            assert len(table.arrow_schema) == len(table.columns)
            assert 0 < len(self.admin.buckets(table, [PartitionInfo(31, {})])) <= 1 << 18
            assert {table.lake_enabled, table.keeps_batches} <= {True, False}
            assert table.compression.isupper() or not table.compression.isalpha()
            assert table.bucket_keys == () or set(table.bucket_keys) <= {c.name for c in table.columns}

    def schemas(self) -> None:
        assert self.admin.columns(LOG.path, 4)
        assert self.admin.columns(LOG.path, None) or True

    def partitions(self) -> None:
        actual = self.admin.partitions(PARTS.path)
        assert all(isinstance(partition.name, str) for partition in actual)
        buckets = self.admin.buckets(PARTS, actual)
        self.offsets_of(PARTS, buckets)

    def offsets_of(self, table: FlussTable, buckets: list[TableBucket]) -> None:
        for at in (EARLIEST, LATEST, 1):
            actual = self.admin.offsets(table, buckets, at)
            assert actual.keys() == set(buckets)
            assert all(0 <= offset < 1 << 63 for offset in actual.values())

    def offsets(self) -> None:
        self.offsets_of(LOG, self.admin.buckets(LOG))

    def leaders(self) -> None:
        buckets = [TableBucket(9, 31, 0), TableBucket(9, 32, 1)]
        assert set(self.cluster.leader_epochs(PARTS, buckets)) <= set(buckets)
        assert self.cluster.by_leader(PARTS, buckets)

    def log(self) -> None:
        for columns in (None, ["text"]):
            start = {TableBucket(7, None, i): 0 for i in (0, 1)}
            self.scan(
                LogScan(
                    self.cluster,
                    LOG,
                    start,
                    dict.fromkeys(start, END),
                    columns=columns,
                    stall_seconds=self.stall,
                    io=self.files,
                )
            )

    def scan(self, scan: LogScan) -> None:
        with scan:
            for batch in scan:
                batch.rows.validate(full=True)
                assert 0 <= batch.base <= batch.end
                assert batch.rows.num_rows <= 1_000

    def snapshots(self) -> None:
        for snapshot in self.admin.kv_snapshots(KEYED).values():
            assert snapshot.bucket.bucket in (0, 1)
            rows = list(snapshot_rows(self.cluster, KEYED, snapshot, io=self.files))
            for batch in rows:
                batch.validate(full=True)

    def keys(self) -> None:
        there, rows = lookup(self.cluster, KEYED, ROWS.select(["id"]))
        assert len(there) == ROWS.num_rows
        rows.validate(full=True)

    def write(self) -> None:
        with TableWriter(self.cluster, LOG, seconds=self.stall) as writer:
            writer.append(ROWS, bucket=1)
        with TableWriter(self.cluster, KEYED, seconds=self.stall) as writer:
            writer.upsert(ROWS)

    def lake(self) -> None:
        lake_snapshot = self.admin.lake_snapshot(LOG.path)
        assert lake_snapshot is not None
        assert all(offset >= 0 for offset in lake_snapshot.offsets.values())
        offsets = {TableBucket(7, None, 0): 3}
        prepared = self.admin.prepare_lake_snapshot(LOG, offsets)
        self.admin.commit_lake_snapshot(LOG, 3, offsets, prepared=prepared)

    def heartbeat(self) -> None:
        epochs = (TableEpoch(7, 2, 1),), (TableEpoch(8, 2, 1),)
        answer = self.admin.heartbeat(HeartbeatRequest(*epochs, request_table=True))
        assert answer.table is None or answer.table.table_path.count(".") == 1

    def tier(self) -> None:
        """A round of tiering, of the table that the coordinator hands out."""
        cluster = FlussTieringCluster(self.address, timeout=self.timeout, stall_seconds=self.stall)
        lake = MemoryLake()
        with contextlib.closing(cluster):
            given = cluster.heartbeat(HeartbeatRequest(request_table=True))
            if given.table is None:
                return
            epoch = TableEpoch(given.table.table_id, given.coordinator_epoch, given.table.tiering_epoch)
            assigned = AssignedTable(given.table, epoch, 0.0)
            parts = RoundParts(cluster, lake, ThreadRunner(1), TieringJournal(None), SYSTEM)
            tiering_round = TieringRound(parts, assigned, 1, ours=lambda: True, stopping=lambda: False)
            tiering_round._run(RoundProgress(1, assigned, SYSTEM))  # `run` makes a report of what it raises
        assert len(set(lake.rows)) == len(lake.rows)

    def making(self) -> None:
        self.admin.create_database("shop", ignore_if_exists=True)
        assert self.admin.create_table(LOG.path, LOG.descriptor).path == LOG.path


VERBS = [
    name
    for name, verb in vars(TriedClient).items()
    if callable(verb) and not name.startswith(("_", "scan", "offsets_"))
]


@contextlib.contextmanager
def strange(folder: Path) -> Iterator[Stranger]:
    """Its files are below `remote`, what the client copies below `scratch`, and `outside` is nobody's; what
    Python allocates is counted."""
    for name in ("remote", "scratch", "outside"):
        (folder / name).mkdir()
    (folder / "outside" / "secret").write_text("secret")
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(folder / "scratch"))
            with contextlib.closing(Stranger(folder / "remote")) as server:
                yield server
    finally:
        tracemalloc.stop()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    with strange(tmp_path) as server:
        yield server


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def ended(stranger: Stranger, verb: str) -> tuple[str, BaseException | None]:
    """What a verb of a new client came to: a fault, "" if there is none, and what it raised."""
    right = stranger.wrong is None and stranger.wrong_frame is None
    client, raised = TriedClient(stranger.port, patient=right), list[BaseException]()

    def run() -> None:
        try:
            getattr(client, verb)()
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG)
    client.cluster.close()
    if thread.is_alive():
        return "it hangs", None
    error = raised[0] if raised else None
    if not isinstance(error, TablestoreError | FileNotFoundError | None):
        return "".join(traceback.format_exception(error)[-4:]), error
    remote = str(stranger.remote)
    if beyond := [
        path
        for path in client.files.paths
        if not path.startswith((f"{remote}/kv/shop/", f"{remote}/log/shop/")) or ".." in path
    ]:
        return f"it read {beyond}", error
    return "", error


def walked(
    stranger: Stranger,
    tmp_path: Path,
    verb: str,
    chosen: Callable[[list[Any]], list[Any]],
    *,
    frames: bool = False,
) -> int:
    """Run a verb with each of the chosen wrong answers; how many there were. Those in wrong `frames`, too,
    of which some cost a time-out."""
    assert ended(stranger, verb) == ("", None), "with right answers"
    before, faults = tree(tmp_path), list[str]()
    actual = [(key, *mutation) for key, answer in stranger.answered.items() for mutation in mutations(answer)]
    keys = [key for key in stranger.answered if frames and key != apis.API_VERSIONS.key]
    actual += [(key, f"{FRAME}{what}", change) for key in keys for what, change in FRAMES.items()]
    for key, place, change in (some := chosen(actual)):
        framed = place.startswith(FRAME)
        stranger.wrong, stranger.wrong_frame = (
            None if framed else (key, change),
            (key, change) if framed else None,
        )
        tracemalloc.reset_peak()
        arrow = pa.default_memory_pool().bytes_allocated()
        fault, error = ended(stranger, verb)
        if tracemalloc.get_traced_memory()[1] > MOST_BYTES:
            fault += "too much memory"
        if pa.default_memory_pool().bytes_allocated() - arrow > MOST_BYTES:
            fault += "too much memory of Arrow"
        if tree(tmp_path) != before:
            fault += "files have changed"
        if fault:
            faults.append(f"{apis.APIS[key]}{place}: {fault}")
        del error
    assert not faults, f"{len(faults)} of {len(some)} wrong answers:\n" + "\n".join(faults[:20])
    stranger.wrong = stranger.wrong_frame = None
    assert ended(stranger, verb) == ("", None), "with right answers again"
    return len(some)


@pytest.mark.sample(3)
@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_answer_is_one_error_or_none(
    stranger: Stranger, tmp_path: Path, verb: str, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        assert (
            walked(stranger, tmp_path, verb, lambda actual, r=rng: r.sample(actual, min(12, len(actual)))) > 0
        )


def each_field(actual: list[Any], rng: random.Random) -> list[Any]:
    """One wrong value of every field, and a few of all others."""
    rng.shuffle(actual)
    fields = {(key, place.split(" ")[0]): (key, place, change) for key, place, change in actual}
    return [*fields.values(), *rng.sample(actual, min(MOST_OTHERS, len(actual)))]


@pytest.mark.large
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.sample(1, all=5)
def test_every_field_of_every_answer_wrong(
    stranger: Stranger, tmp_path: Path, verb: str, seeds: tuple[int, ...]
) -> None:
    rng = random.Random(seeds[0])
    assert walked(stranger, tmp_path, verb, lambda actual: each_field(actual, rng), frames=True) > 20
