"""What notebook 16 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import tablestore as ts
from notebooks.demo import watermark_race


def ours_loses_nothing(worst: Any, race: Any, address: Any) -> None:
    """A row that was lost is in neither half, and a read view loses none."""
    if worst is not None:
        assert not race.lost(worst) & watermark_race.keys_in_log(address(watermark_race.DATABASE), worst)
    ours = [read for read in race.reads if read.reader == watermark_race.OURS]
    assert not any(race.lost(read) for read in ours), "the position of a read view is exact"


def all_is_read(cockpit: Any) -> None:
    """No table is being copied any more."""
    assert cockpit.refresh().model.snapshotting == 0


def a_chunk(chunk: Any) -> None:
    """The steps of a chunk, in their order."""
    assert chunk.answer.own == ["view", "position", "rows", "release"]


def a_new_column(again: Any, lake: ts.Lake) -> None:
    """No table is copied again for a column, and the lake has it."""
    assert again.answer.own == 0
    assert "note" in lake.table("ods.orders").schema.names


def all_tables(lake: ts.Lake, tables: Any) -> None:
    """The lake has every table of the source."""
    assert sorted(lake.tables()) == sorted(f"ods.{table}" for table in tables)


def the_statement(timeline: Any) -> None:
    """The timeline shows the statement that added the column."""
    assert any("ADD COLUMN note" in statement for statement in timeline.model.statements.values())


def after_a_pause(lake: ts.Lake) -> None:
    """What was changed during the pause is there."""
    assert lake.table("ods.nation").scan(where="n_comment = 'while it was paused'").count() == 1


def equal_to_the_source(writer: Any, compared: Any) -> None:
    """The writer did not fail, and every table equals its source."""
    assert writer.error is None
    assert [one_table.differences for one_table in compared if one_table.differences] == []
