"""A process that carries out tasks for another one: `python -m tablestore.flow.worker FILE_DESCRIPTOR`.

It reads pickled (environment, task, item) from a socket, and answers with what the task gives, or with its
error. It ends at once, amid a task too, when the other process does.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection

import pyarrow as pa


def main(descriptor: int) -> None:
    """Carry out what comes, one task at a time, until the other side closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other process
    pa.set_cpu_count(1)  # there are as many workers as cores
    connection = Connection(descriptor)
    calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, calls), daemon=True).start()
    carrier = _Carrier()
    while True:
        answer = carrier.answer(calls.get())
        with contextlib.suppress(OSError):  # nobody waits any more: the other thread ends the process
            connection.send_bytes(answer)


def _receive(connection: Connection, calls: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            calls.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)  # a task may be under way: nobody wants what it gives


class _Carrier:
    """Carries out calls, each in the environment that comes with it."""

    def __init__(self) -> None:
        self._environment: Mapping[str, str] = {}  # of the call before

    def answer(self, call: bytes) -> bytes:
        """(True, what the task gives) or (False, its error, its traceback), pickled."""
        try:
            environment, task, item = pickle.loads(call)
            self._enter(environment)
            return pickle.dumps((True, task(item)))
        except BaseException as e:
            return _pickled_error(e)

    def _enter(self, environment: Mapping[str, str]) -> None:
        for name in self._environment.keys() - environment.keys():
            os.environ.pop(name, None)
        os.environ.update(environment)
        self._environment = environment


def _pickled_error(error: BaseException) -> bytes:
    """An error that arrives as it is, or as a RuntimeError that quotes it."""
    quoted = "".join(traceback.format_exception(error))
    try:
        answer = pickle.dumps((False, error, quoted))
        pickle.loads(answer)
    except Exception:
        return pickle.dumps((False, RuntimeError(quoted), quoted))
    return answer


if __name__ == "__main__":
    main(int(sys.argv[1]))
