"""A service begins once the cluster answers, or says that it does not."""

from __future__ import annotations

import logging
import socket
import threading
import time

import pytest

from tablestore import connect
from tablestore.core.errors import InvalidRequest, Unavailable, Unsupported
from tests.fluss.test_admin import Recorded


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def test_a_cluster_that_never_answers_is_one_error_after_the_wait(tmp_path, caplog):
    port = free_port()
    with pytest.raises(Unavailable, match=rf"127.0.0.1:{port} cannot be reached.*\(waited for 0.7 s\)$"):
        connect(tmp_path / "lake").tier(f"fluss://127.0.0.1:{port}", wait="700ms")
    said = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert ["waiting for it, at most 0.7 s" in one.getMessage() for one in said] == [True]
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
