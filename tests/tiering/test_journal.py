"""The journal of a service: it writes what has changed, and takes no more than a part of the time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tablestore.tiering import journal as module
from tablestore.tiering.journal import TieringJournal, read_report
from tablestore.tiering.report import BucketMarks, TableState
from tests.faults import SimEnv

STATE = TableState("db.t", 1, "Tiered", 1.0, marks=(BucketMarks(None, 0, 5, 5, 5),))


def test_only_reports_that_have_changed_are_encoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    encoded: list[str] = []
    line = module._line
    monkeypatch.setattr(
        module, "_line", lambda table_state: encoded.append(table_state.table) or line(table_state)
    )
    kept = TieringJournal(str(tmp_path), SimEnv())
    for number in range(3):
        kept.note_table(replace(STATE, table=f"db.t{number}", table_id=number))
    kept.write(last=True)
    kept.write(last=True)
    assert encoded == ["db.t0", "db.t1", "db.t2"]
    kept.change_table("db.t1", lambda table_state: replace(table_state, reason="disk full"))
    kept.write(last=True)
    assert encoded[3:] == ["db.t1"]
    assert read_report(str(tmp_path)) == kept.report()


def test_what_takes_long_is_written_seldom_and_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    env = SimEnv()
    kept = TieringJournal(str(tmp_path), env)
    write = TieringJournal._write

    def slow(journal: TieringJournal, directory: str) -> None:
        env.sleep(2.0)
        write(journal, directory)

    monkeypatch.setattr(TieringJournal, "_write", slow)
    kept.note_table(STATE)
    kept.write()
    for seconds, written in ((10.0, "Tiered"), (11.0, "Failed")):
        kept.note_table(replace(STATE, state="Failed"))
        env.sleep(seconds)
        kept.write(now=True)
        assert read_report(str(tmp_path)).tables[0].state == written
    kept.note_table(replace(STATE, state="Pending"))
    kept.write(last=True)
    assert read_report(str(tmp_path)).tables[0].state == "Pending"
