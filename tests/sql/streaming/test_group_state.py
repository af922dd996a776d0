"""The state of a GROUP BY against the same query over the rows that are left, at every batch and crash."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tablestore as ts
from tablestore.format import rowkind
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.query.connection import DuckConnection
from tablestore.sql.query.embedded import sound
from tablestore.sql.query.own_functions import relation_of
from tablestore.sql.query.planning import prepared
from tablestore.sql.query.translation import duck_sql
from tablestore.sql.session import Session
from tablestore.sql.streaming.group_columns import GROUPS
from tablestore.sql.streaming.group_state import GroupState
from tablestore.sql.streaming.plan import planned
from tablestore.sql.streaming.row_step import RowSteps
from tablestore.table.table import Table

COLUMNS = (
    "k INT, g STRING, h DOUBLE, x INT, f DOUBLE, de DECIMAL(10, 2), s STRING, d DATE, b BOOLEAN, bi BIGINT, "
    "d38 DECIMAL(38, 10)"
)
QUERIES = [
    "SELECT g, count(*) AS n, count(x) AS c, sum(x) AS s, avg(x) AS a, min(x) AS lo, max(x) AS hi "
    "FROM t GROUP BY g",
    "SELECT g, h, count(DISTINCT x) AS c, sum(DISTINCT de) AS s, avg(DISTINCT de) AS a, min(s) AS lo, "
    "max(d) AS hi, count(DISTINCT s) AS cs FROM t GROUP BY g, h",
    "SELECT sum(f) AS f, avg(f) AS af, sum(de) AS de, avg(de) AS ad, sum(bi) AS bi, min(f) AS lo, "
    "max(h) AS hi, count(DISTINCT f) AS cf FROM t",
    "SELECT b, d, max(de) - min(de) AS span, count(*) FILTER (WHERE x > 1) AS few, upper(min(s)) AS u "
    "FROM t WHERE x IS DISTINCT FROM 3 GROUP BY b, d HAVING count(*) > 1",
    "SELECT DISTINCT g, b FROM t",
    "SELECT g, avg(bi) AS ab, avg(f) - 1 AS f, avg(d38) AS a38, sum(de) / count(*) AS q, sum(x) / 2 AS half, "
    "sum(d38) * 2 AS twice, sum(DISTINCT d38) AS ds FROM t GROUP BY g",
]
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # to shrink an example takes minutes
floats = st.sampled_from([None, 0.0, -0.0, 0.25, -1.5, 1e6, float("nan"), float("inf"), float("-inf")])
rows = st.fixed_dictionaries(
    {
        "k": st.just(0),
        "g": st.sampled_from([None, "", "a", "b"]),
        "h": st.sampled_from([None, 0.0, -0.0, 2.5, float("nan")]),
        "x": st.sampled_from([None, 0, 1, 2, 3]),
        "f": floats,
        "de": st.sampled_from([None, Decimal("0.01"), Decimal("-2.50"), Decimal("99999999.99")]),
        "s": st.sampled_from([None, "", "x", "ß"]),
        "d": st.sampled_from([None, dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
        "b": st.sampled_from([None, False, True]),
        "bi": st.sampled_from([None, 2**63 - 1, -(2**63), 7]),
        "d38": st.sampled_from([None, Decimal(1) / 10**10, Decimal(-(10**20)), Decimal("0.3333333333")]),
    }
)


class Model:
    """A grouped query whose changes are given by hand, its state, its result as changes have made it, and
    the rows that are left."""

    def __init__(self, sql: str, folder: str, *, keyed: bool = True, buckets: int = 1) -> None:
        lake = ts.connect(folder)
        self.session: Session = ts.sql_session(lake)
        self.session.sql("CREATE DATABASE d; USE d")
        key = ", PRIMARY KEY (k) NOT ENFORCED" if keyed else ""
        options = " WITH ('changelog-producer' = 'input', 'bucket' = '1')" if keyed else ""
        self.session.sql(f"CREATE TABLE t ({COLUMNS}{key}){options}")
        self.table = lake.table("d.t")
        self.sql, self.folder, self.buckets = sql, folder, buckets
        self.tree = reader(()).read(pieces(sql)[0])
        self.plan = planned(self.session, self.tree, sql)
        self.left: list[dict[str, Any]] = []
        self.result: Counter[tuple[Any, ...]] = Counter()
        self.number = 0
        self.state = self.opened()
        self.offset = self.state.changes().initial()

    def opened(self) -> GroupState:
        return GroupState.create(f"{self.folder}/state", self.plan, user="job", buckets=self.buckets)

    def written(self, changes: list[tuple[int, dict[str, Any]]], *, pieces: int = 1) -> list[bytes] | None:
        """Messages of a batch, None where it is there."""
        basis = self.state.begin(self.number)
        if basis is None:
            return None
        parts: dict[int, list[bytes]] = {}
        first_input = self.plan.inputs[0]
        for start in range(pieces):
            some = self.batches(changes[start::pieces], first_input.columns)
            for bucket, part in self.state.partials().of(first_input.view, some):
                parts.setdefault(bucket, []).append(part)
        return [m for bucket, some in parts.items() for m in self.state.apply(bucket, some, basis)]

    def batches(self, changes: list[tuple[int, dict[str, Any]]], columns: Any) -> Iterator[Any]:
        for start in range(0, len(changes), 3):
            some = changes[start : start + 3]
            table = pa.Table.from_pylist([row for _, row in some], schema=self.table.schema)
            kinds = pa.array([kind for kind, _ in some], pa.int8())
            yield table.select(list(columns)).combine_chunks().to_batches()[0], kinds

    def advance(self, changes: list[tuple[int, dict[str, Any]]], *, pieces: int = 1) -> None:
        """One batch, to the end."""
        actual = self.written(changes, pieces=pieces)
        if actual is not None:
            self.state.commit(actual, self.number, str(self.number))
        self.follow()
        self.number += 1
        for kind, row in changes:
            if kind in (rowkind.INSERT, rowkind.UPDATE_AFTER):
                self.left.append(row)
            else:
                self.left.remove(row)

    def follow(self) -> None:
        """Bring the result up to date by the changes of the groups."""
        stream = self.state.changes()
        end = stream.next(self.offset)
        assert self.plan.grouping is not None
        with RowSteps(self.plan.grouping.after) as after:
            for piece in stream.pieces(self.offset, end):
                for batch, kinds in piece.read(stream.schema.names):
                    actual, kinds = after.rows(GROUPS, batch, kinds)
                    for row, kind in zip(actual.to_pylist(), kinds.to_pylist(), strict=True):
                        value = _comparable(row)
                        self.result[value] += 1 if kind in (0, 2) else -1
                        assert kind in (0, 2) or self.result[value] == 0, "what goes was there"
        self.offset = end

    def expected(self) -> Counter[tuple[Any, ...]]:
        """The rows of the query over the rows that are left; of no rows none, where nothing groups."""
        if not self.left and "GROUP BY" not in self.sql:
            return Counter()
        query = prepared(self.session, self.tree, self.sql)
        with DuckConnection() as connection:
            for source in query.sources:
                connection.duck.register(
                    source.view, pa.Table.from_pylist(self.left, schema=self.table.schema)
                )
            actual = relation_of(connection.duck, duck_sql(query.tree)).to_arrow_table()
        assert actual.schema.names == self.plan.schema.names
        batches = [sound(b, self.plan.schema) for b in actual.to_batches()]
        rows = pa.Table.from_batches(batches, self.plan.schema).to_pylist()
        return Counter(_comparable(row) for row in rows)

    def check(self) -> None:
        assert +self.result == self.expected()


def _comparable(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        "NaN" if isinstance(v, float) and v != v else v + 0.0 if isinstance(v, float) else v
        for v in row.values()
    )


def changes_of(data: st.DataObject, left: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Changes of a batch: inserts, deletes and updates of what is there."""
    there, actual = list(left), []
    for _ in range(data.draw(st.integers(0, 8))):
        what = data.draw(st.sampled_from(["insert", "insert", "delete", "update"]))
        if what == "insert" or not there:
            there.append(data.draw(rows))
            actual.append((rowkind.INSERT, there[-1]))
            continue
        old = there.pop(data.draw(st.integers(0, len(there) - 1)))
        if what == "delete":
            actual.append((rowkind.DELETE, old))
            continue
        new = {**old, **data.draw(st.fixed_dictionaries({}, optional=dict(_values(rows))))}
        there.append(new)
        actual += [(rowkind.UPDATE_BEFORE, old), (rowkind.UPDATE_AFTER, new)]
    if data.draw(st.integers(0, 5)) == 0:
        actual += [(rowkind.DELETE, row) for row in there]
    return actual


def _values(strategy: Any) -> Iterator[tuple[str, Any]]:
    for name in ("g", "h", "x", "f", "de", "s"):
        yield name, strategy.map(lambda row, name=name: row[name])


@pytest.mark.parametrize("sql", QUERIES)
@given(data=st.data())
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@pytest.mark.sample(1)
def test_the_state_is_that_of_the_rows_left(sql: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(sql, folder, buckets=data.draw(st.integers(1, 3)))
        for _ in range(data.draw(st.integers(1, 5))):
            model.advance(changes_of(data, model.left), pieces=data.draw(st.integers(1, 2)))
            model.check()
            model.state = model.opened()
        assert model.state.groups.check() == []


@pytest.mark.parametrize("sql", QUERIES)
@given(data=st.data())
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@pytest.mark.sample(1)
def test_sources_that_only_append(sql: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(sql, folder, keyed=False)
        assert not model.plan.retracts
        for _ in range(2):
            some = data.draw(st.lists(rows, max_size=6))
            model.advance([(rowkind.INSERT, row) for row in some])
            model.check()


@pytest.mark.parametrize("sql", QUERIES[:2])
@given(data=st.data())
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@pytest.mark.large
def test_a_batch_that_is_done_again_counts_once(sql: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(sql, folder, buckets=2)
        for _ in range(3):
            batch = changes_of(data, model.left)
            crash = data.draw(st.sampled_from(["none", "written", "between", "committed", "followed"]))
            _crashed(model, batch, crash)
            model.state = model.opened()
            if crash in ("written", "between") and data.draw(st.booleans()):
                batch = changes_of(data, model.left)  # the plan of the batch was lost, too
            model.advance(batch)
            model.check()


def _crashed(model: Model, batch: list[tuple[int, dict[str, Any]]], crash: str) -> None:
    if crash == "none":
        return
    messages = model.written(batch)
    assert messages is not None
    if crash == "between":
        commit = Table.commit

        def killed(table: Table, *args: Any, **named: Any) -> Any:
            if table.name.endswith("groups"):
                raise KeyboardInterrupt
            return commit(table, *args, **named)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Table, "commit", killed)
            with pytest.raises(KeyboardInterrupt):
                model.state.commit(messages, model.number, "lost")
    elif crash in ("committed", "followed"):
        model.state.commit(messages, model.number, str(model.number))
        if crash == "followed":
            model.follow()


def test_the_state_of_another_query_is_refused(tmp_path: Path) -> None:
    model = Model(QUERIES[0], str(tmp_path))
    other = planned(model.session, reader(()).read(pieces(QUERIES[1])[0]), QUERIES[1])
    with pytest.raises(ts.InvalidRequest, match="the state of another query"):
        GroupState.create(f"{tmp_path}/state", other, user="job")


def test_the_position_is_that_of_the_last_batch(tmp_path: Path) -> None:
    model = Model(QUERIES[0], str(tmp_path))
    assert model.state.position() is None
    model.state.commit([], 3, "here")
    assert (model.state.position(), model.state.begin(3)) == ((3, "here"), None)
    assert model.state.begin(4) == {"groups": 1, "values_0": 0}  # one for all of x


@pytest.mark.parametrize("key", ["ARRAY[x]", "ROW(x, g)", "NULL"])
def test_keys_that_no_table_can_have_are_refused_by_name(tmp_path: Path, key: str) -> None:
    with pytest.raises(ts.Unsupported, match="GROUP BY of"):
        Model(f"SELECT count(*) AS n FROM t GROUP BY {key}", str(tmp_path))
