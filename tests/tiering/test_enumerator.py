"""What the enumerator says to the coordinator, and what it makes of the answers."""

from __future__ import annotations

import pytest

from tablestore.fluss.heartbeat import (
    HeartbeatRequest,
    HeartbeatResponse,
    TableEpoch,
    TableResponse,
    TieringTable,
)
from tablestore.tiering.enumerator import AssignedTable, TieringEnumerator


def beat(
    enumerator: TieringEnumerator,
    *,
    table: tuple[int, int] | None = None,
    now: float = 0.0,
    epoch: int = 0,
    **answers: tuple[TableResponse, ...],
):
    """(the request, what the answer means): `table` is (table id, tiering epoch)."""
    request = enumerator.request(now)
    given = TieringTable(table[0], f"db.t{table[0]}", table[1]) if table and request.request_table else None
    return request, enumerator.receive(request, HeartbeatResponse(epoch, given, **answers), now)


def holding(*tables: tuple[int, int]) -> tuple[TieringEnumerator, list[AssignedTable]]:
    enumerator = TieringEnumerator(room=len(tables))
    assert beat(enumerator)[0] == HeartbeatRequest()  # asks for the epoch alone
    return enumerator, [beat(enumerator, table=table)[1].given for table in tables]


def test_a_table_is_asked_for_while_there_is_room():
    enumerator, (table,) = holding((1, 5))
    request, _ = beat(enumerator)
    assert request == HeartbeatRequest(tiering=(TableEpoch(1, 0, 5),))
    enumerator.finish(table)
    request, _ = beat(enumerator)
    assert request == HeartbeatRequest(finished=(TableEpoch(1, 0, 5),), request_table=True)
    assert beat(enumerator)[0] == HeartbeatRequest(request_table=True)


def test_what_ended_is_said_again_until_an_answer_comes():
    enumerator, (ended, given_up) = holding((1, 5), (2, 1))
    enumerator.finish(ended)
    first = enumerator.request(0.0)
    enumerator.fail(given_up)  # while the answer is on its way
    enumerator.receive(first, HeartbeatResponse(0), 0.0)
    assert enumerator.request(0.0).finished == ()
    assert len(enumerator.request(0.0).failed) == 1
    assert enumerator.request(0.0).failed == (TableEpoch(2, 0, 1),)  # no answer came


@pytest.mark.parametrize(
    ("code", "words"),
    [(50, "another service"), (23, "started anew"), (7, "dropped"), (-1, "does not count"), (99, "refused")],
)
def test_a_table_that_is_no_longer_ours_is_dropped_and_others_go_on(code: int, words: str):
    enumerator, (first, second) = holding((1, 5), (2, 1))
    _, received = beat(enumerator, tiering=(TableResponse(1, code, "why"), TableResponse(2)))
    assert [table for table, _ in received.dropped] == [first]
    assert words in received.dropped[0][1]
    assert not enumerator.holds(first)
    assert enumerator.holds(second)
    enumerator.finish(first)  # its round ends late: there is nothing to say
    assert enumerator.request(0.0).finished == ()


def test_a_coordinator_that_forgot_hands_the_same_table_out_again():
    enumerator, (old,) = holding((1, 5))
    enumerator.room = 2
    _, received = beat(enumerator, table=(1, 1))
    assert received.dropped[0][0] is old
    assert received.given is not None
    assert not enumerator.holds(old)
    assert enumerator.holds(received.given)


def test_an_answer_to_an_older_epoch_does_not_drop_the_newer_one():
    enumerator, (old,) = holding((1, 5))
    stale = enumerator.request(0.0)
    enumerator.fail(old)
    _, received = beat(enumerator, table=(1, 6))
    late = enumerator.receive(stale, HeartbeatResponse(0, tiering=(TableResponse(1, 50),)), 0.0)
    assert not late.dropped
    assert enumerator.holds(received.given)


def test_a_failing_table_waits_longer_each_time_and_takes_no_room():
    enumerator, (table,) = holding((1, 1))
    waits = []
    for epoch in range(2, 10):
        enumerator.fail(table)
        table = beat(enumerator, table=(1, epoch))[1].given
        waits.append(table.due)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert enumerator.request(0.0).request_table  # another table may come meanwhile
    assert not enumerator.request(60.0).request_table
    enumerator.finish(table)
    assert enumerator.wait_after_failures(1) == 0


def test_tables_of_others_are_given_back():
    enumerator = TieringEnumerator(accepts=lambda path: path == "db.t2")
    beat(enumerator)
    _, received = beat(enumerator, table=(1, 1))
    assert received.refused is not None
    assert received.given is None
    request, received = beat(enumerator, table=(2, 1))
    assert request.failed == (TableEpoch(1, 0, 1),)
    assert received.given is not None


def test_it_waits_where_all_tables_are_those_of_others():
    enumerator = TieringEnumerator(accepts=lambda _: False)
    beat(enumerator)
    beat(enumerator, table=(1, 1))
    beat(enumerator, table=(1, 2))
    assert not enumerator.request(0.5).request_table
    assert enumerator.request(1.5).request_table


def test_closing_gives_every_table_back_as_failed():
    enumerator, _ = holding((1, 5), (2, 1))
    enumerator.close()
    request, _ = beat(enumerator)
    assert request == HeartbeatRequest(failed=(TableEpoch(1, 0, 5), TableEpoch(2, 0, 1)))
    assert not enumerator.has_ended
