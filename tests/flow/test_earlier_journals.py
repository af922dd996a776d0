"""What earlier versions wrote beside a stream is read, and the stream goes on there: the bytes are theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.cdc.capture.job import default_checkpoint
from tablestore.cdc.capture.source import ALTERED
from tablestore.flow.runner import LocalRunner
from tablestore.fluss.heartbeat import TableEpoch
from tablestore.tiering.journal import TieringJournal, read_report
from tablestore.tiering.report import BucketMarks, Heartbeat, ReportedTable, TableError, TableState
from tests.cdc.capture.fakes import FakeSource, FakeStep, content, event, job_of, piece, rows, shape, steps
from tests.sql.streaming.following import (
    CHANGES,
    LARGE,
    await_same,
    change,
    require_each_batch_once,
    session_over,
    with_orders,
)

OFFSET = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795764081770,"conf":{}}\n'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
REPORT = (
    '{"v": 1, "number": 1, "planned": 1.0, "started": 1795764081.823, "ended": 1795764081.845, "position": '
    '"step 2", "log_bytes": 0, "bytes_behind": 0, "commits": [[100, 2]], "snapshotting": [], "tables": '
    '[{"table": "ods.a", "snapshot_rows": 1, "changes": 0, "bad_rows": 0, "snapshot": 1}, {"table": "ods.b", '
    '"snapshot_rows": 2, "changes": 0, "bad_rows": 0, "snapshot": 1}], "chunks": [], "events": [], "paused": '
    "[]}"
)
EVENTS = (
    '{"v": 1, "identifier": 2, "events": [{"kind": "altered", "source": "shop.a", "table": "ods.a", '
    '"statement": "ALTER TABLE a ADD w INT", "position": "log 1", "seconds": 0, "done": "added w INT", '
    '"rows": null}]}'
)
JOB = (
    '{\n "v": 1,\n "name": "large ones",\n "id": "0ee2d235",\n "createdMs": 1795764081953,\n'
    ' "statements": [\n'
    '  "INSERT INTO large SELECT id, upper(customer) AS who FROM orders WHERE amount > 15"\n ],\n'
    ' "parts": [\n  {\n   "target": "shop.large",\n   "columns": "id, who",\n'
    "   \"sources\": \"orders ['id', 'customer', 'amount'] amount > 15\",\n"
    '   "query": "SELECT \\"id\\", upper(replace(\\"customer\\", \'ß\', \'SS\')) AS \\"who\\", '
    '\\"orders\\".\\"__kind\\" AS \\"__kind\\", \\"orders\\".\\"__position\\" AS \\"__position\\" FROM '
    '\\"__table_0\\" AS \\"orders\\" WHERE \\"amount\\" > 15"\n  }\n ]\n}'
)
TIERING = {
    "assigned.json": '[{"table_id": 7, "coordinator_epoch": 1, "tiering_epoch": 3}]',
    "events.jsonl": '{"v": 1, "table": "db.t", "name": "rows lost", "text": "2 rows are lost", "partition": '
    'null, "offsets": 2, "time": 11.0}\n',
    "heartbeats.jsonl": '{"v": 1, "time": 12.5, "seconds": 0.25, "tiering": [{"table": "db.t", '
    '"tiering_epoch": 3}], "finished": [], "failed": [], "requests_table": true, "coordinator_epoch": 1, '
    '"assigned": null, "errors": [{"table": "db.u", "code": 50, "reason": "fenced"}], "reason": "", "count": '
    '1, "since": null}\n',
    "rounds.jsonl": '{"v": 1, "number": 4, "table": "db.t", "table_id": 7, "tiering_epoch": 3, '
    '"coordinator_epoch": 1, "started": 12.0, "phase": "reading", "ended": null, "splits": [{"partition": '
    '"d=1", "bucket": 0, "start": 5, "stop": 7, "snapshot_id": null, "offset": 6, "rows": 1, "bytes": 40, '
    '"started": 12.25, "ended": null, "reason": ""}], "outcome": "", "snapshot_id": null, "reason": "", '
    '"notes": ["late"], "seconds": {"fetch": 0.5}}\n',
    "state.json": '{"state": "running", "reason": ""}',
    "tables.jsonl": '{"v": 1, "table": "db.t", "table_id": 7, "state": "Tiered", "since": 12.5, '
    '"tiering_epoch": 3, "freshness": 30.0, "tiered_at": 12.0, "lag_rows": 2, "reason": "", "marks": '
    '[{"partition": "d=1", "bucket": 0, "end": 9, "tiered": 7, "readable": 5, "start": 2}], "warning": "", '
    '"kept": 60.0}\n',
}


def put(folder: Path, files: dict[str, str]) -> None:
    """These files, and no other ones below the folder that a stream of today has left."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def test_a_capture_goes_on_amid_the_batch_that_an_earlier_version_planned(lake: ts.Lake):
    """The events file says that the first event of the batch is done, so that it is not carried out again."""
    source = FakeSource(steps=steps()[:2])
    job_of(lake, source, LocalRunner(1)).start().wait()
    lake.table("ods.a").alter(ts.add("w", ts.INT))
    wide = shape(("id", "BIGINT NOT NULL"), ("v", "INT"), ("w", "INT"))
    altered = event(ALTERED, "a", wide, statement="ALTER TABLE a ADD w INT")
    source.steps.append(FakeStep([altered], [piece(rows("a", [("+I", 2, 2)], seconds=9))]))
    put(
        Path(default_checkpoint(lake, "cdc-shop")),
        {
            "metadata": '{"id": "91e12378-2cfc-4498-a317-993c1d2900de"}',
            "tablestore-origin.json": '{"v": 1, "user": "cdc-shop", "source": "shop", "identifier": 0, '
            '"start": null}',
            **{f"offsets/{n}": f'{OFFSET}{{"v":1,"at":{n + 1}}}' for n in range(3)},
            **{f"commits/{n}": COMMIT for n in range(2)},
            "tablestore-progress/1.json": REPORT,
            "tablestore-events.json": EVENTS,
        },
    )
    job = job_of(lake, source, LocalRunner(1)).start()
    job.wait()
    first, last = job.reports()
    assert json.loads(json.dumps(first.to_json())) == json.loads(REPORT)
    assert (last.number, [e.done for e in last.events]) == (2, ["added w INT"])
    assert content(lake, "ods.a") == [(1, 1, None), (2, 2, None)]
    assert lake.table("ods.a").position("cdc-shop")[0] == 2


@pytest.mark.large
def test_a_job_of_sql_goes_on_in_the_directory_of_an_earlier_version(lake: ts.Lake):
    session = with_orders(lake)
    session.sql("SET 'pipeline.name' = 'large ones'")
    session.sql(f"INSERT INTO large {LARGE}")
    await_same(session, "large", LARGE)
    session.jobs.stop_all()
    orders, large = (lake.table(f"shop.{name}") for name in ("orders", "large"))
    mark = json.loads(large.position("large ones")[1])["sources"][0]["marks"][orders.location]
    offset = (
        f'{{"v":1,"sources":[{{"v":1,"tables":{{"{orders.location}":1}},"marks":{{"{orders.location}":"{mark}"}}}}],'
        '"lookups":{}}'
    )
    status = '{"v": 1, "state": "STOPPED", "startedMs": 1795764081953, "error": "", "parts": [{"batches": 7, '
    origin = f'{{"v": 1, "user": "large ones", "table": "{large.options["tablestore.uuid"]}", '
    put(
        Path(lake.warehouse, ".tablestore", "jobs", "large ones"),
        {
            "job.json": JOB,
            "status.json": f'{status}"rows": 9, "offset": {offset}}}]}}',
            "0/checkpoint/metadata": '{"id": "80102ab6-8ef7-4d3b-959c-5081817552e1"}',
            "0/checkpoint/tablestore-origin.json": origin + '"identifier": 0, "position": null}',
            "0/checkpoint/offsets/0": OFFSET + offset,
            "0/checkpoint/commits/0": COMMIT,
        },
    )
    again = session_over(lake)
    (shown,) = again.sql("SHOW JOBS").to_arrow().to_pylist()
    assert (shown["status"], shown["batches"], shown["rows"]) == ("STOPPED", 7, 9)
    change(again, *CHANGES)
    again.sql("SET 'pipeline.name' = 'large ones'")
    again.sql(f"INSERT INTO large {LARGE}")
    await_same(again, "large", LARGE)
    again.jobs.stop_all()
    (shown,) = again.sql("SHOW JOBS").to_arrow().to_pylist()
    assert (shown["status"], shown["batches"] > 7) == ("STOPPED", True)
    assert require_each_batch_once(lake, "shop.large", "large ones") >= 2


def test_a_service_goes_on_with_the_reports_of_an_earlier_version(tmp_path: Path):
    put(tmp_path, TIERING)
    before = read_report(str(tmp_path))
    marks = (BucketMarks("d=1", 0, 9, 7, 5, 2),)
    state = TableState("db.t", 7, "Tiered", 12.5, 3, 30.0, 12.0, 2, marks=marks, kept=60.0)
    assert (before.state, before.tables) == ("running", (state,))
    held = (ReportedTable("db.t", 3),)
    errors = (TableError("db.u", 50, "fenced"),)
    assert before.heartbeats == (
        Heartbeat(12.5, 0.25, held, requests_table=True, coordinator_epoch=1, errors=errors),
    )
    assert [e.text for e in before.events] == ["2 rows are lost"]
    journal = TieringJournal(str(tmp_path))
    assert journal.assigned_before() == (TableEpoch(7, 1, 3),)
    journal.resume(before)
    journal.note_state("stopped")
    journal.write(last=True)
    (report,) = read_report(str(tmp_path)).rounds
    assert (report.number, report.outcome, report.reason) == (4, "failed", "the service was killed")
    assert {
        name: (tmp_path / name).read_text() for name in TIERING if name not in ("rounds.jsonl", "state.json")
    } == {name: text for name, text in TIERING.items() if name not in ("rounds.jsonl", "state.json")}
