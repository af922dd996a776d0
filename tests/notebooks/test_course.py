"""The course's toolkit: what counts as an answer, what a card shows, the same data from the same seed."""

from __future__ import annotations

import re
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pytest

import tablestore as ts
from notebooks import course
from notebooks.course import cards, data, health
from tablestore.insight.simulator import Workload

GRID = course.Grid(
    ("name",), (("newest", (course.Cell("null", "a1"),)), ("oldest", (course.Cell("lamp", "b1"),)))
)
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def fresh_lesson():
    course.begin()
    yield
    course.begin()


def ask(answer, **more) -> course.Task:
    said = {"hint": "think of the trigger", "why": "every write is a run", **more}
    return course.task("runs", "How many runs?", answer=answer, **said)


# numbers


@pytest.mark.parametrize("given", [5, 5.0, "5", pa.scalar(5).as_py(), pd.Series([5]).iloc[0]])
def test_a_number_may_have_any_type(given) -> None:
    assert ask(5).answer.problem(given) is None


@pytest.mark.parametrize(
    ("given", "said"), [(4, "too low"), (6, "too high"), ("five", "whole number"), (True, "whole")]
)
def test_a_wrong_number_says_which_way(given, said: str) -> None:
    problem = ask(5).answer.problem(given)
    assert problem is not None
    assert said in problem
    assert "5" not in problem


def test_a_tolerance_is_absolute_or_a_share() -> None:
    about = course.Number(200, tolerance=0.1, relative=True, unit="KiB")
    assert about.problem(219) is None
    assert about.problem(221) is not None
    assert course.Number(2.5, tolerance=0.25).problem(2.7) is None
    assert about.shown() == "200 KiB"


# choices, sets, rows, tests


def test_a_choice_takes_its_key_or_its_words() -> None:
    answer = ask("b", options={"a": "it is refused", "b": "it tries again"}).answer
    assert [answer.problem(given) for given in ("b", " B ", "It tries again")] == [None] * 3
    assert answer.problem("a") == 'It is not "a".'
    assert "one of" in (answer.problem("c") or "")


def test_yes_and_no_are_true_and_false() -> None:
    visible = ask(True).answer
    assert [visible.problem(given) for given in (True, "yes", "YES")] == [None] * 3
    assert visible.problem(False) is not None


def levels() -> pa.Table:
    return pa.table(
        {
            "level": [0, 0, 5, 5],
            "snapshot_id": [12, 11, 9, 9],
            "file_name": [f"data-{n}-0.parquet" for n in ("aaaa", "bbbb", "cccc", "dddd")],
        }
    )


@pytest.mark.parametrize(
    "given",
    [
        ["#12", "#11", "L5"],
        ["l5", "l0 #11", "12"],
        "#11, #12, level 5",
        ("data-aaaa-0.parquet", "data-bbbb-0.parquet", "data-cccc-0.parquet"),
        pa.array(["data-dddd-0.parquet", "data-aaaa-0.parquet", "data-bbbb-0.parquet"]),
        {11, 12, "L5"},
    ],
)
def test_runs_are_named_by_snapshot_level_or_file(given) -> None:
    assert course.runs(levels()).problem(given) is None


def test_a_wrong_set_is_counted() -> None:
    picked = course.runs(levels())
    assert picked.problem(["#12", "#7"]) == "1 right, 1 too many, 2 missing."
    assert picked.problem([]) == "0 right, 3 missing."
    assert "list of runs" in (picked.problem(None) or "")
    assert picked.shown() == "#12, #11, L5"


@pytest.mark.parametrize(
    "given",
    [
        [{"v": "b", "id": 2}, {"v": None, "id": 1}],
        pa.table({"id": [1, 2], "v": [None, "b"]}),
        pd.DataFrame({"v": ["b", None], "id": [2, 1], "more": [0, 0]}),
    ],
)
def test_rows_come_in_any_order_and_form(given) -> None:
    assert ask(pa.table({"id": [1, 2], "v": [None, "b"]})).answer.problem(given) is None


def test_wrong_rows_are_counted() -> None:
    wanted = ask([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]).answer
    assert wanted.problem([{"id": 1, "v": "a"}]) == "1 rows are too few."
    assert wanted.problem([{"id": 1, "v": "a"}, {"id": 2, "v": "c"}]) == "1 of 2 rows are right."
    assert wanted.problem([{"id": 1}]) == "The column v is missing."


def test_any_test_can_decide() -> None:
    options = course.Holds(lambda given: given > 3 or "the trigger must be above 3", own=4)
    assert options.problem(5) is None
    assert options.problem(2) == "the trigger must be above 3"


# a task's life


def test_an_unanswered_task_shows_nothing_and_stops_nothing() -> None:
    question = ask(5)
    assert question.check(None) is None, "a page on which nothing was answered is clean"
    assert course.progress().text() == "This notebook: 0 of 1 tasks solved\n  ○ runs"


def test_a_wrong_answer_gets_the_hint_and_not_the_answer() -> None:
    shown = ask(5, hint=lambda given: f"{given} is below the trigger").check(3)
    assert "↻ runs: not yet" in shown.text
    assert "3 is below the trigger" in shown.text
    assert "5" not in shown.text


def test_a_right_answer_says_what_it_means() -> None:
    question = ask(5)
    shown = question.check("5")
    assert "✓ runs: right" in shown.text
    assert "every write is a run" in shown.text
    assert question.solved
    assert "1 of 1 tasks solved, 1 at the first try" in course.progress().text()
    assert "**" not in question.solution().text


def test_solving_takes_the_own_answer_through_the_same_check() -> None:
    course.begin(solve=True)
    assert "✓" in ask(lambda: levels().num_rows).check(None).text
    assert "↻" in ask(5).check(3).text, "a learner's answer is judged all the same"


def test_an_answer_that_its_own_check_refuses_raises_when_solving() -> None:
    course.begin(solve=True)
    with pytest.raises(AssertionError, match="its own answer is refused"):
        ask(course.Holds(lambda given: given > 3, own=2)).check(None)


def test_the_engine_is_asked_when_the_task_is_posed() -> None:
    seen = [4]
    question = ask(lambda: seen[0])
    seen[0] = 9
    assert question.answer.problem(4) is None


def test_posing_a_task_again_keeps_its_number_and_its_state() -> None:
    ask(5).check(5)
    again = ask(5)
    assert (again.number, again.solved) == (1, True)


def test_an_answer_outside_its_options_is_a_mistake_of_the_notebook() -> None:
    with pytest.raises(ValueError, match="not among the options"):
        ask("c", options=["a", "b"])


# how a task is answered


@pytest.mark.parametrize(
    ("answer", "more", "kind", "own"),
    [
        (5, {}, "field", "5"),
        (4375, {"options": [4000, 4375]}, "one", "4,375"),
        ("b", {"options": ["a", "b"]}, "one", "b"),
        (True, {}, "one", "yes"),
        (course.Number(40, tolerance=2), {"ruler": (0, 100, 5)}, "line", 40.0),
        ({"b", "a"}, {"options": ["a", "b", "c"]}, "many", ["a", "b"]),
        (course.Order({"one": "", "two": "", "three": ""}), {}, "order", ["one", "two", "three"]),
    ],
)
def test_the_way_to_answer_follows_from_what_is_given(answer, more, kind: str, own: object) -> None:
    question = ask(answer, **more)
    assert question.question.kind == kind
    question.view.commit(own)
    assert question.solved
    assert question.view.verdict.own == own


def test_runs_are_clicked_in_their_picture_and_typed_by_any_name() -> None:
    table = course.orders_table(course.lake())
    for first in (1, 20):
        table.write(course.orders(30, first=first))
    files = table.inspect.levels()
    question = ask(course.runs(files), picture=course.RunPicture(files))
    assert "✓" in question.check(["1", "L0 #2"]).text
    assert question.view.value == ["#1", "#2"], "typed names are those of the picture"
    question.view.commit(["#2"])
    assert question.view.verdict.remark.startswith("1 is missing.")


def test_files_have_the_names_of_their_picture_and_not_those_on_the_disk() -> None:
    workload = Workload("uniform", rows=500, keys=5_000)
    tree = course.tree(5, "compact", 1, workload=workload, options={"target-file-size": "100 kb"})
    files = tree.inspect.levels()
    names = files["file_name"].to_pylist()
    question = ask(
        course.files(files, names[:2]), picture=course.RunPicture(files, by="file", key=25), hint="follow it"
    )
    assert len(names) > 2, "the oldest level has more than one file"
    spots = [spot.id for spot in question.question.spots]
    assert spots == ["#7", *[f"L5.{at}" for at in range(1, len(names))]]
    assert question.answer.problem(names[:2]) is None, "a name on the disk is one more spelling"
    question.view.commit(["#7", "L5.2"])
    facts = question.view.verdict.remark
    assert facts.startswith("Not among them: L5.2 (level 5, ")
    assert facts.endswith("; the line is at 25). 1 is missing. follow it")
    words = re.findall(r">([^<>]+)<", question.view.to_svg())
    assert "L5.2" in words, "a box is named as the question names it"
    assert not set(names) & set(re.findall(r"\w+", " ".join([*words, question.view.text(), facts])))


def test_a_wrong_choice_gets_the_reason_of_that_choice() -> None:
    wrong = {"a": "nobody refuses it.", "b": "unused", "c": "it has no time."}
    answer = ask("b", options=["a", "b", "c"], wrong=wrong, hint="think")
    answer.view.commit("c")
    assert answer.view.verdict.remark == 'It is not "c": it has no time. think'
    answer.view.commit("a")
    assert answer.view.verdict.remark == 'It is not "a": nobody refuses it. think'
    number = ask(4375, options=[4000, 4375], wrong={4000: "one write is missing."}, hint="count")
    number.view.commit("4,000")
    assert number.view.verdict.remark == "4,000 is too low: one write is missing. count"
    several = ask({"a", "b"}, options=["a", "b", "c"], wrong={"c": "it came later."}, hint="think")
    several.view.commit(["b", "c"])
    assert several.view.verdict.remark == "Not among them: c: it came later. 1 is missing. think"


@pytest.mark.parametrize("wrong", [{"a": "no."}, {"a": "no.", "c": "no.", "d": "no."}])
def test_reasons_are_given_for_each_option_and_for_nothing_else(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="one reason an option"):
        ask("b", options=["a", "b", "c"], wrong=wrong)


def test_a_wrong_cell_is_named_as_the_picture_shows_it() -> None:
    question = ask(course.Each(("b1",)), picture=GRID)
    question.view.commit(["a1"])
    assert question.view.verdict.remark.startswith("Not it: name of newest: null.")


def test_an_order_is_shuffled_the_same_way_and_never_right() -> None:
    words = {"one": "first", "two": "", "three": ""}
    shuffles = {tuple(option.id for option in ask(course.Order(words)).question.options) for _ in range(3)}
    assert len(shuffles) == 1
    assert tuple(words) not in shuffles
    actual = ask(course.Order(words)).answer.problem(["one", "three", "two"])
    assert actual == "1 of 3 stand where they belong: one."


def test_one_cell_of_each_group_is_the_answer() -> None:
    cells = course.Each(("b1", "a2"), "lamp, 30")
    assert cells.problem(["a2", "b1"]) is None
    assert cells.problem(["a1", "a2"]) == "1 of 2 are right."
    assert cells.shown() == "lamp, 30"


def test_what_gives_the_answer_away_waits_for_the_task() -> None:
    question = ask(5)
    veil = question.then("5 runs", "as *said*")
    assert "5" not in veil.text()
    question.check(4)
    assert "5" not in veil.text(), "a try is left"
    assert "The engine says: 5" in question.check(6).text
    assert veil.text() == "as said\n5 runs"


# answers that are kept


@pytest.fixture
def state(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "tablestore-course" / "02-rows.json"


def test_answers_outlive_the_kernel_and_are_judged_anew(state) -> None:
    course.begin("02 Rows")
    ask(5, options=[4, 5]).check(4)
    ask(5, options=[4, 5]).check(5)
    course.begin("02 Rows")
    assert ask(5, options=[4, 5]).solved
    assert "at the first try" in course.progress().text()
    assert course.progress().data()["state"].to_pylist() == ["right"]
    course.begin("02 Rows")
    changed = ask(6, options=[4, 5, 6])
    assert not changed.solved, "another seed, another answer"
    assert not changed.view.committed
    assert (state.stat().st_mode & 0o077, [path.name for path in state.parent.iterdir()]) == (0, [state.name])


def test_a_second_try_is_counted_also_after_a_restart(state) -> None:
    course.begin("02 Rows")
    ask(5).check(4)
    course.begin("02 Rows")
    ask(5).check(5)
    assert course.progress().text().splitlines()[0] == "02 Rows: 1 of 1 tasks solved, 0 at the first try"


def test_answers_are_cleared_with_their_file(state) -> None:
    course.begin("02 Rows")
    question = ask(5)
    question.check(5)
    shown = course.progress()
    shown._on_verb(shown, {"verb": "clear"}, None)
    assert not state.exists()
    assert not question.view.committed
    assert "0 of 1" in shown.text()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tasks": {"runs": 3}}', "\x00" * 300_000])
def test_a_damaged_file_counts_as_empty(state, text: str) -> None:
    state.parent.mkdir(parents=True)
    state.write_text(text)
    course.begin("02 Rows")
    question = ask(5)
    assert not question.solved
    question.check(5)
    course.begin("02 Rows")
    assert ask(5).solved


def test_where_nothing_can_be_written_nothing_is_kept_and_nothing_fails(tmp_path, monkeypatch) -> None:
    (tmp_path / "state").write_text("a file, no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    course.begin("02 Rows")
    ask(5).check(5)
    assert "kept in" not in course.progress().text()


def test_solving_keeps_nothing(state) -> None:
    course.begin("02 Rows", solve=True)
    assert ask(5).solved
    assert not state.exists()


# cards


def test_text_from_data_is_shown_as_text() -> None:
    question = course.task(
        HOSTILE, HOSTILE, answer=HOSTILE, options={HOSTILE: HOSTILE}, hint=HOSTILE, why=HOSTILE
    )
    for card in (question.check("x"), question.check(HOSTILE), question.solution()):
        assert "<img" not in card.html
        assert "&lt;img" in card.html


def test_code_and_bold_are_the_only_markup() -> None:
    assert cards.rich("`a < b` is **so**") == "<code>a &lt; b</code> is <strong>so</strong>"
    assert cards.bare("`a` is **so**") == "`a` is so"
    assert cards.rich("*so* and 2 * 3 * 4") == "<em>so</em> and 2 * 3 * 4"
    assert cards.bare("its *base* list") == "its base list"


def test_a_card_has_both_themes_and_asks_the_network_for_nothing() -> None:
    html = ask(5).solution().html
    assert 'data-jp-theme-light="false"' in html
    assert "prefers-color-scheme:dark" in html
    assert "http" not in html
    assert 'role="status"' in html
    assert len(html) < 6000


# the check, the data, the places


def test_the_check_is_quick_and_starts_nothing() -> None:
    code = """
import sys
from notebooks import course
begun = []
sys.addaudithook(lambda event, _: begun.append(event) if event in ("subprocess.Popen", "os.fork") else None)
print(course.check())
assert not begun, begun
assert "pyspark" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Python" in done.stdout


def test_what_is_missing_is_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PACKAGES", ("nonesuch-package",))
    shown = course.check().text
    assert "Something is missing: packages" in shown
    assert "./workbench clean" in shown


def test_java_is_read_without_being_run(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    actual = health.java()
    assert (actual.state, "11.0.2" in actual.found) == ("note", True)
    assert "notebook 01 needs 17" in actual.remedy


def test_the_same_seed_gives_the_same_rows() -> None:
    assert data.orders(50, seed=3).equals(data.orders(50, seed=3))
    assert not data.orders(50, seed=3).equals(data.orders(50, seed=4))
    changed = data.updates(10, among=50, seed=3)
    assert changed.schema == data.orders(1).schema
    assert set(changed["order_id"].to_pylist()) <= set(range(1, 51))
    assert "new" not in changed["status"].to_pylist()
    assert data.deletes(5, among=50).column_names == ["order_id"]


def test_a_lesson_has_the_same_file_names_in_every_run() -> None:
    names = []
    for _ in range(2):
        table = course.orders_table(course.lake(seed=3))
        table.write(course.orders(20))
        table.write(course.updates(5, among=20))
        table.delete(course.deletes(2, among=20))
        assert table.scan().count() == 18
        assert table.check() == []
        names.append(table.inspect.levels()["file_name"].to_pylist())
    assert names[0] == names[1]


def test_a_lake_in_a_folder_of_ones_own_stays_and_takes_a_second_run(tmp_path) -> None:
    for _ in range(2):
        table = course.orders_table(course.lake(tmp_path))
        table.write(course.orders(3))
    assert ts.open(table.location).scan().count() == 3


def test_a_notebook_ends_with_one_sentence_where_something_is_missing() -> None:
    course.need("")
    with pytest.raises(course.NotHere, match="ends here: no server; install one") as refused:
        course.need("no server; install one")
    assert refused.value._render_traceback_() == ["This notebook ends here: no server; install one"]
