"""When a stream is started again after an error, and what ended it."""

from __future__ import annotations

import pytest

from tablestore.core.errors import (
    Corrupt,
    InvalidRequest,
    SchemaMismatch,
    TablestoreError,
    Unavailable,
    Unsupported,
)
from tablestore.flow.restarts import (
    NO_RESTART,
    Restarts,
    RestartStrategy,
    is_transient,
    plain_error,
    raised_within,
)

LOST = RuntimeError("Python worker failed to connect back")
AWAY = Unavailable(0, "the server is away")


def waits(strategy: RestartStrategy, error: BaseException = AWAY, at_most: int = 100) -> list[float]:
    restarts = Restarts(strategy)
    collected: list[float] = []
    while len(collected) < at_most and (wait := restarts.wait_after(error, 0)) is not None:
        collected.append(wait)
    return collected


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        (RestartStrategy(5, 1, 10, 2), [1, 2, 4, 8, 10]),
        (RestartStrategy(3, 0.5, 0.5, 1), [0.5, 0.5, 0.5]),
        (RestartStrategy(2, 0, 60, 2), [0, 0]),
        (RestartStrategy(2, 30, 10, 2), [10, 10]),
        (NO_RESTART, []),
    ],
)
def test_waits_grow_to_the_longest_and_end(strategy: RestartStrategy, wanted: list[float]) -> None:
    assert waits(strategy) == waits(strategy, LOST) == wanted


def test_the_default_gives_up_after_a_quarter_of_an_hour() -> None:
    assert 600 < sum(waits(RestartStrategy())) < 1200


def test_an_error_that_would_come_again_is_not_tried_again() -> None:
    assert waits(RestartStrategy(), SchemaMismatch("a value does not fit")) == []


def test_a_batch_starts_the_count_anew() -> None:
    restarts = Restarts(RestartStrategy(2, 1, 60, 2))
    assert [restarts.wait_after(AWAY, batches) for batches in (0, 0, 1, 1, 1)] == [1, 2, 1, 2, None]


def test_an_hour_without_a_failure_does_too() -> None:
    restarts = Restarts(RestartStrategy(2, 1, 60, 2))
    assert [restarts.wait_after(AWAY, 0, seconds) for seconds in (9, 9, 3_600, 9, 9)] == [1, 2, 1, 2, None]


FAILED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception:  SQLSTATE: XXKST"


def caused(text: str, *causes: str) -> RuntimeError:
    """An error with a chain of causes."""
    error = RuntimeError(text)
    if causes:
        error.__cause__ = caused(*causes)
    return error


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (Unavailable(0, "away"), True),
        (InvalidRequest("no"), False),
        (caused("Python worker exited unexpectedly"), True),
        (caused(FAILED), False),
        (caused(FAILED, "java.io.EOFException"), True),  # the planner of batches was killed
        (caused(FAILED, "", "java.net.SocketException"), True),
        (caused(FAILED, "java.lang.IllegalStateException"), False),
        (caused("Traceback\n  tablestore.core.errors.Unavailable: away"), True),
        (caused("Traceback\n  tablestore.core.errors.Corrupt: EOFException"), False),
    ],
)
def test_what_may_pass(error: BaseException, transient: bool) -> None:
    assert is_transient(error) is transient


def test_errors_name_their_job_in_one_line() -> None:
    assert str(plain_error("j", caused(FAILED))).splitlines() == [
        f"[Errno 0] job 'j': {FAILED}; the same statement under the same name goes on"
    ]
    assert isinstance(plain_error("j", caused("a\ntablestore.core.errors.Corrupt: b")), InvalidRequest)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("SchemaMismatch: column 'at' does not fit", SchemaMismatch),
        ("Corrupt: /t/data.parquet: no magic", Corrupt),
        ("Unsupported: not supported: a thing (why)", Unsupported),
        ("Unavailable: [Errno 0] away", Unavailable),
        ("CannotMerge: key k = 1 cannot be merged", TablestoreError),
    ],
)
def test_an_error_of_ours_is_taken_out_of_spark_s(line: str, kind: type[TablestoreError]) -> None:
    spark = caused(
        f"Python exception occurred while executing the UDF:\nTraceback\n  tablestore.core.errors.{line}"
    )
    actual = raised_within(spark)
    assert type(actual) is kind
    assert str(actual) == line.partition(": ")[2]
    assert raised_within(caused(FAILED, "java.io.EOFException")) is None
