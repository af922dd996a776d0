"""The race of two writers and the crash lab: on the real engine, deterministic, nothing left behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tablestore as ts
from notebooks import course
from notebooks.course import foreign
from notebooks.course.watched_io import Operation, WatchedIO
from tablestore.core.errors import InvalidRequest, NotFound


def orders(**options: object) -> ts.Table:
    table = course.orders_table(course.lake(), options)
    for number in range(3):
        table.write(course.orders(40, first=1 + 20 * number))
    return table


def appends(table: ts.Table) -> course.Race:
    writers = {
        name: lambda t, at=at: t.write(course.orders(5, first=at)) for name, at in (("A", 500), ("B", 600))
    }
    return course.Race(table, writers)


# two writers


def test_who_loses_an_append_looks_again_and_keeps_its_data() -> None:
    table = orders()
    with appends(table) as race:
        assert race.run("A", until="publish").kind == "running"
        assert str(race.run("B")) == "committed #4"
        assert str(race.run("A")) == "committed #5 after 1 lost"
        titles = [step.title for step in race.steps if step.lane == 0]
        assert [t for t in titles if "data file" in t] == ["writes 1 data file"]
        assert titles[-1] == "publishes #5"
    assert table.scan().count() == 90
    assert table.check() == []


def test_a_race_is_the_same_in_every_run() -> None:
    runs = []
    for _ in range(2):
        with appends(orders()) as race:
            race.run("A", until="manifest")
            race.step("B")
            race.finish()
            runs.append([(step.lane, step.kind, step.title, step.facts) for step in race.steps])
            assert race.model().code.splitlines()[:2] == ["race.run('A', until='manifest')", "race.step('B')"]
    assert runs[0] == runs[1]


def test_a_refused_compaction_names_who_was_first_and_leaves_nothing() -> None:
    table = orders()
    with course.Race(
        table, {"A": lambda t: t.compact(full=True), "B": lambda t: t.compact(full=True)}
    ) as race:
        race.run("A", until="publish")
        race.run("B")
        refused = race.run("A")
        assert (refused.kind, refused.against, refused.lost) == ("refused", 4, 1)
        assert race.steps[-1].title == "is refused: #4 of B was first"
        assert "deleted twice" in race.steps[-1].detail
    assert table.remove_orphans("0 s", force=True).files == ()
    assert table.check() == []


def test_three_writers_and_every_order_of_two_appends_keep_all_rows() -> None:
    table = orders()
    with course.Race(
        table, {n: lambda t, n=n: t.write(course.orders(2, first=ord(n) * 10)) for n in "ABC"}
    ) as race:
        for name in "ABC":
            race.run(name, until="publish")
        assert [race.run(name).lost for name in "ABC"] == [0, 1, 1]
    assert table.scan().count() == 86


def test_an_abandoned_race_ends_its_threads_and_publishes_nothing() -> None:
    table = orders()
    before = set(threading.enumerate())
    with appends(table) as race:
        race.run("A", until="publish")
        race.run("B", until="data")
    assert set(threading.enumerate()) <= before
    assert ts.open(table.location).inspect.snapshots().num_rows == 3


def test_mistakes_are_named() -> None:
    with appends(orders()) as race:
        with pytest.raises(InvalidRequest, match="no writer 'C'"):
            race.run("C")
        with pytest.raises(InvalidRequest, match="until 'lunch'"):
            race.run("A", until="lunch")
        race.run("A")
        with pytest.raises(InvalidRequest, match="is at its end"):
            race.step("A")


def test_a_mistake_in_a_writer_is_raised_where_it_is_stepped() -> None:
    with course.Race(orders(), {"A": lambda t: 1 / 0}) as race, pytest.raises(ZeroDivisionError):
        race.run("A")


def test_an_operation_says_what_it_is_for() -> None:
    seen: list[Operation] = []
    table = orders()
    ts.open(table.location, io=WatchedIO(before=seen.append)).write(course.orders(3))
    kinds = [operation.kind for operation in seen if operation.kind != "read"]
    assert [k for k, after in zip(kinds, [*kinds[1:], ""], strict=True) if k != after] == [
        "data",
        "manifest",
        "publish",
        "hint",
    ]


# crashes


@pytest.mark.parametrize(
    ("name", "work", "rows"),
    [
        ("a commit", lambda t: t.write(course.orders(9, first=900), user="u", identifier=7), {80, 89}),
        ("a delete", lambda t: t.delete(ts.col("order_id") < 5), {80, 76}),
        ("a compaction", lambda t: t.compact(full=True), {80}),
        ("an expiry", lambda t: t.expire_snapshots(keep=1), {80}),
    ],
)
@pytest.mark.sample(1)
@pytest.mark.sample(2)
def test_killed_at_every_change_nothing_is_lost(name: str, work: object, rows: set[int]) -> None:
    table = orders()
    if name == "an expiry":
        table.compact(full=True)
    lab = course.CrashLab(table, work, name=name)
    crashes = lab.run()
    assert len(crashes) == len(lab.steps) + 1
    assert {crash.rows for crash in crashes} == rows
    assert [crash.violations for crash in crashes] == [()] * len(crashes)
    assert all(crash.clean for crash in crashes)
    visible = [crash.visible for crash in crashes]
    assert visible == sorted(visible), "once it is there it stays"
    if name != "a delete":
        assert all(crash.retried for crash in crashes)
    assert ts.open(table.location).scan().count() == 80, "the table itself is not touched"


def test_a_write_without_an_identifier_is_done_twice_if_its_answer_was_lost() -> None:
    lab = course.CrashLab(orders(), lambda t: t.write(course.orders(9, first=900)))
    last = lab.kill_at(len(lab.steps) - 1)
    assert last.visible
    assert not last.retried, "there is one snapshot too many, although the rows are right"


def test_the_picture_shows_what_a_new_process_finds() -> None:
    table = orders()
    lab = course.CrashLab(
        table, lambda t: t.write(course.orders(9, first=900), user="u", identifier=7), name="it"
    )
    publish = next(at for at, (_, operation) in enumerate(lab.steps) if operation.kind == "publish")
    shown = lab.view(at=publish).text()
    assert "killed before it could publish snapshot-4" in shown
    assert "A new process finds #1 … #3 and 80 rows: nothing of the work is to be seen." in shown
    assert "done again: done exactly once" in shown
    assert lab.view().code == f"lab.kill_at({len(lab.steps)})"


# foreign tables


@pytest.mark.parametrize("writer", ["java", "python"])
def test_a_foreign_table_is_a_copy_with_the_rows_its_engine_reads(writer: str, tmp_path: Path) -> None:
    actual = foreign.foreign(writer, tmp_path)
    key = actual.table.primary_key[0]
    assert actual.table.scan().to_arrow().sort_by(key).equals(actual.rows.sort_by(key))
    actual.table.compact(full=True)
    assert foreign.foreign(writer, tmp_path).table.inspect.snapshots().num_rows < 30, (
        "the original is as it was"
    )
    assert actual.folder.is_relative_to(tmp_path)


def test_a_writer_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="java"):
        foreign.foreign("jav", tmp_path)


def test_options_of_a_copy_are_what_another_engine_could_have_stored(tmp_path: Path) -> None:
    java = foreign.foreign("java", tmp_path)
    copy = foreign.with_options(java.folder, tmp_path, {"chain-table.enabled": "true"})
    with pytest.raises(ts.Unsupported, match=r"chain-table\.enabled"):
        copy.scan().count()
    assert java.table.scan().count() == java.rows.num_rows
