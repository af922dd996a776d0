"""The state of each table that is tiered, and who may do its rounds: the state machine of Fluss.

    New | Initialized → Scheduled ─ one freshness after its last round → Pending ─ asked for → Tiering
    Tiering ─ finished → Tiered → Scheduled       Tiering ─ failed, or silent for too long → Failed → Pending

A table that becomes Pending gets its next tiering epoch, so whoever had it before is fenced. Pending tables
wait in the order in which they became late. New and Initialized (the coordinator was started) tables wait one
freshness, or what is left of it where their last round is known. A table that failed is Pending again at
once; if it fails again and again, after a pause that doubles, so that a client that asks at once does not
read a whole log once a second. Pure but for `TieringEpochs`, which keeps
the epochs; the time comes from the caller, in milliseconds of a clock that never goes back. Not thread-safe.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tablestore.core.errors import TablestoreError
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

Milliseconds = int
TIMEOUT_MS = 120_000
RETRY_MS = 1_000
"""How long a table waits for its next epoch where the place that keeps them has failed, and after its second
failure in a row."""
LONGEST_PAUSE_MS = 60_000
_TRANSITIONS_KEPT = 1_000


class TieringState(StrEnum):
    """Where a table is between two rounds. New, Initialized, Tiered and Failed are passed through at once,
    except that a failed table waits where no epoch can be had, and where it failed before, too."""

    NEW = "New"
    INITIALIZED = "Initialized"
    SCHEDULED = "Scheduled"
    PENDING = "Pending"
    TIERING = "Tiering"
    TIERED = "Tiered"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class TableFreshness:
    """A table that is tiered: its id for life, its path `database.table`, and how old its lake may be."""

    table_id: int
    table_path: str
    freshness_ms: Milliseconds


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of state and its reason."""

    at_ms: Milliseconds
    table_id: int
    before: TieringState
    after: TieringState
    tiering_epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table as it is now; times of the clock of the caller. `heartbeat_ms`: the last one, while Tiering;
    `due_ms`: when a Scheduled table becomes Pending; `tiered_ms`: its last finished round."""

    table: TableFreshness
    state: TieringState
    tiering_epoch: int
    since_ms: Milliseconds
    heartbeat_ms: Milliseconds | None
    due_ms: Milliseconds | None
    tiered_ms: Milliseconds | None
    rounds: int
    failures: int


class TieringEpochs(Protocol):
    """Gives out the epochs of tables."""

    def next(self, table_id: int) -> int:
        """An epoch of a table greater than all it had before. Raises what a store raises."""
        ...


@dataclass(slots=True)
class _Entry:
    table: TableFreshness
    state: TieringState
    since_ms: Milliseconds
    epoch: int = 0
    due_ms: Milliseconds | None = None
    heartbeat_ms: Milliseconds | None = None
    tiered_ms: Milliseconds | None = None
    rounds: int = 0
    failures: int = 0
    failures_in_a_row: int = 0


class TableStates:
    """The tables of one coordinator. `timeout_ms`: how long a table stays with a service that is silent."""

    def __init__(
        self, epochs: TieringEpochs, *, coordinator_epoch: int = 0, timeout_ms: Milliseconds = TIMEOUT_MS
    ) -> None:
        self._epochs, self.coordinator_epoch, self._timeout_ms = epochs, coordinator_epoch, timeout_ms
        self._entries: dict[int, _Entry] = {}
        self._pending: deque[int] = deque()
        self._due: list[tuple[Milliseconds, int, int]] = []  # a heap, outdated entries in it
        self._turn = 0
        self.transitions: deque[Transition] = deque(maxlen=_TRANSITIONS_KEPT)

    def tables(self) -> list[TableStatus]:
        """Every table with its state, by id."""
        return [
            TableStatus(
                *(e.table, e.state, e.epoch, e.since_ms, e.heartbeat_ms, e.due_ms),
                *(e.tiered_ms, e.rounds, e.failures),
            )
            for _, e in sorted(self._entries.items())
        ]

    # tables come and go

    def add(
        self,
        table: TableFreshness,
        now_ms: Milliseconds,
        *,
        initialized: bool = False,
        age_ms: Milliseconds | None = None,
    ) -> None:
        """Begin with a table, whose last round was `age_ms` ago (None: not known, so it counts as now).

        `initialized`: it was there before this coordinator. A table that is known takes the new definition.
        """
        existing = self._entries.get(table.table_id)
        if existing is not None:
            self._redefine(existing, table, now_ms)
            return
        state = TieringState.INITIALIZED if initialized else TieringState.NEW
        entry = _Entry(table, state, now_ms, tiered_ms=None if age_ms is None else now_ms - age_ms)
        self._entries[table.table_id] = entry
        wait = max(0, table.freshness_ms - (age_ms or 0))
        self._schedule(
            entry, now_ms, now_ms + wait, "the coordinator was started" if initialized else "new table"
        )

    def _redefine(self, entry: _Entry, table: TableFreshness, now_ms: Milliseconds) -> None:
        """Another path, or another freshness, which counts from the moment the old one did."""
        earlier = entry.table.freshness_ms - table.freshness_ms
        entry.table = table
        if earlier and entry.state is TieringState.SCHEDULED and entry.due_ms is not None:
            self._wake(entry, max(now_ms, entry.due_ms - earlier))

    def remove(self, table_id: int) -> None:
        """End with a table, which was dropped or is no longer tiered; who has it hears so."""
        if self._entries.pop(table_id, None) is not None and table_id in self._pending:
            self._pending.remove(table_id)

    def keep_only(self, table_ids: Iterable[int]) -> None:
        """End with all tables but these."""
        for table_id in self._entries.keys() - set(table_ids):
            self.remove(table_id)

    # time

    def tick(self, now_ms: Milliseconds) -> None:
        """What becomes late by now: scheduled tables whose freshness is over, tables of silent services."""
        while self._due and self._due[0][0] <= now_ms:
            due, _, table_id = heapq.heappop(self._due)
            entry = self._entries.get(table_id)
            if entry is None or entry.due_ms != due:
                continue
            if entry.state is TieringState.SCHEDULED:
                self._to_pending(entry, now_ms, "its freshness is over")
            elif entry.state is TieringState.FAILED:
                self._to_pending(entry, now_ms, "again after a failure")
        silent = now_ms - self._timeout_ms
        for entry in list(self._entries.values()):
            if entry.heartbeat_ms is not None and entry.heartbeat_ms < silent:
                seconds = (now_ms - entry.heartbeat_ms) / 1000
                self._fail(entry, now_ms, f"no heartbeat for {seconds:.0f} s")

    # requests

    def heartbeat(
        self,
        request: HeartbeatRequest,
        now_ms: Milliseconds,
        *,
        withheld: Collection[int] = (),
    ) -> HeartbeatResponse:
        """The answer to a service: first what failed, then what it has, what it finished, and last, if it
        wants one, a table, none that is `withheld` from it: so a failed table can come back at once under
        its next epoch. One whose round was cut short is due again at once."""
        self.tick(now_ms)
        failed = self._answers(request.failed, self._failed, now_ms)
        tiering = self._answers(request.tiering, self._renewed, now_ms)
        finished = self._answers(request.finished, self._finished, now_ms)
        for response in finished:
            if response.error_code is None and response.table_id in request.cut_short:
                self._cut_short(self._entries[response.table_id], now_ms)
        table = self._grant(now_ms, withheld) if request.request_table else None
        return HeartbeatResponse(self.coordinator_epoch, table, tiering, finished, failed)

    def _answers(
        self,
        tables: tuple[TableEpoch, ...],
        act: Callable[[_Entry, Milliseconds], str | None],
        now_ms: Milliseconds,
    ) -> tuple[TableResponse, ...]:
        return tuple(self._answer(table, act, now_ms) for table in tables)

    def _answer(
        self, asked: TableEpoch, act: Callable[[_Entry, Milliseconds], str | None], now_ms: Milliseconds
    ) -> TableResponse:
        table_id = asked.table_id
        if asked.coordinator_epoch != self.coordinator_epoch:
            text = (
                f"table {table_id}: coordinator epoch {asked.coordinator_epoch}, now {self.coordinator_epoch}"
            )
            return TableResponse(table_id, INVALID_COORDINATOR_EPOCH, text)
        entry = self._entries.get(table_id)
        if entry is None:
            return TableResponse(table_id, TABLE_NOT_FOUND, f"no table {table_id} that is tiered")
        if asked.tiering_epoch != entry.epoch:
            text = f"table {table_id}: tiering epoch {asked.tiering_epoch}, now {entry.epoch}"
            return TableResponse(table_id, FENCED_TIERING_EPOCH, text)
        wrong = act(entry, now_ms)
        return TableResponse(table_id) if wrong is None else TableResponse(table_id, NOT_TIERING, wrong)

    def _failed(self, entry: _Entry, now_ms: Milliseconds) -> str | None:
        if entry.state is TieringState.TIERING:
            self._fail(entry, now_ms, "its service says so")
        elif entry.state is TieringState.SCHEDULED:
            self._to_pending(entry, now_ms, "its service says that the last round failed after all")
        return None

    def _renewed(self, entry: _Entry, now_ms: Milliseconds) -> str | None:
        if entry.state is not TieringState.TIERING:
            return f"table {entry.table.table_id} is {entry.state}, not {TieringState.TIERING}"
        entry.heartbeat_ms = now_ms
        return None

    def _finished(self, entry: _Entry, now_ms: Milliseconds) -> str | None:
        if entry.state is TieringState.TIERING:  # a second one of the same round changes nothing
            entry.heartbeat_ms, entry.tiered_ms = None, now_ms
            entry.rounds, entry.failures_in_a_row = entry.rounds + 1, 0
            self._become(entry, TieringState.TIERED, now_ms, "its service says so")
            self._schedule(entry, now_ms, now_ms + entry.table.freshness_ms, "its round is over")
        return None

    def _cut_short(self, entry: _Entry, now_ms: Milliseconds) -> None:
        if entry.state is TieringState.SCHEDULED:
            self._to_pending(entry, now_ms, "its service cut the round short")

    def _grant(self, now_ms: Milliseconds, withheld: Collection[int]) -> TieringTable | None:
        table_id = next((id for id in self._pending if id not in withheld), None)
        if table_id is None:
            return None
        self._pending.remove(table_id)
        entry = self._entries[table_id]
        entry.heartbeat_ms = now_ms
        self._become(entry, TieringState.TIERING, now_ms, "a service asked for a table")
        return TieringTable(entry.table.table_id, entry.table.table_path, entry.epoch)

    # changes of state

    def _schedule(self, entry: _Entry, now_ms: Milliseconds, due_ms: Milliseconds, reason: str) -> None:
        self._become(entry, TieringState.SCHEDULED, now_ms, reason)
        self._wake(entry, due_ms)

    def _fail(self, entry: _Entry, now_ms: Milliseconds, reason: str) -> None:
        entry.heartbeat_ms = None
        entry.failures += 1
        entry.failures_in_a_row += 1
        self._become(entry, TieringState.FAILED, now_ms, reason)
        if entry.failures_in_a_row == 1:
            self._to_pending(entry, now_ms, "again after a failure")
            return
        doubled = RETRY_MS << min(entry.failures_in_a_row - 2, 16)
        self._wake(entry, now_ms + min(doubled, LONGEST_PAUSE_MS))

    def _to_pending(self, entry: _Entry, now_ms: Milliseconds, reason: str) -> None:
        """The table waits for a service, under an epoch that fences whoever had it; later if none can be
        had."""
        try:
            entry.epoch = self._epochs.next(entry.table.table_id)
        except (TablestoreError, OSError) as e:
            log.warning("table %d waits for its next tiering epoch: %s", entry.table.table_id, e)
            self._wake(entry, now_ms + RETRY_MS)
            return
        entry.due_ms = None
        self._become(entry, TieringState.PENDING, now_ms, reason)
        self._pending.append(entry.table.table_id)

    def _wake(self, entry: _Entry, due_ms: Milliseconds) -> None:
        entry.due_ms = due_ms
        self._turn += 1
        heapq.heappush(self._due, (due_ms, self._turn, entry.table.table_id))

    def _become(self, entry: _Entry, state: TieringState, now_ms: Milliseconds, reason: str) -> None:
        table_id = entry.table.table_id
        self.transitions.append(Transition(now_ms, table_id, entry.state, state, entry.epoch, reason))
        log.debug("table %d: %s → %s, epoch %d: %s", table_id, entry.state, state, entry.epoch, reason)
        entry.state, entry.since_ms = state, now_ms
