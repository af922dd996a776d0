"""Is an embedded log sound: its files follow one another, each is whole, its parts are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tablestore.core.errors import Corrupt
from tablestore.log.embedded import files
from tablestore.log.embedded.directory import LogDirectory, LogFile


def problems(directory: LogDirectory, *, rows: bool) -> Iterator[tuple[str, str]]:
    """(path, what is wrong) of every file of a log; with `rows` the rows are compared with their checksums.
    Raises FileNotFoundError where one is gone meanwhile."""
    directory.end()
    directory.forget()
    chain = directory.chain()
    torn = set(directory.last_end().cut)  # the newest files, which the next one passes over
    damaged: dict[int, tuple[str, str]] = {}
    end: Mapping[int, int] | None = None
    for numbers in chain:
        path = directory.file_path(numbers)
        try:
            file = directory.file(numbers)
            header = file.header
        except Corrupt as e:
            damaged[numbers[1]] = path, str(e)
            continue
        for number in header.cut:
            damaged.pop(number, None)
        expected = None if end is None or header.cut or damaged else end
        end = header.end
        if expected is not None and any(header.start.get(b, 0) != o for b, o in expected.items()):
            yield path, f"starts at offsets {dict(header.start)}; the file before it ends at {dict(expected)}"
        yield from ((path, text) for text in _problems(directory, file, rows=rows))
    yield from (found for number, found in sorted(damaged.items()) if number not in torn)


def _problems(directory: LogDirectory, file: LogFile, *, rows: bool) -> Iterator[str]:
    for chunk in file.header.chunks:
        where = f"rows {chunk.start} to {chunk.end} of bucket {chunk.bucket}"
        try:
            if rows:
                data = directory.rows_of(file, chunk)
                files.require_intact(data, chunk, file.path)
            elif chunk.part is not None:
                directory.io.size(directory.part_path(chunk.part))
        except Corrupt as e:
            yield str(e)
        except FileNotFoundError:
            if chunk.part is None:
                raise
            yield f"{where} are in part {chunk.part}, which is not there"
