"""The files of an embedded log: which there are, and which is the newest.

Put-if-absent of the next number is the transaction. Singles of an aligned range of numbers are rolled up into
a segment, whose name follows from any number in it: `SPAN`, `SPAN`² or `SPAN`³ numbers. The segment is made
before its singles are removed, so who misses a number, or has just made one, asks for the segments that would
cover it: if there is one, the number was spent before. Retention frees names of files that are older than
`SETTLED_MS` only, and a writer that stood still for long lists the directory after its put.

A torn file spends its number, and `CUT` offsets of each bucket, so that no offset that anybody may have seen
comes again. The next file names it.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tablestore.core.env import Env
from tablestore.core.errors import CommitUnknown, Corrupt, Unavailable
from tablestore.io import outcomes
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join
from tablestore.io.syncing import Sync
from tablestore.log.embedded import files
from tablestore.log.embedded.files import CUT, LogChunk, LogHeader, Range

log = logging.getLogger(__name__)
SPAN = 32
TIERS = (SPAN, SPAN**2, SPAN**3)
SETTLED_MS = 60_000
_STALLED_MS = 10_000
_CACHED = 256  # files
_AHEAD = 1 << 16  # bytes that are read with the beginning of a file


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log: the last number that is spent, the offsets behind it, when that was appended, and
    the numbers at the end whose files are torn."""

    number: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    timestamp_ms: int = 0
    cut: tuple[int, ...] = ()

    def next_start(self, buckets: int) -> dict[int, int]:
        """The offsets that the next file starts at."""
        if not self.cut:
            return dict(self.offsets)
        return {b: self.offsets.get(b, 0) + CUT * len(self.cut) for b in range(buckets)}


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file: its header, where its chunks start, and all its bytes if they are few."""

    path: str
    header: LogHeader
    body_at: int
    data: bytes | None = None


class LogDirectory:
    """The files of a log. Safe to share between threads. Memory: `_CACHED` headers, with the rows of small
    files, and two numbers a file."""

    def __init__(self, io: FileIO, path: str, env: Env) -> None:
        self.io, self.path, self.env = io, path, env
        self._lock = threading.RLock()  # protects all below
        self._end: LogEnd | None = None
        self._looked_ms = 0
        self._chain: list[Range] | None = None
        self._cache: OrderedDict[Range, LogFile] = OrderedDict()

    def end(self) -> LogEnd:
        """The end of the log now."""
        with self._lock:
            if self._stalled():  # the next number may be gone already
                self._end = self._chain = None
            self.last_end()
            self._looked_ms = self.env.now_ms()
            while self._step():
                pass
            return self.last_end()

    def last_end(self) -> LogEnd:
        """The end of the log as last seen."""
        with self._lock:
            if self._end is None:
                self._looked_ms = self.env.now_ms()
                self._end = self._newest()
            return self._end

    def chain(self) -> Sequence[Range]:
        """(first, last) of all files from the start of the log to its end as last seen, without a gap."""
        with self._lock:
            self.last_end()
            if self._chain is None:
                self._chain = self.listed()[0]
            return tuple(self._chain)

    def forget(self) -> None:
        """Look at the directory again: a file is gone."""
        with self._lock:
            self._chain = None

    def reset(self) -> None:
        """Know nothing of the directory any more."""
        with self._lock:
            self._end = self._chain = None
            self._cache.clear()

    def look_at_start(self) -> None:
        """Look at the directory again if the oldest file is gone."""
        chain = self.chain()
        if chain and not self.io.exists(self.file_path(chain[0])):
            self.forget()

    def file_path(self, numbers: Range) -> str:
        """Where a log file is."""
        return join(self.path, files.file_name(*numbers))

    def part_path(self, uuid: str) -> str:
        """Where a part file is."""
        return join(self.path, "parts", f"{uuid}.arrow")

    def put(self, header: LogHeader, body: Sequence[bytes | pa.Buffer], *, fsync: bool) -> bool:
        """True iff this call made that single file, the next of the log as last seen; else its number is
        spent.

        Raises CommitUnknown where it may be there or not, Unavailable where it is not.
        """
        number = header.first
        path = self.file_path((number, number))
        after = Sync(self.path, tuple(map(self.part_path, header.parts))) if fsync else None
        data = files.encode(header, body)
        if not outcomes.put_new(self.io, path, data, unique=True, after=after):
            return False
        try:
            spent = self._segment_of(number) is not None or (self._stalled() and not self._is_listed(number))
        except Unavailable as e:
            raise CommitUnknown(f"{path} is written; whether its number was free is not known: {e}") from e
        if spent:
            log.warning("number %d of %s was spent long ago; trying a newer one", number, self.path)
            with self._lock:
                self._end = self._chain = None
            self.io.delete(path)
            return False
        small = len(data) <= _AHEAD
        file = LogFile(path, header, len(data) - header.length, data if small else None)
        with self._lock:
            self._looked_ms = self.env.now_ms()
            self._keep((number, number), file)
            if self.last_end().number == number - 1:
                self._advance(header)
        return True

    def file(self, numbers: Range) -> LogFile:
        """A log file; raises FileNotFoundError where it is gone, Corrupt where it is torn or damaged."""
        with self._lock:
            found = self._cache.get(numbers)
            if found is not None:
                self._cache.move_to_end(numbers)
                return found
        found = self._opened(numbers)
        with self._lock:
            self._keep(numbers, found)
        return found

    def files_from(self, start: Mapping[int, int]) -> Iterator[LogFile]:
        """The files with rows behind `start`, oldest first; torn ones that a later file names are passed
        over. Raises FileNotFoundError where one is gone meanwhile."""
        chain = self.chain()
        low, high, step = -1, len(chain), 1  # files up to `low` lie before `start`; `high` does not
        while high > 0 and low < 0:  # most readers are near the end
            probe = max(high - step, 0)
            if self._is_behind(chain, probe, start):
                low = probe
            else:
                high = probe
            step *= 2
        while high - low > 1:
            middle = (low + high) // 2
            if self._is_behind(chain, middle, start):
                low = middle
            else:
                high = middle
        yield from self.files_of(chain[high:])

    def files_of(self, chain: Sequence[Range], *, last: int | None = None) -> Iterator[LogFile]:
        """The files of a chain up to that number, without torn ones: those that a later file, or the end of
        the log, names as such."""
        waiting: list[tuple[Range, LogFile | Corrupt]] = []  # one sound file at most, and damaged ones
        for numbers in chain:
            try:
                found: LogFile | Corrupt = self.file(numbers)
            except Corrupt as e:
                found = e
            if isinstance(found, LogFile):
                yield from _not_cut(waiting, found.header.cut)
                waiting = []
                if last is not None and numbers[0] > last:
                    return
            waiting.append((numbers, found))
        end = self.last_end()  # behind it lies what was not looked at yet, torn or not
        yield from _not_cut([w for w in waiting if w[0][1] <= end.number], end.cut)

    def rows_of(self, file: LogFile, chunk: LogChunk) -> bytes:
        """The bytes of a chunk; raises FileNotFoundError where its file is gone."""
        if chunk.part is None and file.data is not None:
            at = file.body_at + chunk.position
            return file.data[at : at + chunk.length]
        path = file.path if chunk.part is None else self.part_path(chunk.part)
        with self.io.open_input(path) as source:
            source.seek(chunk.position + (file.body_at if chunk.part is None else 0))
            return source.read(chunk.length)

    def listed(self) -> tuple[list[Range], list[str]]:
        """(the chain of files, oldest first; names of log files that do not belong to it) by the directory.

        What a roll-up has covered, or retention has left behind a gap, does not belong to it.
        """
        names = [status.name for status in self.io.list(self.path)]
        found = {numbers: name for name in names if (numbers := files.numbers(name)) is not None}
        widest = {last: (first, last) for first, last in sorted(found, reverse=True)}
        chain: list[Range] = []
        number = max(widest, default=0)
        while number > 0:
            numbers = widest.get(number) or self._file_of(number)
            if numbers is None:
                break
            while chain and chain[-1][0] <= numbers[1]:
                chain.pop()  # rolled up while they were listed
            chain.append(numbers)
            number = numbers[0] - 1
        others = sorted(found[numbers] for numbers in found.keys() - set(chain))
        return chain[::-1], others

    def replace_by_segment(self, segment: Range) -> None:
        """Note that the files of that range are rolled up."""
        with self._lock:
            if self._chain is not None:
                inside = [
                    i
                    for i, (first, last) in enumerate(self._chain)
                    if segment[0] <= first and last <= segment[1]
                ]
                if inside:
                    self._chain[inside[0] : inside[-1] + 1] = [segment]

    def _is_behind(self, chain: Sequence[Range], index: int, start: Mapping[int, int]) -> bool:
        """Whether all rows up to and with that file lie before `start`."""
        for i, numbers in enumerate(chain[index:]):
            try:
                header = self.file(numbers).header
            except Corrupt:
                continue  # files_of says whether that matters
            offsets = header.start if i else header.end
            return all(start.get(bucket, 0) >= offset for bucket, offset in offsets.items())
        return False

    def _step(self) -> bool:
        """Move the end by a file; False if there is none."""
        end = self.last_end()
        number = end.number + 1
        try:
            header = self.file((number, number)).header
            rolled_up = self._segment_of(number)
        except FileNotFoundError:
            rolled_up = self._segment_of(number)
            if rolled_up is None:
                return False
        except Corrupt as e:
            if self._segment_of(number) is None:
                log.warning("passing over %s", e)
                self._end = replace(end, number=number, cut=(*end.cut, number))
                if self._chain is not None:
                    self._chain.append((number, number))
                return True
            rolled_up = self._segment_of(number)
        if rolled_up is not None:
            header = self.file(rolled_up).header
            self._chain = None
        self._advance(header)
        return True

    def _advance(self, header: LogHeader) -> None:
        self._end = LogEnd(header.last, header.end, header.timestamp_ms)
        if self._chain is not None:
            self._chain.append((header.first, header.last))

    def _newest(self) -> LogEnd:
        """The end by the directory. The newest file is looked at as a whole, since a loss of power may have
        torn it."""
        chain, _ = self.listed()
        self._chain = chain
        cut: tuple[int, ...] = ()
        for first, last in reversed(chain):
            try:
                file = self.file((first, last))
                self.require_whole(file)
            except Corrupt as e:
                if first != last:
                    raise
                log.warning("passing over %s", e)
                cut = (first, *cut)
                self._cache.pop((first, last), None)
                continue
            except FileNotFoundError:  # rolled up since
                return self._newest()
            return LogEnd(chain[-1][1], file.header.end, file.header.timestamp_ms, cut)
        if chain and chain[0][0] > 1:
            raise Corrupt(self.path, "none of the files of the log can be read, so its offsets are not known")
        return LogEnd(chain[-1][1] if chain else 0, {}, 0, cut)

    def require_whole(self, file: LogFile) -> None:
        """Raise Corrupt where rows of a file are torn or damaged; of parts, where they are too short."""
        sizes: dict[str, int] = {}
        for chunk in file.header.chunks:
            if chunk.part is None:
                files.require_intact(self.rows_of(file, chunk), chunk, file.path)
            elif chunk.part not in sizes:
                sizes[chunk.part] = self._part_size(chunk.part)
            if chunk.part is not None and sizes[chunk.part] < chunk.position + chunk.length:
                raise Corrupt(file.path, f"its part {chunk.part} is torn, or not there")

    def _part_size(self, uuid: str) -> int:
        try:
            return self.io.size(self.part_path(uuid))
        except FileNotFoundError:
            return 0

    def _opened(self, numbers: Range) -> LogFile:
        path = self.file_path(numbers)
        with self.io.open_input(path) as source:
            size = source.size()
            data = source.read(_AHEAD)
            body_at = files.PREFIX + files.header_length(data, path)
            if body_at > len(data):
                data += source.read(body_at - len(data))
        header = files.decode(data, path, size)
        return LogFile(path, header, body_at, data if len(data) == size else None)

    def _keep(self, numbers: Range, file: LogFile) -> None:
        self._cache[numbers] = file
        while len(self._cache) > _CACHED:
            self._cache.popitem(last=False)

    def _segment_of(self, number: int) -> Range | None:
        """The segment that has that number; None if there is none. Smaller ones are asked for first, since
        they are removed after a larger one is made."""
        for span in TIERS:
            segment = segment_of(number, span)
            if self.io.exists(self.file_path(segment)):
                return segment
        return None

    def _file_of(self, number: int) -> Range | None:
        if self.io.exists(self.file_path((number, number))):
            return number, number
        return self._segment_of(number)

    def _stalled(self) -> bool:
        """Whether the end was looked at so long ago that retention may have freed a name since."""
        return abs(self.env.now_ms() - self._looked_ms) > _STALLED_MS

    def _is_listed(self, number: int) -> bool:
        return (number, number) in self.listed()[0]


def _not_cut(waiting: Sequence[tuple[Range, LogFile | Corrupt]], cut: Sequence[int]) -> Iterator[LogFile]:
    """The files but for those of a number that was cut; a segment that has such a number is without it."""
    for (first, last), found in waiting:
        if first != last or last not in cut:
            if isinstance(found, Corrupt):
                raise Corrupt(found.path, found.problem, remedy=files.REMEDY)
            yield found


def segment_of(number: int, span: int) -> Range:
    """The aligned range of so many numbers that has `number`.

    >>> segment_of(32, 32), segment_of(33, 32)
    ((1, 32), (33, 64))
    """
    first = (number - 1) // span * span + 1
    return first, first + span - 1
