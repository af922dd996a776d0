"""A Fluss of the newest version with the Paimon of its own plugin: our service tiers into the tables that the
plugin made, and takes turns with Fluss's own tiering job."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablestore as ts
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.heartbeat import HeartbeatRequest, TableEpoch
from tablestore.fluss.kv import acquire_lease, drop_lease, snapshot_rows
from tablestore.fluss.tables import FlussTable, KvSnapshot
from tablestore.fluss.write import TableWriter
from tablestore.format.types.arrow_types import BIGINT, STRING
from tablestore.meta import positions
from tablestore.tiering.fluss_cluster import FlussTieringCluster
from tablestore.tiering.journal import read_report
from tablestore.tiering.opening import journal_directory
from tablestore.tiering.report import HoldPhase
from tests.servers.fluss import DATABASE, Fluss
from tests.servers.test_fluss_tiering import JobProcess, is_tiered, require_log_in_lake, service, until
from tests.suite import counterparts

pytestmark = pytest.mark.large
LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "5s"}
COLUMNS = {"id": BIGINT.not_null(), "text": STRING}
LOG = {
    **{"id": BIGINT, "text": STRING, "amount": ts.DECIMAL(10, 2), "day": ts.DATE, "at": ts.TIMESTAMP(3)},
    **{"clock": ts.TIME(0), "tags": ts.ARRAY(ts.INT), "who": ts.ROW({"x": ts.INT, "y": STRING})},
}


@pytest.fixture
def lake(newest: Fluss) -> ts.Lake:
    return ts.connect(newest.servers.warehouse)


def keyed_rows(rng: np.random.Generator) -> pa.Table:
    ids = rng.integers(0, 50, 20)
    return pa.table({"id": ids, "text": [f"row {rng.integers(1000)}" for _ in ids]})


def log_row(number: int) -> dict[str, object]:
    """The row of a log with that id: what is in it follows from the id, NULL in turn."""
    values = {
        **{"text": f"row {number}", "amount": Decimal(number) / 4, "day": dt.date(2026, 1, 1 + number % 28)},
        **{"at": dt.datetime(2026, 1, 2, 3, 4, 5, 678000) + dt.timedelta(days=number)},
        **{"clock": dt.time(number % 24, 1, 2), "tags": [number, None], "who": {"x": number, "y": "a"}},
    }
    gone = list(values)[number % (len(values) + 1) :][:1]
    return {"id": number, **values, **dict.fromkeys(gone)}


class TablePair:
    """A log table and a keyed one, with what they hold."""

    def __init__(self, fluss: Fluss) -> None:
        self.fluss = fluss
        self.log = fluss.table(LOG, buckets=2, properties=LAKE)
        self.keyed = fluss.table(COLUMNS, key=["id"], buckets=2, properties=LAKE)
        self.writers = [TableWriter(fluss.cluster, table) for table in self.tables]
        self.appended, self.state = 0, dict[int, str]()

    @property
    def tables(self) -> list[FlussTable]:
        return [self.log, self.keyed]

    def write(self, rng: np.random.Generator) -> None:
        """Some rows more in both, and some less in the keyed one."""
        rows = keyed_rows(rng)
        appended = [log_row(number) for number in range(self.appended, self.appended + 10)]
        self.writers[0].append(pa.Table.from_pylist(appended, self.log.arrow_schema))
        self.writers[1].upsert(rows)
        self.appended += 10
        self.state.update(zip(*rows.to_pydict().values(), strict=True))
        gone = rows.slice(0, 3)
        self.writers[1].delete(gone)
        for key in gone["id"].to_pylist():
            self.state.pop(key, None)

    def are_tiered(self) -> bool:
        """Whether the cluster knows of all rows in the lake."""
        return all(is_tiered(self.fluss, table) for table in self.tables)

    def in_lake(self, lake: ts.Lake) -> list[ts.Table]:
        return [lake.table(str(table.path)) for table in self.tables]

    def require_in(self, lake: ts.Lake) -> None:
        """The lake has each row of the log once, and of each key the newest row, in every column."""
        log, keyed = self.in_lake(lake)
        rows = log.scan(columns=list(LOG)).to_arrow().sort_by("id").to_pylist()
        assert rows == [log_row(number) for number in range(self.appended)]
        require_log_in_lake(self.fluss, lake, self.log)
        rows = keyed.scan(columns=list(COLUMNS)).to_arrow()
        assert rows.num_rows == len(self.state)
        assert dict(zip(*rows.to_pydict().values(), strict=True)) == self.state
        assert keyed.check() == []


def test_tables_of_its_plugin_are_tiered_and_say_the_path_of_the_offsets(
    newest: Fluss, lake: ts.Lake, seeds: tuple[int, ...]
):
    assert newest.cluster.version == (0, 9)
    pair = TablePair(newest)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for _ in range(2):
            pair.write(rng)
            with service(newest, lake, pair.tables):
                until(pair.are_tiered, what="rounds of ours")
            pair.require_in(lake)
    for table, stored in zip(pair.tables, pair.in_lake(lake), strict=True):
        said = stored.store.snapshots.latest().properties
        place = (
            f"{newest.servers.remote_folder}/lake/{DATABASE}/{table.path.table}-{table.table_id}/metadata/"
        )
        assert said[positions.OFFSETS].startswith(place)
        assert said[positions.OWN_OFFSETS].startswith('[{"bucket":0')


def test_lists_maps_and_rows_of_a_log_are_tiered(newest: Fluss, lake: ts.Lake):
    row = ts.ROW({"x": ts.INT, "y": ts.ROW({"z": STRING})})
    columns = {"id": BIGINT, "l": ts.ARRAY(ts.INT), "r": row, "m": ts.MAP(STRING, ts.ARRAY(BIGINT))}
    table = newest.table(columns, properties=LAKE)
    rows = [
        {"id": 1, "l": [1, None], "r": {"x": 1, "y": {"z": "a"}}, "m": [("k", [1]), ("j", None)]},
        {"id": 2, "l": None, "r": None, "m": None},
        {"id": 3, "l": [], "r": {"x": None, "y": None}, "m": []},
    ]
    TableWriter(newest.cluster, table).append(pa.Table.from_pylist(rows, table.arrow_schema))
    with service(newest, lake, [table]):
        until(lambda: is_tiered(newest, table), what="a round of ours")
    actual = lake.table(str(table.path))
    assert actual.scan(columns=list(columns)).to_arrow().sort_by("id").to_pylist() == rows
    assert actual.check() == []


class Turns:
    """Our service and Fluss's own job, one after the other on the tables of a pair; each is killed by SIGKILL
    at a moment of its turn."""

    OF_OURS = ("reading", "committing", "registering", "ended")
    OF_THE_JOB = ("files", "snapshot", "registered")

    def __init__(self, pair: TablePair, lake: ts.Lake, rng: np.random.Generator, folder: Path) -> None:
        self.pair, self.lake, self.rng, self._folder = pair, lake, rng, folder
        self._servers = pair.fluss.servers

    def ours(self, moment: str) -> None:
        """One round of each table by a process: it is killed before it commits to the lake or tells the
        cluster, while it reads, or behind all."""
        self.pair.write(self.rng)
        name, hold = uuid.uuid4().hex, self._folder / "hold"
        hold.write_text(moment if moment in get_args(HoldPhase) else "")
        options = ["--once", "--name", name, "--hold", str(hold)]
        process = JobProcess(self.pair.fluss, Path(self.lake.warehouse), *self.pair.tables, options=options)
        process.start()
        with contextlib.closing(process):
            if moment == "ended":
                until(self.pair.are_tiered, what="a round of ours")
                return
            directory = journal_directory(self.lake.warehouse, name)
            reached = ("reading", moment) if moment == "reading" else (moment,)

            def is_there() -> bool:
                return any(
                    round_report.phase in reached or round_report.ended
                    for round_report in read_report(directory).rounds
                )

            until(is_there, what=f"ours is {moment}")
            if moment == "reading":
                time.sleep(float(self.rng.random()) / 4)

    def job(self, moment: str) -> None:
        """A turn of the job, which is killed once it has written a file, has committed to a lake, or has told
        the cluster of all. Its tables are given back, as by one that starts anew: else nobody gets them for
        two minutes."""
        before = self._seen()
        self.pair.write(self.rng)
        self._servers.start_tiering_job()
        try:
            if moment == "registered":
                until(self.pair.are_tiered, what="a round of the job")
            at = self.OF_THE_JOB.index(moment)
            over = time.monotonic() + 240
            while moment != "registered" and self._seen()[at] == before[at]:
                assert time.monotonic() < over, f"the job never comes to its {moment}"
                time.sleep(0.005)
        except AssertionError as e:
            e.add_note(self._servers.output("job")[-5000:])
            raise
        finally:
            self._servers.kill("job")
        for table in self.pair.tables:
            give_back(self.pair.fluss, table)

    def _seen(self) -> tuple[int, ...]:
        """How many data files and snapshots both lake tables have."""
        places = [Path(table.location) for table in self.pair.in_lake(self.lake)]
        patterns = ("bucket-*/*", "snapshot/snapshot-*")
        return tuple(sum(len(list(place.glob(p))) for place in places) for p in patterns)


def give_back(fluss: Fluss, table: FlussTable) -> None:
    """Say of a table that its round failed, under whatever epoch it was handed out."""
    epoch = fluss.admin.heartbeat().coordinator_epoch
    failed = tuple(TableEpoch(table.table_id, epoch, number) for number in range(1, 100))
    fluss.admin.heartbeat(HeartbeatRequest(failed=failed))


def test_fluss_s_own_job_and_our_service_take_turns_and_are_killed(
    newest: Fluss, lake: ts.Lake, seeds: tuple[int, ...], tmp_path: Path
):
    """Four turns with `--all`, ten with `--rounds 5`."""
    counterparts.need("Fluss's tiering job")
    rng = np.random.default_rng(seeds[0])
    turns = Turns(TablePair(newest), lake, rng, tmp_path)
    for turn in range(2 * len(seeds)):
        moments = (turns.OF_THE_JOB, turns.OF_OURS)[turn % 2]
        moment = moments[turn // 2] if turn // 2 < len(moments) else str(rng.choice(moments))
        print(f"turn {turn}: {('the job', 'ours')[turn % 2]}, killed at: {moment}")
        (turns.job, turns.ours)[turn % 2](moment)
        log, _ = turns.pair.in_lake(lake)
        ids = log.scan(columns=["id"]).to_arrow()["id"]
        assert pc.count_distinct(ids).as_py() == len(ids) <= turns.pair.appended
    turns.ours("ended")
    turns.pair.require_in(lake)


def test_a_round_that_fluss_s_job_overtakes_is_not_committed(
    newest: Fluss, lake: ts.Lake, seeds: tuple[int, ...], tmp_path: Path
):
    """Both read the same rows: who held the table was silent for too long, and is not dead."""
    counterparts.need("Fluss's tiering job")
    pair, hold = TablePair(newest), tmp_path / "hold"
    pair.write(np.random.default_rng(seeds[0]))
    hold.write_text("committing")
    with service(newest, lake, pair.tables, follow=False, hold=hold) as ours:
        until(
            lambda: [round_report.phase for round_report in ours.rounds()] == ["committing"] * 2,
            what="both rounds of ours",
        )
        newest.servers.start_tiering_job()
        until(pair.are_tiered, what="rounds of Fluss's job")
        newest.servers.kill("job")
        hold.unlink()
        assert ours.wait(240)
        assert [round_report.outcome for round_report in ours.rounds()] == ["failed"] * 2
        assert all("another service committed" in round_report.reason for round_report in ours.rounds())
    pair.require_in(lake)


def test_a_snapshot_of_keys_under_a_lease_outlives_newer_ones(newest: Fluss):
    table = newest.table(COLUMNS, key=["id"])
    writer = TableWriter(newest.cluster, table)

    def newer_than(number: int) -> KvSnapshot:
        """The newest snapshot, behind rows that are written here."""
        writer.upsert(pa.table({"id": [number + 1], "text": ["more"]}))
        until(lambda: newest_id(newest, table) > number, what="a snapshot")
        return newest.admin.kv_snapshots(table)[0]

    first = newer_than(-1)
    assert acquire_lease(newest.cluster, "mine", [first]) == []
    second = newer_than(first.snapshot_id)
    (rows,) = snapshot_rows(newest.cluster, table, first)
    assert rows.to_pylist() == [{"id": 0, "text": "more"}]
    drop_lease(newest.cluster, "mine")
    newer_than(second.snapshot_id)  # what no lease holds goes with the next one
    until(lambda: is_gone(newest, first), what="the end of the first snapshot")


def newest_id(fluss: Fluss, table: FlussTable) -> int:
    """The snapshot of keys of bucket 0; −1 without one."""
    snapshot = fluss.admin.kv_snapshots(table).get(0)
    return -1 if snapshot is None else snapshot.snapshot_id


def is_gone(fluss: Fluss, snapshot: KvSnapshot) -> bool:
    try:
        fluss.admin.kv_snapshot_files(snapshot)
    except FlussError as e:
        if e.code != ErrorCode.KV_SNAPSHOT_NOT_EXIST:
            raise
        return True
    return False


def test_a_round_reads_the_snapshot_of_keys_of_its_plan_though_there_are_newer_ones(
    newest: Fluss, lake: ts.Lake, monkeypatch: pytest.MonkeyPatch
):
    table = newest.table(COLUMNS, key=["id"], properties=LAKE)
    writer = TableWriter(newest.cluster, table)
    writer.upsert(pa.table({"id": [1, 2], "text": ["a", "b"]}))
    until(lambda: newest_id(newest, table) >= 0, what="a snapshot")
    read = FlussTieringCluster.read_snapshot

    def read_later(self: FlussTieringCluster, *asked: object) -> Iterator[pa.RecordBatch]:
        before = newest_id(newest, table)
        for number in range(2):
            writer.upsert(pa.table({"id": [2], "text": [f"newer {number}"]}))
            until(lambda at=before + number: newest_id(newest, table) > at, what="a newer snapshot")
        yield from read(self, *asked)

    monkeypatch.setattr(FlussTieringCluster, "read_snapshot", read_later)
    with service(newest, lake, [table], follow=False) as job:
        assert job.wait(240)
        (done,) = job.rounds()
    assert (done.outcome, done.reason, [split.kind for split in done.splits]) == (
        "committed",
        "",
        ["snapshot"],
    )
    rows = lake.table(str(table.path)).scan(columns=["id", "text"]).to_arrow().sort_by("id")
    assert rows.to_pylist() == [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]
