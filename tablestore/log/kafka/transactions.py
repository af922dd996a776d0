"""The transactions of a topic, read from its messages, and what one says of itself.

That is a mark: a header of the first message of each of its partitions, as JSON.

    id      tells the transaction from others
    order   grows from transaction to transaction of a slot, whatever the clock does
    time    milliseconds after 1970
    rows    the number of its messages in each partition
    mark    the commit of the table that it is of

Writers of several slots send at once. So each partition has its own order of transactions, and one may lie
among the messages of another. Of which a message without a mark is then, its topic does not say.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tablestore.core.errors import SchemaMismatch
from tablestore.format.messages.messages import BadMessage
from tablestore.log.log import Appended, CommitMark
from tablestore.log.offsets import Offsets

HEADER = "tablestore-commit"


@dataclass(frozen=True, slots=True)
class TransactionMark:
    """What the header says."""

    id: str
    order: int
    timestamp_ms: int
    rows: Mapping[int, int]
    mark: CommitMark

    def encode(self) -> bytes:
        """The header's value."""
        body = {
            "id": self.id,
            "order": self.order,
            "time": self.timestamp_ms,
            "rows": dict(self.rows),
            "mark": {**asdict(self.mark), "properties": dict(self.mark.properties)},
        }
        return json.dumps(body).encode()

    @classmethod
    def decode(cls, value: bytes | str | None) -> TransactionMark:
        """The mark of a header's value. Raises SchemaMismatch for what is none: others may write messages."""
        try:
            body = json.loads(value or b"")
            rows = {int(bucket): count for bucket, count in body["rows"].items()}
            decoded = cls(body["id"], body["order"], body["time"], rows, CommitMark(**body["mark"]))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise SchemaMismatch(f"the header {HEADER!r} of a message is no mark of a transaction") from None
        if not decoded._is_sound():
            raise SchemaMismatch(f"the header {HEADER!r} of a message has values that no transaction has")
        return decoded

    def _is_sound(self) -> bool:
        numbers = (self.order, self.timestamp_ms, self.mark.identifier, *self.rows.values())
        position, watermark = self.mark.position, self.mark.watermark
        properties = self.mark.properties
        return (
            all(type(number) is int for number in numbers)
            and all(bucket >= 0 and count > 0 for bucket, count in self.rows.items())
            and isinstance(self.id, str)
            and isinstance(self.mark.user, str)
            and (position is None or isinstance(position, str))
            and (watermark is None or type(watermark) is int)
            and isinstance(properties, dict)
            and all(isinstance(text, str) for text in properties.values())
        )


class Transactions:
    """Takes the messages of a topic, those of each partition in their order."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._by_id: dict[str, _Transaction] = {}
        self._open: dict[int, list[_Open]] = {}
        self._partitions: dict[int, list[_Transaction]] = {}
        self._last: dict[int, _Transaction] = {}
        self._knots: set[int] = set()  # partitions in which transactions lie among each other's messages

    def take(self, partition: int, message: Any) -> None:
        """Take the next message of a partition. Raises BadMessage for a mark that is none."""
        if partition in self._last:  # there is no row between
            self._last[partition].end[partition] = message.offset()
        waiting = self._open.setdefault(partition, [])
        mark = self._mark(partition, message)
        if mark is not None:
            new = _Transaction(mark.order, mark.mark, mark.timestamp_ms)
            begun = self._by_id.setdefault(mark.id, new)
            waiting.append(_Open(begun, mark.rows.get(partition, 1)))
            if len(waiting) > 1:
                self._knots.add(partition)
                for other in waiting:
                    other.transaction.mixed = True
        certain = mark is not None or partition not in self._knots
        if waiting:
            current = waiting[-1].transaction
            waiting[-1].remaining -= 1
            if waiting[-1].remaining <= 0:
                waiting.pop()
        else:
            current = self._without_mark(partition)
        if not waiting:
            self._knots.discard(partition)
        if partition not in current.start:
            self._partitions.setdefault(partition, []).append(current)
        current.take(partition, message, certain=certain)
        self._last[partition] = current

    def appended(self, end: Offsets) -> Iterator[Appended]:
        """What was taken, up to these ends of the partitions, in an order that is that of each partition.
        Where there is none, since each of two transactions is first in one, one of them is `mixed`."""
        for partition, last in self._last.items():
            last.end[partition] = end[partition]
        unmarked: _Transaction | None = None
        for transaction in _Order(self._partitions):
            if transaction.mark is None:
                unmarked = transaction if unmarked is None else unmarked.joined(transaction)
                continue
            if unmarked is not None:
                yield unmarked.appended()
                unmarked = None
            yield transaction.appended()
        if unmarked is not None:
            yield unmarked.appended()

    def _mark(self, partition: int, message: Any) -> TransactionMark | None:
        text = next((value for key, value in message.headers() or () if key == HEADER), None)
        if text is None:
            return None
        try:
            return TransactionMark.decode(text)
        except SchemaMismatch as e:
            raise BadMessage(self._topic, partition, message.offset(), str(e)) from None

    def _without_mark(self, partition: int) -> _Transaction:
        """What was written at once, or by others: with that before it, if this has no mark either."""
        last = self._last.get(partition)
        return last if last is not None and last.mark is None else _Transaction(0, None, 0)


@dataclass(slots=True)
class _Open:
    """A transaction of which so many messages of a partition are still to come."""

    transaction: _Transaction
    remaining: int


@dataclass(slots=True)
class _Transaction:
    """A transaction that is being read: where its rows are and how many so far. `between`: the offsets among
    them that are not its own, or maybe not."""

    order: int
    mark: CommitMark | None
    timestamp_ms: int
    mixed: bool = False
    start: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)
    taken: int = 0
    behind: dict[int, int] = field(default_factory=dict)
    between: dict[int, list[range]] = field(default_factory=dict)

    def take(self, partition: int, message: Any, *, certain: bool) -> None:
        """Take its next message of a partition; `certain`: it is of no other transaction."""
        offset = message.offset()
        self.start.setdefault(partition, offset)
        behind, own = self.behind.get(partition, offset), offset if certain else offset + 1
        if behind < own:
            self.between.setdefault(partition, []).append(range(behind, own))
            self.mixed = True
        self.end[partition] = self.behind[partition] = offset + 1
        self.taken += 1
        self.timestamp_ms = self.timestamp_ms or message.timestamp()[1]

    def joined(self, other: _Transaction) -> _Transaction:
        """This and rows that come next."""
        both = _Transaction(self.order, self.mark, self.timestamp_ms, self.mixed or other.mixed)
        both.start, both.end = {**other.start, **self.start}, {**self.end, **other.end}
        both.taken = self.taken + other.taken
        for partition in {*self.between, *other.between}:
            both.between[partition] = [
                *self.between.get(partition, ()),
                *other.between.get(partition, ()),
            ]
        return both

    def appended(self) -> Appended:
        """The transaction as its reader sees it."""
        between = {partition: tuple(offsets) for partition, offsets in self.between.items()}
        return Appended(
            self.start,
            self.end,
            self.timestamp_ms,
            self.mark,
            row_count=self.taken,
            mixed=self.mixed,
            between=between,
        )


class _Order:
    """The transactions of all partitions, each behind those that lie before it in any; of several that may be
    next that of the lowest order. Where each waits for another, one of these goes first, and is mixed."""

    def __init__(self, partitions: Mapping[int, list[_Transaction]]) -> None:
        self._queues = {partition: deque(those) for partition, those in partitions.items()}
        self._heads: dict[int, int] = {}  # by transaction, in how many partitions it is the next
        self._numbers: dict[int, int] = {}
        self._ready: list[tuple[int, int, _Transaction]] = []
        self._over = set[int]()

    def __iter__(self) -> Iterator[_Transaction]:
        for queue in self._queues.values():
            self._next_of(queue)
        while any(self._queues.values()):
            if self._ready:
                transaction = heapq.heappop(self._ready)[2]
            else:
                heads = (queue[0] for queue in self._queues.values() if queue)
                transaction = min(heads, key=lambda head: (head.order, self._numbers[id(head)]))
                transaction.mixed = True
            self._over.add(id(transaction))
            yield transaction
            for partition in transaction.start:
                queue = self._queues[partition]
                if queue and queue[0] is transaction:
                    self._next_of(queue)

    def _next_of(self, queue: deque[_Transaction]) -> None:
        """Leave out what is over, and note the transaction that is next in this partition."""
        while queue and id(queue[0]) in self._over:
            queue.popleft()
        if not queue:
            return
        transaction = queue[0]
        heads = self._heads[id(transaction)] = self._heads.get(id(transaction), 0) + 1
        number = self._numbers.setdefault(id(transaction), len(self._numbers))
        if heads == len(transaction.start):
            heapq.heappush(self._ready, (transaction.order, number, transaction))
