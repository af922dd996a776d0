"""A capture goes on from its checkpoint with other tables: fewer, more, some of them read again."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tablestore.cdc.capture.names import ByTable, Patterns
from tablestore.cdc.capture.source import ALTERED, CAPTURED, EMPTIED, PAUSED, SKIPPED
from tablestore.cdc.mysql.database import MysqlDatabase
from tablestore.cdc.mysql.table_choice import TableChoice
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tests.cdc.databases.memory_lake import LastRowsLake
from tests.cdc.databases.sources import MariaDbSource


def opened(
    source: MariaDbSource,
    exclude: str = "",
    again: str = "",
    left_out: ByTable[tuple[str, ...]] = (),
    **how: Any,
) -> MysqlDatabase:
    patterns = Patterns.of("*", exclude or (), database=source.name)
    actual = Patterns.of(again, database=source.name) if again else Patterns(())
    how = {"chunk_rows": 10, "chunks": 1, "checkpoint": str(source.checkpoint), **how}
    choice = TableChoice(patterns, left_out=left_out)
    return MysqlDatabase.open(source.address, choice, read_again=actual, **how)


def begun(source: MariaDbSource) -> LastRowsLake:
    source.made(20)
    lake = LastRowsLake(opened(source))
    lake.catch_up()
    return lake


def test_a_table_is_left_out_and_taken_in_again(source: MariaDbSource) -> None:
    lake = begun(source)
    lake.source = opened(source, exclude="a")
    source.run(
        "UPDATE a SET v = 7", "UPDATE b SET v = 7", "ALTER TABLE a ADD w INT", "DELETE FROM a WHERE k = 2"
    )
    lake.catch_up()
    assert lake.kinds(3) == [(SKIPPED, "a")]
    assert lake.rows["a"][4,]["v"] == 4
    assert {row["v"] for row in lake.rows["b"].values()} == {7}
    lake.source = opened(source)
    source.run("INSERT INTO a (k, v) VALUES (1001, 1)")
    lake.catch_up()
    assert lake.kinds(4) == [(CAPTURED, "a"), (EMPTIED, "a")]
    lake.equals(source)


def test_a_table_that_was_left_out_from_the_start_is_taken_in(source: MariaDbSource) -> None:
    source.made(20)
    lake = LastRowsLake(opened(source, exclude="c"))
    lake.catch_up()
    source.run("UPDATE c SET v = 3", "CREATE TABLE d (k INT PRIMARY KEY)", "RENAME TABLE b TO e")
    lake.source = opened(source)
    source.run("INSERT INTO d VALUES (1)", "UPDATE c SET v = 4 LIMIT 3")
    lake.catch_up()
    lake.equals(source)
    assert (CAPTURED, "c") in lake.kinds(2)
    assert len(lake.events) == 5


def test_one_table_is_read_again(source: MariaDbSource) -> None:
    lake = begun(source)
    lake.rows["a"] = {}  # whatever went wrong with it
    lake.source = opened(source, again="a")
    source.run("UPDATE a SET v = v + 1", "UPDATE c SET v = v + 1")
    lake.catch_up()
    assert lake.kinds(3) == [(ALTERED, "a"), (EMPTIED, "a")]
    lake.equals(source)
    source.run("UPDATE a SET v = v + 1")
    lake.catch_up()
    assert len(lake.events) == 5  # once in a run
    lake.equals(source)


@pytest.mark.parametrize("phase", ["reading", "log"])
@pytest.mark.sample(1)
def test_all_tables_are_read_again_where_the_log_is_gone(source: MariaDbSource, phase: str) -> None:
    source.made(20)
    lake = LastRowsLake(opened(source))
    lake.batch()
    lake.batch()
    if phase == "log":
        lake.catch_up()
    source.run("DELETE FROM a WHERE k < 9", "ALTER TABLE b ADD w INT", "RESET MASTER", "UPDATE c SET v = 5")
    source.run("DROP TABLE c", "CREATE TABLE d (k INT PRIMARY KEY)", "INSERT INTO d VALUES (3)")
    with pytest.raises(NotFound, match=r"--read-again '\*\.\*'"):
        lake.catch_up()
    lake.source = opened(source, again="*.*")
    source.run("UPDATE a SET v = v + 1 WHERE k > 20")
    lake.catch_up()
    lake.equals(source)
    assert (CAPTURED, "d") in lake.kinds(3)


def test_a_table_that_was_skipped_is_looked_at_by_the_next_run(source: MariaDbSource) -> None:
    source.run("CREATE TABLE g (k INT PRIMARY KEY, p POINT)", "INSERT INTO g VALUES (1, NULL)")
    lake = LastRowsLake(opened(source))
    lake.catch_up()
    assert lake.kinds() == [(SKIPPED, "g")]
    lake.source = opened(source)
    lake.catch_up()
    assert lake.kinds() == [(SKIPPED, "g")]
    lake.source = opened(source, left_out=((f"{source.name}.g", ("p",)),))
    lake.catch_up()
    assert lake.kinds(1) == [(CAPTURED, "g")]
    assert lake.rows["g"] == {(1,): {"k": 1}}


def test_a_table_to_read_again_must_be_one(source: MariaDbSource) -> None:
    source.made(1, "ab")
    with pytest.raises(NotFound, match="to read again"):
        opened(source, again="nowhere")
    with pytest.raises(NotFound, match="to read again"):
        opened(source, exclude="a", again="a")


@pytest.mark.parametrize("way", ["exclude", "again"])
@pytest.mark.sample(1)
def test_a_batch_of_an_earlier_run_goes_by_without_a_table_that_stands_against_it(
    source: MariaDbSource, way: str
) -> None:
    """Its log is gone, and its batch is planned already."""
    source.made(20, "a")
    lake = LastRowsLake(opened(source))
    lake.catch_up()
    source.run("UPDATE a SET v = v + 1")
    start, end = lake.offset, lake.source.next(lake.offset)
    source.run("RESET MASTER", "DELETE FROM a WHERE k = 2")
    elsewhere = pickle.loads(pickle.dumps(lake.source))  # which has not read the log that is gone
    with pytest.raises(NotFound):
        list(elsewhere.pieces(start, end)[0].read())
    lake.source = opened(source, exclude="a") if way == "exclude" else opened(source, again="*.*")
    assert lake.source.pieces(start, end) == []
    lake.offset = end
    if way == "again":
        lake.catch_up()
        lake.equals(source)


XA = ("XA START 'x'", "UPDATE a SET v = 77 WHERE k = 2", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'")


def test_a_table_that_cannot_be_followed_is_paused_and_the_others_go_on(source: MariaDbSource) -> None:
    lake = begun(source)
    source.run("UPDATE c SET v = 8", "UPDATE a SET v = 5 WHERE k = 4", *XA, "UPDATE c SET v = 9")
    source.run("UPDATE a SET v = 6")
    lake.catch_up()
    assert lake.kinds(3) == [(PAUSED, "a")]
    assert "XA transactions in the binlog" in lake.events[3].reason
    assert {row["v"] for row in lake.rows["c"].values()} == {9}
    assert [lake.rows["a"][k,]["v"] for k in (2, 4, 6)] == [2, 5, 6]  # as it was before the transaction
    lake.source = opened(source)
    source.run("UPDATE a SET v = 10 WHERE k = 4")
    lake.catch_up()
    assert len(lake.events) == 4  # not before it is asked for: the transaction may wait to be committed
    printed = lake.events[3].reason.partition("read_again='")[2].partition("'")[0]
    lake.source = opened(source, again=printed)
    lake.catch_up()
    assert lake.kinds(4) == [(CAPTURED, "a"), (EMPTIED, "a")]
    lake.equals(source)


def test_what_stops_a_capture_of_one_table_goes_on_as_the_error_says(source: MariaDbSource) -> None:
    source.made(20, "a")
    lake = LastRowsLake(opened(source))
    lake.catch_up()
    source.run(*XA)
    with pytest.raises(Unsupported, match="XA transactions") as raised:
        lake.catch_up()
    lake.source = opened(source, again=str(raised.value).partition("read_again='")[2].partition("'")[0])
    lake.catch_up()
    lake.equals(source)
    assert lake.rows["a"][2,]["v"] == 77


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.sample(1)
def test_rows_are_not_read_while_an_xa_transaction_is_prepared(source: MariaDbSource, first: bool) -> None:
    """Its rows are in no read view, and XA COMMIT has none in the log."""
    *prepare, commit = XA
    if first:
        source.made(20)
        lake = LastRowsLake(opened(source))
        source.run(*prepare)
    else:
        lake = begun(source)
        source.run(*prepare)
        lake.catch_up()
        assert lake.kinds(3) == [(PAUSED, "a")]
        lake.source = opened(source, again="a")
    try:
        with pytest.raises(InvalidRequest, match="prepared and not committed: x"):
            lake.catch_up()
    finally:
        source.run(commit)
    lake.catch_up()
    lake.equals(source)
    assert lake.rows["a"][2,]["v"] == 77
