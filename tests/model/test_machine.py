"""A random life of a table against one dict a snapshot: write, delete, update, compact, expire, travel, two
writers, replays."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tablestore as ts
from tablestore.core.errors import NotFound
from tests.faults import SimEnv

KEYS = st.integers(0, 25)
KINDS = st.sampled_from(["+I", "+U", "-D", "-U"])
CHANGE = st.tuples(KINDS, KEYS, st.integers(0, 2), st.none() | st.integers(-100, 100))
Rows = dict[tuple[int, int], int | None]


class TableMachine(RuleBasedStateMachine):
    """The model is `history`: the rows at every snapshot id, as a dict (key, part) → value."""

    @initialize(
        buckets=st.integers(1, 3),
        trigger=st.integers(2, 5),
        partitioned=st.booleans(),
        producer=st.sampled_from(["none", "input"]),
        file_size=st.sampled_from(["128 mb", "2 kb"]),
        write_only=st.booleans(),
        strategy=st.sampled_from(["universal", "leveled"]),
    )
    def create(
        self,
        buckets: int,
        trigger: int,
        partitioned: bool,
        producer: str,
        file_size: str,
        write_only: bool,
        strategy: str,
    ) -> None:
        self.root = tempfile.mkdtemp(prefix="machine")
        self.env = SimEnv()
        options = {
            "bucket": buckets,
            "num-sorted-run.compaction-trigger": trigger,
            "changelog-producer": producer,
            "target-file-size": file_size,
            "tablestore.compaction.strategy": strategy,
            "tablestore.compaction.leveled.level0-file-num-trigger": trigger - 1,
            "tablestore.compaction.leveled.max-bytes-for-level-base": "2 kb",
            "tablestore.compaction.leveled.max-bytes-for-level-multiplier": 2,
            "write-only": write_only,
            "manifest.merge-min-count": 3,
            "snapshot.num-retained.min": 1000,
        }
        self.producer = producer
        lake = ts.connect(self.root, env=self.env)
        self.table = lake.create_table(
            "d.t",
            schema={"k": ts.BIGINT, "part": ts.INT, "v": ts.INT},
            primary_key=["k", "part"],
            partition_by=["part"] if partitioned else [],
            options=options,
        )
        self.history: dict[int, Rows] = {}
        self.now: Rows = {}
        self.identifiers = {"a": 0, "b": 0}
        self.changes: dict[int, list[tuple[str, int, int, int | None]]] = {}

    def teardown(self) -> None:
        if hasattr(self, "root"):
            shutil.rmtree(self.root, ignore_errors=True)

    def _record(self, committed: ts.Committed, rows: Rows) -> None:
        self.now = rows
        for snapshot in committed.snapshots:
            self.history[snapshot] = dict(rows)

    def _apply(self, changes: list[tuple[str, int, int, int | None]]) -> Rows:
        rows = dict(self.now)
        for kind, key, part, value in changes:
            if kind in ("+I", "+U"):
                rows[key, part] = value
            else:
                rows.pop((key, part), None)
        return rows

    @rule(changes=st.lists(CHANGE, min_size=1, max_size=12), user=st.sampled_from(["a", "b"]))
    def write(self, changes: list[tuple[str, int, int, int | None]], user: str) -> None:
        kinds, keys, parts, values = zip(*changes, strict=True)
        data = pa.table({"k": keys, "part": pa.array(parts, pa.int32()), "v": pa.array(values, pa.int32())})
        data = data.append_column("kind", pa.array(kinds))
        self.identifiers[user] += 1
        identifier = self.identifiers[user]
        committed = self.table.write(data, row_kind_column="kind", user=user, identifier=identifier)
        assert committed.snapshots
        self.changes[committed.snapshots[0]] = changes
        self._record(committed, self._apply(changes))

    @precondition(lambda self: self.identifiers["a"] > 0)
    @rule()
    def replay(self) -> None:
        again = self.table.write(
            pa.table({"k": [99], "part": pa.array([0], pa.int32())}),
            user="a",
            identifier=self.identifiers["a"],
        )
        assert (again.snapshots, again.replayed) == ((), True)

    @rule(low=KEYS, high=KEYS)
    def delete(self, low: int, high: int) -> None:
        committed = self.table.delete(ts.col("k").between(low, high))
        rows = {key: v for key, v in self.now.items() if not low <= key[0] <= high}
        assert bool(committed.snapshots) == (rows != self.now)
        self._record(committed, rows)

    @rule(key=KEYS, value=st.integers(0, 9))
    def update(self, key: int, value: int) -> None:
        committed = self.table.update({"v": value}, where=ts.col("k") == key)
        self._record(committed, {k: (value if k[0] == key else v) for k, v in self.now.items()})

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        preview = self.table.compact(full=full, dry_run=True)
        done = self.table.compact(full=full)
        assert [p.decision.unit for p in preview.picks] == [p.decision.unit for p in done.picks]
        self._record(done.committed, self.now)

    @rule(keep=st.integers(1, 6))
    def expire(self, keep: int) -> None:
        before, kept = self.table.store.snapshots.ids(), self.table.inspect.compactions()
        self.table.expire_snapshots(keep=keep)
        alive = self.table.store.snapshots.ids()
        assert alive == before[-keep:]
        assert self.table.inspect.compactions() == kept
        self.history = {i: rows for i, rows in self.history.items() if i in alive}

    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        if not self.history:
            return
        snapshot = data.draw(st.sampled_from(sorted(self.history)))
        assert self._rows(self.table.at(snapshot=snapshot)) == self.history[snapshot]

    @rule(key=KEYS, part=st.integers(0, 2))
    def get(self, key: int, part: int) -> None:
        value = self.table.get({"k": key, "part": part})
        assert (value is not None) == ((key, part) in self.now)
        if value is not None:
            assert value["v"] == self.now[key, part]

    @rule(value=st.integers(-100, 100))
    def filtered_scan(self, value: int) -> None:
        rows = self.table.scan(where=ts.col("v") >= value).to_arrow().to_pylist()
        expected = {k: v for k, v in self.now.items() if v is not None and v >= value}
        assert {(r["k"], r["part"]): r["v"] for r in rows} == expected
        assert len(rows) == len(expected)

    @rule()
    def reopen(self) -> None:
        self.table = ts.open(self.table.location, env=self.env)

    def _rows(self, table: ts.Table) -> Rows:
        actual = table.scan().to_arrow().to_pylist()
        rows = {(r["k"], r["part"]): r["v"] for r in actual}
        assert len(rows) == len(actual), "a key came back twice"
        return rows

    @invariant()
    def rows_are_the_models(self) -> None:
        if hasattr(self, "table"):
            assert self._rows(self.table) == self.now

    @invariant()
    def check_is_clean(self) -> None:
        if hasattr(self, "table"):
            assert self.table.check() == []


def test_a_table_behaves_as_a_dict_a_snapshot(request: pytest.FixtureRequest) -> None:
    rounds = request.config.option.rounds
    TableMachine.TestCase.settings = settings(max_examples=6 * rounds, stateful_step_count=30)
    TableMachine.TestCase("runTest").runTest()


def test_expired_snapshots_are_gone(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table("t", schema={"k": ts.INT}, primary_key=["k"])
    for k in range(6):
        t.write(pa.table({"k": pa.array([k], pa.int32())}))
    preview = t.expire_snapshots(keep=2, dry_run=True)
    assert len(t.store.snapshots.ids()) >= 6
    done = t.expire_snapshots(keep=2)
    assert done.snapshots == preview.snapshots
    assert set(done.files) == set(preview.files)
    assert len(t.store.snapshots.ids()) == 2
    with pytest.raises(NotFound, match="no snapshot 1; have"):
        t.at(snapshot=1)
    assert t.scan().count() == 6
    assert t.check() == []
