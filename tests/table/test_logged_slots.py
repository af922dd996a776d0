"""Two writers of a log in Kafka, each with a slot of its own: their transactions lie in each bucket in the
order in which they came, which may be another one in each, and one inside the other."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.log.log import CommitMark
from tests.log import held
from tests.log.logged import into, writers_look_away
from tests.log.topic_log import BEFORE, BEHIND, BETWEEN, Beside, TopicLog
from tests.tables import TableSpec

LOG = {"log.system": "embedded", "bucket": 2}
KEYED = TableSpec({"k": ts.INT, "v": ts.BIGINT}, ("k",), options=LOG)
SUMS = KEYED.with_options({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})
APPEND = TableSpec({"k": ts.INT, "v": ts.BIGINT}, options={**LOG, "bucket-key": "k"})
PLACES = list(itertools.product((BEFORE, BETWEEN, BEHIND), repeat=2))


@pytest.fixture(autouse=True)
def log_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    writers_look_away(monkeypatch)


def with_topic(spec: TableSpec, path: Path) -> tuple[ts.Table, TopicLog]:
    table = spec.create(path)
    log = TopicLog(2, table.store.env)
    return on(table, log), log


def on(table: ts.Table, log: TopicLog) -> ts.Table:
    """The table with this log."""
    table._handle.__dict__["log"] = log
    return table


def parts_of(table: ts.Table, rows: list[tuple[Any, ...]]) -> list[tuple[int, pa.Array, pa.RecordBatch]]:
    """What a writer sends of rows."""
    appender = TopicLog(2).appender()
    into(appender, table, rows)
    assert {bucket for bucket, _, _ in appender._waiting} == {0, 1}
    return appender._waiting


def rows_in_files(table: ts.Table) -> list[tuple[int, int]]:
    return sorted((r["k"], r["v"]) for r in table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("later", [True, False], ids=["its order is later", "its order is earlier"])
@pytest.mark.parametrize("places", PLACES, ids=["-".join(p) for p in PLACES])
@pytest.mark.parametrize("spec", [SUMS, APPEND], ids=["sums", "append"])
@pytest.mark.sample(6)
def test_rows_that_came_beside_those_of_a_commit_are_in_files_once(
    spec: TableSpec, places: tuple[str, str], later: bool, tmp_path: Path
) -> None:
    """The other writer was killed before it had files; it sends its commit again."""
    t, log = with_topic(spec, tmp_path)
    t.write([{"k": k, "v": 1} for k in range(16, 24)], user="one", identifier=1)
    theirs = [("+I", k, 100) for k in range(8, 16)]
    order = log.order + (5 if later else -5)
    place = dict(enumerate(places))
    log.beside = Beside(parts_of(t, theirs), CommitMark("other", 4, "there"), order, place)
    t.write([{"k": k, "v": 10} for k in range(8)], user="one", identifier=2)
    assert t.log is not None
    t.log.finish()
    assert held.position(t) == log.bounds().end
    wanted = [(k, 10) for k in range(8)] + [(k, 100) for k in range(8, 16)] + [(k, 1) for k in range(16, 24)]
    assert rows_in_files(t) == wanted
    assert (t.position("one"), t.position("other")) == ((2, None), (4, "there"))
    assert t.write([{"k": k, "v": 100} for k in range(8, 16)], user="other", identifier=4).replayed
    t.log.finish()
    assert rows_in_files(t) == wanted


@pytest.mark.parametrize("places", PLACES, ids=["-".join(p) for p in PLACES])
@pytest.mark.parametrize("identifier_there", [4, 3], ids=["again", "new"])
@pytest.mark.sample(6)
def test_a_commit_that_is_there_and_comes_again_beside_another_adds_nothing(
    places: tuple[str, str], identifier_there: int, tmp_path: Path
) -> None:
    """Where one lies among the rows of the other nobody can say which rows are whose: then none is lost."""
    t, log = with_topic(APPEND, tmp_path)
    t.write([{"k": k, "v": identifier_there} for k in range(8)], user="other", identifier=identifier_there)
    theirs = parts_of(t, [("+I", k, 4) for k in range(8)])
    log.beside = Beside(theirs, CommitMark("other", 4), log.order + 5, dict(enumerate(places)))
    t.write([{"k": k, "v": 10} for k in range(8, 16)], user="one", identifier=1)
    assert t.log is not None
    t.log.finish()
    assert held.position(t) == log.bounds().end
    wanted = {
        *((k, identifier_there) for k in range(8)),
        *((k, 4) for k in range(8)),
        *((k, 10) for k in range(8, 16)),
    }
    there = rows_in_files(t)
    assert set(there) == wanted
    assert len(there) == len(wanted) or (BETWEEN in places and identifier_there == 4)
    assert [v for _, v in there].count(10) == 8
    assert (t.position("one"), t.position("other")) == ((1, None), (4, None))


@pytest.mark.parametrize("places", PLACES, ids=["-".join(p) for p in PLACES])
@pytest.mark.sample(3)
def test_rows_without_a_key_that_are_removed_beside_a_commit_go_once(
    places: tuple[str, str], tmp_path: Path
) -> None:
    """Such commits come into files one by one: one whose rows came with those of the other is noted, too."""
    t, log = with_topic(APPEND.with_options({"deletion-vectors.enabled": True}), tmp_path)
    t.write([{"k": k, "v": 1} for k in range(8)], user="one", identifier=1)
    theirs = [("-D", k, 1) for k in range(8)] + [("+I", k, 4) for k in range(8)]
    order, place = log.order + 5, dict(enumerate(places))
    log.beside = Beside(parts_of(t, theirs), CommitMark("other", 4), order, place)
    t.write([{"k": k, "v": 10} for k in range(8, 16)], user="one", identifier=2)
    assert t.log is not None
    t.log.finish()
    wanted = [(k, 4) for k in range(8)] + [(k, 10) for k in range(8, 16)]
    assert (rows_in_files(t), held.position(t)) == (wanted, log.bounds().end)
    assert (t.position("one"), t.position("other")) == ((2, None), (4, None))
