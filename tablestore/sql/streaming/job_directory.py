"""The directory of a job: what it is, how far it came, checkpoints and state; it outlives the process.

<root>/<job>/job.json       what it is: statements, targets, queries; written once
<root>/<job>/status.json    state, batches, rows, error; replaced as they change
<root>/<job>/<n>/           of its n-th INSERT: checkpoint/, and state/ of a GROUP BY
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tablestore.core.errors import Corrupt, NotFound, Unsupported
from tablestore.io.fileio import FileIO
from tablestore.io.paths import checked_name, is_object_location, join, location
from tablestore.io.routed import file_io_for

VERSION = 1
DEFAULT_ROOT = ".tablestore/jobs"


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
    def of(data: bytes, path: str) -> JobRecord:
        """What the bytes say. Raises Corrupt."""
        fields = _read(data, path)
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

    def to_json(self) -> bytes:
        """The bytes of `status.json`."""
        parts = [{"batches": p.batches, "rows": p.rows, "offset": p.offset} for p in self.parts]
        fields = {"v": VERSION, "state": self.state, "startedMs": self.started_ms, "error": self.error}
        return json.dumps({**fields, "parts": parts}, ensure_ascii=False).encode()

    @staticmethod
    def of(data: bytes, path: str) -> JobStatus:
        """What the bytes say. Raises Corrupt."""
        fields = _read(data, path)
        parts = tuple(PartStatus(p["batches"], p["rows"], p["offset"]) for p in fields["parts"])
        return JobStatus(fields["state"], fields["startedMs"], parts, fields["error"])


def _read(data: bytes, path: str) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(data)
    except ValueError as e:
        raise Corrupt(path, f"no JSON: {e}") from None
    if fields.get("v") != VERSION:
        raise Corrupt(path, f"version {fields.get('v')!r}; version {VERSION} is known")
    return fields


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
    def _io(self) -> FileIO:
        return file_io_for(self.root)

    def place(self, name: str, *parts: str) -> str:
        """The directory of a job, or something in it."""
        return join(self.root, checked_name(name, "job"), *parts)

    def names(self) -> list[str]:
        """The jobs that there are, sorted."""
        paths = [
            join(self.root, entry.name, "job.json") for entry in self._io.list(self.root) if entry.is_dir
        ]
        return sorted(JobRecord.of(self._io.read(path), path).name for path in paths if self._io.exists(path))

    def record(self, name: str) -> JobRecord | None:
        """What a job is, None if there is none of that name."""
        path = self.place(name, "job.json")
        return JobRecord.of(self._io.read(path), path) if self._io.exists(path) else None

    def status(self, name: str) -> JobStatus | None:
        """How a job was when it last said so, None before."""
        path = self.place(name, "status.json")
        return JobStatus.of(self._io.read(path), path) if self._io.exists(path) else None

    def keep(self, record: JobRecord) -> None:
        """Write what a job is."""
        self._io.make_dir(self.place(record.name))
        self._io.replace(self.place(record.name, "job.json"), record.to_json())

    def note(self, name: str, status: JobStatus) -> None:
        """Write how a job is."""
        self._io.replace(self.place(name, "status.json"), status.to_json())

    def forget(self, name: str) -> None:
        """Remove the directory of a job. Raises NotFound."""
        if self.record(name) is None:
            raise NotFound.among("job", name, self.names())
        self._io.delete(self.place(name, "job.json"))  # from here on there is no such job
        self._io.delete_tree(self.place(name))
