"""The files of an embedded log: which there are, and which is the newest.

Put-if-absent of the next number is the transaction. Singles of an aligned range of numbers are rolled up into
a segment, whose name follows from any number in it: `SPAN`, `SPAN`² or `SPAN`³ numbers. The segment is made
before its singles are removed, so who misses a number, or has just made one, asks for the segments that would
cover it: if there is one, the number was spent before. Retention frees names of files that are older than
`SETTLED_MS` only. A writer that stood still for long looks for the end again before its put, and if it stood
still in the put, too, asks afterwards whether its number was spent.

A torn file at the end spends its number, and `CUT` offsets of each bucket, so that no offset that anybody may
have seen comes again. The next file names it. In a log whose files are synced none can be torn, so there it
is damaged. A damaged file ends all that would need it with `Corrupt`, one at the end every look at the log.
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
from tablestore.io.fileio import FileIO, Sync
from tablestore.log.embedded import files
from tablestore.log.embedded.files import CUT, LogHeader, LostEnd, Range
from tablestore.log.embedded.folder import AHEAD, START, LogFile, LogFolder
from tablestore.log.offsets import Offsets, reaches

log = logging.getLogger(__name__)
SPAN = 32
TIERS = (SPAN, SPAN**2, SPAN**3)
SETTLED_MS = 60_000
_STALLED_MS = 10_000
_CACHED = 256  # files


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


class LogDirectory(LogFolder):
    """The files of a log. Safe to share between threads. Memory: `_CACHED` headers, with the rows of small
    files, and two numbers a file.

    `root`: the folder of the table, `table` its uuid, if it has one; `synced`: its files are on the disk
    before they have a name. `torn`: the files at the end that a loss of power tore. `salvage`: damaged files
    at the end are passed over as those are (`passed` has them), to save what is before them.
    """

    def __init__(
        self,
        io: FileIO,
        path: str,
        env: Env,
        *,
        root: str | None = None,
        table: str | None = None,
        synced: bool = False,
        salvage: bool = False,
    ) -> None:
        super().__init__(io, path, table)
        self.env, self.root, self._synced, self._salvage = env, root or path, synced, salvage
        self._named = False  # the folders above are known to be on the disk
        self._lock = threading.RLock()  # protects all below
        self._end: LogEnd | None = None
        self._looked = 0, 0.0
        self._chain: list[Range] | None = None
        self._cache: OrderedDict[Range, LogFile] = OrderedDict()
        self.passed: list[Range] = []
        self.torn: list[Range] = []

    def salvaging(self) -> LogDirectory:
        """The same directory, to save what lies before damage at its end."""
        return LogDirectory(
            self.io,
            self.path,
            self.env,
            root=self.root,
            table=self.table,
            synced=self._synced,
            salvage=True,
        )

    def end(self) -> LogEnd:
        """The end of the log now."""
        with self._lock:
            if self._stalled():  # the next number may be gone already
                self._end = self._chain = None
            self.last_end()
            self._looked = self._clocks()
            while self._step():
                pass
            return self.last_end()

    def last_end(self) -> LogEnd:
        """The end of the log as last seen."""
        with self._lock:
            if self._end is None:
                self._looked = self._clocks()
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
            self.passed, self.torn = [], []

    def look_at_start(self) -> None:
        """Look at the directory again if the oldest file is gone."""
        chain = self.chain()
        if chain and not self.io.exists(self.file_path(chain[0])):
            self.forget()

    def put(self, header: LogHeader, body: Sequence[bytes | pa.Buffer], *, fsync: bool) -> bool:
        """True iff this call made that single file, the next of the log as last seen; else its number is
        spent, or the end was seen too long ago: look at it again.

        Raises CommitUnknown where it may be there or not, Unavailable where it is not.
        """
        number = header.first
        if self._stalled():
            return False
        path = self.file_path((number, number))
        parts = tuple(map(self.part_path, header.parts))
        after = Sync(self.path if self._named else self.root, parts) if fsync else None
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
        self._named |= fsync
        small = len(data) <= AHEAD
        file = LogFile(path, header, len(data) - header.length, data if small else None)
        with self._lock:
            self._looked = self._clocks()
            self._keep((number, number), file)
            if self.last_end().number == number - 1:
                self._advance(header)
        return True

    def file(self, numbers: Range) -> LogFile:
        """A log file; raises FileNotFoundError where it is gone, Corrupt where it is torn or damaged."""
        with self._lock:
            file = self._cache.get(numbers)
            if file is not None:
                self._cache.move_to_end(numbers)
                return file
        file = self.opened(numbers)
        with self._lock:
            self._keep(numbers, file)
        return file

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
        the log, names as such. Raises Corrupt at the first that is damaged, or does not begin where the one
        before it ends."""
        before: LogHeader | None = None
        for file in self._whole_of(chain, last):
            if before is not None:
                files.require_follows(file.header, before, file.path)
            before = file.header
            yield file

    def _whole_of(self, chain: Sequence[Range], last: int | None) -> Iterator[LogFile]:
        waiting: list[tuple[Range, LogFile | Corrupt]] = []  # one sound file at most, and damaged ones
        for numbers in chain:
            try:
                file: LogFile | Corrupt = self.file(numbers)
            except Corrupt as e:
                file = e
            if isinstance(file, LogFile):
                yield from _not_cut(waiting, (*file.header.cut, *self.last_end().cut))
                waiting = []
                if last is not None and numbers[0] > last:
                    return
            waiting.append((numbers, file))
        end = self.last_end()  # behind it lies what was not looked at yet, torn or not
        yield from _not_cut([w for w in waiting if w[0][1] <= end.number], end.cut)

    def listed(self) -> tuple[list[Range], list[str]]:
        """(the chain of files, oldest first; names of log files that do not belong to it) by the directory.

        What a roll-up has covered, or retention has left behind a gap, does not belong to it.
        """
        names = [status.name for status in self.io.list(self.path)]
        name_of = {numbers: name for name in names if (numbers := files.numbers(name)) is not None}
        widest = {last: (first, last) for first, last in sorted(name_of, reverse=True)}
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
        others = sorted(name_of[numbers] for numbers in name_of.keys() - set(chain))
        return chain[::-1], others

    def start(self) -> dict[int, int] | None:
        """The offsets of the oldest rows; None where the files that say so are damaged."""
        damaged: list[Range] = []
        for numbers in self.chain():
            try:
                header = self.file(numbers).header
            except Corrupt:
                damaged.append(numbers)
                continue
            except FileNotFoundError:
                self.forget()
                return self.start()
            if any(first != last or last not in header.cut for first, last in damaged):
                return None
            torn = CUT * len(header.cut)  # offsets right before it that nothing lies at
            return {bucket: max(offset - torn, 0) for bucket, offset in header.start.items()}
        return {}

    def unneeded(self, keep: Offsets) -> list[str]:
        """Names of log files that do not belong to the chain and can go: a segment covers them, or their
        rows, and all behind them that the log lacks, lie below `keep`."""
        chain, others = self.listed()
        start = self.start()
        if not others or not chain:
            return []
        below = start is not None and reaches(keep, start)
        return [n for n in others if below or (at := files.numbers(n)) is None or at[0] >= chain[0][0]]

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
                self._pass_over(e, (number, number))
                self._end = replace(end, number=number, cut=(*end.cut, number))
                self._extend((number, number))
                return True
            rolled_up = self._segment_of(number)
        if rolled_up is not None:
            header = self.file(rolled_up).header
            self._chain = None
        self._advance(header)
        return True

    def _advance(self, header: LogHeader) -> None:
        self.torn = []  # they lie in its middle now
        self._end = LogEnd(header.last, header.end, header.timestamp_ms)
        self._extend((header.first, header.last))

    def _extend(self, numbers: Range) -> None:
        """Note a file at the end of the chain; a listing may have gone further than the end already."""
        if self._chain is not None and (not self._chain or self._chain[-1][1] < numbers[0]):
            self._chain.append(numbers)

    def _newest(self) -> LogEnd:
        """The end by the directory. The newest file is looked at as a whole, since a loss of power may have
        torn it."""
        chain, _ = self.listed()
        self._chain = chain
        cut: tuple[int, ...] = ()
        self.torn = []
        for first, last in reversed(chain):
            try:
                file = self.file((first, last))
                self.require_whole(file)
            except Corrupt as e:
                if first != last and not self._salvage:  # segments are synced always
                    raise
                self._pass_over(e, (first, last))
                cut = (last, *cut)
                self._cache.pop((first, last), None)
                continue
            except FileNotFoundError:  # rolled up since
                return self._newest()
            return LogEnd(chain[-1][1], file.header.end, file.header.timestamp_ms, cut)
        if chain and chain[0][0] > 1 and not self._salvage:
            text = "none of the files of the log can be read, so its offsets are not known"
            raise Corrupt(self.path, text, remedy=files.REMEDY)
        return LogEnd(chain[-1][1] if chain else 0, {}, 0, cut)

    def _pass_over(self, problem: Corrupt, numbers: Range) -> None:
        """Go on without a file at the end of the log; raises its problem unless it is torn."""
        torn = isinstance(problem, LostEnd) and not self._synced
        if not torn and not self._salvage:
            raise Corrupt(problem.path, problem.problem, remedy=files.REMEDY)
        passed = self.torn if torn else self.passed
        if numbers not in passed:
            passed.append(numbers)
            log.warning(
                "passing over %s; offsets in it: %s", problem, self.rows_in(numbers, {}) or "not known"
            )

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
        (wall, steady), (seen_wall, seen_steady) = self._clocks(), self._looked
        return abs(wall - seen_wall) > _STALLED_MS or 1000 * (steady - seen_steady) > _STALLED_MS

    def _clocks(self) -> tuple[int, float]:
        """The clock of the wall, which may be put back, and the steady one, which may stand still while the
        machine sleeps: milliseconds and seconds."""
        return self.env.now_ms(), self.env.monotonic()

    def _is_listed(self, number: int) -> bool:
        """Whether a number is one of those that the log has and retention has not left behind."""
        return (number, number) in self.listed()[0] and number >= (self.noted(START) or 0)


def _not_cut(waiting: Sequence[tuple[Range, LogFile | Corrupt]], cut: Sequence[int]) -> Iterator[LogFile]:
    """The files but for those of a number that was cut; a segment that has such a number is without it."""
    for (first, last), file in waiting:
        if last in cut and (first == last or isinstance(file, Corrupt)):
            continue
        if isinstance(file, Corrupt):
            raise Corrupt(file.path, file.problem, remedy=files.REMEDY)
        yield file


def segment_of(number: int, span: int) -> Range:
    """The aligned range of so many numbers that has `number`.

    >>> segment_of(32, 32), segment_of(33, 32)
    ((1, 32), (33, 64))
    """
    first = (number - 1) // span * span + 1
    return first, first + span - 1
