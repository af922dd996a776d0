"""Who may ask the coordinator: those who may write the lake, on this machine, in bounded number and time."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest, Unavailable
from tablestore.fluss import apis
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.messages import pb
from tablestore.fluss.sign_in import PASSWORD_VARIABLE, LakeToken, lake_user, sign_in_at, token_path
from tablestore.fluss.tables import TableBucket, TablePath
from tablestore.table.lake import Lake
from tablestore.tiering.coordinator.coordinator import Coordinator
from tests.tiering.coordinator.wire import asked, code_of, connected, ends, sign_in, signed_in

TIERED = {"log.system": "embedded", "bucket": 1, "bucket-key": "v", "tablestore.tiering.enabled": True}
ASKED_FOR = [key for key in apis.APIS if key not in (apis.API_VERSIONS.key, apis.AUTHENTICATE.key)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return ts.connect(tmp_path / "a lake, with: signs@")


@pytest.fixture
def coordinator(lake: Lake) -> Iterator[Coordinator]:
    lake.create_table("shop.t", schema={"v": ts.INT}, options=TIERED).write([{"v": 1}])
    with lake.coordinator() as c:
        yield c


def test_a_stranger_learns_what_is_served_and_nothing_else(coordinator: Coordinator) -> None:
    with connected(coordinator) as wire:
        hello = pb.ApiVersionsRequest(client_name="x", client_version="1").SerializeToString()
        assert asked(wire, apis.API_VERSIONS.key, hello)[0] == 0
        for key in (*ASKED_FOR, 4711):
            assert code_of(asked(wire, key)) == ErrorCode.AUTHENTICATE
    with Cluster(coordinator.server, timeout=240) as nobody, pytest.raises(FlussError) as e:
        Admin(nobody).databases()
    assert e.value.code == ErrorCode.AUTHENTICATE


@pytest.mark.parametrize("password", ["", "wrong", "\u00fc"])
def test_a_wrong_password_ends_the_connection(coordinator: Coordinator, password: str) -> None:
    with connected(coordinator) as wire:
        assert code_of(sign_in(wire, password)) == ErrorCode.AUTHENTICATE
        assert ends(wire)


def test_another_mechanism_and_a_message_that_is_none_end_the_connection(coordinator: Coordinator) -> None:
    right = Path(coordinator.token_file).read_text()
    with connected(coordinator) as wire:
        assert code_of(sign_in(wire, right, "GSSAPI")) == ErrorCode.AUTHENTICATE
        assert ends(wire)
    for body in (
        b"\xff",
        b"",
        pb.AuthenticateRequest(protocol="PLAIN", token=b"no parts").SerializeToString(),
    ):
        with connected(coordinator) as wire:
            assert code_of(asked(wire, apis.AUTHENTICATE.key, body)) in (
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.AUTHENTICATE,
            )
            assert ends(wire)


def test_the_address_is_enough_for_who_may_read_the_token(lake: Lake, coordinator: Coordinator) -> None:
    with Cluster(f"fluss://{coordinator.address}", timeout=240) as cluster:
        assert Admin(cluster).databases() == ["shop"]
        assert str(cluster) == f"fluss://{coordinator.address}"
    password = Path(coordinator.token_file).read_text()
    assert password not in f"{coordinator!r} {coordinator.address} {vars(cluster)}"


def test_others_get_the_password_by_the_environment(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = Path(coordinator.token_file).read_text()
    Path(coordinator.token_file).unlink()
    with Cluster(coordinator.address, timeout=240) as cluster:
        with pytest.raises(InvalidRequest, match=f"tokens/\\d+, which cannot be read.*{PASSWORD_VARIABLE}"):
            Admin(cluster).databases()
        monkeypatch.setenv(PASSWORD_VARIABLE, password)
        assert Admin(cluster).databases() == ["shop"]
    with Cluster(f"anyone@{coordinator.server}", timeout=240) as cluster:
        assert Admin(cluster).databases() == ["shop"]


def test_each_start_makes_another_password_and_a_client_reads_it_again(lake: Lake) -> None:
    with lake.coordinator() as first:
        port, before = int(first.server.split(":")[1]), Path(first.token_file).read_text()
        cluster = Cluster(first.address, timeout=240)
        assert Admin(cluster).databases() == []
    assert not Path(first.token_file).exists()
    with lake.coordinator(port=port) as second, cluster:
        assert Path(second.token_file).read_text() != before
        assert Admin(cluster).databases() == []
        with connected(second) as wire:
            assert code_of(sign_in(wire, before)) == ErrorCode.AUTHENTICATE


@pytest.mark.parametrize(
    ("folder", "file"), [(0o700, 0o600), (0o755, 0o600), (0o770, 0o640), (0o775, 0o640), (0o777, 0o644)]
)
@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_the_token_is_for_those_who_may_write_the_lake(
    tmp_path: Path, folder: int, file: int, mask: int
) -> None:
    warehouse = tmp_path / "lake"
    warehouse.mkdir()
    warehouse.chmod(folder)
    before = os.umask(mask)
    try:
        with ts.connect(warehouse).coordinator() as c:
            actual = Path(c.token_file)
            assert stat.S_IMODE(actual.stat().st_mode) == file
            assert stat.S_IMODE(actual.parent.stat().st_mode) == 0o700 | ((file & 0o044) * 5 // 4)
    finally:
        os.umask(before)


def test_the_password_goes_to_this_machine_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says that the coordinator is elsewhere does not get the token there."""
    user = lake_user(str(tmp_path))
    assert sign_in_at(user, "127.0.0.1", 4711) == LakeToken(str(tmp_path), 4711)
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    for host in ("example.org", "localhost", "::1"):  # where at the same port somebody else may listen
        with pytest.raises(InvalidRequest, match=r"sent to 127\.0\.0\.1 alone.*@127\.0\.0\.1:4711"):
            sign_in_at(user, host, 4711)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_lies_in_the_place_of_a_token_is_not_followed(tmp_path: Path, kind: str) -> None:
    path = Path(token_path(str(tmp_path), 4711))
    path.parent.mkdir(parents=True)
    (tmp_path / "other").write_text("secret")
    path.symlink_to(tmp_path / "other") if kind == "link" else os.mkfifo(path)
    with pytest.raises(InvalidRequest, match="cannot be read here"):
        _ = LakeToken(str(tmp_path), 4711).token


def test_a_coordinator_that_cannot_keep_its_password_does_not_start(lake: Lake, tmp_path: Path) -> None:
    place = Path(lake.warehouse) / ".tablestore" / "coordinator" / "tokens"
    place.parent.mkdir(parents=True)
    place.write_text("a file")
    with pytest.raises(Unavailable, match="tokens"):
        lake.coordinator()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", ""])
def test_other_addresses_are_refused_with_the_remedy(lake: Lake, host: str) -> None:
    with pytest.raises(InvalidRequest, match=r"listens on 127\.0\.0\.1 alone.*ssh -L"):
        lake.coordinator(host=host)
    assert not Path(lake.warehouse).exists()


def test_only_tables_that_are_tiered_are_shown(lake: Lake, coordinator: Coordinator) -> None:
    hidden = {**TIERED, "tablestore.tiering.enabled": False}
    other = lake.create_table("secret.t", schema={"v": ts.INT}, options=hidden)
    lake.create_table("shop.hidden", schema={"v": ts.INT}, options=hidden)
    with Cluster(coordinator.address, timeout=240) as cluster:
        admin = Admin(cluster)
        assert admin.databases() == ["shop"]
        assert [str(path) for path in admin.tables("shop")] == ["shop.t"]
        assert not admin.table_exists(TablePath("secret", "t"))
        with pytest.raises(FlussError, match="TABLE_NOT_EXIST"):
            admin.table(TablePath("shop", "hidden"))
        other.alter(ts.set_options({"tablestore.tiering.enabled": True}))
        assert admin.table_exists(TablePath("secret", "t"))


def test_a_snapshot_that_the_lake_does_not_have_is_not_registered(
    lake: Lake, coordinator: Coordinator
) -> None:
    table = lake.table("shop.t")
    table.write([{"v": 2}])
    with Cluster(coordinator.address, timeout=240) as cluster:
        admin = Admin(cluster)
        described = admin.table(TablePath("shop", "t"))
        bucket = TableBucket(described.table_id, None, 0)

        def refused(snapshot_id: int, at: TableBucket, offset: int) -> bool:
            with pytest.raises(FlussError, match=r"cannot have the rows|no bucket"):
                admin.commit_lake_snapshot(described, snapshot_id, {at: offset})
            return True

        wrong = TableBucket(described.table_id, None, 9), TableBucket(described.table_id, 3, 0)
        assert all(refused(1, at, 1) for at in wrong)
        assert refused(1, bucket, 3)
        assert refused(-1, bucket, 1)
        assert admin.lake_snapshot(described.path) is None
        admin.commit_lake_snapshot(described, 9, {bucket: 1})  # of another lake: only the log can be asked
        assert admin.lake_snapshot(described.path).snapshot_id == 9
        table.log.finish()
        newest = table.log.newest_snapshot
        assert refused(newest + 1, bucket, 2)
        admin.commit_lake_snapshot(described, newest, {bucket: 2})
        lake_snapshot = admin.lake_snapshot(described.path)
        assert (lake_snapshot.snapshot_id, dict(lake_snapshot.offsets)) == (newest, {bucket: 2})


# in bounded number and time


def test_strangers_who_wait_give_way(coordinator: Coordinator) -> None:
    """Twice as many as there may be, and a client has room at once."""
    idle = [connected(coordinator) for _ in range(128)]
    with signed_in(coordinator) as wire:
        assert asked(wire, apis.LIST_DATABASES.key)[0] == 0
        assert ends(idle[0])
        more = [connected(coordinator) for _ in range(128)]
        assert asked(wire, apis.LIST_DATABASES.key)[0] == 0
    for peer in (*idle, *more):
        peer.close()


def test_clients_too_many_are_refused_and_room_comes_back(coordinator: Coordinator) -> None:
    password = Path(coordinator.token_file).read_text()
    open_now = [signed_in(coordinator) for _ in range(64)]
    with connected(coordinator) as late:
        assert code_of(sign_in(late, password)) == ErrorCode.RETRIABLE_AUTHENTICATE
    for peer in open_now:
        peer.close()
    for _ in range(1_000):
        with connected(coordinator) as again:
            if sign_in(again, password)[0] == 0:
                return
        time.sleep(0.02)
    raise AssertionError("no room came back")


def test_lengths_alone_take_no_memory(coordinator: Coordinator) -> None:
    """Sixty strangers announce as much as they may, and more."""
    tracemalloc.start()
    try:
        for size in (apis.SMALL, 1 << 20, 16 << 20, 0x7FFFFFFF):
            wires = [connected(coordinator) for _ in range(60)]
            for wire in wires:
                wire.sendall(struct.pack(">i", size))
            if size > apis.SMALL:
                answers = [until_the_end(wire) for wire in wires]
                assert all(not a or struct.unpack(">i", a[:4])[0] == len(a) - 4 for a in answers)
                assert any(answers), "whoever waits for long, on a busy machine, ends without a word"
            for wire in wires:
                wire.close()
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def until_the_end(wire: socket.socket) -> bytes:
    """All that comes until the other side ends the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := wire.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("begun", [b"", b"\0\0", struct.pack(">ihh", 100, 1003, 0)])
def test_a_connection_that_waits_too_long_ends(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    for name in ("_SIGN_IN_SECONDS", "_FRAME_SECONDS", "_IDLE_SECONDS"):
        monkeypatch.setattr(f"tablestore.tiering.coordinator.coordinator.{name}", 0.3)
    with connected(coordinator) as stranger:
        stranger.sendall(begun)
        assert ends(stranger)
    with signed_in(coordinator) as client:
        client.sendall(begun)
        assert ends(client)
