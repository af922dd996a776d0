"""A service begins once the cluster answers, or says that it does not."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time

import pytest

from notebooks.demo.ports import free_port
from tablestore import connect
from tablestore.core.errors import InvalidRequest, Unavailable, Unsupported
from tablestore.fluss import apis
from tablestore.fluss.errors import FlussError
from tablestore.fluss.frames import Request, error_frame, response_frame
from tablestore.fluss.messages import pb
from tablestore.tiering.fluss_cluster import FlussTieringCluster
from tablestore.tiering.opening import reached
from tests.fluss.test_admin import Recorded

STARTING = "java.lang.IllegalStateException: CoordinatorEventProcessor is not initialized yet."


def test_a_cluster_that_never_answers_is_one_error_after_the_wait(tmp_path, caplog):
    port = free_port()
    with pytest.raises(Unavailable, match=rf"127.0.0.1:{port} cannot be reached.*\(waited for 0.7 s\)$"):
        connect(tmp_path / "lake").tier(f"fluss://127.0.0.1:{port}", wait="700ms")
    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert ["waiting for it, at most 0.7 s" in record.getMessage() for record in said] == [True]
    assert not (tmp_path / "lake").exists()


def test_no_wait_is_an_error_at_once(tmp_path):
    with pytest.raises(Unavailable, match=r"Connection refused$"):
        connect(tmp_path / "lake").tier(f"fluss://127.0.0.1:{free_port()}", wait="0s")
    with pytest.raises(InvalidRequest, match="wait 'long' must be a duration"):
        connect(tmp_path / "lake").tier(f"fluss://127.0.0.1:{free_port()}", wait="long")


def test_a_coordinator_that_comes_up_meanwhile_is_found(tmp_path, monkeypatch):
    port, started = free_port(), []
    listening = socket.create_server
    monkeypatch.setattr(socket, "create_server", lambda _: listening(("127.0.0.1", port)))

    def start() -> None:
        time.sleep(0.5)
        started.append(Recorded(6, {}))

    threading.Thread(target=start).start()
    try:
        with pytest.raises(Unsupported, match=r"it begins with 0\.7: use follow=False"):
            connect(tmp_path / "lake").tier(f"fluss://127.0.0.1:{port}", wait="2min")
    finally:
        started[0].close()


class Starting(Recorded):
    """A coordinator that answers `refusals` questions with an error of a server that has just started, and
    then some before it knows a tablet server."""

    def __init__(self, refusals: int, alone: int, words: str = STARTING) -> None:
        self.refusals, self.alone, self.words = refusals, alone, words
        super().__init__(7, {})

    def _answer(self, request: Request) -> bytes:
        if request.api_key != apis.METADATA.key:
            return super()._answer(request)
        if self.refusals:
            self.refusals -= 1
            return error_frame(request.request_id, -1, self.words)
        here = pb.ServerNode(node_id=-1, host="127.0.0.1", port=self.port)
        self.alone -= 1
        servers = [] if self.alone >= 0 else [pb.ServerNode(node_id=0, host="127.0.0.1", port=self.port)]
        actual = pb.MetadataResponse(coordinator=here, tablet_servers=servers)
        return response_frame(request.request_id, actual.SerializeToString())


def test_a_cluster_that_is_still_starting_is_waited_for(caplog):
    with contextlib.closing(Starting(2, 2)) as server:
        cluster = FlussTieringCluster(f"127.0.0.1:{server.port}")
        reached(cluster, coordinated=True, seconds=120)
        cluster.close()
        assert (server.refusals, server.alone) == (0, -1)
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "is still starting: " in said
    assert "waiting for it, at most 2:00" in said


@pytest.mark.parametrize(
    ("refusals", "alone", "words"), [(10**9, 0, STARTING), (0, 10**9, "has no tablet server yet")]
)
def test_a_cluster_that_never_ends_to_start_is_one_error(refusals: int, alone: int, words: str):
    with contextlib.closing(Starting(refusals, alone)) as server:
        cluster = FlussTieringCluster(f"127.0.0.1:{server.port}")
        with pytest.raises(Unavailable, match=rf"{words}.*\(waited for 0\.2 s\)$"):
            reached(cluster, coordinated=True, seconds=0.2)


def test_another_error_of_no_code_ends_the_wait_at_once():
    with contextlib.closing(Starting(10**9, 0, "java.lang.NullPointerException")) as server:
        cluster = FlussTieringCluster(f"127.0.0.1:{server.port}")
        with pytest.raises(FlussError, match="NullPointer"):
            reached(cluster, coordinated=True, seconds=3600)
        cluster.close()
