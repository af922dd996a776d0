"""A change directory into a table: full load and increments, once each, whatever is lost in between."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pytest

import tablestore as ts
from tablestore.cdc.directory_stream import position_of
from tablestore.cdc.source import ChangeDirectory
from tablestore.core.errors import NotFound, SchemaMismatch
from tablestore.io.fileio import LocalFileIO
from tests.cdc.changes import inserts, row
from tests.cdc.items import USER, content, ingest, ingested, item_table, shop


def rows_of(report: ts.BatchReport) -> int:
    return sum(table_report.snapshot_rows + table_report.changes for table_report in report.tables)


def test_a_full_load_and_its_increments_end_at_the_sources_state(lake, tmp_path: Path):
    source, expected = shop(tmp_path / "s")
    table = item_table(lake)
    done = ingested(lake, source, engine="local", log_bytes=1)
    assert content(table) == expected
    assert table.check() == []
    assert [bool(b.chunks) for b in done] == [True] * 2 + [False] * 6
    assert sum(table_report.snapshot_rows for b in done for table_report in b.tables) == 200
    commits = table.inspect.commits()
    assert commits["commit_user"].unique().to_pylist() == [USER]
    assert commits["commit_identifier"].to_pylist() == [b.number for b in done] == list(range(1, 9))
    assert commits["snapshot_id"].to_pylist() == [
        table_report.snapshot for b in done for table_report in b.tables
    ]
    properties = [json.loads(text) for text in commits["properties"].to_pylist()]
    assert [p["tablestore.phase"] for p in properties] == ["full"] * 2 + ["increment"] * 6
    assert [int(p["tablestore.rows"]) for p in properties] == [rows_of(b) for b in done]
    changelogs = [n or 0 for n in commits["changelog_rows"].to_pylist()]
    assert changelogs[:2] == [0, 0]
    assert changelogs[2:] == [rows_of(b) for b in done[2:]]
    identifier, position = table.position(USER)
    assert identifier == 8
    end = ChangeDirectory(LocalFileIO(), str(source), "item").end()
    assert position_of(json.loads(position)["end"]) == end


@pytest.mark.large
def test_a_job_that_has_ended_goes_on_and_a_lost_checkpoint_loses_nothing(lake, tmp_path: Path):
    source, expected = shop(tmp_path / "s")
    hidden = tmp_path / "second.jsonl"
    (source / "log" / "00002.jsonl").rename(hidden)
    (source / "log" / "END").unlink()
    table = item_table(lake)
    how = {"engine": "local", "checkpoint": tmp_path / "ck"}
    first = ingested(lake, source, **how)
    hidden.rename(source / "log" / "00002.jsonl")
    assert ingested(lake, source, **how)[0].number == first[-1].number + 1
    assert content(table) == expected
    (source / "log" / "00003.jsonl").write_text(inserts([900]))
    shutil.rmtree(tmp_path / "ck")
    last = ingested(lake, source, **how)
    assert rows_of(last[-1]) == 1
    assert len(last) == 2, "the newest batch comes again, then the new row"
    assert content(table) == expected | {900: row(900)}
    assert table.position(USER)[0] == first[-1].number + 3
    assert table.check() == []


@pytest.mark.large
def test_a_batch_that_was_committed_before_a_crash_is_not_written_again(lake, tmp_path: Path):
    source, expected = shop(tmp_path / "s")
    table = item_table(lake)
    how = {"engine": "local", "checkpoint": tmp_path / "ck"}
    newest = ingested(lake, source, **how)[-1]
    noted = tmp_path / "ck" / "commits"
    (noted / str(newest.number)).unlink()  # as if the driver had died before the end was noted
    (noted / f".{newest.number}.crc").unlink(missing_ok=True)
    again: list[ts.BatchReport] = []
    assert ingest(lake, source, on_batch=again.append, **how).wait(120)
    assert [(b.number, rows_of(b)) for b in again] == [(newest.number, 0)]
    assert table.store.snapshots.latest_id() == newest.tables[0].snapshot
    assert content(table) == expected


@pytest.mark.large
def test_compaction_between_the_batches_keeps_every_row(lake, tmp_path: Path):
    source, expected = shop(tmp_path / "s")
    table = item_table(lake, **{"write-only": True, "num-sorted-run.compaction-trigger": 2})
    ingested(lake, source, engine="local", log_bytes=1, compact_every=2)
    assert content(table) == expected
    kinds = table.inspect.snapshots()["commit_kind"]
    assert pc.sum(pc.equal(kinds, "COMPACT")).as_py() >= 1
    assert table.check() == []


def test_what_cannot_be_says_why(lake: ts.Lake, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="no complete change directory"):
        ingest(lake, tmp_path / "empty", engine="local")
    source, _ = shop(tmp_path / "s")
    with pytest.raises(NotFound, match="weekday"):
        ingest(lake, source, engine="local", computed={"year": "weekday(day)"})
    assert lake.tables() == []
    lake.create_table("shop.plain", schema={"id": "BIGINT"}, primary_key=["id"])
    with pytest.raises(SchemaMismatch, match="year"):
        ingest(lake, source, into="shop.plain", engine="local").wait(120)
