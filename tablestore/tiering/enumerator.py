"""The enumerator: which tables this service holds, what its next heartbeat says, what the answer means.

A state machine over the values of `heartbeat.py`, without clock, threads or connection: `request` gives what
to send, `receive` takes the answer, `finish` and `fail` say how rounds ended. What ended is said again until
an answer comes, since answers get lost. A table that the answer says is no longer ours is dropped: its
round must not be committed, though the lake would refuse that, too. A table is asked for only while there
is room. One that fails again and again waits before its next round, longer each time, and takes no room then.

Not thread-safe: callers serialise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from tablestore.fluss.heartbeat import (
    FENCED_TIERING_EPOCH,
    INVALID_COORDINATOR_EPOCH,
    NOT_TIERING,
    TABLE_NOT_FOUND,
    HeartbeatRequest,
    HeartbeatResponse,
    TableEpoch,
    TableResponse,
    TieringTable,
)

log = logging.getLogger(__name__)
_WORDS = {
    FENCED_TIERING_EPOCH: "another service holds the table",
    INVALID_COORDINATOR_EPOCH: "the coordinator has started anew",
    TABLE_NOT_FOUND: "the table was dropped",
    NOT_TIERING: "the coordinator does not count the table as being tiered",
}


@dataclass(frozen=True, slots=True)
class AssignedTable:
    """A table that was handed out to this service. Its round begins at `due`, in seconds on the caller's
    clock: later than now where its rounds failed before."""

    table: TieringTable
    epoch: TableEpoch
    due: float


@dataclass(frozen=True, slots=True)
class Received:
    """What an answer means: a table `given` to tier; tables `dropped`, with the reason, whose rounds must end
    without a commit; one `refused`, which this service does not tier."""

    given: AssignedTable | None = None
    dropped: tuple[tuple[AssignedTable, str], ...] = ()
    refused: TieringTable | None = None


@dataclass(slots=True)
class TieringEnumerator:
    """The tables that a service holds. `room`: how many rounds it may have at a time; `accepts` says by its
    path whether a table is one that it tiers. Waits after failures begin with `first_wait` seconds, double
    with each and end at `last_wait`."""

    room: int = 1
    accepts: Callable[[str], bool] = lambda _: True
    first_wait: float = 1.0
    last_wait: float = 60.0
    coordinator_epoch: int | None = None
    closed: bool = False
    assigned: dict[int, AssignedTable] = field(default_factory=dict)
    _finished: dict[int, TableEpoch] = field(default_factory=dict)
    _failed: dict[int, TableEpoch] = field(default_factory=dict)
    _failures: dict[int, int] = field(default_factory=dict)
    _refused: set[int] = field(default_factory=set)
    _asks_again: float = 0.0

    def request(self, now: float) -> HeartbeatRequest:
        """What to send now. The first request only asks for the coordinator's epoch."""
        busy = sum(1 for table in self.assigned.values() if table.due <= now)
        waiting = len(self.assigned) - busy
        asks = busy < self.room and waiting < 8 * self.room and now >= self._asks_again
        return HeartbeatRequest(
            tiering=tuple(table.epoch for table in self.assigned.values()),
            finished=tuple(self._finished.values()),
            failed=tuple(self._failed.values()),
            request_table=asks and not self.closed and self.coordinator_epoch is not None,
        )

    def receive(self, sent: HeartbeatRequest, answer: HeartbeatResponse, now: float) -> Received:
        """Take the answer to a request; tables that ended after it was sent are said with the next one."""
        self.coordinator_epoch = answer.coordinator_epoch
        _forget(self._finished, sent.finished)
        _forget(self._failed, sent.failed)
        for response in (*answer.finished, *answer.failed):
            if response.error_code is not None:
                log.info(
                    "the end of a round of table %d was refused: %s", response.table_id, reason_of(response)
                )
        epochs = {response.table_id: response for response in sent.tiering}
        dropped = []
        for response in answer.tiering:
            table = self.assigned.get(response.table_id)
            if response.error_code is None or table is None or table.epoch != epochs.get(response.table_id):
                continue
            del self.assigned[response.table_id]
            dropped.append((table, reason_of(response)))
        before = self.assigned.pop(answer.table.table_id, None) if answer.table else None
        if before is not None:  # the coordinator has forgotten that
            dropped.append((before, "it was handed out again"))
        given = self._given(answer.table, answer.coordinator_epoch, now) if answer.table else None
        refused = answer.table if given is None else None
        return Received(given, tuple(dropped), refused)

    def _given(self, table: TieringTable, coordinator_epoch: int, now: float) -> AssignedTable | None:
        epoch = TableEpoch(table.table_id, coordinator_epoch, table.tiering_epoch)
        if self.closed or not self.accepts(table.table_path):
            self._failed[table.table_id] = epoch
            if table.table_id in self._refused:  # all that wait are others' tables
                self._asks_again = now + self.first_wait
                self._refused.clear()
            self._refused.add(table.table_id)
            return None
        self._refused.clear()
        assigned = AssignedTable(table, epoch, now + self.wait_after_failures(table.table_id))
        self.assigned[table.table_id] = assigned
        return assigned

    def wait_after_failures(self, table_id: int) -> float:
        """How many seconds the next round of a table waits, 0 where the last one did not fail."""
        failures = self._failures.get(table_id, 0)
        return min(self.first_wait * 2 ** min(failures - 1, 30), self.last_wait) if failures else 0.0

    def finish(self, table: AssignedTable) -> None:
        """The round of a table is committed, or there was nothing to do."""
        self._failures.pop(table.epoch.table_id, None)
        if self._end(table):
            self._finished[table.epoch.table_id] = table.epoch

    def fail(self, table: AssignedTable) -> None:
        """The round of a table ended without a commit."""
        self._failures[table.epoch.table_id] = self._failures.get(table.epoch.table_id, 0) + 1
        if self._end(table):
            self._failed[table.epoch.table_id] = table.epoch

    def holds(self, table: AssignedTable) -> bool:
        """Whether the table is still this service's, as far as the last answer said."""
        return self.assigned.get(table.epoch.table_id) is table

    def close(self) -> None:
        """Give every table back as failed, with the next request, and ask for none."""
        self.closed = True
        for table in list(self.assigned.values()):
            self._end(table)
            self._failed[table.epoch.table_id] = table.epoch

    @property
    def has_ended(self) -> bool:
        """Whether rounds ended that the coordinator has not answered yet."""
        return bool(self._finished or self._failed)

    @property
    def open_epochs(self) -> tuple[TableEpoch, ...]:
        """What the coordinator takes for this service's: assigned tables, and those whose end it has not
        answered."""
        assigned = (table.epoch for table in self.assigned.values())
        return (*assigned, *self._finished.values(), *self._failed.values())

    def _end(self, table: AssignedTable) -> bool:
        if not self.holds(table):
            return False
        del self.assigned[table.epoch.table_id]
        return True


def reason_of(answer: TableResponse) -> str:
    """Why a table is no longer ours, in words."""
    words = _WORDS.get(answer.error_code or 0, "the coordinator refused it")
    return f"{words} (error {answer.error_code}: {answer.message})" if answer.message else words


def _forget(ended: dict[int, TableEpoch], sent: tuple[TableEpoch, ...]) -> None:
    """Remove what was sent; a table that was handed out again and ended since stays."""
    for epoch in sent:
        if ended.get(epoch.table_id) == epoch:
            del ended[epoch.table_id]
