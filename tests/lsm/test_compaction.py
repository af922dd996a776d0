"""Picks: universal ones as recorded from Java Paimon 2.0.0, and text cases of all rules as documentation."""

from __future__ import annotations

import gzip
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablestore.lsm.compaction import CompactionOptions, CompactUnit, PickContext, full, pick
from tablestore.lsm.compaction.__main__ import main
from tablestore.lsm.compaction.recorded import check_picks, recorded_case
from tablestore.lsm.decision import RatioStep
from tablestore.lsm.sorted_run import Levels
from tablestore.options import CompactionStrategy, TableOptions, duration_ms, memory_size
from tests.lsm.trees import data_file, parse_file

GOLDEN = Path(__file__).parents[1] / "golden" / "picks" / "universal-picks.jsonl.gz"
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
}


def test_every_recorded_pick_agrees():
    with gzip.open(GOLDEN, "rt") as lines:
        assert check_picks(lines) == (3000, 0, [])


def test_replay_reports_the_first_differences(tmp_path, capsys):
    with gzip.open(GOLDEN, "rt") as lines:
        case = json.loads(next(lines))
    case["pick"]["output_level"] += 1
    path = tmp_path / "picks.jsonl"
    path.write_text(json.dumps(case) + "\n")
    assert main(["--check-picks", str(path)]) == 1
    said = capsys.readouterr().out
    assert "case 0: expected (2, [0, 1, 2, 3]), picked (1, [0, 1, 2, 3])" in said
    assert "size ratio: 4 of 5 runs" in said
    assert "0 of 1 picks agree" in said


def test_replay_of_agreeing_picks_succeeds(capsys):
    assert main(["--check-picks", str(GOLDEN)]) == 0
    assert capsys.readouterr().out == "3000 of 3000 picks agree\n"


def test_a_file_that_holds_no_picks_is_told_in_one_line(tmp_path, capsys):
    assert main(["--check-picks", str(tmp_path / "none.jsonl")]) == 2
    (tmp_path / "bad.jsonl").write_text('{"id": 1}')
    assert main(["--check-picks", str(tmp_path / "bad.jsonl")]) == 2
    assert capsys.readouterr().err.count("no file of recorded picks") == 2


def outcome(case: str) -> str:
    """What the pick of a text case says."""
    files, command = [], ""
    for line in case.splitlines():
        if line.startswith("L"):
            files.append(parse_file(line, f"f{len(files)}"))
        elif line and not line.startswith("#"):
            command = line
    verb, *settings = command.split()
    options, at, worn = CompactionOptions(), PickContext(), set[str]()
    for name, text in (s.split("=") for s in settings):
        if name == "hour":
            at = replace(at, now_ms=int(text) * 3_600_000)
        elif name == "worn":
            worn = set(text.split(","))
        elif name == "last-full":
            at = replace(at, last_full_ms=at.now_ms - duration_ms(text))
        else:
            field, parse = OPTIONS[name]
            options = replace(options, **{field: parse(text)})
    levels = Levels.of(files, options.num_levels)
    decision = pick(levels, options, at)
    if verb == "full":
        decision = full(levels, options, worn=lambda f: f.file_name in worn)
    return decision.explain()


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_text_case(path, rewrite):
    blocks = path.read_text().split("\n====\n")
    written = []
    for block in blocks:
        case, _, expected = block.partition("\n----\n")
        found = outcome(case)
        written.append(f"{case}\n----\n{found}\n")
        if not rewrite:
            assert found == expected.rstrip("\n"), f"{path.name}: {case}"
    if rewrite:
        path.write_text("\n====\n".join(written))


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
    with gzip.open(GOLDEN, "rt") as lines:
        decision = pick(*recorded_case(json.loads(next(lines))))
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
