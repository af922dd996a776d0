"""What a stream writes down beside its rows: small files in a directory, each replaced as a whole.

Whoever reads a file sees what a process wrote at one moment. Numbered files are states in a row, of which the
newest stay: one is written again under its number, or claimed by the process that writes it first. A capture,
a service of tiering, a job of SQL and a checkpoint say what is in theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tablestore.core.errors import Corrupt
from tablestore.io.fileio import FileIO, Sync
from tablestore.io.paths import join, location
from tablestore.io.routed import file_io_for

Content = bytes | Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True, slots=True)
class JournalFiles:
    """The files in a directory. `durable`: what is put survives a loss of power."""

    directory: str
    durable: bool = False

    @classmethod
    def at(cls, directory: str, *, durable: bool = False) -> JournalFiles:
        """Those at a path or address."""
        return cls(location(directory), durable)

    @property
    def io(self) -> FileIO:
        """What reaches them."""
        return file_io_for(self.directory)

    def place(self, *names: str) -> str:
        """Where a file is."""
        return join(self.directory, *names)

    def put(self, name: str, content: Content) -> None:
        """Set what a file holds: bytes, or a value as JSON."""
        after = Sync(self.directory) if self.durable else None
        self.io.replace(self.place(name), _data(content), after=after)

    def claim(self, name: str, content: Content) -> bool:
        """Make a file; False, and nothing is done, where it is there."""
        return self.io.write_new(self.place(name), _data(content))

    def read(self, name: str) -> bytes | None:
        """What a file holds, None where there is none."""
        try:
            return self.io.read(self.place(name))
        except FileNotFoundError:
            return None

    def value(self, name: str) -> Any:
        """The JSON in a file, None where there is no file. Raises Corrupt for what is no JSON."""
        data = self.read(name)
        try:
            return None if data is None else json.loads(data)
        except ValueError as e:
            raise Corrupt(self.place(name), f"no JSON: {e}") from None

    def fields(self, name: str) -> dict[str, Any] | None:
        """The JSON object in a file, None where there is no file. Raises Corrupt for anything else."""
        fields = self.value(name)
        if fields is None or isinstance(fields, dict):
            return fields
        raise Corrupt(self.place(name), f"no JSON object: {str(fields)[:80]}")


def _data(content: Content) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class NumberedFiles:
    """Files `<folder>/<number><ending>` of a journal, of which about the newest `kept` stay."""

    files: JournalFiles
    folder: str
    kept: int
    ending: str = ""

    def numbers(self) -> list[int]:
        """The numbers that there are, in rising order."""
        entries = self.files.io.list(self.files.place(self.folder))
        names = (entry.name.removesuffix(self.ending) for entry in entries)
        return sorted(int(name) for name in names if name.isdigit())

    def name(self, number: int) -> str:
        """The name of a file in its journal."""
        return f"{self.folder}/{number}{self.ending}"

    def sweep(self, newest: int) -> list[int]:
        """Delete the states that are `kept` or more before the newest; gives their numbers."""
        old = [number for number in self.numbers() if number <= newest - self.kept]
        for number in old:
            self.files.io.delete(self.files.place(self.name(number)))
        return old
