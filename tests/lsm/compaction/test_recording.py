"""Records of compactions: what was decided and why comes back word for word."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

from tablestore.core.options.table_options import CompactionStrategy
from tablestore.format.compaction_record import Trial, from_json, to_json
from tablestore.lsm.compaction.loop import pick
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.compaction.recorded import recorded_case
from tablestore.lsm.compaction.recording import completed, explanation, planned, unit_text
from tablestore.lsm.compaction.universal import full
from tablestore.lsm.levels.sorted_run import Levels
from tests.lsm.trees import data_file

GOLDEN = Path(__file__).parents[2] / "golden" / "picks" / "universal-picks.jsonl.gz"
LEVELED = CompactionOptions(strategy=CompactionStrategy.LEVELED, level_base_bytes=3 << 20, level0_trigger=2)


def test_an_explanation_is_kept_word_for_word():
    with gzip.open(GOLDEN, "rt") as lines:
        decisions = [pick(*recorded_case(json.loads(line))) for line in islice(lines, 600)]
    files = [data_file(f"a{i}", i, i + 9) for i in range(2)]
    files += [data_file(f"b{i}", i * 10, i * 10 + 9, level=1) for i in range(5)]
    levels = Levels.of(files, 4)
    decisions += [pick(levels, LEVELED, PickContext()), full(levels)]
    carried_out = [d for d in decisions if d.unit is not None]
    assert len(carried_out) > 400
    for decision in carried_out:
        created = planned(decision, strategy="any", bucket=0)
        created = completed(created, before=decision.unit.files, after=())
        actual = from_json(to_json(created))
        assert actual == created
        assert explanation(actual) == decision.explain()
        assert unit_text(actual) == decision.unit.text


def test_a_record_counts_moved_files_apart():
    old, new = (
        data_file("old", 0, 9, level=5, file_size=90, row_count=9),
        data_file("new", 0, 5, file_size=10),
    )
    lone = data_file("lone", 20, 29, file_size=40)
    levels = Levels.of([new, lone, old], 6)
    decision = full(levels)
    out = data_file("out", 0, 9, level=5, file_size=95, row_count=10)
    created = planned(decision, strategy="universal", bucket=3, live=3)
    created = completed(created, before=[new, lone, old], after=[out, lone.upgraded(5)], millis=7)
    assert (created.files_read, created.bytes_read, created.files_written, created.bytes_written) == (
        2,
        100,
        1,
        95,
    )
    assert (created.files_moved, created.bytes_moved, created.rows_out) == (1, 40, 10)
    assert (created.full, created.asked, created.stalled, created.millis) == (True, True, False, 7)


def test_a_planned_record_is_completed_by_who_carries_it_out():
    files = [data_file(f"f{i}", 0, 9, file_size=10, row_count=4) for i in range(3)]
    decision = full(Levels.of(files, 6))
    early = planned(decision, strategy="append", bucket=1)
    assert (early.bytes_read, early.bytes_written) == (0, 0)
    done = completed(early, before=files, after=[data_file("o", 0, 9, file_size=25, row_count=12)], millis=2)
    assert (done.rule, done.bytes_read, done.rows_in, done.bytes_written) == ("full", 30, 12, 25)


def test_rules_of_another_version_are_left_unexplained():
    files = [data_file(f"f{i}", 0, 9) for i in range(3)]
    planned_files = planned(full(Levels.of(files, 6)), strategy="tiered", bucket=0)
    for trial in (
        Trial("hotness", "fired", (("heat", 3),)),
        Trial("size ratio", "perhaps", (("runs", 3), ("trigger", 2), ("taken", 3))),
        Trial("file number", "no", (), (("tournament", 1, 2),)),
    ):
        explained = explanation(replace(planned_files, rule="hotness", text="too hot", trials=(trial,)))
        assert explained.splitlines()[0] == f"{unit_text(planned_files)}, because hotness: too hot"
        assert "this version does not know" in explained
