"""Advice: candidates replayed over a table's own history, chosen by its policy."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.maintenance.work import CANDIDATES, advise_options
from tests.cli.test_maintain_verb import maintain
from tests.maintenance.test_service import rows
from tests.tables import APPEND, KEYED


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ts.Table:
    """Thirty writes under a trigger of 3."""
    created = KEYED.create(tmp_path_factory.mktemp("lake"), {"num-sorted-run.compaction-trigger": 3})
    for number in range(30):
        created.write(rows(37 * number))
    return created.refresh()


def test_the_numbers_are_those_of_what_if(table: ts.Table):
    advice = advise_options(table, "d.t", ts.MaintenancePolicy())
    by_options = {row["options"]: row for row in advice.candidates.to_pylist()}
    assert len(by_options) == len(CANDIDATES)  # one of them changes nothing, and "as it was"
    for trigger in (2, 5, 8, 12):
        replay = table.what_if({"num-sorted-run.compaction-trigger": trigger}).changed
        row = by_options[f"num-sorted-run.compaction-trigger = {trigger}"]
        assert row["bytes_compacted"] == replay.total("bytes_compacted")
        assert row["mean_runs"] == replay.mean("runs")
        assert row["most_runs"] == replay.most_runs


@pytest.mark.parametrize("runs", [None, 1, 2, 4, 100])
def test_the_cheapest_that_keeps_to_the_policy_is_chosen(table: ts.Table, runs: int | None):
    advice = advise_options(table, "d.t", ts.MaintenancePolicy(runs=runs))
    some = advice.candidates.to_pylist()
    own = next(row for row in some if row["options"] == "as it was")
    most = own["mean_runs"] if runs is None else runs
    keeping = [row for row in some if row["mean_runs"] <= most]
    assert [row["keeps_policy"] for row in some] == [row in keeping for row in some]
    if not keeping:
        assert advice.chosen is None
        assert "no candidate keeps" in advice.text
        return
    best = min(keeping, key=lambda row: row["bytes_compacted"])
    assert advice.chosen is not None
    chosen = next((f"{k} = {v}" for k, v in reversed(advice.chosen.items())), "as it was")
    assert chosen == best["options"]
    table.with_options(advice.chosen)  # the table takes them


def test_what_has_no_runs_or_no_candidate_is_refused(table: ts.Table, tmp_path: Path):
    with pytest.raises(ts.InvalidRequest, match="no primary key"):
        advise_options(APPEND.create(tmp_path), "d.t", ts.MaintenancePolicy())
    with pytest.raises(ts.InvalidRequest, match="no candidate"):
        advise_options(table, "d.t", ts.MaintenancePolicy(), candidates=[{}])


def test_the_command_advises_and_changes_nothing(table: ts.Table, capsys: pytest.CaptureFixture[str]):
    warehouse = str(Path(table.location).parents[1])
    newest = table.inspect.snapshots().num_rows
    assert maintain("--warehouse", warehouse, "--advise", "d.t", "--runs", "4") == 0
    out = capsys.readouterr().out
    assert "would have compacted" in out
    assert "as it was: compacts" in out
    assert table.refresh().inspect.snapshots().num_rows == newest
    assert maintain("--warehouse", warehouse, "--tables", "other.*", "--advise", "d.t") == 2
    assert "no policy of this service is for d.t" in capsys.readouterr().err
