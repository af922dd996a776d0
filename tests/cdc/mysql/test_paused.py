"""A table that the lake cannot follow is paused with its reason; the others go on, on the same checkpoint."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tablestore.cdc.capture.names import Patterns
from tablestore.cdc.capture.source import CAPTURED, EMPTIED, PAUSED, SKIPPED
from tablestore.core.errors import SchemaMismatch
from tests.cdc.databases.sources import MariaDbSource
from tests.cdc.mysql.local_capture import LocalCapture

ZERO = "SET sql_mode = 'ALLOW_INVALID_DATES'"
CAUSES = {
    "retype": (("ALTER TABLE a MODIFY v VARCHAR(20)", "INSERT INTO a VALUES (901, 'x', '2024-01-01')"), ()),
    "zero date in the key": (
        (ZERO, "INSERT INTO a VALUES (901, 1, '0000-00-00')"),
        ("DELETE FROM a WHERE d = 0",),
    ),
}


def begun(
    source: MariaDbSource, tmp_path: Path, tables: str = "ab", options: dict[str, Any] | None = None
) -> Any:
    for table in tables:
        source.run(
            f"CREATE TABLE {table} (k INT, v INT, d DATE DEFAULT '2024-02-02', PRIMARY KEY (k, d))",
            f"INSERT INTO {table} (k, v) VALUES (1, 10), (2, 20)",
        )
    capture = LocalCapture(tmp_path, str(source.address), source.name, {"chunk_rows": 10}, options or {})
    capture.catch_up()
    return capture


def rows(capture: LocalCapture, table: str) -> list[tuple[Any, ...]]:
    columns = capture.lake.table(f"ods.{table}").scan().to_arrow().columns
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def in_source(source: MariaDbSource, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in source.server.run(f"SELECT * FROM {source.name}.{table}"))


def kinds(capture: LocalCapture) -> list[tuple[str, str]]:
    return [(event.kind, event.table.table) for event in capture.events]


@pytest.mark.parametrize("options", [{}, {"bucket": -1}], ids=["tasks write", "one writer"])
@pytest.mark.parametrize("cause", list(CAUSES))
@pytest.mark.sample(2)
def test_a_table_that_cannot_follow_is_paused_until_it_is_read_again(
    source: MariaDbSource, tmp_path: Path, cause: str, options: dict[str, Any]
) -> None:
    capture = begun(source, tmp_path, options=options)
    before, count = rows(capture, "a"), len(capture.events)
    statements, mended = CAUSES[cause]
    source.run("UPDATE b SET v = 11 WHERE k = 1", *statements, "UPDATE b SET v = 21 WHERE k = 2")
    killed = []

    def kill() -> None:
        if not killed and (tmp_path / "checkpoint" / "tablestore-paused.json").exists():
            killed.append(1)
            raise KeyboardInterrupt

    capture.interrupt = kill
    with pytest.raises(KeyboardInterrupt):  # the batch was carried out, and comes again
        capture.catch_up()
    capture.begin()
    capture.catch_up()
    assert kinds(capture)[count:].count((PAUSED, "a")) == 1
    (reason,) = (e.done for r in capture.reports() for e in r.events if e.kind == PAUSED)
    assert ("'v'" if cause == "retype" else "'d' of the key has no value") in reason
    assert capture.reports()[-1].paused == (f"{source.name}.a",)
    assert rows(capture, "a") == before
    source.run("UPDATE b SET v = 12 WHERE k = 1", "UPDATE a SET v = 3 WHERE k = 1")
    capture.begin()
    capture.catch_up()
    assert (rows(capture, "a"), rows(capture, "b")) == (before, in_source(source, "b"))

    source.run(*mended)
    if cause == "retype":
        capture.lake.drop_table("ods.a")
    again = shlex.split(reason.partition("read_again=")[2])[0]
    capture.how["read_again"] = Patterns.of(again, database=source.name)
    count = len(capture.events)
    capture.begin()
    capture.catch_up()
    assert kinds(capture)[count:] == [(CAPTURED, "a"), (EMPTIED, "a")]
    assert capture.reports()[-1].paused == ()
    for table in "ab":
        assert rows(capture, table) == in_source(source, table)


def test_what_the_lake_still_cannot_follow_is_paused_again_and_can_be_left_out(
    source: MariaDbSource, tmp_path: Path
) -> None:
    capture = begun(source, tmp_path)
    source.run(*CAUSES["retype"][0])
    capture.catch_up()
    capture.how["read_again"] = Patterns.of("a", database=source.name)
    source.run("UPDATE b SET v = 12")
    capture.begin()
    capture.catch_up()
    assert kinds(capture).count((PAUSED, "a")) == 2
    assert rows(capture, "b") == in_source(source, "b")
    source.run("ALTER TABLE a DROP v, ADD v INT AFTER k", "UPDATE a SET v = 3")  # mended by a statement
    del capture.how["read_again"]
    capture.begin()
    capture.catch_up()
    for table in "ab":
        assert rows(capture, table) == in_source(source, table)


@pytest.mark.parametrize("moment", ["paused", "to be paused", "before"])
@pytest.mark.sample(1)
def test_a_paused_table_can_be_excluded_on_the_same_checkpoint(
    source: MariaDbSource, tmp_path: Path, moment: str
) -> None:
    capture = begun(source, tmp_path)
    before = rows(capture, "a")
    source.run("UPDATE b SET v = 11 WHERE k = 1", *CAUSES["retype"][0])
    if moment == "paused":
        capture.catch_up()
        assert capture.reports()[-1].paused == (f"{source.name}.a",)
    elif moment == "to be paused":
        while not (tmp_path / "checkpoint" / "tablestore-paused.json").exists():
            assert capture.step()  # up to the batch that says that the next one pauses it
    count = len(capture.events)
    capture.excluded = "a"
    capture.begin()
    capture.catch_up()
    assert (SKIPPED, "a") in kinds(capture)[count:]
    assert capture.reports()[-1].paused == ()
    source.run("UPDATE b SET v = 12 WHERE k = 1", "INSERT INTO a VALUES (902, 'y', '2024-01-01')")
    capture.catch_up()
    assert (rows(capture, "a"), rows(capture, "b")) == (before, in_source(source, "b"))
    source.run("ALTER TABLE a DROP v, ADD v INT AFTER k", "UPDATE a SET v = 3")
    capture.excluded = "none"
    capture.begin()
    capture.catch_up()
    for table in "ab":
        assert rows(capture, table) == in_source(source, table)


@pytest.mark.parametrize("cause", list(CAUSES))
@pytest.mark.sample(1)
def test_a_capture_of_one_table_fails_as_nothing_is_left(
    source: MariaDbSource, tmp_path: Path, cause: str
) -> None:
    capture = begun(source, tmp_path, "a")
    source.run(*CAUSES[cause][0])
    with pytest.raises(SchemaMismatch):
        capture.catch_up()
    assert len(rows(capture, "a")) == 2
