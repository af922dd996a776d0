"""What a stream writes down beside its rows: small files in a directory, each replaced as a whole.

Whoever reads a file sees what a process wrote at one moment. Numbered files are states in a row, of which the
newest stay: one is written again under its number, or claimed by the process that writes it first. A capture,
a service of tiering, a job of SQL and a checkpoint say what is in theirs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from typing import Any, Self, cast, get_args, get_type_hints

from tablestore.core.errors import Corrupt, InvalidRequest
from tablestore.io.fileio import FileIO, Sync
from tablestore.io.paths import join, location
from tablestore.io.routed import file_io_for

_types_of = cache(get_type_hints)  # of dataclasses
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


class Report:
    """A dataclass that is stored as a JSON object of version 1, with a field for each of its own: values,
    reports and tuples of them."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        return {"v": 1, **asdict(self)}  # type: ignore[call-overload]  # subclasses are dataclasses

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Self:
        """The report of an object. Raises InvalidRequest for what is none."""
        if item.get("v") != 1:
            raise InvalidRequest(f"{str(item)[:80]!r} is no report of this kind ({cls.__name__})")
        return cast(Self, _of_type(cls, {key: value for key, value in item.items() if key != "v"}))


def _of_type(kind: Any, value: Any) -> Any:
    """A value of JSON as one of this type: of a dataclass, or a tuple or an option of them."""
    if isinstance(kind, type) and is_dataclass(kind):
        types = _types_of(kind)
        return kind(**{name: _of_type(types.get(name), part) for name, part in value.items()})
    inner = [t for t in get_args(kind) if t not in (type(None), ...)]
    if isinstance(value, list) and inner:
        return tuple(_of_type(inner[min(i, len(inner) - 1)], part) for i, part in enumerate(value))
    return _of_type(inner[0], value) if value is not None and inner and is_dataclass(inner[0]) else value


@dataclass(frozen=True, slots=True)
class ContentFiles:
    """Values as JSON in files `<folder>/<digest>.json` of a journal, each named by so many `digits` of the
    SHA-256 of what it holds, and never changed."""

    files: JournalFiles
    folder: str
    digits: int

    def put(self, value: Mapping[str, Any]) -> str:
        """Keep a value; gives its digest."""
        data = json.dumps(value, sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()[: self.digits]
        self.files.claim(self._name(digest), data)
        return digest

    def fields(self, digest: str) -> dict[str, Any] | None:
        """The value of a digest; None where its file is lost. Raises Corrupt."""
        return self.files.fields(self._name(digest))

    def place(self, digest: str) -> str:
        """Where the value of a digest is."""
        return self.files.place(self._name(digest))

    def _name(self, digest: str) -> str:
        return f"{self.folder}/{digest}.json"


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
