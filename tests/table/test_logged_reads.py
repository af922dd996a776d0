"""Reading a table with an embedded log by its verbs: union reads and streams, in SQL too."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tablestore.table.table import Table
from tests.tables import KEYED

LOGGED = KEYED.with_options({"bucket": 2, "log.system": "embedded"})
EVENTUAL = {"log.consistency": "eventual"}


@pytest.fixture
def eventual(tmp_path: Path) -> Iterator[Table]:
    """A table with a row in a snapshot, another and a new version in the log alone."""
    table = LOGGED.create(tmp_path, EVENTUAL)
    table.write([{"k": 1, "v": "a"}])
    with table.writer() as writer:
        writer.write([{"k": 1, "v": "b"}, {"k": 2, "v": "c"}])
        yield table


def test_a_union_read_has_rows_before_their_commit(eventual: Table) -> None:
    assert eventual.scan().to_arrow().to_pylist() == [{"k": 1, "v": "a"}]
    both = [{"k": 1, "v": "b"}, {"k": 2, "v": "c"}]
    assert sorted(eventual.scan(log=True).to_arrow().to_pylist(), key=str) == both
    by_option = eventual.with_options({"tablestore.scan.log": True})
    assert by_option.scan(where="k = 2").to_arrow().to_pylist() == both[1:]
    assert by_option.scan(log=False).count() == 1
    assert eventual.at(snapshot=1).scan(log=True).count() == 1
    assert eventual.at(timestamp=time.time_ns() // 1_000_000 + 1).scan(log=True).count() == 2
    assert "/tmp" not in repr(eventual.scan(log=True).explain().summary)


def test_a_union_read_in_sql_by_a_hint(eventual: Table, tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    hinted = "SELECT count(*) AS n FROM d.t /*+ OPTIONS('tablestore.scan.log'='true') */"
    assert lake.sql(hinted).to_arrow().to_pylist() == [{"n": 2}]
    assert lake.sql("SELECT count(*) AS n FROM d.t").to_arrow().to_pylist() == [{"n": 1}]


def test_without_a_log_a_union_read_is_refused(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path)
    with pytest.raises(InvalidRequest, match="has no log"):
        table.scan(log=True)
    with pytest.raises(InvalidRequest, match="must be True or False"):
        table.scan(log="yes")  # type: ignore[arg-type]  # what a caller may get wrong


def test_a_stream_has_rows_before_their_commit_once(eventual: Table) -> None:
    steps = eventual.stream(timeout=0.0)
    assert [(s.full, s.source, s.to_arrow().num_rows) for s in steps] == [
        (True, "files", 1),
        (False, "log", 3),
    ]


@pytest.mark.parametrize("options", [{}, EVENTUAL])
def test_a_reader_that_waits_gets_rows_while_they_are_written(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    table = LOGGED.create(tmp_path, options)
    table.write([{"k": 0, "v": "start"}])
    collected: list[int] = []

    def follow() -> None:
        for step in ts.open(table.location).stream(timeout=240.0):
            collected.extend(r["k"] for r in step.to_arrow().to_pylist())
            if len(collected) == 21:
                return

    reader = threading.Thread(target=follow)
    reader.start()
    for k in range(1, 21):
        table.write([{"k": k, "v": "x"}])
    reader.join(240)
    assert sorted(collected) == list(range(21))


def test_columns_that_come_later_are_in_the_log(tmp_path: Path) -> None:
    table = LOGGED.create(tmp_path)
    table.write([{"k": 1, "v": "a"}])
    cursor = list(table.stream(timeout=0.0))[-1].cursor
    table = table.alter(ts.add("n", ts.INT))
    table.write([{"k": 2, "v": "b", "n": 5}])
    (step,) = table.stream(start=cursor, timeout=0.0)
    assert step.source == "log"
    assert step.to_arrow().to_pylist() == [{"rowkind": "+I", "k": 2, "v": "b", "n": 5}]
    table = table.alter(ts.rename("n", "m"), ts.drop("v"))
    (step,) = table.stream(start=cursor, timeout=0.0)
    assert step.to_arrow().to_pylist() == [{"rowkind": "+I", "k": 2, "m": 5}]


def test_a_rollback_to_the_same_offsets_leaves_readers_where_they_are(tmp_path: Path) -> None:
    table = LOGGED.create(tmp_path)
    for k in range(3):
        table.write([{"k": k, "v": "x"}])
    cursor = list(table.stream(timeout=0.0))[-1].cursor
    before = table.store.snapshots.latest_id()
    table.compact(full=True)
    table.rollback(snapshot=before)
    table.write([{"k": 9, "v": "y"}])
    assert [r["k"] for s in table.stream(start=cursor, timeout=0.0) for r in s.to_arrow().to_pylist()] == [9]
