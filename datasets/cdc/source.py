"""A change stream's directory, seen by a reader: chunks, log positions, transaction ends.

The layout is described in `README.md`. Positions order by file name, then offset. All functions look at the
directory anew, since a paced log grows. Immutable values; safe to share. Rows are decoded in `reader`.
"""

import json
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from datasets.errors import DatasetError
from datasets.tpch import Scale, Sizes

VERSION = 1
END_OF_TRANSACTION = b'"status":"END"'
Pace = str | float | None


class Position(NamedTuple):
    """The start of a line of the log; `Position(*json_list)` reads one back."""

    file: str
    offset: int


LOG_START = Position("00001.jsonl", 0)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one table whose first key column is in lo..hi, as of a log position."""

    table: str
    number: int
    path: Path
    lo: int
    hi: int
    rows: int
    bytes: int
    position: Position


@dataclass(frozen=True, slots=True)
class Source:
    """What `source.json` and `chunks.json` say."""

    directory: Path
    tables: tuple[str, ...]
    scale: Scale
    seed: int
    pairs: int
    sizes: Sizes
    pace: Pace
    note: str
    chunks: tuple[Chunk, ...] = ()

    def log_files(self) -> list[Path]:
        return sorted((self.directory / "log").glob("[0-9]*.jsonl"))

    def log_end(self) -> Position:
        """The end of the last complete transaction; what lies behind it is not to be read yet."""
        for path in reversed(self.log_files()):
            with _mapped(path) as content:
                if end := _last_end(content, 0, len(content)):
                    return Position(path.name, end)
        return LOG_START

    def finished(self) -> bool:
        """True once nothing more will be appended to the log."""
        return (self.directory / "log" / "END").exists()

    def segments(self, start: Position, end: Position) -> Iterator[tuple[Path, int, int]]:
        """The pieces of files, (path, from, to), that make up a range of the log."""
        if start > end:
            raise DatasetError(f"log range from {list(start)} to {list(end)} runs backwards")
        for path in self.log_files():
            if start.file <= path.name <= end.file:
                size = path.stat().st_size
                first = start.offset if path.name == start.file else 0
                last = end.offset if path.name == end.file else size
                if not first <= last <= size:
                    raise DatasetError(f"{path.name} has {size} bytes, asked for {first} to {last}")
                if first < last:
                    yield path, first, last


def open_source(directory: Path | str) -> Source:
    """The source in `directory`; DatasetError if there is none or its chunks are not complete."""
    source = describe(Path(directory))
    chunks = tuple(_chunk(source.directory, entry) for entry in _load(source.directory / "chunks.json"))
    return replace(source, chunks=chunks)


def _chunk(directory: Path, entry: dict[str, Any]) -> Chunk:
    names = ("table", "number", "lo", "hi", "rows", "bytes")
    return Chunk(
        path=directory / entry["file"],
        position=Position(*entry["position"]),
        **{name: entry[name] for name in names},
    )


def describe(directory: Path) -> Source:
    """The source without its chunks."""
    summary = _load(directory / "source.json")
    if summary.get("version") != VERSION:
        raise DatasetError(
            f"{directory}: source version {summary.get('version')}, this reads version {VERSION}"
        )
    return Source(
        directory=directory,
        tables=tuple(summary["tables"]),
        scale=Scale.of(summary["scale"]),
        seed=summary["seed"],
        pairs=summary["pairs"],
        sizes=summary["sizes"],
        pace=summary["pace"],
        note=summary["note"],
    )


def splits(source: Source, start: Position, end: Position, *, max_bytes: int) -> list[Position]:
    """Ends of consecutive ranges from `start` to `end`, cut at transaction ends and at file ends.

    A range is longer than `max_bytes` only if its one transaction is. `start` and `end` are transaction ends.
    """
    cuts = []
    for path, first, last in source.segments(start, end):
        with _mapped(path) as content:
            while first < last:
                first = (
                    last
                    if last - first <= max_bytes
                    else _last_end(content, first, first + max_bytes) or _next_end(content, first, last)
                )
                cuts.append(Position(path.name, first))
    return cuts


def _last_end(content: "mmap.mmap | bytes", first: int, last: int) -> int:
    """The end of the last END line that lies wholly in first..last; 0 if none does."""
    while (mark := content.rfind(END_OF_TRANSACTION, first, last)) >= 0:
        if newline := content.find(b"\n", mark, last) + 1:
            return newline
        last = mark
    return 0


def _next_end(content: "mmap.mmap | bytes", first: int, last: int) -> int:
    mark = content.find(END_OF_TRANSACTION, first, last)
    return content.find(b"\n", mark, last) + 1 if mark >= 0 else last


class _mapped:
    """The bytes of a file, mapped while the block runs (an empty file cannot be mapped)."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> "mmap.mmap | bytes":
        with self._path.open("rb") as file:
            self._map = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self._path.stat().st_size else b""
            )
        return self._map

    def __exit__(self, *_: object) -> None:
        if isinstance(self._map, mmap.mmap):
            self._map.close()


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DatasetError(f"{path.parent} holds no complete change stream: {path.name} is missing") from None
    except json.JSONDecodeError as error:
        raise DatasetError(f"{path} is damaged: {error}") from None
