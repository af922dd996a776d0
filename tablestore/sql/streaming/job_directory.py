"""The directory of a job: what it is, how far it came, checkpoints and state; it outlives the process.

<root>/<job>/job.json       what it is: statements, targets, queries; written once
<root>/<job>/status.json    state, batches, rows, error; replaced as they change
<root>/<job>/<n>/           of its n-th INSERT: checkpoint/, and state/ of a GROUP BY
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tablestore.core.errors import Corrupt, NotFound, Unsupported
from tablestore.flow.journal import JournalFiles
from tablestore.io.paths import checked_name, is_object_location, join, location

VERSION = 1
DEFAULT_ROOT = ".tablestore/jobs"
_RECORD, _STATUS = "job.json", "status.json"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What is known of a job by its directory. `id` differs from that of an earlier job of the same name,
    `created_ms` is when it was first started; `parts` say of each INSERT what its target and query are."""

    name: str
    id: str
    created_ms: int
    statements: tuple[str, ...]
    parts: tuple[Mapping[str, str], ...]

    def to_json(self) -> bytes:
        """The bytes of `job.json`."""
        fields = {"v": VERSION, "name": self.name, "id": self.id, "createdMs": self.created_ms}
        fields |= {"statements": list(self.statements), "parts": [dict(p) for p in self.parts]}
        return json.dumps(fields, indent=1, ensure_ascii=False).encode()

    @staticmethod
    def of(fields: Mapping[str, Any]) -> JobRecord:
        """What `job.json` says."""
        statements, parts = tuple(fields["statements"]), tuple(fields["parts"])
        return JobRecord(fields["name"], fields["id"], fields["createdMs"], statements, parts)


@dataclass(frozen=True, slots=True)
class PartStatus:
    """How far an INSERT came: batches and rows, and the offset that it has reached."""

    batches: int = 0
    rows: int = 0
    offset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How a job is: RUNNING, RESTARTING, FINISHED, FAILED or STOPPED, and since when (`started_ms`)."""

    state: str
    started_ms: int
    parts: tuple[PartStatus, ...]
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """What is in `status.json`."""
        parts = [{"batches": p.batches, "rows": p.rows, "offset": p.offset} for p in self.parts]
        fields = {"v": VERSION, "state": self.state, "startedMs": self.started_ms, "error": self.error}
        return {**fields, "parts": parts}

    @staticmethod
    def of(fields: Mapping[str, Any]) -> JobStatus:
        """What `status.json` says."""
        parts = tuple(PartStatus(p["batches"], p["rows"], p["offset"]) for p in fields["parts"])
        return JobStatus(fields["state"], fields["startedMs"], parts, fields["error"])


@dataclass(frozen=True, slots=True)
class JobDirectories:
    """The directories of the jobs below one root."""

    root: str

    @staticmethod
    def of(setting: str, warehouse: str | None) -> JobDirectories:
        """Those that `execution.checkpointing.dir` names, else those of a warehouse on a local disk. Raises
        Unsupported where there is neither."""
        if setting:
            return JobDirectories(location(setting))
        if warehouse is None or is_object_location(warehouse):
            why = "the warehouse is not on a local disk: SET 'execution.checkpointing.dir' = 'directory'"
            raise Unsupported("a job without a directory for its checkpoints", why)
        return JobDirectories(join(warehouse, DEFAULT_ROOT))

    @property
    def _files(self) -> JournalFiles:
        return JournalFiles(self.root)

    def place(self, name: str, *parts: str) -> str:
        """The directory of a job, or something in it."""
        return join(self.root, checked_name(name, "job"), *parts)

    def names(self) -> list[str]:
        """The jobs that there are, sorted."""
        folders = [entry.name for entry in self._files.io.list(self.root) if entry.is_dir]
        records = (self._read(f"{folder}/{_RECORD}", JobRecord.of) for folder in folders)
        return sorted(record.name for record in records if record is not None)

    def record(self, name: str) -> JobRecord | None:
        """What a job is, None if there is none of that name."""
        return self._read(f"{checked_name(name, 'job')}/{_RECORD}", JobRecord.of)

    def status(self, name: str) -> JobStatus | None:
        """How a job was when it last said so, None before."""
        return self._read(f"{checked_name(name, 'job')}/{_STATUS}", JobStatus.of)

    def keep(self, record: JobRecord) -> None:
        """Write what a job is."""
        self._files.put(f"{checked_name(record.name, 'job')}/{_RECORD}", record.to_json())

    def note(self, name: str, status: JobStatus) -> None:
        """Write how a job is."""
        self._files.put(f"{checked_name(name, 'job')}/{_STATUS}", status.to_json())

    def forget(self, name: str) -> None:
        """Remove the directory of a job. Raises NotFound."""
        if self.record(name) is None:
            raise NotFound.among("job", name, self.names())
        self._files.io.delete(self.place(name, _RECORD))  # from here on there is no such job
        self._files.io.delete_tree(self.place(name))

    def _read(self, name: str, of: Callable[[Mapping[str, Any]], T]) -> T | None:
        """What a file says. Raises Corrupt."""
        fields = self._files.fields(name)
        if fields is not None and fields.get("v") != VERSION:
            why = f"version {fields.get('v')!r}; version {VERSION} is known"
            raise Corrupt(self._files.place(name), why)
        return None if fields is None else of(fields)
