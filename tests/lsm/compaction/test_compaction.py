"""Picks: universal ones as recorded from Java Paimon 2.0.0, text cases of all rules; settings in words."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablestore as ts
from tablestore.core.errors import InvalidOption
from tablestore.core.options.table_options import CompactionStrategy, TableOptions, duration_ms, memory_size
from tablestore.lsm.compaction.__main__ import main
from tablestore.lsm.compaction.decision import LONG, CompactUnit, RatioStep, as_long
from tablestore.lsm.compaction.loop import pick
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.compaction.recorded import recorded_case
from tablestore.lsm.compaction.universal import full
from tablestore.lsm.levels.sorted_run import Levels
from tests import text_cases
from tests.lsm.trees import data_file, parse_file

GOLDEN = Path(__file__).parents[2] / "golden" / "picks" / "universal-picks.jsonl.gz"
SECTIONS = GOLDEN.with_name("interval-partition.jsonl.gz")
CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
OPTIONS = {
    "trigger": ("trigger", int),
    "levels": ("num_levels", int),
    "size-ratio": ("size_ratio", int),
    "max-size-amplification": ("max_size_amplification", int),
    "offpeak-start": ("offpeak_start", int),
    "offpeak-end": ("offpeak_end", int),
    "offpeak-ratio": ("offpeak_ratio", int),
    "interval": ("interval_ms", duration_ms),
    "total-size": ("total_threshold", memory_size),
    "incremental-size": ("incremental_threshold", memory_size),
    "force-up-level0": ("force_up_level0", lambda text: text == "true"),
    "strategy": ("strategy", CompactionStrategy),
    "level0-interval": ("level0_interval", int),
    "level0-trigger": ("level0_trigger", int),
    "level-base": ("level_base_bytes", memory_size),
    "multiplier": ("level_multiplier", int),
    "tops-fully": ("oldest_level_full_only", lambda text: text == "true"),
}


@pytest.mark.parametrize(
    ("count", "wrapped"),
    [
        (0, 0),
        (LONG - 1, LONG - 1),
        (LONG, -LONG),
        (LONG + 5, 5 - LONG),
        (3 * LONG, -LONG),
        (-LONG, -LONG),
        (-LONG - 1, LONG - 1),
    ],
)
def test_a_sum_of_bytes_wraps_as_in_java(count: int, wrapped: int) -> None:
    assert as_long(count) == wrapped


def some_case() -> dict[str, Any]:
    with gzip.open(GOLDEN, "rt") as lines:
        return json.loads(next(lines))


def checked(tmp_path: Path, *lines: Any) -> int:
    """The exit status of a replay of these lines, objects as JSON."""
    path = tmp_path / "picks.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return main(["--check-picks", str(path)])


@pytest.mark.parametrize(("path", "cases"), [(GOLDEN, 3000), (SECTIONS, 500)], ids=["picks", "sections"])
def test_every_recorded_case_agrees(path, cases, capsys):
    assert main(["--check-picks", str(path)]) == 0
    assert capsys.readouterr().out == f"{cases} of {cases} picks agree\n"


def test_replay_reports_the_first_differences_with_the_layout(tmp_path, capsys):
    case = some_case()
    case["pick"]["output_level"] += 1
    assert checked(tmp_path, case) == 1
    said = capsys.readouterr().out
    assert "case 0: expected (2, [0, 1, 2, 3]), picked (1, [0, 1, 2, 3])" in said
    assert "  L0  #3  509 B  expected picked\n  L2  #4  44,509 B\n" in said
    assert "trigger 2, max_size_amp 50, size_ratio 50" in said
    assert "size ratio: 4 of 5 runs" in said
    assert "0 of 1 picks agree" in said


@pytest.mark.parametrize("pick", [None, {"output_level": 1, "files": [0, 1]}])
def test_any_other_answer_differs(tmp_path, pick):
    assert checked(tmp_path, some_case() | {"pick": pick}) == 1


def test_a_section_made_otherwise_differs(tmp_path, capsys):
    case = {"files": [[0, 5], [3, 9]], "sections": [[[0]], [[1]]]}
    assert checked(tmp_path, case) == 1
    assert "line 1: expected sections [[[0]], [[1]]], made [[[0], [1]]]" in capsys.readouterr().out
    assert checked(tmp_path, case | {"sections": [[[1], [0]]]}) == 0


def test_standard_input_is_read(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(GOLDEN.read_bytes())))
    assert main(["--check-picks", "-"]) == 0
    assert capsys.readouterr().out == "3000 of 3000 picks agree\n"


def test_a_file_that_holds_no_picks_is_reported_in_one_line(tmp_path, capsys):
    assert main(["--check-picks", str(tmp_path / "none.jsonl")]) == 2
    cut = tmp_path / "cut.gz"
    cut.write_bytes(GOLDEN.read_bytes()[:3000])
    assert main(["--check-picks", str(cut)]) == 2
    assert checked(tmp_path) == 2
    assert capsys.readouterr().err.count("not a file of recorded picks") == 3


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "a case is a JSON object"),
        ({"trigger": "5"}, "trigger '5' is not a whole number"),
        ({"trigger": None}, "trigger None is not a whole number"),
        ({"num_levels": 1}, "num_levels 1 is not within 2..2^63-1"),
        ({"trigger": 0}, "trigger 0 is not within 1..2^63-1"),
        ({"size_ratio": 1 << 63}, "size_ratio 9223372036854775808 is not within -2^63..2^63-1"),
        ({"force_up_level_0": 1}, "force_up_level_0 1 is neither true nor false"),
        (
            {"off_peak_ration": 5, "off_peak_ratio": ...},
            "no field 'off_peak_ration': did you mean 'off_peak_",
        ),
        ({"size_ratio": ...}, "a case without 'size_ratio'"),
        ({"runs": 5}, "runs must be a list, not 5"),
        ({"runs": [[0, [1 << 63, 0, 9]]]}, "size 9223372036854775808 is not within 0..2^63-1"),
        ({"runs": [[0, [5, 0]]]}, r"a file is [size, min key, max key], not [5, 0]"),
        ({"runs": [[3, [5, 0, 9]]]}, "a run of level 3 after level 0, of 3 levels"),
        ({"runs": [[2, [5, 0, 9]], [1, [5, 0, 9]]]}, "a run of level 1 after level 2"),
        ({"pick": 7}, "pick is neither null nor an object"),
    ],
    ids=str,
)
def test_a_damaged_line_is_reported_and_the_others_are_replayed(tmp_path, capsys, change, why):
    case = some_case()
    bad = {n: v for n, v in (case | change).items() if v is not ...} if isinstance(change, dict) else change
    assert checked(tmp_path, case, bad, case) == 2
    said = capsys.readouterr()
    assert said.out == "2 of 2 picks agree\n"
    assert why in said.err
    assert "picks.jsonl: 1 line is not a case\n" in said.err
    assert checked(tmp_path, case | {"pick": None}, bad) == 1


def test_fields_that_nobody_knows_are_passed_over(tmp_path):
    assert checked(tmp_path, some_case() | {"made_by": "hand"}, "", some_case()) == 0


def test_lines_end_with_line_feeds_alone(tmp_path):
    path, case = (
        tmp_path / "picks.jsonl",
        json.dumps(some_case() | {"made_by": "a\u2028b"}, ensure_ascii=False),
    )
    path.write_bytes(f"\ufeff{case}\r\n{case}".encode())
    assert main(["--check-picks", str(path)]) == 0


def test_null_means_that_a_field_is_absent(tmp_path):
    optional = ("off_peak_ratio", "force_up_level_0", "interval_ms", "total_size_threshold")
    assert checked(tmp_path, some_case() | dict.fromkeys(optional)) == 0


def outcome(lines: list[str]) -> str:
    """What the pick of a text case says: lines of files, then the command."""
    *trees, command = lines
    files = [parse_file(line, f"f{n}") for n, line in enumerate(trees)]
    verb, *words = command.split()
    options, at, must_rewrite = CompactionOptions(), PickContext(), set[str]()
    for name, text in text_cases.settings(words).items():
        if name == "hour":
            at = replace(at, now_ms=int(text) * 3_600_000)
        elif name == "must-rewrite":
            must_rewrite = set(text.split(","))
        elif name == "last-full":
            at = replace(at, last_full_ms=at.now_ms - duration_ms(text))
        else:
            field, parse = OPTIONS[name]
            options = replace(options, **{field: parse(text)})
    levels = Levels.of(files, options.num_levels)
    decision = pick(levels, options, at)
    if verb == "full":
        decision = full(levels, must_rewrite=lambda f: f.file_name in must_rewrite)
    return decision.explain()


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_text_case(path, rewrite):
    text_cases.check(path, outcome, rewrite=rewrite)


sizes = st.integers(1, 1 << 34)


@given(
    st.lists(sizes, max_size=9),
    st.lists(st.none() | sizes, min_size=5, max_size=5),
    st.integers(2, 6),
    st.booleans(),
)
def test_a_unit_is_a_prefix_of_the_runs_and_never_ends_at_level_0(level0, upper, trigger, lift):
    files = [data_file(f"a{i}", 0, 9, file_size=s, max_sequence=100 - i) for i, s in enumerate(level0)]
    files += [data_file(f"b{i}", 0, 9, file_size=s, level=i + 1) for i, s in enumerate(upper) if s]
    levels = Levels.of(files, 6)
    decision = pick(levels, CompactionOptions(trigger=trigger, force_up_level0=lift), PickContext())
    if decision.unit is None:
        assert levels.run_count <= trigger
        return
    unit = decision.unit
    assert levels.files[: len(unit.files)] == unit.files
    assert unit.output_level > 0
    below = levels.files[len(unit.files) :]
    assert all(f.level > unit.output_level for f in below)
    assert pickle.loads(pickle.dumps(decision)) == decision


def test_a_single_file_at_its_level_is_no_unit():
    levels = Levels.of([data_file("a", 0, 9, level=5)], 6)
    decision = pick(levels, CompactionOptions(trigger=1, max_size_amplification=-1), PickContext())
    assert decision.unit is None
    assert decision.reason.text.endswith("but that is one file at L5")


def test_runner_up_is_the_next_rule_that_would_compact():
    decision = pick(*recorded_case(some_case()))
    assert decision.reason.rule == "size ratio"
    assert decision.reason.runner_up.rule == "file number"
    assert decision.reason.runner_up.unit.output_level == 1


def test_options_come_from_the_table():
    options = CompactionOptions.of(
        TableOptions.parse({"num-sorted-run.compaction-trigger": "3", "compaction.size-ratio": "7"})
    )
    assert (options.trigger, options.stop_trigger, options.num_levels, options.size_ratio) == (3, 6, 4, 7)


def test_last_full_compaction_is_estimated_from_the_top_level():
    files = [
        data_file("a", 0, 9, level=5, creation_time_ms=70),
        data_file("b", 10, 19, level=5, creation_time_ms=90),
    ]
    files += [data_file("c", 0, 9, level=0, creation_time_ms=99)]
    assert PickContext.at(100, Levels.of(files, 6)) == PickContext(100, 90)
    assert PickContext.at(100, Levels.of(files[2:], 6)) == PickContext(100, None)


def test_ratio_compares_as_doubles():
    assert RatioStep(100, 101.0, 101, 0).taken
    assert not RatioStep(100, 101.0, 102, 0).taken


def test_unit_text_counts_files_by_level():
    files = (*(data_file(f"{i}", 0, 9) for i in range(5)), data_file("x", 0, 9, level=5))
    assert CompactUnit(5, files).text == "L0×5 + L5 → L5, 6 files 6.00 MiB"


def test_defaults_are_filled_in_and_what_was_given_is_marked() -> None:
    actual = ts.compaction_settings({"compaction.size-ratio": 3})
    assert [(s.text, s.given) for s in actual.settings] == [("5", False), ("3", True), ("200", False)]
    assert (actual.strategy, actual.trigger, actual.stop_trigger, actual.num_levels) == ("universal", 5, 8, 6)
    assert not actual.leveled


def test_leveled_has_settings_of_its_own_and_counts_level_0() -> None:
    actual = ts.compaction_settings({"tablestore.compaction.strategy": "leveled"})
    assert actual.leveled
    assert [s.text for s in actual.settings] == ["4", "1 gb", "5"]
    assert actual.trigger == 4
    again = ts.compaction_settings(
        {"tablestore.compaction.strategy": "leveled"} | {s.key: s.text for s in actual.settings}
    )
    assert [s.text for s in again.settings] == ["4", "1 gb", "5"]


def test_bad_values_and_near_misses_are_refused() -> None:
    with pytest.raises(InvalidOption, match="num-sorted-run"):
        ts.compaction_settings({"num-sorted-run.compaction-trigger": "few"})
    with pytest.raises(InvalidOption, match="did you mean"):
        ts.compaction_settings({"num-sorted-run.compaction-triger": 5})
