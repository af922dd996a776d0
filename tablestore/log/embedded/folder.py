"""One log file: opened, its rows, and whether it is whole. Nothing is remembered."""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass

from tablestore.core.errors import Corrupt
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join
from tablestore.log.embedded import files
from tablestore.log.embedded.files import LogChunk, LogHeader, LostEnd, Range
from tablestore.log.offsets import Offsets

log = logging.getLogger(__name__)

END, START = "END", "START"
"""Files that say which number was appended last, and from which on retention has left files."""
AHEAD = 1 << 16  # bytes that are read with the beginning of a file


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file: its header, where its chunks start, and all its bytes if they are few."""

    path: str
    header: LogHeader
    body_at: int
    data: bytes | None = None


class LogFolder:
    """The folder of a log. `table`: uuid of the table, None if it has none."""

    def __init__(self, io: FileIO, path: str, table: str | None) -> None:
        self.io, self.path, self.table = io, path, table

    def file_path(self, numbers: Range) -> str:
        """Where a log file is."""
        return join(self.path, files.file_name(*numbers))

    def part_path(self, uuid: str) -> str:
        """Where a part file is."""
        return join(self.path, "parts", f"{uuid}.arrow")

    def noted(self, name: str) -> int | None:
        """The number in the file `END` or `START`, None where none can be read."""
        try:
            text, _, crc = self.io.read(join(self.path, name)).partition(b" ")
        except FileNotFoundError:
            return None
        sound = text.isdigit() and crc == b"%d" % zlib.crc32(text)
        return int(text) if sound else None

    def opened(self, numbers: Range) -> LogFile:
        """A log file; raises FileNotFoundError where it is gone, LostEnd or Corrupt where it is no whole file
        of this log with these numbers."""
        path = self.file_path(numbers)
        data, size, tail = self._begun(path)
        header = files.decode(data, path, size, tail)
        self._require_own(header, numbers, path)
        return LogFile(path, header, files.header_end(data), data if len(data) == size else None)

    def header_of(self, numbers: Range) -> LogHeader:
        """The header of a log file whose rows may be torn; raises what `opened` does where it is torn or
        damaged itself."""
        path = self.file_path(numbers)
        data, size, tail = self._begun(path)
        header = files.decode_header(data, path, size, tail)
        self._require_own(header, numbers, path)
        return header

    def rows_in(self, numbers: Range, at: Offsets) -> dict[int, range] | None:
        """Per bucket the offsets behind `at` that a torn or damaged file had; None where it no longer says
        so."""
        try:
            header = self.header_of(numbers)
        except (Corrupt, FileNotFoundError) as e:
            log.warning("what %s had alone is lost: %s", self.file_path(numbers), e)
            return None
        ranges: dict[int, range] = {}
        for transaction in header.transactions:
            for bucket, (first, behind) in transaction.ranges.items():
                begin = ranges[bucket].start if bucket in ranges else max(first, at.get(bucket, 0))
                if begin < behind:
                    ranges[bucket] = range(begin, behind)
        return ranges

    def _begun(self, path: str) -> tuple[bytes, int, bytes]:
        """(the first bytes of a file with its header, its size, its last bytes)."""
        with self.io.open_input(path) as source:
            size = source.size()
            data = source.read(AHEAD)
            body_at = files.header_end(data)
            if body_at > len(data):
                data += source.read(body_at - len(data))
            tail = data[-files.TAIL :]
            if len(data) < size:
                source.seek(max(size - files.TAIL, 0))
                tail = source.read(files.TAIL)
        return data, size, tail

    def _require_own(self, header: LogHeader, numbers: Range, path: str) -> None:
        """Raise Corrupt where a header is not that of this log's file with these numbers."""
        if (header.first, header.last) != numbers:
            text = f"it holds the numbers {header.first} to {header.last}: another file took its place"
            raise Corrupt(path, text, remedy=files.REMEDY)
        if None not in (header.table, self.table) and header.table != self.table:
            raise Corrupt(path, "it is of the log of another table", remedy=files.REMEDY)

    def rows_of(self, file: LogFile, chunk: LogChunk) -> bytes:
        """The bytes of a chunk; raises FileNotFoundError where its file is gone."""
        if chunk.part is None and file.data is not None:
            at = file.body_at + chunk.position
            return file.data[at : at + chunk.length]
        path = file.path if chunk.part is None else self.part_path(chunk.part)
        with self.io.open_input(path) as source:
            source.seek(chunk.position + (file.body_at if chunk.part is None else 0))
            return source.read(chunk.length)

    def require_whole(self, file: LogFile) -> None:
        """Raise LostEnd where the end of a file, or of its parts, is not there, Corrupt where rows in it are
        damaged."""
        inline = [chunk for chunk in file.header.chunks if chunk.part is None]
        for chunk in inline:
            try:
                files.require_intact(self.rows_of(file, chunk), chunk, file.path)
            except Corrupt as e:
                if any(self.rows_of(file, inline[-1])[-files.TAIL :]):
                    raise
                raise LostEnd(e.path, e.problem, remedy=files.REMEDY) from None
        ends: dict[str, int] = {}
        for chunk in file.header.chunks:
            if chunk.part is not None:
                ends[chunk.part] = max(ends.get(chunk.part, 0), chunk.position + chunk.length)
        for part, end in ends.items():
            self._require_part(file, part, end)

    def _require_part(self, file: LogFile, part: str, end: int) -> None:
        """Raise Corrupt where a part of a file is not there, LostEnd where it ends before `end`."""
        try:
            size = self.io.size(self.part_path(part))
        except FileNotFoundError:
            raise Corrupt(file.path, f"its part {part} is not there", remedy=files.REMEDY) from None
        if size < end:
            raise LostEnd(file.path, f"its part {part} is torn", remedy=files.REMEDY)
