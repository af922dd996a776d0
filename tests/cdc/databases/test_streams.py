"""A table of a database as a stream: what it gives equals the source, whatever is written meanwhile, and each
change comes once."""

from __future__ import annotations

import random

import pytest

from tablestore.core.errors import Unsupported
from tests.cdc.databases.sources import Source
from tests.cdc.databases.stream_sink import KeyedSink, Row, changes_of
from tests.cdc.databases.writers import TableWriters


def rows_of(source: Source, table: str) -> dict[object, Row]:
    return {row["k"]: row for row in source.table(table)[1]}


@pytest.mark.parametrize("table", ["a", "b", "c"])
@pytest.mark.sample(2)
def test_what_a_stream_gives_equals_its_source(source: Source, table: str, seeds: tuple[int, ...]) -> None:
    """Four writers while its rows are read and after it, for each kind of key; batches are read twice, as
    after a failure."""
    source.made(1_500, table)
    for seed in seeds[::5]:
        r = random.Random(seed)
        sink = KeyedSink(source.stream(table, chunk_rows=r.choice([100, 300]), chunks=r.choice([1, 4])))
        with TableWriters(source, seed, 3_000, table) as writers:
            while sink.reading:
                assert sink.batch(repeat=r.random() < 0.3, meanwhile=writers.await_more)
            for _ in range(3):
                writers.await_more()
                assert sink.batch(repeat=r.random() < 0.3, meanwhile=writers.await_more)
        sink.catch_up()
        assert sink.rows == rows_of(source, table)


def test_a_key_that_moves_is_deleted_and_inserted(source: Source) -> None:
    source.made(100, "a")
    table = source.stream("a", chunk_rows=10, chunks=3)
    sink = KeyedSink(table)
    sink.catch_up()
    source.run("UPDATE a SET k = 1001 WHERE k = 0", "UPDATE a SET v = -1 WHERE k = 2")
    end = table.next(sink.offset)
    (piece,) = table.pieces(sink.offset, end)
    assert [(kind, row["k"]) for kind, row in changes_of(piece, table)] == [(3, 0), (0, 1001), (1, 2), (2, 2)]
    source.run("DELETE FROM a")
    assert table.next(sink.offset, end)["position"] == end["position"]


@pytest.mark.parametrize("statement", ["ALTER TABLE a ADD w INT", "TRUNCATE TABLE a"])
@pytest.mark.sample(1)
def test_a_table_that_is_altered_ends_the_stream_with_words(source: Source, statement: str) -> None:
    source.made(30, "a")
    sink = KeyedSink(source.stream("a"))
    sink.catch_up()
    source.run("CREATE INDEX i ON a (v)", "INSERT INTO a VALUES (-1, 1, '')")
    sink.catch_up()
    assert -1 in sink.rows
    source.run(statement)
    with pytest.raises(
        Unsupported, match=r"which alters .*\.a \(start with|a beyond a statement that altered"
    ):
        sink.catch_up()


def test_a_server_that_is_killed_loses_nothing(source: Source) -> None:
    source.made(100, "a")
    sink = KeyedSink(source.stream("a", chunk_rows=20, chunks=2))
    for key in (-1, 500, 501):  # while its rows are read, at their end and in the log
        sink.batch()
        source.run(f"INSERT INTO a VALUES ({key}, 0, 'new')", "UPDATE a SET v = v + 1")
        source.restart(0.2, meanwhile=sink.batch)
    sink.catch_up()
    assert sink.rows == rows_of(source, "a")
    assert len(sink.rows) == 103
