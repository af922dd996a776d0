"""Errors come back from other processes whole, and stay short whatever a damaged file holds."""

from __future__ import annotations

import pickle

import pytest

from tablestore.core import errors
from tablestore.core.errors import Corrupt, TablestoreError, Unavailable, Unsupported, brief
from tablestore.format import snapshot
from tablestore.format.binary_row import DamagedRow
from tablestore.format.predicates.predicate_text import SyntaxProblem

EXAMPLES: list[TablestoreError] = [
    errors.InvalidRequest("no"),
    errors.SchemaMismatch("no"),
    errors.InvalidOption("no"),
    errors.OutsideRoots("no"),
    Unsupported("time travel", "no machine"),
    errors.UnsupportedAttribute("x"),
    errors.MissingPackage("ORC", "pyorc is missing"),
    errors.NotFound.among("table", "ordres", ["orders"]),
    errors.SnapshotExpired("snapshot 3 expired while it was read; read again"),
    errors.AlreadyExists("taken"),
    errors.CommitConflict("changed", files=("a", "b"), snapshot=7),
    errors.RoundStopped(),
    errors.CommitUnknown("who knows"),
    errors.RowsNotVisible("not yet", snapshot=7),
    Unavailable(28, "/lake: no space"),
    errors.CannotMerge("n", {"k": 1}, "overflow", "INT").within("shop.orders"),
    Corrupt("/lake/f", "no magic", remedy="mend it", sound=3),
    errors.FileMissing("/lake/f"),
    DamagedRow(b"\0", "1 field, expected 2"),
    SyntaxProblem("what is this", part="§", start=3, text="a = §"),
]


def kinds(of: type[TablestoreError] = TablestoreError) -> set[type[TablestoreError]]:
    collected = {of} if of.__module__ == errors.__name__ else set()
    return collected.union(*(kinds(below) for below in of.__subclasses__()))


def test_every_error_has_an_example_here() -> None:
    assert kinds() - {TablestoreError} <= {type(e) for e in EXAMPLES}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_an_error_is_the_same_after_a_process(error: TablestoreError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert (back.args, vars(back)) == (error.args, vars(error))


def test_an_operating_system_error_keeps_its_number() -> None:
    back = pickle.loads(pickle.dumps(Unavailable(28, "/lake: no space")))
    assert back.errno == 28
    assert back.no_space


def test_the_text_of_an_error_does_not_repeat_a_damaged_file() -> None:
    for data in (b"\xff" * 5_000_000, b"[" * 5_000_000, b'{"id": "' + b"x" * 5_000_000 + b'"}'):
        with pytest.raises(Corrupt) as caught:
            snapshot.from_json(data, "/lake/snapshot-1")
        assert len(str(caught.value)) < 1100


def test_an_error_gives_the_place_of_wrong_bytes_and_not_the_bytes() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        (b"ab\xff" * 1000).decode()
    assert brief(caught.value) == "UnicodeDecodeError(utf-8, invalid start byte at byte 2)"
    assert brief(KeyError("id")) == "KeyError('id')"
