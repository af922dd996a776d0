"""What ends a job: which errors may pass, by their class, their text and their causes."""

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
from tablestore.flow.restarts import is_transient, plain_error, raised_within

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
