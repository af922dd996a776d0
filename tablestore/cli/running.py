"""What commands that run for long share: what runs their tasks, what is shown, the end by an error or by
Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.live import Live

from tablestore.cli.door import ExitCode
from tablestore.cli.event_log import say_error, screen_for
from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.flow.restarts import is_transient
from tablestore.flow.runner import LOCAL, spark_session

REFUSED, FAILED, INTERRUPTED = ExitCode.REFUSED, ExitCode.FAILED, ExitCode.INTERRUPTED


def run(command: str, work: Callable[[Console], int], log: str | None, *, interrupted: str) -> int:
    """The exit code of a command: that of its `work`, which gets what it speaks to people by; `log` is the
    form of its log. Where Ctrl-C ends it `interrupted` is said, the text of an error where that does; a fault
    of ours has its traceback, and the command may be started again."""
    with screen_for(command, log) as screen:
        try:
            return work(screen)
        except KeyboardInterrupt:
            screen.print(interrupted)
            return INTERRUPTED
        except (TablestoreError, OSError) as error:
            code = code_of(error)
            say_error(screen, command, str(error), failed=code == FAILED)
            return code
        except Exception as error:
            say_error(screen, command, traceback.format_exc().rstrip(), failed=True)
            return code_of(error)


def code_of(error: BaseException) -> ExitCode:
    """What a command that an error has ended answers: `FAILED` where another start may help."""
    lasting = isinstance(error, (TablestoreError, OSError)) and not is_transient(error)
    return REFUSED if lasting else FAILED


def require_port(port: int) -> None:
    """Raise InvalidRequest where nobody can listen on a port of this machine (0: any that is free)."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as e:
        why = os.strerror(e.errno) if isinstance(e, OSError) and e.errno else str(e)
        raise InvalidRequest(f"--port {port}: {why}: name another, or none for any that is free") from None


@contextmanager
def asked_to_stop(screen: Console, words: str) -> Iterator[Event]:
    """An event that the first Ctrl-C sets, or the first SIGTERM, with `words` of what comes; the second one
    interrupts."""
    asked = Event()

    def ask(*_: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        screen.print(words)

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, ask) for number in signals]
    try:
        yield asked
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


_LOOK_SECONDS = 0.25


class ViewedJob(Protocol):
    """What runs by itself until it has ended or is stopped."""

    @property
    def running(self) -> bool: ...

    def stop(self) -> object:
        """End it, and wait until it has ended."""


def show_until_end(
    job: ViewedJob,
    screen: Console,
    asked: Event,
    *,
    picture: Callable[[], RenderableType],
    print_news: Callable[[], None],
) -> None:
    """Look at a job now and then until it has ended, and once after it; it is stopped once that is `asked`.

    A terminal shows its `picture`; elsewhere `print_news` prints what is new since it was called last."""
    if not screen.is_terminal:
        for _ in _until_end(job, asked):
            print_news()
        return
    with Live(console=screen, auto_refresh=False) as live:
        for _ in _until_end(job, asked):
            live.update(picture(), refresh=True)


def _until_end(job: ViewedJob, asked: Event) -> Iterator[None]:
    while job.running:
        yield
        if asked.wait(_LOOK_SECONDS):
            job.stop()
    yield


def cluster_settings(master: str, cores: int | None) -> dict[str, Any]:
    """The settings of a session on the cluster at `master`, of which it takes `cores` (None: all). Raises
    InvalidRequest for what is no address of a cluster."""
    if not master.startswith("spark://"):
        raise InvalidRequest(f"--master {master} is no address of a cluster: write spark://host:port")
    settings: dict[str, Any] = {"spark.master": master, "spark.task.maxFailures": 8}
    return settings if cores is None else settings | {"spark.cores.max": cores}


@contextmanager
def running(
    command: str, engine: str, cores: int | None, master: str | None = None
) -> Iterator[tuple[dict[str, Any], Path | None]]:
    """The arguments of a verb of the lake that say what runs it, and the file of Spark's own words. A session
    of Spark ends with the block; with `master` it is one of that cluster. Raises InvalidRequest for a
    `master` that is no cluster, or that the engine does not have."""
    if master is not None and engine == LOCAL:
        raise InvalidRequest(f"--master {master} is of --engine spark")
    conf: dict[str, Any] = {} if master is None else cluster_settings(master, cores)
    if engine == LOCAL:
        yield {"engine": LOCAL, "processes": cores}, None
        return
    with tempfile.NamedTemporaryFile(
        prefix=f"tablestore-{command}-", suffix=".log", delete=False
    ) as log_file:
        log = Path(log_file.name)
    conf["jobs_only"] = True
    remedy = f"choose --engine {LOCAL}"
    spark = spark_session(f"tablestore {command}", cores=cores, log_file=str(log), remedy=remedy, conf=conf)
    try:
        yield {"spark": spark}, log
    finally:
        with contextlib.suppress(Exception):  # its Java was killed
            spark.stop()
