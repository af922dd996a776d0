"""Is an embedded log sound: its files follow one another, each is whole, its parts are there, none is missing
between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tablestore.core.errors import Corrupt
from tablestore.log.embedded import continuity, files
from tablestore.log.embedded.directory import LogDirectory
from tablestore.log.embedded.folder import LogFile


def problems(directory: LogDirectory, *, rows: bool) -> Iterator[tuple[str, str]]:
    """(path, what is wrong) of every file of a log; with `rows` the rows are compared with their checksums.
    Raises FileNotFoundError where one is gone meanwhile."""
    directory = directory.salvaging()  # looks behind damage at the end
    directory.end()
    chain = directory.chain()
    passed = {last for _, last in directory.passed}
    torn = set(directory.last_end().cut) - passed  # the newest files, which the next one passes over
    damaged: dict[int, tuple[str, str]] = {}
    of_rows: dict[int, list[tuple[str, str]]] = {}
    end: Mapping[int, int] | None = None
    for numbers in chain:
        path = directory.file_path(numbers)
        try:
            file = directory.file(numbers)
            header = file.header
        except Corrupt as e:
            damaged[numbers[1]] = path, _said(e)
            continue
        for number in header.cut:
            damaged.pop(number, None)
            of_rows.pop(number, None)  # a file that is left out counts for nothing
        expected = None if end is None or header.cut or damaged else end
        end = header.end
        if expected is not None and any(header.start.get(b, 0) != o for b, o in expected.items()):
            yield path, f"starts at offsets {dict(header.start)}; the file before it ends at {dict(expected)}"
        of_rows[numbers[1]] = [(path, text) for text in _problems(directory, file, rows=rows)]
    yield from (each for number, texts in of_rows.items() if number not in torn for each in texts)
    yield from (found for number, found in sorted(damaged.items()) if number not in torn)
    yield from _missing(directory)


def _missing(directory: LogDirectory) -> Iterator[tuple[str, str]]:
    """Files behind a gap in the numbers, since retention removes the oldest first; and the oldest, where it
    removed none."""
    chain, others = directory.listed()
    older = [found for name in others if (found := files.numbers(name)) is not None]
    before = [last for _, last in older if chain and last < chain[0][0]]
    if before and max(before) + 1 < chain[0][0]:
        text = f"files of the numbers {max(before) + 1} to {chain[0][0] - 1} are missing"
        yield directory.path, f"{text}: the log begins behind them; {files.REMEDY}"
    elif (gone := continuity.missing_start(directory)) is not None:
        text = f"files of the numbers {gone[0]} to {gone[1]} are missing, which retention has not removed"
        yield directory.path, f"{text}; {files.REMEDY}"


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
            yield _said(e)
        except FileNotFoundError:
            if chunk.part is None:
                raise
            yield f"{where} are in part {chunk.part}, which is not there"


def _said(problem: Corrupt) -> str:
    return problem.problem + (f"; {problem.remedy}" if problem.remedy else "")
