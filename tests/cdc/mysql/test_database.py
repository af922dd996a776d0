"""Tables of a MariaDB as one source: what it gives equals them, whatever is written meanwhile."""

from __future__ import annotations

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import CAPTURED
from tablestore.cdc.mysql.pieces import log_pieces
from tests.cdc.databases.sources import MariaDbSource


def test_the_log_is_followed_over_files_and_in_bounded_batches(source: MariaDbSource) -> None:
    source.made(20)
    lake = source.lake(log_bytes=20_000)
    lake.catch_up()
    begin = lake.batches
    for i in range(40):
        source.run(f"UPDATE a SET v = v + 1, s = REPEAT('{i % 10}', 20)", "UPDATE b SET v = v - 1")
        if i % 15 == 7:
            source.run("FLUSH BINARY LOGS")
    sizes, commits, behind = [], 0, []
    while True:
        offset = lake.offset
        if not lake.batch(repeat=True):
            break
        facts = lake.source.facts(offset, lake.offset)
        sizes.append(facts.log_bytes)
        behind.append(facts.bytes_behind)
        commits += sum(n for _, n in facts.commits)
        assert facts.snapshotting == ()
    lake.equals(source)
    assert lake.batches - begin > 3
    assert max(sizes) < 26_000
    assert commits == 80
    assert behind == sorted(behind, reverse=True)
    assert behind[-1] == 0


def test_what_concerns_others_makes_no_batches(source: MariaDbSource) -> None:
    source.made(20, "ab")
    lake = source.lake("a")
    lake.catch_up()
    source.run("UPDATE b SET v = 3", "ALTER TABLE b ADD w INT", "CREATE TABLE c (k INT)")
    assert not lake.batch()
    source.run("FLUSH BINARY LOGS", "UPDATE b SET v = 4")
    assert lake.batch()  # the position moves on with the files
    assert not lake.batch()
    source.run("UPDATE a SET v = 4")
    lake.catch_up()
    assert {row["v"] for row in lake.rows["a"].values()} == {4}
    assert lake.kinds() == [(CAPTURED, "a")]


def test_the_log_of_tables_is_divided_among_tasks() -> None:
    mb = 1 << 20
    a, b, c = (SourceName("d", name) for name in "abc")
    assert log_pieces({}, 4) == []
    assert log_pieces({a: 100, b: 50}, 4) == [[(a, (0, 1)), (b, (0, 1))]]
    assert log_pieces({a: 8 * mb, b: 7 * mb, c: 2 * mb}, 2) == [
        [(a, (0, 1))],
        [(b, (0, 1)), (c, (0, 1))],
    ]
    assert log_pieces({a: 40 * mb, b: mb}, 2) == [[(a, (0, 2)), (b, (0, 1))], [(a, (1, 2))]]
    for sizes in ({a: 90 * mb, b: 30 * mb, c: 60 * mb}, {a: 33 * mb, b: 5 * mb, c: 4 * mb}):
        for tasks in (1, 2, 3, 8):
            actual = log_pieces(sizes, tasks)
            assert len(actual) <= tasks
            parts = sorted(part for piece in actual for part in piece)
            assert parts == sorted({*parts})
            for name in sizes:
                mine = [part for table, part in parts if table == name]
                assert mine == [(i, len(mine)) for i in range(len(mine))]
            for piece in actual:
                assert len({name for name, _ in piece}) == len(piece)


def test_a_hot_table_is_read_in_parts(source: MariaDbSource) -> None:
    source.run("CREATE TABLE a (k INT PRIMARY KEY, v INT, s VARCHAR(400))")
    lake = source.lake(tasks=3)
    lake.catch_up()
    source.run("INSERT INTO a SELECT seq, 0, REPEAT('x', 400) FROM seq_1_to_9000")
    source.run("UPDATE a SET v = 1 WHERE k < 9000", "UPDATE a SET k = k + 10000 WHERE k % 9 = 0")
    end = lake.source.next(lake.offset)
    pieces = lake.source.pieces(lake.offset, end)
    assert [len(piece.parts) for piece in pieces] == [1, 1, 1]
    while lake.batch(repeat=True):
        pass
    lake.equals(source)
