"""For random changes of random tables: the changes of a stream, applied, give the rows of the query at each
snapshot."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tablestore as ts
from tablestore.flow.batch import Streams
from tablestore.format import rowkind
from tablestore.sql import Session
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.streaming.follow import GroupsInProcess
from tablestore.sql.streaming.plan import planned
from tablestore.sql.streaming.row_step import RowSteps

TABLES: dict[str, dict[str, Any]] = {
    "plain": {"bucket": 2},
    "input": {"bucket": 1, "changelog-producer": "input"},
    "lookup": {"bucket": 2, "changelog-producer": "lookup"},
    "partial": {"bucket": 1, "merge-engine": "partial-update"},
    "first": {"bucket": 1, "merge-engine": "first-row"},
    "sum": {"bucket": 1, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "append": {},
}
QUERIES = (
    "SELECT k, v, s FROM t{at}",
    "SELECT k * 2 AS kk, upper(s) AS s FROM t{at} WHERE v > 1 OR s IS NULL",
    "SELECT s, v FROM t{at} WHERE k > 1 UNION ALL SELECT s, k FROM t{at} WHERE v < 3",
    "SELECT t.k, d.name FROM (SELECT k, v, LOCALTIMESTAMP AS p FROM t{at}) AS t "
    "LEFT JOIN dim FOR SYSTEM_TIME AS OF t.p AS d ON t.v = d.k",
    "SELECT s, count(*) AS n, sum(v) AS v, min(v) AS lo, max(k) AS hi FROM t{at} GROUP BY s",
    "SELECT v % 2 AS odd, avg(CAST(v AS DOUBLE)) AS a, count(DISTINCT s) AS d FROM t{at} WHERE k < 5 "
    "GROUP BY v % 2",
    "SELECT DISTINCT s FROM t{at}",
    "SELECT d.name, count(*) AS n FROM (SELECT v, LOCALTIMESTAMP AS p FROM t{at}) AS t "
    "JOIN dim FOR SYSTEM_TIME AS OF t.p AS d ON t.v = d.k GROUP BY d.name HAVING count(*) > 1",
)
row = st.tuples(st.integers(1, 6), st.none() | st.integers(0, 4), st.none() | st.sampled_from("ab"))
commit = st.one_of(st.lists(row, min_size=1, max_size=5), st.integers(1, 6))  # rows, or a key to delete


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(sorted(TABLES)),
    commits=st.lists(commit, min_size=1, max_size=5),
    sql=st.sampled_from(QUERIES),
)
@pytest.mark.large
def test_changes_applied_are_the_rows_of_each_snapshot(kind: str, commits: list[Any], sql: str) -> None:
    folder = tempfile.mkdtemp()
    try:
        session = session_of(folder, kind, commits)
        for snapshot, actual in states(session, sql.format(at="")):
            batch = session.sql(sql.format(at=f" VERSION AS OF {snapshot}")).to_arrow()
            assert actual == Counter(tuple(r.values()) for r in batch.to_pylist()), f"at snapshot {snapshot}"
    finally:
        shutil.rmtree(folder)


def session_of(folder: str, kind: str, commits: list[Any]) -> Session:
    """A table of a kind after these commits, and a table to look up in. The changelog `input` is what was
    written: only new keys are inserted there."""
    lake = ts.connect(folder)
    keyed = {} if kind == "append" else {"primary_key": ["k"]}
    schema = {"k": ts.INT, "v": ts.INT, "s": ts.STRING}
    table = lake.create_table("d.t", schema=schema, options=TABLES[kind], **keyed)
    inserted: set[int] = set()
    for commit in commits:
        if isinstance(commit, list):
            rows = [dict(zip(schema, values, strict=True)) for values in commit]
            if kind == "input":
                rows = list({r["k"]: r for r in rows if r["k"] not in inserted}.values())
                inserted.update(r["k"] for r in rows)
            table.write(rows)
        elif kind in ("plain", "input", "lookup"):
            table.delete(f"k = {commit}")
    dim = lake.create_table("d.dim", schema={"k": ts.INT, "name": ts.STRING}, primary_key=["k"])
    dim.write([{"k": 1, "name": "one"}, {"k": 2, "name": "two"}])
    session = ts.sql_session(lake)
    session.sql("USE d; SET 'table.optimizer.non-deterministic-update.strategy' = 'ignore'")  # dim stays
    return session


def states(session: Session, sql: str) -> Iterator[tuple[int, Counter[tuple[Any, ...]]]]:
    """Each snapshot of the table with the rows that changes up to it give."""
    hint = " /*+ OPTIONS('scan.snapshot-id' = '1') */"
    for text in ("t WHERE", "t GROUP", "t UNION", "t) AS"):
        sql = sql.replace(f"FROM {text}", f"FROM t{hint}{text[1:]}")
    sql = sql + hint if sql.endswith("FROM t") else sql
    plan = planned(session, reader(()).read(pieces(sql)[0]), sql)
    streams = Streams(tuple(i.source for i in plan.inputs), plan.step.lookups)
    table = session.lake().table("d.t")
    offset, rows = streams.initial(), Counter[tuple[Any, ...]]()
    with RowSteps(plan.step) as steps:
        groups = None if plan.grouping is None else GroupsInProcess(plan, steps)
        for snapshot in snapshots_with_changes(table):
            target = {"v": 1, "tables": {table.location: snapshot}}
            asked = {"v": 1, "sources": [target] * len(plan.inputs), "lookups": {}}
            end = streams.next(offset, asked)
            if end != offset:
                steps.look_up_at(end["lookups"])
                parts = [(plan.inputs[w.source], w.piece) for w in streams.works(offset, end)]
                changes = [
                    (state_input.view, piece.read(state_input.columns, state_input.where))
                    for state_input, piece in parts
                ]
                by_row = (steps.rows(view, *change) for view, some in changes for change in some)
                for batch, kinds in by_row if groups is None else groups.batch(changes):
                    taken_back = rowkind.retracts(kinds.to_numpy(zero_copy_only=False))
                    for values, minus in zip(batch.to_pylist(), taken_back, strict=True):
                        rows[tuple(values.values())] += -1 if minus else 1
            offset = end
            assert min(rows.values(), default=0) >= 0
            yield snapshot, +rows
        if groups is not None:
            groups.close()


def snapshots_with_changes(table: ts.Table) -> list[int]:
    """The snapshots up to which all changes are known; where compactions find them, those of compactions."""
    snapshots = table.inspect.snapshots().to_pylist()
    by_compaction = table.options.get("changelog-producer") == "lookup"
    return [s["snapshot_id"] for s in snapshots if not by_compaction or s["commit_kind"] == "COMPACT"]


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.sample(1)
def test_every_query_over_a_table_of_updates(sql: str, tmp_path: Any) -> None:
    commits = [[(1, 1, "a"), (2, 2, None)], [(1, 2, "b"), (3, None, "a")], 2, [(3, 1, "a"), (4, 4, "b")]]
    session = session_of(str(tmp_path), "plain", commits)
    actual = list(states(session, sql.format(at="")))
    assert len(actual) == 4
    for snapshot, rows in actual:
        batch = session.sql(sql.format(at=f" VERSION AS OF {snapshot}")).to_arrow()
        assert rows == Counter(tuple(r.values()) for r in batch.to_pylist())
