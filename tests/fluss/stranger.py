"""A stranger's cluster: right answers to every call that the client makes, and what can be wrong in them.

`Stranger` serves three tables with a log, a snapshot of keys and a segment file below `remote`. `mutations`
are all answers that differ from a right one in a field, at any depth, in JSON and batches inside of it too,
or as bytes.
"""

from __future__ import annotations

import contextlib
import copy
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import rocksdict

from tablestore.fluss import apis
from tablestore.fluss.frames import Request, response_frame
from tablestore.fluss.kv import compacted
from tablestore.fluss.log_records import empty, encode
from tablestore.fluss.messages import pb
from tablestore.fluss.tables import FlussColumn, FlussTable, TableDescriptor, TablePath
from tablestore.format.types.arrow_types import BIGINT, STRING
from tests.fluss.scripted_server import ScriptedServer, versions

COLUMNS = (FlussColumn("id", BIGINT.not_null(), "a number"), FlussColumn("text", STRING))
LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "1s", "table.log.ttl": "7 d"}


def _table(number: int, name: str, **more: Any) -> FlussTable:
    created = TableDescriptor(COLUMNS, buckets=2, properties=LAKE, comment="ours", **more)
    return FlussTable(TablePath("shop", name), number, 3, created, 1, 1)


LOG = _table(7, "log")
KEYED = _table(8, "keyed", primary_key=("id",), bucket_keys=("id",))
PARTS = _table(9, "parts", partition_keys=("text",))
TABLES = {table.path.table: table for table in (LOG, KEYED, PARTS)}
PARTITIONS = {31: "a", 32: "b"}
ROWS = pa.RecordBatch.from_arrays(
    [pa.array(range(10), pa.int64()), pa.array([None, *"abcdefghi"])], schema=LOG.arrow_schema
)
END, SNAPSHOT, SEGMENT_END = 13, 5, 10
VALUES = [struct.pack("<h", KEYED.schema_id) + value for value in compacted(KEYED, ROWS).to_pylist()]


def batches(start: int, columns: list[int]) -> bytes:
    """The log of a bucket from an offset on, with these columns or all."""
    rows = ROWS.select(columns) if columns else ROWS
    actual = encode(rows, schema_id=3, compression="NONE") if start < 10 else b""
    return actual + (empty(10, END, 0, schema_id=3) if start < END else b"")


def key_files(remote: Path) -> list[pb.SnapshotFile]:
    """A snapshot of the keys of bucket 0."""
    folder = remote / "kv" / "shop" / "keyed-8" / "0" / f"snap-{SNAPSHOT}"
    if not folder.exists():
        store = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
        for i, value in enumerate(VALUES):
            store[bytes([i])] = value
        store.close()
    names = [
        file.name for file in folder.iterdir() if file.name.startswith(("CURRENT", "MANIFEST", "OPTIONS"))
    ]
    names += [file.name for file in folder.iterdir() if file.suffix in (".sst", ".log")]
    return [
        pb.SnapshotFile(remote_path=str(folder / name), local_file_name=name) for name in sorted(set(names))
    ]


def segment(remote: Path) -> pb.RemoteLog:
    """A segment file of bucket 1 of the log table."""
    folder = remote / "log" / "shop" / "log-7" / "1"
    (folder / "seg").mkdir(parents=True, exist_ok=True)
    data = encode(ROWS, schema_id=3, compression="NONE")
    (folder / "seg" / f"{0:020d}.log").write_bytes(data)
    remote_segment = pb.RemoteLogSegment(
        segment_id="seg", start_offset=0, end_offset=SEGMENT_END, size_in_bytes=len(data)
    )
    return pb.RemoteLog(tablet_dir=str(folder), segments=[remote_segment], first_start_pos=0)


class Stranger(ScriptedServer):
    """The cluster. `wrong`, (key of a call, what to send in the place of its answer), makes it hostile, as
    does `wrong_frame`, of what is sent in the place of the frame of that answer; `answered` are the answers
    by key of the call."""

    def __init__(self, remote: Path) -> None:
        self.remote, self.wrong, self.wrong_frame = remote, None, None
        self.files, self.segment = key_files(remote), segment(remote)
        self.answered: dict[int, Any] = {}
        super().__init__(range(1000, 1060), self._answer)

    wrong: tuple[int, Callable[[Any], bytes]] | None
    wrong_frame: tuple[int, Callable[[bytes], bytes]] | None

    def _answer(self, request: Request) -> bytes:
        api = apis.APIS[request.api_key]
        answer = getattr(self, f"_{api.name}")(api.request.FromString(request.body))
        frame = response_frame(request.request_id, self._sent(api.key, answer))
        if self.wrong_frame is not None and self.wrong_frame[0] == api.key:
            return self.wrong_frame[1](frame)
        return frame

    def hello(self) -> bytes:
        """The answer to ApiVersions."""
        return self._sent(1000, pb.ApiVersionsResponse.FromString(versions(self.keys)))

    def _sent(self, key: int, answer: Any) -> bytes:
        earlier = self.answered.get(key)
        if earlier is None or earlier.ByteSize() < answer.ByteSize():
            self.answered[key] = answer
        if self.wrong is not None and self.wrong[0] == key:
            return self.wrong[1](answer)
        return bytes(answer.SerializeToString())

    def _ListDatabases(self, _: Any) -> Any:
        return pb.ListDatabasesResponse(database_names=["shop"])

    def _ListTables(self, _: Any) -> Any:
        return pb.ListTablesResponse(table_names=list(TABLES))

    def _TableExists(self, _: Any) -> Any:
        return pb.TableExistsResponse(exists=True)

    def _GetTableInfo(self, asked: Any) -> Any:
        table = TABLES[asked.table_path.table_name]
        return pb.GetTableInfoResponse(
            **{"table_id": table.table_id, "schema_id": 3, "table_json": table.descriptor.to_json()},
            **{"created_ms": 1, "modified_ms": 1},
        )

    def _GetTableSchema(self, asked: Any) -> Any:
        schema = json.loads(LOG.descriptor.to_json())["schema"]
        return pb.GetTableSchemaResponse(schema_id=asked.schema_id, schema_json=json.dumps(schema).encode())

    def _ListPartitionInfos(self, _: Any) -> Any:
        return pb.ListPartitionInfosResponse(
            partitions=[
                pb.PartitionInfo(
                    partition_id=id,
                    partition_spec=pb.PartitionSpec(values=[pb.KeyValue(key="text", value=v)]),
                )
                for id, v in PARTITIONS.items()
            ]
        )

    def _Metadata(self, asked: Any) -> Any:
        here = pb.ServerNode(node_id=0, host="127.0.0.1", port=self.port, listeners="FLUSS", rack="r")
        actual = pb.MetadataResponse(coordinator=here, tablet_servers=[here])
        buckets = [
            pb.BucketMetadata(bucket_id=i, leader_id=0, replica_ids=[0], leader_epoch=4) for i in (0, 1)
        ]
        for path in asked.table_paths:
            table = TABLES[path.table_name]
            actual.tables.add(
                **{"table_path": path, "table_id": table.table_id, "schema_id": 3, "table_json": b"{}"},
                **{"created_ms": 1, "modified_ms": 1, "buckets": buckets},
            )
        for id in PARTITIONS.keys() & set(asked.partition_ids):
            actual.partitions.add(table_id=9, partition_name=PARTITIONS[id], partition_id=id, buckets=buckets)
        return actual

    def _ListOffsets(self, asked: Any) -> Any:
        offset = 0 if asked.offset_type == 0 else END
        return pb.ListOffsetsResponse(
            buckets=[pb.ListedOffset(bucket_id=i, offset=offset) for i in asked.bucket_ids]
        )

    def _GetLatestKvSnapshots(self, _: Any) -> Any:
        first = pb.KvSnapshot(bucket_id=0, snapshot_id=SNAPSHOT, log_offset=10)
        return pb.GetLatestKvSnapshotsResponse(table_id=8, snapshots=[first, pb.KvSnapshot(bucket_id=1)])

    def _GetKvSnapshotMetadata(self, _: Any) -> Any:
        return pb.GetKvSnapshotMetadataResponse(log_offset=10, files=self.files)

    def _FetchLog(self, asked: Any) -> Any:
        (table,) = asked.tables
        buckets = []
        for bucket in table.buckets:
            fetched = pb.FetchedBucket(bucket_id=bucket.bucket_id, high_watermark=END, log_start_offset=0)
            if bucket.HasField("partition_id"):
                fetched.partition_id = bucket.partition_id
            if bucket.bucket_id == 1 and table.table_id == 7 and bucket.fetch_offset < SEGMENT_END:
                fetched.remote_log.CopyFrom(self.segment)
            else:
                fetched.records = batches(bucket.fetch_offset, list(table.projected_fields))
            buckets.append(fetched)
        return pb.FetchLogResponse(tables=[pb.FetchedTable(table_id=table.table_id, buckets=buckets)])

    def _Lookup(self, asked: Any) -> Any:
        (bucket,) = asked.buckets
        values = [pb.OptionalValue(value=VALUES[i] if i else None) for i in range(len(bucket.keys))]
        return pb.LookupResponse(buckets=[pb.LookedUpBucket(bucket_id=bucket.bucket_id, values=values)])

    def _LimitScan(self, _: Any) -> Any:
        rows = b"".join(struct.pack("<i", len(value)) + value for value in VALUES)
        return pb.LimitScanResponse(records=struct.pack("<ibi", len(rows) + 5, 0, len(VALUES)) + rows)

    def _InitWriter(self, _: Any) -> Any:
        return pb.InitWriterResponse(writer_id=6)

    def _ProduceLog(self, asked: Any) -> Any:
        return pb.ProduceLogResponse(
            buckets=[
                pb.ProducedBucket(bucket_id=bucket.bucket_id, base_offset=END) for bucket in asked.buckets
            ]
        )

    def _PutKv(self, asked: Any) -> Any:
        return pb.PutKvResponse(
            buckets=[pb.PutBucket(bucket_id=bucket.bucket_id) for bucket in asked.buckets]
        )

    def _CreateDatabase(self, _: Any) -> Any:
        return pb.CreateDatabaseResponse()

    def _CreateTable(self, _: Any) -> Any:
        return pb.CreateTableResponse()

    def _GetLakeSnapshot(self, _: Any) -> Any:
        buckets = [pb.LakeSnapshotBucket(bucket_id=i, log_offset=4, partition_name="p") for i in (0, 1)]
        return pb.GetLakeSnapshotResponse(table_id=7, snapshot_id=2, buckets=buckets)

    def _PrepareLakeTableSnapshot(self, asked: Any) -> Any:
        tables = [
            pb.PreparedLakeTable(table_id=table.table_id, offsets_path="/o/1") for table in asked.tables
        ]
        return pb.PrepareLakeTableSnapshotResponse(tables=tables)

    def _CommitLakeTableSnapshot(self, asked: Any) -> Any:
        tables = [pb.CommittedLakeTableV9(table_id=table.table_id) for table in asked.tables]
        return pb.CommitLakeTableSnapshotResponseV9(tables=tables)

    def _LakeTieringHeartbeat(self, asked: Any) -> Any:
        path = pb.TablePath(database_name="shop", table_name="log")
        results = [pb.TieringTableResult(table_id=table.table_id) for table in asked.tiering_tables]
        refused = pb.ErrorResponse(error_code=50, error_message="fenced")
        return pb.LakeTieringHeartbeatResponse(
            coordinator_epoch=2,
            tiering_table=pb.TieringTableInfo(table_id=7, table_path=path, tiering_epoch=1),
            tiering_results=results,
            finished_results=[pb.TieringTableResult(table_id=8, error=refused)],
        )

    def _Authenticate(self, _: Any) -> Any:
        return pb.AuthenticateResponse(challenge=b"")


# ---- what can be wrong

Mutation = tuple[str, Callable[[Any], bytes]]
_NUMBERS = (-1, 0, 1, 2, 77, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))
_TEXTS = (
    *("", "..", "../../outside", "/etc/passwd", "/dev/zero", "a\0b", "\x1b]0;x\x07", "x" * 5_000, "a/b", "."),
    *("s3://b/x", "http://127.0.0.1:1/x", "\u00e9"),
)
_JSON = (None, -1, 0, 1 << 40, 1.5, "", "x", [], {}, ["id", "id"], {"type": "ARRAY"}, True)


def mutations(answer: Any) -> Iterator[Mutation]:
    """Each answer that is wrong in one place."""
    for place, change in _changes(answer):
        yield place, lambda right, change=change: _changed(right, change)
    whole = bytes(answer.SerializeToString())
    for keep in sorted({0, 1, len(whole) // 2, max(len(whole) - 1, 0)}):
        yield f"the first {keep} bytes", lambda right, keep=keep: bytes(right.SerializeToString())[:keep]
    yield "bytes behind", lambda right: bytes(right.SerializeToString()) + b"\xff\xff\xff\xff"
    for at in range(0, min(len(whole), 200), 3):
        yield f"byte {at} flipped", lambda right, at=at: _flipped(right.SerializeToString(), at)


def _long(by: int) -> Callable[[bytes], bytes]:
    """A frame that says that it is longer, or shorter, than it is."""
    return lambda frame: struct.pack(">i", struct.unpack_from(">i", frame)[0] + by) + frame[4:]


FRAMES: dict[str, Callable[[bytes], bytes]] = {
    **{f"cut at {n} %": lambda frame, n=n: frame[: len(frame) * n // 100] for n in (5, 50, 95)},
    **{f"stretched by {n} bytes": lambda frame, n=n: frame + b"\xff" * n for n in (1, 7, 500)},
    **{f"{by} bytes longer than it is": _long(by) for by in (1, 4, 60_000, -1, -4)},
    **{
        f"{size} bytes long": lambda frame, size=size: struct.pack(">i", size) + frame[4:]
        for size in (-1, 0, 4, (1 << 30), (1 << 31) - 1)
    },
    **{f"of kind {n}": lambda frame, n=n: frame[:4] + bytes([n]) + frame[5:] for n in (1, 2, 3, 255)},
    "of another request": lambda frame: frame[:5] + struct.pack(">i", 1 << 30) + frame[9:],
    "twice": lambda frame: frame * 2,
    "empty": lambda frame: b"",
}
"""What can be wrong in the frame of an answer."""


def _changed(right: Any, change: Callable[[Any], None]) -> bytes:
    message = copy.deepcopy(right)
    with contextlib.suppress(IndexError, ValueError):  # it has no such place, or the field no such value
        change(message)
    return bytes(message.SerializePartialToString())


def _flipped(data: bytes, at: int) -> bytes:
    actual = bytearray(data)
    if at < len(actual):
        actual[at] ^= 0xFF
    return bytes(actual)


def _changes(
    message: Any, path: str = "", at: Callable[[Any], Any] = lambda m: m
) -> Iterator[tuple[str, Any]]:
    """(place, what changes it in a message of that class)."""
    for field in message.DESCRIPTOR.fields:
        name, place = field.name, f"{path}.{field.name}"
        value = getattr(message, name)
        nested = field.message_type is not None
        if field.is_repeated:
            yield f"{place} emptied", lambda m, name=name: at(m).ClearField(name)
            if len(value):
                for times in (1, 2_000):
                    yield (
                        f"{place} × {times + 1}",
                        lambda m, n=name, t=times: getattr(at(m), n).extend(list(getattr(at(m), n))[:1] * t),
                    )
                last = len(value) - 1
                for i in {0, last}:
                    if nested:
                        inner = lambda m, n=name, i=i: getattr(at(m), n)[i]  # noqa: E731
                        yield from _changes(value[i], f"{place}[{i}]", inner)
                    else:
                        for other in _others(field, value[i]):
                            yield (
                                f"{place}[{i}] = {other!r:.40}",
                                lambda m, n=name, i=i, o=other: getattr(at(m), n).__setitem__(i, o),
                            )
            continue
        if message.HasField(name):
            yield f"{place} away", lambda m, name=name: at(m).ClearField(name)
        if nested:
            if message.HasField(name):
                yield from _changes(value, place, lambda m, n=name: getattr(at(m), n))
            continue
        for other in _others(field, value):
            yield f"{place} = {other!r:.40}", lambda m, n=name, o=other: setattr(at(m), n, o)


def _others(field: Any, value: Any) -> Iterator[Any]:
    if field.type == field.TYPE_STRING:
        yield from _TEXTS
        yield value + "/../../../../../../outside"
    elif field.type == field.TYPE_BYTES:
        yield from (b"", b"\xff" * 9, value[: len(value) // 2], value + b"\0\0")
        yield from _other_json(value) if value[:1] == b"{" else _other_bytes(value)
    elif field.type == field.TYPE_BOOL:
        yield not value
    else:
        small = field.type == field.TYPE_INT32
        yield from (number for number in _NUMBERS if not small or -(1 << 31) <= number < 1 << 31)
        yield value + 1


def _other_bytes(value: bytes) -> Iterator[bytes]:
    """Bytes with a number in the place of four of them, batches also with the CRC that fits."""
    for at in range(0, min(len(value) - 4, 120), 4 if len(value) > 500 else 3):
        for number in (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0"):
            actual = bytearray(value)
            actual[at : at + 4] = number
            if len(value) > 60 and at >= 25:
                (length,) = struct.unpack_from("<i", actual, 8)
                end = max(min(12 + length, len(actual)), 25)
                actual[21:25] = struct.pack("<I", google_crc32c.value(bytes(actual[25:end])))
            yield bytes(actual)


def _other_json(value: bytes) -> Iterator[bytes]:
    right = json.loads(value)
    for path in _places(right):
        for other in _JSON:
            actual = copy.deepcopy(right)
            at = actual
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = other
            yield json.dumps(actual).encode()
    yield b"[" * 100_000
    yield b'{"schema":' * 50_000
    nested = {"type": "ARRAY", "element_type": {"type": "STRING"}}
    for _ in range(300):
        nested = {"type": "ARRAY", "element_type": nested}
    right["schema" if "schema" in right else "columns"] = {"columns": [{"name": "id", "data_type": nested}]}
    yield json.dumps(right).encode()


def _places(actual: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = (
        actual.items() if isinstance(actual, dict) else enumerate(actual) if isinstance(actual, list) else ()
    )
    for step, below in list(steps):
        yield (*path, step)
        yield from _places(below, (*path, step))
