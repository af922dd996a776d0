"""What notebook 17 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

import tablestore as ts
import widgets


def offsets_in_the_snapshot(offsets: Any, table: ts.Table) -> None:
    """The snapshot names the end of the log and of the files."""
    log = table.log
    assert log is not None
    assert {int(bucket): offset for bucket, offset in offsets.items()} == log.end == log.in_files


def files_then_log(steps: Any, where: Any, table: ts.Table, lanes: Any) -> None:
    """A reader takes the files up to the snapshot's offset, then the log."""
    assert [step.source for step in steps] == ["files", "log"]
    assert json.loads(steps[0].cursor)["log"]["0"] == where.answer.own
    assert table.log is not None
    assert steps[1].to_arrow().num_rows == table.log.end[0] - where.answer.own
    assert lanes.model.log_only == 70


def fresh_rows(counts: Any, fresh: Any, table: ts.Table, before: pa.Table) -> None:
    """The log brings rows that no snapshot has; the commit changes nothing for its reader."""
    assert counts == (200, fresh.answer.own, fresh.answer.own)
    assert table.scan().to_arrow().sort_by("order_id").equals(before), "the commit changed nothing for them"
    assert widgets.LogAndLake(table, follow=0).model.log_only == 0


def no_gap(found: Any, rows: int) -> None:
    """Three pieces of files and one of the log: no gap, nothing twice."""
    assert [step.source for step in found] == ["files"] * 3 + ["log"]
    assert rows == 40, "no gap, nothing twice"


def kills_between(crashes: Any, in_log: Any) -> None:
    """Each kill is healed, and what only the log has is not seen."""
    killed = crashes.run()
    assert all(crash.safe for crash in killed), "each kill is healed by whoever writes next, exactly once"
    assert not killed[in_log + 1].visible, "in the log, not yet in a snapshot: nobody sees it"


def four_designs(lab: Any) -> None:
    """What the four designs cost, in files, doubles and rows that are seen early."""
    assert lab[1].data_files > lab[2].data_files * 5, "files at once: a small file for each write"
    assert lab[2].doubles == lab[2].early == 0, "both at the checkpoint: exactly once, and as late as that"
    assert lab[3].doubles > 0 < lab[3].taken_back, "at once without a key: seen too early, and twice"
    assert lab[4].twice_in_log > 0 == lab[4].doubles, "with a key: twice in the log, once at the reader"
    assert lab[4].early > 0, "and rows are there before their commit"
    assert all(outcome.never == 0 and outcome.files_agree for outcome in lab.outcomes)


def the_second_design(design: Any) -> None:
    """The second design is the one that is asked for."""
    assert design.answer.own == "2"
