"""Retention never goes past what the lake lacks without a word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablestore.core.errors import InvalidOption
from tablestore.core.options.names import UUID
from tablestore.fluss.tables import TTL
from tablestore.tiering.cluster import ClusterTable, LakeState
from tablestore.tiering.committer import RoundPlan
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.marks import TieringMarks
from tablestore.tiering.policy import LogPolicy, freshness_seconds
from tablestore.tiering.report import BucketMarks, TableState
from tests.faults import SimEnv
from tests.tiering.memory import MemoryCluster


@pytest.mark.parametrize(("behind", "words"), [(29, ""), (31, "will be lost"), (61, "ROWS MAY BE LOST")])
def test_the_warning_comes_at_half_of_the_retention(behind: float, words: str) -> None:
    policy = LogPolicy.of({TTL: "1 min"})
    actual = policy.warning(lag_rows=3, tiered_at=100.0, now=100.0 + behind)
    assert (words in actual, bool(actual)) == (True, bool(words))
    assert policy.warning(lag_rows=0, tiered_at=100.0, now=999.0) == ""
    assert policy.warning(lag_rows=3, tiered_at=None, now=999.0) == ""


def test_logs_that_keep_rows_for_ever_or_until_they_are_in_files_have_none() -> None:
    for options in ({TTL: "-1"}, {TTL: "0ms"}, {UUID: "x"}):
        assert LogPolicy.of(options).warning(lag_rows=3, tiered_at=0.0, now=1e9) == ""
    assert LogPolicy.of({}).kept_ms == 7 * 24 * 3_600_000
    assert LogPolicy.of({UUID: "x", TTL: "60000ms"}).kept_ms == 60_000  # a topic of Kafka, which expires


@pytest.mark.parametrize("ever", [True, False])
def test_a_table_that_stays_behind_is_warned_of_in_its_state(
    caplog: pytest.LogCaptureFixture, ever: bool
) -> None:
    """Also one that never had a round which was committed."""
    env, cluster = SimEnv(), MemoryCluster()
    cluster.append(0, 5)
    journal = TieringJournal(None, env)
    table: ClusterTable = replace(cluster.table("db.t"), options={TTL: "1 min"})
    marks = (BucketMarks(None, 0, 0, 0, 0), BucketMarks(None, 1, 0, 0, 0))
    tiered_at = env.now_ms() / 1000 if ever else None
    journal.note_table(TableState("db.t", 1, "Failed", 0.0, tiered_at=tiered_at, marks=marks))
    looks = TieringMarks(cluster, journal)
    looks.planned(RoundPlan(table, LakeState(), {}))
    looks.look()
    table_state = journal.table("db.t")
    assert table_state is not None
    assert (table_state.lag_rows, table_state.warning) == (5, "")
    env.sleep(45)
    for _ in range(3):
        looks.look()
    table_state = journal.table("db.t")
    assert table_state is not None
    assert "keeps rows for 1:00" in table_state.warning
    assert sum("keeps rows for" in r.getMessage() for r in caplog.records) == 1


def test_rows_are_in_the_log_in_both_or_in_the_lake(caplog: pytest.LogCaptureFixture) -> None:
    env, cluster = SimEnv(), MemoryCluster()
    cluster.append(0, 50)
    journal = TieringJournal(None, env)
    marks = (BucketMarks(None, 0, 40, 40, 40), BucketMarks(None, 1, 0, None, None))
    at = env.now_ms() / 1000
    journal.note_table(TableState("db.t", 1, "Tiered", 0.0, tiered_at=at, marks=marks))
    looks = TieringMarks(cluster, journal)
    looks.planned(RoundPlan(cluster.table("db.t"), LakeState(), {}))
    for earliest, words in (
        (0, "only in the log 10, at most 2.0 s old; in both 40; only in the lake 0"),
        (15, "only in the log 10, at most 2.0 s old; in both 25; only in the lake 15"),
        (45, "only in the log 10, at most 2.0 s old; in both 0; only in the lake 40"),  # five rows are lost
    ):
        cluster.earliest[0] = earliest
        looks.look()
        table_state = journal.table("db.t")
        assert table_state is not None
        assert table_state.where(at + 2.0) == words
    assert TableState("db.t", 1, "New", 0.0).where(at) == ""


@pytest.mark.parametrize("wrong", ["", "soon", "-1", "3 parsecs"])
def test_a_freshness_that_is_no_duration_is_named(wrong: str):
    with pytest.raises(InvalidOption, match=rf"table.datalake.freshness = '{wrong}': write a duration"):
        freshness_seconds({"table.datalake.freshness": wrong})
