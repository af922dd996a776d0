"""The state machine of tiered tables, without files and clocks."""

from __future__ import annotations

import random
from collections import Counter

from tablestore.core.errors import Unavailable
from tablestore.fluss.heartbeat import (
    FENCED_TIERING_EPOCH,
    INVALID_COORDINATOR_EPOCH,
    NOT_TIERING,
    TABLE_NOT_FOUND,
    HeartbeatRequest,
    HeartbeatResponse,
    TableEpoch,
)
from tablestore.tiering.coordinator.table_states import (
    TIMEOUT_MS,
    TableFreshness,
    TableStates,
    TieringState,
)

COORDINATOR = 4


class MemoryEpochs:
    """Epochs in memory, which may fail."""

    def __init__(self) -> None:
        self.newest: Counter[int] = Counter()
        self.broken = False

    def next(self, table_id: int) -> int:
        if self.broken:
            raise Unavailable("no disk")
        self.newest[table_id] += 1
        return self.newest[table_id]


def machine(*tables: int, freshness: int = 1000, epochs: MemoryEpochs | None = None) -> TableStates:
    states = TableStates(epochs or MemoryEpochs(), coordinator_epoch=COORDINATOR)
    for table_id in tables:
        states.add(TableFreshness(table_id, f"shop.t{table_id}", freshness), 0)
    return states


def at(table_id: int, epoch: int, coordinator: int = COORDINATOR) -> tuple[TableEpoch, ...]:
    return (TableEpoch(table_id, coordinator, epoch),)


def ask(states: TableStates, now: int) -> tuple[int, int] | None:
    """(table, epoch) that a service gets."""
    table = states.heartbeat(HeartbeatRequest(request_table=True), now).table
    return None if table is None else (table.table_id, table.tiering_epoch)


def errors(response: HeartbeatResponse) -> list[int | None]:
    return [answer.error_code for answer in (*response.failed, *response.tiering, *response.finished)]


def state(states: TableStates, table_id: int = 1) -> TieringState:
    return next(s.state for s in states.tables() if s.table.table_id == table_id)


def test_a_new_table_waits_one_freshness_and_then_goes_round():
    states = machine(1)
    assert (ask(states, 999), state(states)) == (None, TieringState.SCHEDULED)
    assert (ask(states, 1000), state(states)) == ((1, 1), TieringState.TIERING)
    done = states.heartbeat(HeartbeatRequest(finished=at(1, 1)), 1500)
    assert (errors(done), state(states)) == ([None], TieringState.SCHEDULED)
    assert (ask(states, 2499), ask(states, 2500)) == (None, (1, 2))
    assert [t.after for t in states.transitions] == [
        *("Scheduled", "Pending", "Tiering", "Tiered", "Scheduled", "Pending", "Tiering")
    ]


def test_tables_are_handed_out_in_the_order_in_which_they_became_late():
    states = TableStates(MemoryEpochs())
    for table_id, freshness in ((1, 300), (2, 100), (3, 200)):
        states.add(TableFreshness(table_id, f"shop.t{table_id}", freshness), 0)
    assert [ask(states, 1000) for _ in range(4)] == [(2, 1), (3, 1), (1, 1), None]


def test_a_service_that_is_silent_loses_its_table_and_is_fenced():
    states = machine(1)
    assert ask(states, 1000) == (1, 1)
    assert errors(states.heartbeat(HeartbeatRequest(tiering=at(1, 1)), 60_000)) == [None]
    assert ask(states, 60_000 + TIMEOUT_MS) is None
    assert ask(states, 60_001 + TIMEOUT_MS) == (1, 2)
    late = HeartbeatRequest(at(1, 1), at(1, 1), at(1, 1))
    assert errors(states.heartbeat(late, 60_002 + TIMEOUT_MS)) == [FENCED_TIERING_EPOCH] * 3
    assert state(states) is TieringState.TIERING


def test_a_failed_table_comes_back_in_the_same_request_under_the_next_epoch():
    states = machine(1)
    ask(states, 1000)
    back = states.heartbeat(HeartbeatRequest(failed=at(1, 1), request_table=True), 1001)
    assert (errors(back), back.table and back.table.tiering_epoch) == ([None], 2)
    assert states.tables()[0].failures == 1


def test_a_table_that_fails_again_and_again_waits_longer_each_time():
    states, now = machine(1), 1000
    assert ask(states, now) == (1, 1)
    for epoch, pause in enumerate((0, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000), 1):
        assert errors(states.heartbeat(HeartbeatRequest(failed=at(1, epoch)), now)) == [None]
        if pause:
            assert state(states) is TieringState.FAILED
            assert errors(states.heartbeat(HeartbeatRequest(tiering=at(1, epoch)), now)) == [NOT_TIERING]
            assert ask(states, now + pause - 1) is None
        now += pause
        assert ask(states, now) == (1, epoch + 1)
    states.heartbeat(HeartbeatRequest(finished=at(1, 10)), now)
    assert ask(states, now + 1000) == (1, 11)  # a round that ends well is the end of it
    states.heartbeat(HeartbeatRequest(failed=at(1, 11)), now + 1001)
    assert ask(states, now + 1001) == (1, 12)


def test_each_error_is_told_per_table():
    states = machine(1, 2)
    ask(states, 1000)
    request = HeartbeatRequest(tiering=(*at(1, 1), *at(1, 2), *at(1, 1, 3), *at(9, 1), *at(2, 1)))
    answers = states.heartbeat(request, 1001).tiering
    assert [a.error_code for a in answers] == [
        *(None, FENCED_TIERING_EPOCH, INVALID_COORDINATOR_EPOCH, TABLE_NOT_FOUND, NOT_TIERING)
    ]
    assert [a.table_id for a in answers] == [1, 1, 1, 9, 2]
    assert all(a.message for a in answers[1:])


def test_finishing_twice_is_one_round_and_renewing_afterwards_is_an_error():
    states = machine(1)
    ask(states, 1000)
    for _ in range(2):
        assert errors(states.heartbeat(HeartbeatRequest(finished=at(1, 1)), 1500)) == [None]
    assert states.tables()[0].rounds == 1
    assert errors(states.heartbeat(HeartbeatRequest(tiering=at(1, 1)), 1600)) == [NOT_TIERING]
    assert ask(states, 2500) == (1, 2)


def test_a_round_that_failed_after_all_is_due_at_once():
    states = machine(1)
    ask(states, 1000)
    states.heartbeat(HeartbeatRequest(finished=at(1, 1)), 1500)
    assert errors(states.heartbeat(HeartbeatRequest(failed=at(1, 1)), 1600)) == [None]
    assert ask(states, 1600) == (1, 2)
    assert ask(states, 9000) is None


def test_failed_comes_before_tiering_and_tiering_before_finished():
    states = machine(1)
    ask(states, 1000)
    both = states.heartbeat(HeartbeatRequest(tiering=at(1, 1), finished=at(1, 1), failed=at(1, 1)), 1001)
    assert errors(both) == [None, FENCED_TIERING_EPOCH, FENCED_TIERING_EPOCH]


def test_a_dropped_table_is_told_to_its_service_and_goes_from_the_queue():
    states = machine(1, 2)
    ask(states, 1000)
    states.keep_only([])
    assert errors(states.heartbeat(HeartbeatRequest(tiering=at(1, 1)), 1001)) == [TABLE_NOT_FOUND]
    assert ask(states, 9999) is None


def test_a_table_whose_last_round_is_known_waits_for_what_is_left_of_its_freshness():
    states = TableStates(MemoryEpochs())
    for table_id, age in ((1, 400), (2, 5000), (3, None)):
        states.add(TableFreshness(table_id, f"shop.t{table_id}", 1000), 50, initialized=True, age_ms=age)
    assert ask(states, 50) == (2, 1)
    assert (ask(states, 649), ask(states, 650)) == (None, (1, 1))
    assert (ask(states, 1049), ask(states, 1050)) == (None, (3, 1))


def test_another_freshness_counts_from_the_last_round():
    states = machine(1, freshness=10_000)
    states.add(TableFreshness(1, "shop.t1", 2000), 1000)
    assert (ask(states, 1999), ask(states, 2000)) == (None, (1, 1))


def test_where_no_epoch_can_be_had_a_table_waits_and_is_not_handed_out():
    epochs = MemoryEpochs()
    states = machine(1, epochs=epochs)
    ask(states, 1000)
    epochs.broken = True
    failed = HeartbeatRequest(failed=at(1, 1), request_table=True)
    assert states.heartbeat(failed, 1001).table is None
    assert state(states) is TieringState.FAILED
    assert ask(states, 5000) is None
    epochs.broken = False
    assert ask(states, 9000) == (1, 2)


def test_whatever_services_say_a_table_is_with_one_of_them_and_its_epoch_grows():
    """Random requests, also with wrong epochs: never two holders of one epoch, and always a next state."""
    for seed in range(300):
        rng = random.Random(seed)
        states, now, granted = machine(1, 2, 3), 0, set[tuple[int, int]]()
        for _ in range(60):
            now += rng.choice((0, 1, 500, 2000, TIMEOUT_MS + 1))
            tables = [TableEpoch(rng.randint(1, 4), COORDINATOR, rng.randint(1, 6)) for _ in range(3)]
            request = HeartbeatRequest(
                *(tuple(t for t in tables if rng.random() < 0.3) for _ in range(3)), rng.random() < 0.5
            )
            got = states.heartbeat(request, now).table
            if got is not None:
                assert (got.table_id, got.tiering_epoch) not in granted, f"seed {seed}"
                granted.add((got.table_id, got.tiering_epoch))
            for status in states.tables():
                holds = status.heartbeat_ms is not None
                assert holds == (status.state is TieringState.TIERING), f"seed {seed}"
                assert status.tiering_epoch >= max(
                    (e for t, e in granted if t == status.table.table_id), default=0
                )


def test_a_round_that_was_cut_short_is_due_again_at_once():
    states = machine(1, 2)
    assert ask(states, 1000) == (1, 1)
    assert ask(states, 1000) == (2, 1)
    both = HeartbeatRequest(finished=(*at(1, 1), *at(2, 1)), cut_short=(2, 7))
    assert errors(states.heartbeat(both, 1500)) == [None, None]
    assert ask(states, 1500) == (2, 2)
    late = HeartbeatRequest(finished=at(1, 7), cut_short=(1,))
    assert errors(states.heartbeat(late, 1600)) == [FENCED_TIERING_EPOCH]
    assert ask(states, 1600) is None
    assert ask(states, 2500) == (1, 2)


def test_a_table_that_is_withheld_waits_for_another_service():
    states = machine(1, 2)
    asked = HeartbeatRequest(request_table=True)
    assert states.heartbeat(asked, 1000, withheld={1}).table.table_id == 2
    assert states.heartbeat(asked, 1000, withheld={1}).table is None
    assert ask(states, 1000) == (1, 1)
