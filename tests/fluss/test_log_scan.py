"""Scans of a scripted server: what a bucket may say, and for how long it may say nothing."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tablestore.core.errors import Corrupt, NotFound, Unsupported
from tablestore.fluss import apis
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import FlussError
from tablestore.fluss.frames import Request, error_frame, response_frame
from tablestore.fluss.log_records import BatchMark, empty, encode
from tablestore.fluss.log_scan import LogScan
from tablestore.fluss.messages import pb
from tablestore.fluss.scan_state import LogOffsetExpired, LogRewritten, LogStalled
from tablestore.fluss.tables import FlussColumn, FlussTable, TableBucket, TableDescriptor, TablePath
from tablestore.format.types.arrow_types import BIGINT
from tests.faults import SimEnv
from tests.fluss.scripted_server import ScriptedServer

TABLE = FlussTable(TablePath("d", "t"), 7, 1, TableDescriptor((FlussColumn("id", BIGINT),), buckets=3))
ZERO, ONE, TWO = (TableBucket(7, None, bucket) for bucket in range(3))
Fetch = Callable[[pb.FetchBucket], dict]


def batch(base: int, rows: int = 10) -> bytes:
    return encode(pa.record_batch({"id": range(base, base + rows)}), schema_id=1, base=base)


class Leader(ScriptedServer):
    """Coordinator and leader of all buckets; `fetch` says the fields of a fetched bucket."""

    def __init__(self, fetch: Fetch, leaderless: int | None, env: SimEnv | None = None) -> None:
        self.fetch, self.leaderless, self.env = fetch, leaderless, env or SimEnv()
        super().__init__(range(1000, 1043), self._serve_call)

    def _serve_call(self, request: Request) -> bytes:
        """Each answer to a fetch takes a tenth of a second of the clock, however slow the machine is."""
        if request.api_key == apis.FETCH_LOG.key:
            self.env.move(100)
        return self._answer(request)

    def _answer(self, request: Request) -> bytes:
        if request.api_key == apis.METADATA.key:
            here = pb.ServerNode(node_id=0, host="127.0.0.1", port=self.port)
            buckets = [
                pb.BucketMetadata(bucket_id=i, leader_id=None if i == self.leaderless else 0)
                for i in range(3)
            ]
            table = pb.TableMetadata(
                table_path=pb.TablePath(database_name="d", table_name="t"),
                **{"table_id": 7, "schema_id": 1, "table_json": b"", "created_ms": 0, "modified_ms": 0},
                buckets=buckets,
            )
            reply = pb.MetadataResponse(coordinator=here, tablet_servers=[here], tables=[table])
            return response_frame(request.request_id, reply.SerializeToString())
        asked = pb.FetchLogRequest.FromString(request.body)
        buckets = [
            pb.FetchedBucket(bucket_id=wanted.bucket_id, **self.fetch(wanted))
            for wanted in asked.tables[0].buckets
        ]
        reply = pb.FetchLogResponse(tables=[pb.FetchedTable(table_id=7, buckets=buckets)])
        return response_frame(request.request_id, reply.SerializeToString())


class Refusing(Leader):
    """Refuses each request that asks for bucket 1, as a server that cannot read wanted of its files."""

    def _answer(self, request: Request) -> bytes:
        if request.api_key == apis.FETCH_LOG.key:
            asked = pb.FetchLogRequest.FromString(request.body)
            if any(wanted.bucket_id == 1 for wanted in asked.tables[0].buckets):
                return error_frame(request.request_id, -1, "a.b.CorruptIndexException: x\n\tat Index.java")
        return super()._answer(request)


def test_a_refusal_of_a_whole_request_names_the_bucket_that_it_is_about() -> None:
    with (
        contextlib.closing(Refusing(log_of(20), None)) as leader,
        Cluster(f"127.0.0.1:{leader.port}") as cluster,
    ):
        scan = LogScan(
            cluster, TABLE, dict.fromkeys((ZERO, ONE, TWO), 5), dict.fromkeys((ZERO, ONE, TWO), 20)
        )
        with contextlib.closing(scan), pytest.raises(FlussError) as caught:
            list(scan)
        said = "d.t: table 7 bucket 1 at offset 5: Fluss error -1 UNKNOWN_SERVER_ERROR: a.b.CorruptIndex"
        assert str(caught.value) == said + "Exception: x"
        assert "Index.java" in caught.value.message


@pytest.fixture
def scan_of() -> Iterator[object]:
    """A scan of what `fetch` gives."""
    opened: list[object] = []

    def make(
        fetch: Fetch, start: dict, stop: dict | None, *, leaderless: int | None = None, **more: object
    ) -> LogScan:
        env = SimEnv()
        leader = Leader(fetch, leaderless, env)
        cluster = Cluster(f"127.0.0.1:{leader.port}", timeout=240, env=env)
        scan = LogScan(cluster, TABLE, start, stop, **more)
        opened.extend((scan, cluster, leader))
        return scan

    yield make
    for resource in opened:
        resource.close()


def log_of(end: int, *, answers: int = 10**9) -> Fetch:
    """Batches of ten rows up to `end`, at most so many an answer."""

    def fetch(asked: pb.FetchBucket) -> dict:
        first = asked.fetch_offset // 10 * 10
        data = b"".join(batch(base) for base in range(first, end, 10)[:answers])
        return {"high_watermark": end, "records": data}

    return fetch


def ids(scan: LogScan) -> dict[TableBucket, list[int]]:
    """The rows of each bucket; those of a batch are where the one before ended."""
    rows = defaultdict[TableBucket, list[int]](list)
    for read in scan:
        values = read.rows["id"].to_pylist()
        assert (read.base, read.end) == (values[0], values[-1] + 1)
        assert scan.offsets[read.bucket] == read.end
        rows[read.bucket] += values
    return rows


def folder_of(remote: Path, bucket: TableBucket) -> Path:
    """Where Fluss has segment files of a bucket."""
    return remote / "log" / "d" / "t-7" / str(bucket.bucket)


def one_segment(folder: str) -> pb.RemoteLog:
    """Rows 0 to 30 are in a file."""
    segment = pb.RemoteLogSegment(segment_id="a", start_offset=0, end_offset=30, size_in_bytes=1)
    return pb.RemoteLog(tablet_dir=folder, segments=[segment], first_start_pos=0)


def put_segment(remote: Path, bucket: TableBucket, name: str, base: int, data: bytes) -> None:
    folder = folder_of(remote, bucket) / name
    folder.mkdir(parents=True)
    (folder / f"{base:020d}.log").write_bytes(data)


class Restarted:
    """A log of fifty rows; the server is in trouble at offset 30, and may come back with others."""

    def __init__(self, *, lost: bool) -> None:
        self.asked, self.lost = [], lost

    def __call__(self, asked: pb.FetchBucket) -> dict:
        self.asked.append(asked.fetch_offset)
        first = asked.fetch_offset // 10 * 10
        if first == 30 and 30 not in self.asked[:-1]:
            return {"error_code": 12, "error_message": "moved"}
        after = 30 in self.asked
        rows = pa.record_batch({"id": range(first, first + 10)})
        time = 5 if after and self.lost else 0
        rewritten = encode(rows, schema_id=1, base=first, timestamp_ms=time)
        return {"high_watermark": 50, "records": rewritten if first < 50 else b""}


def test_after_trouble_the_batch_behind_which_a_scan_goes_on_is_compared(scan_of) -> None:
    log = Restarted(lost=False)
    assert ids(scan_of(log, {ZERO: 0}, {ZERO: 50})) == {ZERO: list(range(50))}
    assert log.asked == [0, 10, 20, 30, 29, 30, 40]
    scan = scan_of(Restarted(lost=True), {ZERO: 0}, {ZERO: 50})
    with pytest.raises(
        LogRewritten, match=r"d\.t: table 7 bucket 0: the log was cut below offset 30"
    ) as caught:
        list(scan)
    assert (caught.value.bucket, caught.value.offset) == (ZERO, 30)


def test_a_batch_that_retention_took_meanwhile_is_not_compared(scan_of) -> None:
    def fetch(asked: pb.FetchBucket) -> dict:
        offsets.append(asked.fetch_offset)
        if asked.fetch_offset < 30:
            return {"error_code": 19, "error_message": "out of range"}
        if offsets == [30]:
            return {"error_code": 12, "error_message": "moved"}
        return {"high_watermark": 40, "records": batch(30)}

    offsets: list[int] = []
    scan = scan_of(fetch, {ZERO: 30}, {ZERO: 40}, last={ZERO: BatchMark(20, 0, 1)})
    assert ids(scan) == {ZERO: list(range(30, 40))}
    assert offsets == [30, 29, 30]


@pytest.mark.parametrize("answers", [1, 3, 100])
def test_every_bucket_moves_on_by_offset(scan_of, answers: int) -> None:
    stop = {ZERO: 95, ONE: 30, TWO: 0}
    scan = scan_of(log_of(100, answers=answers), {ZERO: 5, ONE: 0, TWO: 0}, stop)
    assert ids(scan) == {ZERO: list(range(5, 95)), ONE: list(range(30))}
    assert scan.offsets == stop
    assert scan.done


def test_offsets_are_those_behind_what_was_returned(scan_of) -> None:
    scan = scan_of(log_of(50), {ZERO: 0}, {ZERO: 50})
    batches = iter(scan)
    assert next(batches).end == 10
    assert scan.offsets == {ZERO: 10}
    assert not scan.done


def test_batches_without_rows_are_passed(scan_of) -> None:
    data = batch(0) + empty(10, 13, 0, schema_id=1) + batch(13)
    scan = scan_of(lambda _: {"high_watermark": 23, "records": data}, {ZERO: 0}, {ZERO: 23})
    assert [(read.base, read.end, read.rows.num_rows) for read in scan] == [
        (0, 10, 10),
        (10, 13, 0),
        (13, 23, 10),
    ]


def test_nothing_below_the_high_watermark_is_a_stall_by_name(scan_of) -> None:
    scan = scan_of(lambda _: {"high_watermark": 9}, {ONE: 4}, {ONE: 9}, stall_seconds=0.3)
    said = r"d\.t: table 7 bucket 1 gave nothing from offset 4 of 9 on for \d+ s: the server sends nothing"
    with pytest.raises(LogStalled, match=said) as raised:
        list(scan)
    assert (raised.value.bucket, raised.value.offset) == (ONE, 4)


def test_a_log_that_ends_before_the_scan_does_is_a_stall(scan_of) -> None:
    scan = scan_of(log_of(10), {ONE: 0}, {ONE: 15}, stall_seconds=0.3)
    with pytest.raises(LogStalled, match=r"gave nothing from offset 10 of 15 on .* its high watermark is 10"):
        list(scan)


def test_a_bucket_that_nobody_knows_for_long_is_a_stall_and_one_that_is_late_is_none(scan_of) -> None:
    late = [{"error_code": 21, "error_message": "starting"}] * 3

    def fetch(asked: pb.FetchBucket) -> dict:
        return late.pop() if late else log_of(10)(asked)

    assert [read.end for read in scan_of(fetch, {ZERO: 0}, {ZERO: 10})] == [10]
    scan = scan_of(
        lambda _: {"error_code": 21, "error_message": "?"}, {ZERO: 0}, {ZERO: 10}, stall_seconds=0.3
    )
    with pytest.raises(LogStalled, match="UNKNOWN_TABLE_OR_BUCKET"):
        list(scan)


def test_a_bucket_in_trouble_holds_up_no_other(scan_of) -> None:
    def troubled(asked: pb.FetchBucket) -> dict:
        return {"error_code": 12, "error_message": "moved"} if asked.bucket_id == 0 else log_of(30)(asked)

    starts, stops = {ZERO: 0, ONE: 0}, {ZERO: 10, ONE: 30}
    for fetch, leaderless, said in (
        (troubled, None, "bucket 0"),
        (log_of(30), 0, r"bucket 0 gave nothing .* it has no leader now"),
    ):
        scan = scan_of(fetch, starts, stops, leaderless=leaderless, stall_seconds=0.5)
        with pytest.raises(LogStalled, match=said):
            list(scan)
        assert scan.offsets == {ZERO: 0, ONE: 30}


def test_rows_that_are_gone_and_another_refusal_end_the_scan_at_once(scan_of) -> None:
    refused = {"error_code": 48, "error_message": "no"}
    with pytest.raises(FlussError, match=r"d\.t: table 7 bucket 1: Fluss error 48 AUTHORIZATION: no"):
        list(scan_of(lambda _: refused, {ONE: 4}, {ONE: 9}))
    gone = {"error_code": 19, "error_message": "out of range", "log_start_offset": 50}
    with pytest.raises(LogOffsetExpired, match="rows from offset 4 on are gone") as raised:
        list(scan_of(lambda _: gone, {ONE: 4}, {ONE: 9}))
    assert (raised.value.bucket, raised.value.offset, raised.value.start) == (ONE, 4, 50)


def test_a_damaged_batch_is_named(scan_of) -> None:
    data = bytearray(batch(0))
    data[60] ^= 1
    with pytest.raises(Corrupt, match=r"d\.t: table 7 bucket 0: the log batch at offset 0 has the CRC"):
        list(scan_of(lambda _: {"high_watermark": 10, "records": bytes(data)}, {ZERO: 0}, {ZERO: 10}))


def test_a_column_that_there_is_none_of(scan_of) -> None:
    with pytest.raises(NotFound, match="no column 'ids'; did you mean id"):
        scan_of(log_of(10), {ZERO: 0}, {ZERO: 10}, columns=["ids"])


@pytest.mark.parametrize("chunk", [None, 300], ids=["whole", "in parts"])
def test_segment_files_come_before_the_log(
    scan_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int | None
) -> None:
    if chunk:
        monkeypatch.setattr("tablestore.fluss.log_scan._MOST_BYTES", chunk)
    for bucket in (ZERO, ONE):
        for name, bases in (("a", range(0, 60, 10)), ("b", range(60, 100, 10))):
            put_segment(tmp_path, bucket, name, bases[0], b"".join(map(batch, bases)))

    def fetch(asked: pb.FetchBucket) -> dict:
        if asked.fetch_offset >= 100:
            return log_of(120)(asked)
        segments = [
            pb.RemoteLogSegment(segment_id=name, start_offset=start, end_offset=end, size_in_bytes=1)
            for name, start, end in (("a", 0, 60), ("b", 60, 100))
            if end > asked.fetch_offset
        ]
        skipped = len(batch(0)) * 2 if asked.fetch_offset < 60 else 0
        bucket = ONE if asked.bucket_id else ZERO
        place = f"file:{folder_of(tmp_path, bucket)}"
        remote = pb.RemoteLog(tablet_dir=place, segments=segments, first_start_pos=skipped)
        return {"high_watermark": 120, "remote_log": remote}

    scan = scan_of(fetch, {ZERO: 25, ONE: 30}, {ZERO: 120, ONE: 75})
    assert ids(scan) == {ZERO: list(range(25, 120)), ONE: list(range(30, 75))}


@pytest.mark.parametrize("kept", [0.5, 1.0], ids=["cut", "short"])
def test_a_segment_file_that_ends_too_early_is_damage(scan_of, tmp_path: Path, kept: float) -> None:
    data = batch(0) + batch(10)
    put_segment(tmp_path, ZERO, "a", 0, data[: int(kept * len(data)) - (0 if kept == 1 else 3)])
    remote = one_segment(str(folder_of(tmp_path, ZERO)))
    with pytest.raises(Corrupt, match=r"00\.log: it"):
        list(scan_of(lambda _: {"high_watermark": 30, "remote_log": remote}, {ZERO: 0}, {ZERO: 30}))


def test_a_segment_file_that_is_gone_is_asked_for_again(scan_of, tmp_path: Path) -> None:
    asked_before = []

    def fetch(asked: pb.FetchBucket) -> dict:
        if asked_before:
            return log_of(30)(asked)
        asked_before.append(asked)
        return {"high_watermark": 30, "remote_log": one_segment(str(folder_of(tmp_path, ZERO)))}

    assert [read.end for read in scan_of(fetch, {ZERO: 0}, {ZERO: 30})] == [10, 20, 30]


def test_buckets_come_and_go_while_a_scan_follows(scan_of) -> None:
    scan = scan_of(log_of(20), {ZERO: 10}, None)
    assert [read.base for read in scan.poll(5)] == [10]
    scan.add(ONE, 0)
    scan.drop(ZERO)
    batches = []
    while len(batches) < 2:
        batches += [(read.bucket, read.base) for read in scan.poll(5)]
    assert batches == [(ONE, 0), (ONE, 10)]
    assert scan.offsets == {ONE: 20}


@pytest.mark.parametrize("scheme", ["oss", "hdfs", "gs"])
def test_segments_in_a_store_that_is_not_read_are_refused_by_name(scan_of, scheme: str) -> None:
    remote = one_segment(f"{scheme}://b/remote")
    scan = scan_of(lambda _: {"high_watermark": 30, "remote_log": remote}, {ZERO: 0}, {ZERO: 30})
    with pytest.raises(Unsupported, match=rf"files of Fluss at {scheme}:// \(d\.t: table 7 bucket 0: remote"):
        list(scan)


@pytest.mark.parametrize("answer", ["nothing", "another bucket", "twice"])
def test_an_answer_that_leaves_a_bucket_out_or_names_it_twice_ends_the_scan_or_goes_on(
    scan_of, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    def answered(self: Leader, request: Request) -> bytes:
        if request.api_key != apis.FETCH_LOG.key:
            return right(self, request)
        sound = pb.FetchedBucket(bucket_id=1, high_watermark=10, records=batch(0))
        other = pb.FetchedBucket(bucket_id=2, high_watermark=10, records=batch(0))
        buckets = {"nothing": [], "another bucket": [other], "twice": [sound, sound]}[answer]
        tables = [pb.FetchedTable(table_id=7, buckets=buckets)]
        return response_frame(request.request_id, pb.FetchLogResponse(tables=tables).SerializeToString())

    right = Leader._answer
    monkeypatch.setattr(Leader, "_answer", answered)
    scan = scan_of(log_of(10), {ONE: 0}, {ONE: 10}, stall_seconds=0.3)
    if answer == "twice":
        assert [read.end for read in scan] == [10]
    else:
        with pytest.raises(LogStalled, match=r"bucket 1 gave nothing .* says nothing of it"):
            list(scan)
