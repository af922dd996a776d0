"""What is sent to clusters of each version, and what their answers become."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tablestore.core.errors import Corrupt, InvalidRequest, Unavailable, Unsupported
from tablestore.fluss import apis
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import FlussError
from tablestore.fluss.frames import Request, error_frame, response_frame
from tablestore.fluss.heartbeat import (
    FENCED_TIERING_EPOCH,
    HeartbeatRequest,
    HeartbeatResponse,
    TableEpoch,
    TableResponse,
    TieringTable,
)
from tablestore.fluss.messages import pb
from tablestore.fluss.tables import (
    FlussColumn,
    FlussTable,
    TableBucket,
    TableDescriptor,
    TablePath,
)
from tests.fluss.all_types import TYPES
from tests.fluss.scripted_server import ScriptedServer

TABLE = FlussTable(TablePath("d", "t"), 7, 1, TableDescriptor((FlussColumn("a", TYPES["int"]),), buckets=2))
FIRST, SECOND = TableBucket(7, 11, 0), TableBucket(7, 12, 1)
KEYS = {6: range(1000, 1038), 7: range(1000, 1043), 8: range(1000, 1047), 9: range(1000, 1060)}


class Recorded(ScriptedServer):
    """A coordinator of a version; `answers` by key are the bytes of messages, or an error's code and text."""

    def __init__(self, minor: int, answers: dict[int, bytes | tuple[int, str]]) -> None:
        self.answers = answers
        super().__init__(KEYS[minor], self._answer)

    def _answer(self, request: Request) -> bytes:
        if request.api_key == apis.METADATA.key:
            here = pb.ServerNode(node_id=-1, host="127.0.0.1", port=self.port)
            return response_frame(
                request.request_id, pb.MetadataResponse(coordinator=here).SerializeToString()
            )
        answer = self.answers[request.api_key]
        if isinstance(answer, tuple):
            return error_frame(request.request_id, *answer)
        return response_frame(request.request_id, answer)

    def asked(self, key: int) -> bytes:
        """The last request of a key."""
        return bytes(next(request.body for request in reversed(self.requests) if request.api_key == key))


@pytest.fixture
def recorded() -> Iterator[object]:
    opened: list[Recorded | Cluster] = []

    def make(minor: int, answers: dict[int, bytes | tuple[int, str]]) -> tuple[Recorded, Admin]:
        server = Recorded(minor, answers)
        cluster = Cluster(f"fluss://127.0.0.1:{server.port}", timeout=240)
        opened.extend((cluster, server))
        return server, Admin(cluster)

    yield make
    for peer in opened:
        peer.close()


@pytest.mark.parametrize("minor", [6, 7, 8, 9])
def test_the_version_is_told_by_what_the_coordinator_serves(recorded, minor: int) -> None:
    _, admin = recorded(minor, {})
    assert admin.cluster.version == (0, minor)


def test_before_0_7_nothing_is_handed_out(recorded) -> None:
    _, admin = recorded(6, {})
    with pytest.raises(Unsupported, match="LakeTieringHeartbeat at"):
        admin.heartbeat()


# The bytes are spelled by hand from the numbers of the fields: 0x08 = field 1, varint; 0x0a = field 1, bytes.


def test_a_lake_commit_to_0_7_and_its_answer(recorded) -> None:
    server, admin = recorded(7, {1030: bytes.fromhex("0a02 0807")})
    admin.commit_lake_snapshot(TABLE, 5, {FIRST: 100, SECOND: 3}, partition_names={11: "x"})
    first, second = bytes.fromhex("08 0b 10 00 20 64"), bytes.fromhex("08 0c 10 01 20 03")
    sent = bytes.fromhex("08 07 10 05") + b"\x1a\x06" + first + b"\x1a\x06" + second
    assert server.asked(1030) == b"\x0a" + bytes([len(sent)]) + sent
    server.answers[1030] = bytes.fromhex("0a 07 08 07 10 07 1a 01 78")
    with pytest.raises(FlussError, match=r"d\.t lake snapshot 5: Fluss error 7 TABLE_NOT_EXIST: x"):
        admin.commit_lake_snapshot(TABLE, 5, {FIRST: 100})


def test_a_lake_commit_to_0_8_names_partitions(recorded) -> None:
    server, admin = recorded(8, {1030: bytes.fromhex("0a02 0807")})
    admin.commit_lake_snapshot(TABLE, 5, {FIRST: 100, SECOND: 3}, partition_names={11: "x", 12: "y"})
    request = pb.CommitLakeTableSnapshotRequest.FromString(server.asked(1030))
    assert [(b.partition_id, b.partition_name) for b in request.tables[0].buckets] == [(11, "x"), (12, "y")]
    assert not request.tables[0].buckets[0].HasField("log_start_offset")


def test_a_lake_commit_to_0_9_has_two_steps_and_other_numbers(recorded) -> None:
    path = b"/offsets/1"
    prepared = b"\x18\x07\x22" + bytes([len(path)]) + path
    server, admin = recorded(
        9, {1052: b"\x0a" + bytes([len(prepared)]) + prepared, 1030: bytes.fromhex("0a 02 18 07")}
    )
    place = admin.prepare_lake_snapshot(TABLE, {FIRST: 100})
    assert place == "/offsets/1"
    sent = (
        bytes.fromhex("08 07")
        + bytes.fromhex("12 06 0a 01 64 12 01 74")
        + bytes.fromhex("1a 06 08 0b 10 00 20 64")
    )
    assert server.asked(1052) == b"\x0a" + bytes([len(sent)]) + sent
    admin.commit_lake_snapshot(TABLE, 5, {FIRST: 100}, prepared=place)
    offsets = bytes.fromhex("0a 0c 08 07 10 05 1a 06 08 0b 10 00 20 64")  # for the tablet servers
    sent = bytes.fromhex("08 07 10 05 1a") + bytes([len(path)]) + path
    assert server.asked(1030) == offsets + b"\x12" + bytes([len(sent)]) + sent
    admin.commit_lake_snapshot(TABLE, 5, {FIRST: 100}, prepared=place, readable=place)
    first, sent = sent, sent + b"\x22" + bytes([len(path)]) + path
    assert server.asked(1030) == offsets + b"\x12" + bytes([len(sent)]) + sent
    admin.commit_lake_snapshot(TABLE, 5, {FIRST: 100})  # in one step for the caller
    assert server.asked(1030) == offsets + b"\x12" + bytes([len(first)]) + first
    server.answers[1030] = bytes.fromhex("0a 07 08 07 12 01 78 18 07")
    with pytest.raises(FlussError, match="TABLE_NOT_EXIST: x"):
        admin.commit_lake_snapshot(TABLE, 5, {FIRST: 100})
    server.answers[1052] = bytes.fromhex("0a 05 08 07 12 01 78")
    with pytest.raises(FlussError, match="before a lake snapshot: Fluss error 7"):
        admin.prepare_lake_snapshot(TABLE, {FIRST: 100})


def test_a_lake_commit_to_0_9_whose_answer_is_lost_is_not_sent_again(recorded) -> None:
    server, admin = recorded(9, {})
    answer = server.answer

    def lose(request: Request) -> bytes | None:
        if request.api_key == 1030:
            raise ConnectionError("the answer is lost")
        return answer(request)

    server.answer = lose
    with pytest.raises(Unavailable):
        admin.commit_lake_snapshot(TABLE, 5, {FIRST: 100}, prepared="/offsets/1")
    assert [request.api_key for request in server.requests].count(1030) == 1


def test_before_0_9_nothing_comes_before_a_lake_commit(recorded) -> None:
    server, admin = recorded(8, {})
    assert admin.prepare_lake_snapshot(TABLE, {FIRST: 100}) is None
    assert 1052 not in {request.api_key for request in server.requests}


def test_a_lake_snapshot_of_0_8_with_names_of_partitions(recorded) -> None:
    bucket = bytes.fromhex("08 0b 10 00 18 64 22 01 78")
    _, admin = recorded(8, {1032: bytes.fromhex("08 07 10 05 1a") + bytes([len(bucket)]) + bucket})
    lake_snapshot = admin.lake_snapshot(TABLE.path)
    assert (lake_snapshot.table_id, lake_snapshot.snapshot_id, lake_snapshot.offsets) == (7, 5, {FIRST: 100})


@pytest.mark.parametrize(
    ("minor", "code", "text"),
    [(6, -1, "com.alibaba.fluss.exception.LakeTableSnapshotNotExistException: none"), (7, 53, "none")],
)
def test_no_lake_snapshot(recorded, minor: int, code: int, text: str) -> None:
    _, admin = recorded(minor, {1032: (code, text)})
    assert admin.lake_snapshot(TABLE.path) is None


def test_a_heartbeat_and_its_answer(recorded) -> None:
    table = bytes.fromhex("08 09 12 06 0a 01 64 12 01 75 18 03")
    fenced, fine = bytes.fromhex("08 07 12 05 08 32 12 01 78"), bytes.fromhex("08 08")
    answer = b"\x08\x02" + b"".join(
        bytes([tag, len(field)]) + field for tag, field in ((0x12, table), (0x1A, fenced), (0x22, fine))
    )
    server, admin = recorded(9, {1042: answer})
    actual = admin.heartbeat(
        HeartbeatRequest(
            (TableEpoch(7, 2, 4),), finished=(TableEpoch(8, 2, 1),), request_table=True, cut_short=(8,)
        )
    )
    fenced_table, finished_table = TableResponse(7, FENCED_TIERING_EPOCH, "x"), TableResponse(8)
    assert actual == HeartbeatResponse(2, TieringTable(9, "d.u", 3), (fenced_table,), (finished_table,))
    sent = bytes.fromhex("0a 06 08 07 10 02 18 04  12 06 08 08 10 02 18 01  20 01  28 08")
    assert server.asked(1042) == sent


def test_descriptions_of_tables_come_back() -> None:
    columns = tuple(FlussColumn(name, t, f"about {name}") for name, t in TYPES.items())
    created = TableDescriptor(
        (FlussColumn("id", TYPES["bigint"].not_null()), *columns),
        *(("id",), ("string",), ("id",), 4, {"a": "b"}, {"c": "d"}, "comment"),
    )
    assert TableDescriptor.from_json(created.to_json(), "") == created
    first = json.loads(created.to_json())["schema"]["columns"][0]
    assert first == {"name": "id", "data_type": {"type": "BIGINT", "nullable": False}}
    with pytest.raises(Corrupt, match=r"d\.t: a description that cannot be read"):
        TableDescriptor.from_json(b'{"schema": 5}', "d.t")


@pytest.mark.parametrize("address", ["here", "here:", ":5", "", "a:1,b", "reader@here"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequest, match="is no address of a Fluss cluster"):
        Cluster(address)
