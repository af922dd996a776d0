"""Messages of the plugin pgoutput, version 1 → row images by columns. All numbers are big-endian.

    B  commit LSN 8, microseconds since 2000 8, transaction 4
    R  table 4, schema NUL, name NUL, identity 1, columns 2, of each: flags 1, name NUL, type 4, modifier 4
    I  table 4, N row            D  table 4, K or O row            U  table 4, [K or O row,] N row
       row = columns 2, of each: n (NULL) | u (unchanged, and not sent) | t length 4, text
    C, Y, O, M say nothing here; T is seen by the storage of the table, which is another behind it

A transaction counts from the LSN of its commit, which is not before the start and is before the end. Rows of
one table keep their order; those of two tables do not."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tablestore.cdc.databases.slices import Slices, compiled
from tablestore.cdc.postgres.copy_rows import CopiedRows
from tablestore.core.errors import Corrupt
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

NULL, UNCHANGED = -1, -2
BEGIN, RELATION = b"BR"
CHANGES = tuple(b"IUD")
(_KEY,) = b"K"
EPOCH_SECONDS = 946_684_800  # 2000 after 1970
Ints = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class LogTable:
    """A table as its rows lie in the log: names, type numbers and modifiers of its columns. `identity`: those
    that an old row has at least."""

    number: int
    columns: tuple[tuple[str, int, int], ...]
    identity: tuple[str, ...] = ()

    @classmethod
    def parse(cls, message: bytes) -> LogTable:
        number = int.from_bytes(message[1:5], "big")
        at = message.index(0, message.index(0, 5) + 1) + 2  # behind both names and the identity
        columns, identity = [], []
        count, at = int.from_bytes(message[at : at + 2], "big"), at + 2
        for _ in range(count):
            end = message.index(0, at + 1)
            kind = int.from_bytes(message[end + 1 : end + 5], "big")
            modifier = int.from_bytes(message[end + 5 : end + 9], "big", signed=True)
            name = message[at + 1 : end].decode()
            columns.append((name, kind, modifier))
            identity += [name] * (message[at] & 1)
            at = end + 9
        return cls(number, tuple(columns), tuple(identity))


@dataclass(frozen=True, slots=True)
class Images:
    """Rows of one table with columns of its relation, their `kinds` (int8), and `seconds` after 1970 of their
    commit. Of an update with both images the old one is right before the new one. A length is NULL or
    UNCHANGED where there is no value."""

    relation: LogTable
    slices: Slices
    kinds: Ints
    seconds: Ints


@dataclass
class PostgresLog:
    """Decodes the messages between two LSNs, for tables that are asked for by their numbers."""

    start: int
    end: int
    tables: frozenset[int]
    _relations: dict[int, LogTable] = field(default_factory=dict)
    _counted: bool = False  # whether the transaction that is open counts
    _seconds: int = 0

    def images(self, blocks: Iterable[CopiedRows]) -> Iterator[Images]:
        """The images in blocks of rows, each a message behind 6 bytes."""
        for rows in blocks:
            yield from self._of_block(rows.data, rows.starts + 6)

    def _of_block(self, data: Ints, starts: Ints) -> Iterator[Images]:
        codes = data[starts]
        counted, seconds = self._transactions(data, starts, codes)
        changes = np.isin(codes, CHANGES) & counted
        numbers = np.where(changes | (codes == RELATION), _numbers(data, starts + 1, 4), -1)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            if number not in self.tables:
                continue
            mine = numbers == number
            shapes = np.flatnonzero(mine & (codes == RELATION))
            edges = [0, *shapes.tolist(), len(starts)]
            for begin, stop in itertools.pairwise(edges):
                if begin in shapes:
                    self._relations[number] = LogTable.parse(data[starts[begin] :].tobytes())
                places = np.flatnonzero(mine[begin:stop] & changes[begin:stop]) + begin
                if len(places):
                    yield self._cut(data, starts[places], seconds[places], self._relations[number])

    def _transactions(self, data: Ints, starts: Ints, codes: Ints) -> tuple[Ints, Ints]:
        """(whether each message is of a transaction that counts, the second of its commit)."""
        begins = np.flatnonzero(codes == BEGIN)
        commits = _numbers(data, starts[begins] + 1, 8)
        counts = np.r_[self._counted, (commits >= self.start) & (commits < self.end)]
        at = np.r_[self._seconds, _numbers(data, starts[begins] + 9, 8) // 1_000_000 + EPOCH_SECONDS]
        place = np.cumsum(codes == BEGIN)
        self._counted, self._seconds = bool(counts[-1]), int(at[-1])
        return counts[place], at[place]

    def _cut(self, data: Ints, starts: Ints, seconds: Ints, relation: LogTable) -> Images:
        columns, capacity = len(relation.columns), 2 * len(starts)
        offsets = np.zeros((columns, capacity), np.int64)
        lengths = np.zeros((columns, capacity), np.int64)
        kinds, tags, messages = (np.zeros(capacity, kind) for kind in (np.int8, np.uint8, np.int64))
        count = int(compiled(cut_images)(data, starts, columns, offsets, lengths, kinds, tags, messages))
        if count < 0:
            raise Corrupt(
                "the log", f"a message of table {relation.number} does not lie as its relation says"
            )
        offsets, lengths = offsets[:, :count], lengths[:, :count]
        kinds, tags, messages = kinds[:count], tags[:count], messages[:count]
        after = np.flatnonzero(kinds == UPDATE_AFTER)
        after = after[(after > 0) & (kinds[after - 1] == UPDATE_BEFORE)]
        for c in range(columns):  # a long key comes in the old row, though it is unchanged
            same = after[(lengths[c, after] == UNCHANGED) & (lengths[c, after - 1] != NULL)]
            offsets[c, same], lengths[c, same] = offsets[c, same - 1], lengths[c, same - 1]
        moved = np.flatnonzero((tags == _KEY) & (kinds == UPDATE_BEFORE))
        kinds[moved], kinds[moved + 1] = DELETE, INSERT
        return Images(relation, Slices(data, count, offsets, lengths), kinds, seconds[messages])


def _numbers(data: Ints, places: Ints, size: int) -> npt.NDArray[np.int64]:
    """The big-endian numbers of `size` bytes at places of the data."""
    everywhere = np.ndarray((len(data) - size + 1,), f">u{size}", data, strides=(1,))
    return everywhere[places].astype(np.int64)


def cut_images(
    data: Any, starts: Any, columns: Any, offsets: Any, lengths: Any, kinds: Any, tags: Any, messages: Any
) -> Any:
    """How many rows there are in I, U and D messages; −1 for one that does not lie so. For Python and
    numba."""
    row = 0
    for m in range(len(starts)):
        code = data[starts[m]]
        at = starts[m] + 5
        while True:
            tag = data[at]
            if data[at + 1] * 256 + data[at + 2] != columns:
                return -1
            at += 3
            for c in range(columns):
                what = data[at]
                at += 1
                offsets[c, row] = at
                if what == 110:
                    lengths[c, row] = -1
                elif what == 117:
                    lengths[c, row] = -2
                elif what == 116:
                    n = 0
                    for i in range(4):
                        n = n * 256 + data[at + i]
                    offsets[c, row] = at + 4
                    lengths[c, row] = n
                    at += 4 + n
                else:
                    return -1
            tags[row] = tag
            messages[row] = m
            if code == 73:
                kinds[row] = 0
            elif code == 68:
                kinds[row] = 3
            else:
                kinds[row] = 2 if tag == 78 else 1
            row += 1
            if code != 85 or tag == 78:
                break
    return row
