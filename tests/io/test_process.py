"""Processes beside this one: ranges and answers, limits, and how their end is noticed."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tablestore.core.errors import Corrupt, Unavailable
from tablestore.format import datafile
from tablestore.format.data_format import FileRequest
from tablestore.format.orc import data as orc_data
from tablestore.io import process
from tablestore.io.fileio import LocalFileIO
from tablestore.io.process import Fetch, Process, ProcessLost
from tests.read import golden


def answers() -> None:
    process.serve(_answer)


def lose() -> None:
    """A process that is ended by the signal that its requests name."""
    process.serve(lambda request, fetch: _ended(signal.SIGKILL))


def crash() -> None:
    process.serve(lambda request, fetch: _ended(signal.SIGSEGV))


def _ended(by: signal.Signals) -> Generator[bytes, None, bytes]:
    os.kill(os.getpid(), by)
    yield b"never"
    return b""


def _answer(request: bytes, fetch: Fetch) -> Generator[bytes, None, bytes]:
    if request == b"crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if request == b"memory":
        process.MEMORY_BYTES = 64 << 20
        try:
            with process.limited(0):
                bytearray(2 * process.MEMORY_BYTES)
        except MemoryError:
            return b"too much"
    yield fetch(2, 3)
    print("libraries print")
    yield b"-" * 100_000
    return request


def test_parts_of_an_answer_come_in_order_and_ranges_on_demand() -> None:
    file = b"0123456789"
    with process.borrowed(__name__, "answers") as beside:
        for request in (b"first", b"second"):
            parts, end = beside.ask(request, lambda at, length: file[at : at + length])
            assert [p.to_pybytes() for p in parts] == [b"234", b"-" * 100_000]
            assert end == request
    with process.borrowed(__name__, "answers") as again:
        assert again is beside
    process.end_waiting()
    assert not beside.runs


def test_what_ends_a_process_is_said() -> None:
    with pytest.raises(ProcessLost, match="SIGSEGV") as lost:
        Process(__name__, "answers").ask(b"crash", lambda at, length: b"")
    assert not lost.value.by_others


def test_an_error_of_the_store_is_the_readers_and_ends_the_process() -> None:
    def fetch(at: int, length: int) -> bytes:
        raise Unavailable("the store is away")

    beside = Process(__name__, "answers")
    with pytest.raises(Unavailable, match="the store is away"):
        beside.ask(b"", fetch)
    assert not beside.runs


def test_memory_is_limited() -> None:
    beside = Process(__name__, "answers")
    assert beside.ask(b"memory", lambda at, length: b"") == ([], b"too much")
    beside.end()


@pytest.mark.parametrize(("function", "error"), [("crash", Corrupt), ("lose", Unavailable)])
@pytest.mark.sample(1)
def test_a_decoder_that_crashes_is_damage_and_one_that_was_killed_is_not(
    monkeypatch: pytest.MonkeyPatch, function: str, error: type[Exception]
) -> None:
    store = golden.java("pk_orc")
    e = next(iter(store.manifests.live_entries(store.snapshots.latest())))
    path = Path(store.file_path(e.partition, e.bucket, e.file))
    monkeypatch.setattr(orc_data, "_DECODER", (__name__, function))
    with pytest.raises(error, match=path.name):
        list(datafile.read(LocalFileIO(), str(path), store.schema, FileRequest(store.schema.names)))
    monkeypatch.undo()
    batches = list(datafile.read(LocalFileIO(), str(path), store.schema, FileRequest(store.schema.names)))
    assert sum(b.num_rows for b in batches) == e.file.row_count
