"""32-bit roaring bitmaps (`roaring` draws their layout), a whole column of them at a time.

`Bitmaps.of` reads the headers: where each container lies and how many positions it has, so that callers may
bound what they decode at once; `positions` decodes some of them, `encode` writes many. What is unusual is not
decoded here but `odd`: `roaring.decode32` either reads it or says what is wrong. Memory: what is asked for,
as int64, and 16 MB. Pure. Used by the aggregate function rbm32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

_PLAIN, _WITH_RUNS = 12346, 12347
_OFFSETS_FROM = 4
_ARRAY_MOST = 4096
_BITMAP_BYTES = 8192
_SPAN = 1 << 16
_AT_ONCE = 128  # bitmap containers unpacked together


def _ranges(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For ranges of these lengths, one after another: the range of each item, and its place there."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _first_of(owner: np.ndarray) -> np.ndarray:
    return np.r_[True, owner[1:] != owner[:-1]][: len(owner)]


@dataclass(frozen=True, slots=True)
class Bitmaps:
    """Bitmaps in one buffer, and their containers in order: `owner` is a container's bitmap, `at` the byte
    where it begins."""

    data: np.ndarray
    odd: np.ndarray
    owner: np.ndarray
    highs: np.ndarray
    cards: np.ndarray
    runs: np.ndarray
    at: np.ndarray

    @classmethod
    def of(cls, column: pa.Array) -> Bitmaps:
        """The bitmaps of a BINARY column without NULL."""
        offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset :][: len(column) + 1]
        starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
        held = column.buffers()[2]
        data = np.zeros(8, dtype=np.uint8) if held is None or held.size < 8 else np.frombuffer(held, np.uint8)
        odd = ends - starts < 8
        cookie = _number(data, starts, 4)
        with_runs = cookie & 0xFFFF == _WITH_RUNS
        counts = np.where(with_runs, (cookie >> 16) + 1, _number(data, starts + 4, 4))
        flags = np.where(with_runs, starts + 4, 0)
        described = np.where(with_runs, starts + 4 + (counts + 7) // 8, starts + 8)
        has_offsets = ~with_runs | (counts >= _OFFSETS_FROM)
        body = described + 4 * counts * (1 + has_offsets)
        odd |= ~(with_runs | (cookie == _PLAIN)) | (counts > _SPAN) | (body > ends)
        counts = np.where(odd, 0, counts)
        owner, index = _ranges(counts)
        place = described[owner] + 4 * index
        highs, cards = _number(data, place, 2), _number(data, place + 2, 2) + 1
        runs = with_runs[owner] & (_number(data, flags[owner] + index // 8, 1) >> (index % 8) & 1 == 1)
        made = cls(data, odd, owner, highs, cards, runs, np.zeros(len(owner), dtype=np.int64))
        at = made._places(starts, body, described, has_offsets & with_runs, index)
        made = cls(data, odd, owner, highs, cards, runs, at)
        made._check(body, ends, index)
        return made

    @property
    def sizes(self) -> np.ndarray:
        """How many positions each bitmap has."""
        return np.bincount(self.owner, self.cards, minlength=len(self.odd)).astype(np.int64)

    def _places(
        self, starts: np.ndarray, body: np.ndarray, described: np.ndarray, told: np.ndarray, index: np.ndarray
    ) -> np.ndarray:
        """Where containers begin: one after another, but where the sizes of runs would have to be read one
        by one the header tells, or there are three at most."""
        owner, counts = self.owner, np.bincount(self.owner, minlength=len(self.odd))
        lengths = np.where(self.cards <= _ARRAY_MOST, 2 * self.cards, _BITMAP_BYTES)
        before = np.cumsum(lengths) - lengths
        plain = body[owner] + before - before[np.searchsorted(owner, owner)]
        header = (described + 4 * counts)[owner] + 4 * index
        at = np.where(told[owner], starts[owner] + _number(self.data, header, 4), plain)
        for n in range(1, _OFFSETS_FROM - 1):
            late = np.flatnonzero((index == n) & ~told[owner])
            at[late] = at[late - 1] + self._length(late - 1, at)
        return at

    def _length(self, which: np.ndarray, at: np.ndarray) -> np.ndarray:
        """The bytes of these containers, which begin at these bytes."""
        plain = np.where(self.cards[which] <= _ARRAY_MOST, 2 * self.cards[which], _BITMAP_BYTES)
        return np.where(self.runs[which], 2 + 4 * _number(self.data, at[which], 2), plain)

    def _check(self, body: np.ndarray, ends: np.ndarray, index: np.ndarray) -> None:
        """Mark bitmaps whose containers do not lie side by side, or not in order, as odd."""
        empty = np.bincount(self.owner, minlength=len(self.odd)) == 0
        self._mark(np.flatnonzero(empty & (body != ends)))
        if not len(self.owner):
            return
        after = self.at + self._length(np.arange(len(self.at)), self.at)
        last = np.append(_first_of(self.owner)[1:], True)
        wrong = after != np.where(last, ends[self.owner], np.append(self.at[1:], 0))
        wrong |= (index == 0) & (self.at != body[self.owner])
        wrong[1:] |= (index[1:] > 0) & (self.highs[1:] <= self.highs[:-1])
        self._mark(self.owner[wrong])

    def _mark(self, bitmaps: np.ndarray) -> None:
        self.odd[bitmaps] = True

    def positions(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(positions, the place in `which` of the bitmap of each) of the bitmaps chosen by this mask; they
        rise in each bitmap. Marks those as odd that do not hold what their header says."""
        place = np.cumsum(which) - 1
        some = np.flatnonzero((which & ~self.odd)[self.owner])
        cards, runs, at = self.cards[some], self.runs[some], self.at[some]
        begins = np.cumsum(cards) - cards
        lows = np.zeros(int(cards.sum()), dtype=np.int64)
        wrong = np.zeros(len(some), dtype=bool)
        arrays = np.flatnonzero(~runs & (cards <= _ARRAY_MOST))
        owner, n = _ranges(cards[arrays])
        lows[begins[arrays][owner] + n] = _number(self.data, at[arrays][owner] + 2 * n, 2)
        self._runs(np.flatnonzero(runs), at, cards, begins, lows, wrong)
        bits = np.flatnonzero(~runs & (cards > _ARRAY_MOST))
        for start in range(0, len(bits), _AT_ONCE):
            self._bits(bits[start : start + _AT_ONCE], at, cards, begins, lows, wrong)
        container = np.repeat(np.arange(len(some)), cards)
        falls = np.flatnonzero((lows[1:] <= lows[:-1]) & (container[1:] == container[:-1]))
        wrong[container[falls]] = True
        self._mark(self.owner[some[wrong]])
        found = lows + (self.highs[some] << 16)[container]
        return found, place[self.owner[some]][container]

    def _runs(self, which: np.ndarray, at: np.ndarray, cards: np.ndarray, *into: np.ndarray) -> None:
        begins, lows, wrong = into
        owner, n = _ranges(_number(self.data, at[which], 2))
        place = at[which][owner] + 2 + 4 * n
        firsts, lengths = _number(self.data, place, 2), _number(self.data, place + 2, 2) + 1
        sums = np.bincount(owner, lengths, minlength=len(which)).astype(np.int64)
        bad = sums != cards[which]
        bad[owner[firsts + lengths > _SPAN]] = True
        wrong[which[bad]] = True
        lengths = np.where(bad[owner], 0, lengths)
        before = np.cumsum(lengths) - lengths
        mine = before - before[np.searchsorted(owner, owner)]
        run, k = _ranges(lengths)
        lows[(begins[which][owner] + mine)[run] + k] = firsts[run] + k

    def _bits(self, which: np.ndarray, at: np.ndarray, cards: np.ndarray, *into: np.ndarray) -> None:
        begins, lows, wrong = into
        words = self.data[at[which][:, None] + np.arange(_BITMAP_BYTES)]
        owner, found = np.nonzero(np.unpackbits(words, axis=1, bitorder="little"))
        bad = np.bincount(owner, minlength=len(which)) != cards[which]
        wrong[which[bad]] = True
        owner, found = owner[~bad[owner]], found[~bad[owner]]
        lows[begins[which][owner] + np.arange(len(owner)) - np.searchsorted(owner, owner)] = found


def _number(data: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    """Little-endian numbers of some bytes; beyond the data they are anything."""
    found = data.take(at, mode="clip").astype(np.int64)
    for n in range(1, size):
        found |= data.take(at + n, mode="clip").astype(np.int64) << 8 * n
    return found


def encode(positions: np.ndarray, owner: np.ndarray, count: int) -> pa.Array:
    """BINARY column of `count` bitmaps: of each, in turn, its strictly rising positions; each container in
    its smallest form, as `roaring.encode32` writes them."""
    first = np.flatnonzero(_first_of(owner) | _first_of(positions >> 16))
    cards = np.diff(np.append(first, len(positions)))
    of = owner[first]
    starts_run = np.r_[True, positions[1:] != positions[:-1] + 1][: len(positions)]
    starts_run[first] = True
    runs = np.add.reduceat(starts_run, first, dtype=np.int64) if len(first) else first
    plain = np.where(cards <= _ARRAY_MOST, 2 * cards, _BITMAP_BYTES)
    is_run = 2 + 4 * runs < plain
    sizes = np.where(is_run, 2 + 4 * runs, plain)
    counts = np.bincount(of, minlength=count)
    some_run = np.bincount(of[is_run], minlength=count) > 0
    flags = np.where(some_run, (counts + 7) // 8, 0)
    offsets = ~some_run | (counts >= _OFFSETS_FROM)
    heads = np.where(some_run, 4 + flags, 8) + 4 * counts * (1 + offsets)
    ends = np.cumsum(heads + np.bincount(of, sizes, minlength=count).astype(np.int64))
    begin = np.r_[0, ends[:-1]][:count]
    out = np.zeros(int(ends[-1]) if count else 0, dtype=np.uint8)
    index = np.arange(len(first)) - (np.cumsum(counts) - counts)[of]
    before = np.cumsum(sizes) - sizes
    at = begin[of] + heads[of] + before - before[np.searchsorted(of, of)]
    _put(out, begin, np.where(some_run, _WITH_RUNS | (counts - 1) << 16, _PLAIN), 4)
    _put(out, begin[~some_run] + 4, counts[~some_run], 4)
    np.bitwise_or.at(out, (begin[of] + 4 + index // 8)[is_run], (1 << index % 8)[is_run].astype(np.uint8))
    described = begin[of] + np.where(some_run, 4 + flags, 8)[of] + 4 * index
    _put(out, described, positions[first] >> 16, 2)
    _put(out, described + 2, cards - 1, 2)
    told = offsets[of]
    _put(out, (described + 4 * counts[of])[told], (at - begin[of])[told], 4)
    _put_containers(out, positions & 0xFFFF, first, cards, at, is_run, starts_run)
    made = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [None, pa.py_buffer(np.r_[0, ends].astype(np.int64)), pa.py_buffer(out)]
    )
    return made.cast(pa.binary())


def _put_containers(
    out: np.ndarray,
    lows: np.ndarray,
    first: np.ndarray,
    cards: np.ndarray,
    at: np.ndarray,
    is_run: np.ndarray,
    starts_run: np.ndarray,
) -> None:
    container, n = _ranges(cards)
    arrays = (~is_run & (cards <= _ARRAY_MOST))[container]
    _put(out, at[container[arrays]] + 2 * n[arrays], lows[arrays], 2)
    bits = (~is_run & (cards > _ARRAY_MOST))[container]
    bit = (1 << (lows[bits] & 7)).astype(np.uint8)
    np.bitwise_or.at(out, at[container[bits]] + (lows[bits] >> 3), bit)
    begins = np.flatnonzero(starts_run & is_run[container])
    if not len(begins):
        return
    owner = container[begins]
    every = np.flatnonzero(starts_run)
    lengths = np.append(every[1:], len(lows))[np.searchsorted(every, begins)] - begins
    k = np.arange(len(begins)) - np.searchsorted(owner, owner)
    _put(out, at[owner] + 2 + 4 * k, lows[begins], 2)
    _put(out, at[owner] + 4 + 4 * k, lengths - 1, 2)
    _put(out, at[owner], np.bincount(owner, minlength=len(first))[owner], 2)


def _put(out: np.ndarray, at: np.ndarray, numbers: np.ndarray, size: int) -> None:
    """Write little-endian numbers at these bytes."""
    for n in range(size):
        out[at + n] = numbers >> 8 * n & 0xFF
