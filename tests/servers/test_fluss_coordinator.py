"""The same requests to a real Fluss and to our coordinator get equal answers, and Fluss's own client reads
from it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from notebooks.demo.fluss import client_jars
from tablestore.fluss import apis
from tablestore.fluss.admin import EARLIEST, LATEST, Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.heartbeat import HeartbeatRequest, HeartbeatResponse, TableEpoch
from tablestore.fluss.messages import pb
from tablestore.fluss.tables import (
    FlussTable,
    TableBucket,
    TablePath,
)
from tablestore.fluss.write import TableWriter
from tests.log import held
from tests.servers.fluss import DATABASE, LAKE, Fluss
from tests.suite import counterparts

COLUMNS = {"k": ts.INT.not_null(), "v": ts.STRING}
ROWS = pa.table({"k": pa.array(range(40), pa.int32()), "v": ["v"] * 40})
FRESHNESS = 2.0
"""Seconds."""


@dataclass
class Peer:
    """One of the two. `drop` drops a table, `write` writes enough rows to each of its buckets."""

    admin: Admin
    tables: list[FlussTable]
    drop: Callable[[FlussTable], None]
    write: Callable[[FlussTable], object]

    @property
    def cluster(self) -> Cluster:
        return self.admin.cluster


def real(fluss: Fluss, count: int) -> Peer:
    lake = {**LAKE, "table.datalake.freshness": f"{FRESHNESS:.0f}s"}
    tables = [fluss.table(COLUMNS, key=("k",), buckets=2, properties=lake) for _ in range(count)]
    return Peer(
        fluss.admin,
        tables,
        lambda table: fluss.admin.drop_table(table.path),
        lambda table: TableWriter(fluss.cluster, table).upsert(ROWS),
    )


def ours(lake: ts.Lake, cluster: Cluster, count: int) -> Peer:
    options = {
        **{"log.system": "embedded", "bucket": 2, "tablestore.tiering.enabled": True},
        **{"tablestore.tiering.freshness": f"{FRESHNESS:.0f} s"},
    }
    admin, paths = Admin(cluster), []
    for n in range(count):
        path = TablePath(DATABASE, f"t{n}")
        lake.create_table(str(path), schema=COLUMNS, primary_key=["k"], options=options)
        paths.append(path)
    return Peer(
        admin,
        [admin.table(path) for path in paths],
        lambda table: lake.drop_table(str(table.path)),
        lambda table: lake.table(str(table.path)).write(ROWS),
    )


@pytest.fixture
def peers(fluss: Fluss, tmp_path: Path) -> Iterator[Callable[[int], list[Peer]]]:
    lake = ts.connect(tmp_path)
    with lake.coordinator() as coordinator, Cluster(coordinator.address) as cluster:
        yield lambda count: [real(fluss, count), ours(lake, cluster, count)]


def all_codes(answer: HeartbeatResponse) -> list[list[int | None]]:
    results = answer.failed, answer.tiering, answer.finished
    return [[table.error_code for table in tables] for tables in results]


def granted(peer: Peer, seconds: float = 240) -> TableEpoch:
    """The next table of the peer's that is handed out; one that was dropped just before is finished."""
    end = time.monotonic() + seconds
    mine = {table.table_id for table in peer.tables}
    while time.monotonic() < end:
        answer = peer.admin.heartbeat(HeartbeatRequest(request_table=True))
        if answer.table is None:
            time.sleep(0.05)
            continue
        actual = TableEpoch(answer.table.table_id, answer.coordinator_epoch, answer.table.tiering_epoch)
        if actual.table_id in mine:
            return actual
        peer.admin.heartbeat(HeartbeatRequest(finished=(actual,)))
    raise AssertionError("no table was handed out")


def refused(peer: Peer, dropped: TableEpoch, seconds: float = 240) -> list[list[int | None]]:
    """The answer to who holds a table that was dropped: a coordinator may learn of that a moment later."""
    end = time.monotonic() + seconds
    request = HeartbeatRequest(tiering=(dropped,))
    while (actual := all_codes(peer.admin.heartbeat(request))) == [[], [None], []]:
        assert time.monotonic() < end, "it is renewed for ever"
        time.sleep(0.05)
    return actual


def script(peer: Peer) -> list[object]:
    """What the coordinator answers, with tables by number and epochs counted from the first."""
    said = list[object]()

    def beat(**request: Any) -> HeartbeatResponse:
        return peer.admin.heartbeat(HeartbeatRequest(**request))

    numbers = {table.table_id: n for n, table in enumerate(peer.tables)}
    grant = granted(peer)
    first = grant.tiering_epoch
    said.append(("granted", numbers[grant.table_id], first))
    said.append(("renewed", all_codes(beat(tiering=(grant,)))))
    older = replace(grant, tiering_epoch=first + 5)
    elsewhere = replace(grant, coordinator_epoch=grant.coordinator_epoch + 1)
    unknown = replace(grant, table_id=987654321)
    for other in (older, elsewhere, unknown, replace(unknown, coordinator_epoch=grant.coordinator_epoch + 1)):
        for verb in ("tiering", "finished", "failed"):
            said.append((verb, all_codes(beat(**{verb: (other,)}))))
    back = beat(failed=(grant,), request_table=True)
    assert back.table is not None
    said.append(
        ("back", all_codes(back)[0], back.table.table_id == grant.table_id, back.table.tiering_epoch - first)
    )
    two = replace(grant, tiering_epoch=back.table.tiering_epoch)
    said.append(("late", all_codes(beat(finished=(grant,), tiering=(grant,), failed=(grant,)))))
    began = time.monotonic()
    said.append(("both", all_codes(beat(tiering=(two,), finished=(two,)))))
    said.append(("again", all_codes(beat(finished=(two,)))))
    said.append(("renewed when finished", all_codes(beat(tiering=(two,)))))
    three = granted(peer)
    said.append(("next round", three.table_id == grant.table_id, three.tiering_epoch - first))
    said.append(("after its freshness", time.monotonic() - began > FRESHNESS - 1))
    said.append(("all at once", all_codes(beat(failed=(three,), tiering=(three,), finished=(three,)))))
    four = granted(peer)
    said.append(("finished", all_codes(beat(finished=(four,)))))
    said.append(("failed when finished", all_codes(beat(failed=(four,)))))
    at_once = beat(request_table=True).table
    said.append(("handed out at once", at_once is not None))
    five = granted(peer) if at_once is None else replace(four, tiering_epoch=at_once.tiering_epoch)
    said.append(("its epoch", five.tiering_epoch - first))
    (table,) = (table for table in peer.tables if table.table_id == five.table_id)
    peer.drop(table)
    said.append(("dropped", refused(peer, five)))
    return said


def test_heartbeats_are_answered_alike(peers: Callable[[int], list[Peer]]):
    theirs, own = (script(peer) for peer in peers(1))
    assert own == theirs


def code(call: Callable[[], object]) -> int:
    try:
        call()
    except FlussError as e:
        return e.code
    return 0


def fetched(peer: Peer, bucket: TableBucket, at: int, columns: list[int] | None = None) -> tuple[int, int]:
    asked = pb.FetchBucket(bucket_id=bucket.bucket, fetch_offset=at, max_fetch_bytes=1000)
    table = pb.FetchTable(
        table_id=bucket.table_id,
        projection_enabled=columns is not None,
        projected_fields=columns,
        buckets=[asked],
    )
    request = pb.FetchLogRequest(follower_server_id=-1, max_bytes=1000, tables=[table])
    fetched_table = next(t for t in peer.tables)
    leader = peer.cluster.leader(fetched_table, TableBucket(fetched_table.table_id, None, 0))
    for _ in range(100):
        bucket_answer = leader.call(apis.FETCH_LOG, request).tables[0].buckets[0]
        if bucket_answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            break
        time.sleep(0.1)  # a new bucket's leader is just starting
    return bucket_answer.error_code, bucket_answer.high_watermark


def questions(peer: Peer) -> list[object]:
    admin, (table,) = peer.admin, peer.tables
    buckets = admin.buckets(table)
    first = buckets[0]
    said: list[object] = [
        ("no table", code(lambda: admin.table(TablePath(DATABASE, "nope")))),
        ("no database", code(lambda: admin.tables("nope"))),
        ("exists", admin.table_exists(table.path), admin.table_exists(TablePath(DATABASE, "nope"))),
        ("no partitions", code(lambda: admin.partitions(table.path))),
        ("no lake snapshot", admin.lake_snapshot(table.path)),
        ("kv snapshots", len(admin.kv_snapshots(table))),
        ("empty log", sorted(admin.offsets(table, buckets, at)[first] for at in (EARLIEST, LATEST))),
        ("future", code(lambda: admin.offsets(table, buckets, 1 << 45))),
        ("columns", [(c.name, str(c.type)) for c in table.columns], table.primary_key, table.bucket_keys),
        ("buckets", table.buckets, table.partition_keys, table.lake_enabled, table.freshness_ms),
        ("fetched", fetched(peer, first, 0)),
        ("out of range", fetched(peer, first, 7)[0]),
        ("columns that do not ascend", fetched(peer, first, 0, [1, 0])[0]),
        ("no such bucket", fetched(peer, replace(first, bucket=9), 0)[0]),
        ("no such table", fetched(peer, replace(first, table_id=987654321), 0)[0]),
    ]
    peer.write(table)
    for snapshot_id, offsets in ((5, {buckets[0]: 4}), (6, {buckets[1]: 3}), (2, {buckets[0]: 1})):
        admin.commit_lake_snapshot(table, snapshot_id, offsets)
        lake_snapshot = admin.lake_snapshot(table.path)
        assert lake_snapshot is not None
        said.append(
            (lake_snapshot.snapshot_id, sorted((b.bucket, o) for b, o in lake_snapshot.offsets.items()))
        )
    return said


def test_questions_are_answered_alike(peers: Callable[[int], list[Peer]]):
    theirs, own = (questions(peer) for peer in peers(1))
    assert own == theirs


def java_client(folder: Path, *arguments: str) -> dict[str, list[str]]:
    """What `FlussReader` prints, by the first word of each line."""
    counterparts.need("Fluss")
    jars = f"{client_jars()}/*"
    source = Path(__file__).with_name("FlussReader.java")
    subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", folder, source], check=True, timeout=600)
    opens = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("nio", "util")]
    command = [
        "java",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xmx192m",
        *opens,
        "-cp",
        f"{jars}:{folder}",
    ]
    done = subprocess.run([*command, "FlussReader", *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    collected: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        collected.setdefault(word, []).append(rest)
    return collected


@pytest.mark.large
def test_fluss_s_own_client_reads_the_log_of_a_table_of_ours(tmp_path: Path):
    lake = ts.connect(tmp_path / "lake")
    options = {"log.system": "embedded", "bucket": 2, "tablestore.tiering.enabled": True}
    table = lake.create_table("shop.t", schema=COLUMNS, primary_key=["k"], options=options)
    table.write([{"k": k, "v": f"v{k}"} for k in range(5)])
    table.write([{"k": 1, "v": None}])
    table.delete(ts.col("k") == 2)
    in_files = table.log.in_files
    table.write([{"k": 7, "v": "seven"}])
    with lake.coordinator() as coordinator:
        password = Path(coordinator.token_file).read_text()
        actual = java_client(tmp_path, coordinator.server, "shop", "t", password)
    assert actual["databases"] == ["[shop]"]
    assert actual["tables"] == ["[t]"]
    assert actual["columns"] == ["ROW<`k` INT NOT NULL, `v` STRING>"]
    assert actual["ends"] == [str(table.log.end).replace(": ", "=")]
    assert actual["lake"] == [f"{table.log.newest_snapshot} {str(in_files).replace(': ', '=')}"]
    words = {0: "+I", 1: "-U", 2: "+U", 3: "-D"}
    expected = [
        f"{b.bucket} {offset} {words[kind]} {row['k']} {'null' if row['v'] is None else row['v']}"
        for b in held.logged(table, table.log.end)
        for offset, kind, row in zip(b.offsets, b.kinds.to_pylist(), b.rows.to_pylist(), strict=True)
    ]
    assert sorted(actual["row"]) == sorted(expected)
    assert len(expected) == 8
