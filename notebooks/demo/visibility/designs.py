"""Four ways to write a table whose rows readers should see soon: what becomes visible at each write, and what
at the checkpoint.

The writer's process is lost where an exception ends a checkpoint: what was made visible by then stays, the
rest is gone. Three of the designs are tables as anybody makes them. A table refuses the third, so it is built
from parts here: an append table, and a log beside it to which rows go at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.core.options.log_store import LogSystem
from tablestore.io.fileio import LocalFileIO
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.log import Log
from tablestore.log.settings import LogSettings

COLUMNS = {"id": ts.BIGINT, "amount": ts.BIGINT}
EMBEDDED = {"log.system": "embedded"}
EVENTUAL = {"log.consistency": "eventual", "log.changelog-mode": "upsert"}
_USER = "writer"
_POLL_SECONDS = 0.002
_DELIVERS = ("+I", "+U")

Write = Callable[[int, pa.RecordBatch], None]


class Design(Protocol):
    """A table, its writer and its readers. The writer belongs to one thread, each reader to another.
    `commits_at_once`: a batch is in the files as soon as it is written; `visible_at_once`: a reader may have
    it then."""

    name: str
    commits_at_once: bool
    visible_at_once: bool

    def checkpoint(self, number: int) -> AbstractContextManager[Write]:
        """The rows up to the next checkpoint, given batch by batch, each with its number."""
        ...

    def restart(self) -> None:
        """The writer's next process: it has what is in the store, and nothing else."""
        ...

    def follow(self) -> Iterator[list[int]]:
        """The ids of rows as a reader gets them, step by step, waiting for more without end. Keys of one step
        come in any order."""
        ...

    def ids(self) -> list[int]:
        """The ids of the rows that the files of the table hold."""
        ...

    def log_ids(self) -> list[int]:
        """The ids of the rows in the log, as they were appended; none without a log."""
        ...

    def sizes(self) -> dict[str, int]:
        """How many data files of the newest snapshot, log files and snapshots there are."""
        ...


class FilesAtOnce:
    """Every write is a commit, so every reader of the table sees it."""

    name, log_options = "files at once", dict[str, str]()
    key: tuple[str, ...] = ()
    commits_at_once, visible_at_once = True, True

    def __init__(self, place: Path, log: Mapping[str, str] = EMBEDDED) -> None:
        lake = ts.connect(str(place))
        options = {"bucket": 1, "write-only": True} | ({} if self.key else {"bucket-key": "id"})
        if self.log_options:
            options |= {**log, **self.log_options}
        self.table = lake.create_table("lab.rows", schema=COLUMNS, primary_key=self.key, options=options)

    @contextmanager
    def checkpoint(self, number: int) -> Iterator[Write]:
        """Each batch is a commit of its own; the checkpoint has nothing to do."""

        def write(batch: int, rows: pa.RecordBatch) -> None:
            self.table.write(rows, user=_USER, identifier=batch)

        yield write

    def restart(self) -> None:
        """Open the table."""
        self.table = ts.open(self.table.location)

    def follow(self) -> Iterator[list[int]]:
        """The stream of the table."""
        for step in ts.open(self.table.location).stream(poll_seconds=_POLL_SECONDS):
            yield [id for batch in step.batches for id in _delivered(batch)]

    def ids(self) -> list[int]:
        """The rows of the newest snapshot."""
        return self.table.scan(["id"], log=False).to_arrow()["id"].to_pylist()

    def log_ids(self) -> list[int]:
        """None."""
        return []

    def sizes(self) -> dict[str, int]:
        """What lies in the table's directory."""
        inspect = self.table.inspect
        log = Path(self.table.location) / "tablestore" / "log"
        return {
            "data_files": inspect.files().num_rows,
            "log_files": len(list(log.glob("*.log"))),
            "snapshots": inspect.snapshots().num_rows,
        }


class BothAtCheckpoint(FilesAtOnce):
    """Files and log become visible together, at the checkpoint."""

    name, log_options = "both at the checkpoint", {"log.consistency": "transactional"}
    commits_at_once, visible_at_once = False, False

    @contextmanager
    def checkpoint(self, number: int) -> Iterator[Write]:
        """One commit; where the block raises there is none."""
        with self.table.writer(user=_USER, identifier=number) as writer:
            yield lambda _, rows: writer.write(rows)

    def restart(self) -> None:
        """Open the table; what its log has and its files have not comes into files, as with every writer."""
        super().restart()
        assert self.table.log is not None, "it was made with one"
        self.table.log.finish()

    def log_ids(self) -> list[int]:
        """The log from its start."""
        steps = self.table.stream(start={"log": {0: 0}}, follow=False, normalize=False)
        return [id for step in steps for batch in step.batches for id in _delivered(batch)]


class LogAtOnceWithKey(BothAtCheckpoint):
    """The log shows rows at once, files come at the checkpoint; the table has a key, and readers a
    normaliser."""

    name, log_options = "log at once, with a key", EVENTUAL
    visible_at_once = True
    key = ("id",)


class LogAtOnceWithoutKey(FilesAtOnce):
    """The same without a key. A table refuses it, so a log is put beside a table that has none."""

    name = "log at once, no key"
    commits_at_once = False

    def __init__(self, place: Path, log: Mapping[str, str] = EMBEDDED) -> None:
        super().__init__(place, log)
        self._place = place / "log"

    def _log(self) -> Log:
        schema = self.table.store.schema.shown
        settings = LogSettings(
            LogSystem.EMBEDDED, str(self._place), None, schema, 1, eventual=True, upsert=False
        )
        return EmbeddedLog(LocalFileIO(), settings, schemas=lambda _: schema, env=SYSTEM)

    @contextmanager
    def checkpoint(self, number: int) -> Iterator[Write]:
        """Rows go to the log and are visible there; the files of all are one commit."""
        appender = self._log().appender()

        with self.table.writer(user=_USER, identifier=number) as writer:

            def write(_: int, rows: pa.RecordBatch) -> None:
                writer.write(rows)
                appender.write(0, pa.array(np.zeros(rows.num_rows, np.int8)), rows)
                appender.flush()

            yield write

    def follow(self) -> Iterator[list[int]]:
        """The log from its start."""
        log, at = self._log(), dict[int, int]()
        while True:
            if log.wait(at, 1.0):
                end = dict(log.bounds().end)
                for some in log.read(at, end):
                    yield some.rows.column("id").to_pylist()
                at = end

    def log_ids(self) -> list[int]:
        """The log from its start."""
        log = self._log()
        return [id for some in log.read({}, log.bounds().end) for id in some.rows.column("id").to_pylist()]

    def sizes(self) -> dict[str, int]:
        """What lies in the directories of table and log."""
        return {**super().sizes(), "log_files": len(list(self._place.glob("*.log")))}


DESIGNS: tuple[Callable[[Path, Mapping[str, str]], Design], ...] = (
    FilesAtOnce,
    BothAtCheckpoint,
    LogAtOnceWithoutKey,
    LogAtOnceWithKey,
)


def _delivered(changes: pa.RecordBatch) -> list[int]:
    """The ids of rows that are new or replace another."""
    pairs = zip(changes["rowkind"].to_pylist(), changes["id"].to_pylist(), strict=True)
    return [id for kind, id in pairs if kind in _DELIVERS]
