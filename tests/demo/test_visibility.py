"""The visibility lab: what each design does to rows, by counts; the clock decides nothing here."""

from __future__ import annotations

import pytest

from notebooks.demo.visibility import Load, VisibilityLab, VisibilityOutcome, run
from notebooks.demo.visibility.outcome import Delivery

TINY = Load(batches=6, rows=2, checkpoint=3, crash=5, pause=0.0, in_step=True)
HIT = 4  # rows of the two batches between the last checkpoint and the crash


@pytest.fixture(scope="module")
def lab() -> VisibilityLab:
    return run(TINY)


def test_every_design_delivers_every_row_and_has_it_once_in_files(lab: VisibilityLab) -> None:
    assert [o.number for o in lab.outcomes] == [1, 2, 3, 4]
    assert [o.never for o in lab.outcomes] == [0] * 4
    assert all(o.files_agree for o in lab.outcomes)


def test_doubles_come_without_a_key_alone(lab: VisibilityLab) -> None:
    assert [o.doubles for o in lab.outcomes] == [0, 0, HIT, 0]
    assert [o.twice_in_log for o in lab.outcomes] == [0, 0, HIT, HIT]


def test_a_crash_takes_back_what_only_a_bare_log_has(lab: VisibilityLab) -> None:
    assert [o.taken_back for o in lab.outcomes] == [0, 0, HIT, 0]


def test_rows_are_seen_before_their_checkpoint_where_the_log_is_at_once(lab: VisibilityLab) -> None:
    assert lab[1].early == lab[2].early == 0
    assert lab[3].early == lab[4].early == TINY.batches * TINY.rows


def test_a_commit_a_write_makes_a_file_a_write(lab: VisibilityLab) -> None:
    assert lab[1].data_files == TINY.batches + 2
    checkpoints = len(list(TINY.checkpoints()))
    assert lab[2].data_files == lab[3].data_files == checkpoints + 2
    assert lab[4].data_files == checkpoints + 3  # the next writer brought what the log had
    assert lab[1].log_files == 0 < lab[4].log_files


def test_figures_are_those_of_the_deliveries() -> None:
    came = tuple(Delivery(row, row, 10.0 * (row + 1), early=row < 2, again=False) for row in range(4))
    twice = Delivery(0, 0, 99.0, early=False, again=True)
    actual = VisibilityOutcome(3, "a", 5, (*came, twice), 1, 2, 3, 4, 5, True)
    assert (actual.quantile(0.0), actual.quantile(0.5), actual.quantile(1.0)) == (10.0, 30.0, 40.0)
    assert (actual.early, actual.doubles, actual.never) == (2, 1, 1)
    lab = VisibilityLab(Load(4, 1, 2, 0.0, 3), (actual,))
    assert lab.to_arrow().to_pylist()[0]["twice_in_log"] == 2
    assert "30.0 ms" in str(lab)
    assert "3 a" in str(lab)
    shown = lab._repr_mimebundle_()
    assert shown["text/plain"] == str(lab)
    assert shown["text/html"].count("data:image/svg+xml;base64,") == 2
    assert lab.figure(width=600).body.count("<circle") == 4 + 1 + 2


def test_without_a_crash_nothing_comes_twice() -> None:
    (actual,) = run(Load(batches=2, rows=1, checkpoint=2, crash=99, pause=0.0), designs=[3]).outcomes
    assert (actual.doubles, actual.taken_back, actual.never) == (0, 0, 0)
    assert repr(actual).startswith("VisibilityOutcome(")
