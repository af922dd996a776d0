"""A writer or a reader of a table with a log in a process of its own, which is killed at an operation of its
files, or by whoever started it. What it was told, or has read, it notes before it goes on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tablestore.core.errors import CommitConflict, CommitUnknown, Unavailable
from tests.campaign.log_stores import opened
from tests.campaign.racer import MortalIO
from tests.log.followed import Followed
from tests.log.soak import Rows, small_segments

USER = "process"
HANG_SECONDS = 300.0
KILLED = -9
FAILED = 1


@dataclass(frozen=True)
class ProcessJob:
    """What the process does: writes the `commits` with identifiers from `first` on, each again until it is
    acknowledged, or, without any, reads on from what `notes` has. `dies_at`: see MortalIO."""

    folder: Path
    notes: Path
    commits: tuple[Rows, ...] = ()
    first: int = 0
    dies_at: int | None = None

    def note(self, what: object) -> None:
        """Write down what is so far, at once."""
        half = self.notes.with_suffix(".half")
        half.write_bytes(pickle.dumps(what))
        half.replace(self.notes)

    def noted(self) -> Any:
        """What was written down last; None if nothing was."""
        return pickle.loads(self.notes.read_bytes()) if self.notes.exists() else None


def as_table(rows: Rows) -> pa.Table:
    """Rows with a column of their kinds."""
    kinds, keys, values = zip(*rows, strict=True)
    return pa.table({"kind": kinds, "k": pa.array(keys, pa.int32()), "v": pa.array(values, pa.int64())})


def run(job: ProcessJob) -> None:
    """The whole life of the process; what it raises is in the notes."""
    os.setpgid(0, 0)
    try:
        with small_segments():
            _write(job) if job.commits else _read(job)
    except BaseException:
        job.note(traceback.format_exc())
        sys.exit(FAILED)


def _write(job: ProcessJob) -> None:
    io, until = MortalIO(job.dies_at), time.monotonic() + HANG_SECONDS
    for number, rows in enumerate(job.commits):
        while True:
            with contextlib.suppress(CommitConflict, CommitUnknown, Unavailable):
                table = opened(job.folder, io=io)
                table.write(as_table(rows), user=USER, identifier=job.first + number, row_kind_column="kind")
                break
            if time.monotonic() > until:
                raise AssertionError("it does not end")
            time.sleep(0.05)
        job.note(number + 1)


def _read(job: ProcessJob) -> None:
    reader: Followed = job.noted()
    table = opened(job.folder, io=MortalIO(job.dies_at))
    for step in table.stream(start=reader.cursor or "latest-full", timeout=0.0):
        reader.take(step)
        job.note(reader)


def started(job: ProcessJob) -> Any:
    """The process of a job."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.campaign.racer", "tests.campaign.log_process"])
    process = processes.Process(target=run, args=(job,))
    process.start()
    return process


def ended(process: Any, job: ProcessJob) -> bool:
    """Whether the process, when it ends, was killed; raises AssertionError where it failed or hangs."""
    process.join(HANG_SECONDS)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("a process hangs")
    if process.exitcode not in (0, KILLED):
        raise AssertionError(f"a process ended with {process.exitcode}: {job.noted()}")
    return bool(process.exitcode == KILLED)
