"""A Fluss of the newest version with the Paimon of its own plugin: our service tiers into the tables that the
plugin made, and takes turns with Fluss's own tiering job."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from notebooks.demo.fluss import NEWEST
from tablestore.core.errors import Unavailable
from tablestore.fluss.tables import FlussTable
from tablestore.fluss.write import TableWriter
from tablestore.format.types.arrow_types import BIGINT, STRING
from tablestore.meta import tiered
from tablestore.tiering.fluss_cluster import FlussTieringCluster
from tests.servers.fluss import DATABASE, Fluss, fluss_cluster
from tests.servers.test_fluss_tiering import is_tiered, numbers, service, until
from tests.suite import counterparts

pytestmark = pytest.mark.large
LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "5s"}
COLUMNS = {"id": BIGINT.not_null(), "text": STRING}


@pytest.fixture(scope="module")
def newest() -> Iterator[Fluss]:
    with fluss_cluster(version=NEWEST) as found:
        yield found


@pytest.fixture
def lake(newest: Fluss) -> ts.Lake:
    return ts.connect(newest.servers.warehouse)


def keyed_rows(rng: np.random.Generator) -> pa.Table:
    ids = rng.integers(0, 50, 20)
    return pa.table({"id": ids, "text": [f"row {rng.integers(1000)}" for _ in ids]})


class Pair:
    """A log table and a keyed one, with what they hold."""

    def __init__(self, fluss: Fluss) -> None:
        self.log = fluss.table({"id": BIGINT, "text": STRING}, buckets=2, properties=LAKE)
        self.keyed = fluss.table(COLUMNS, key=["id"], buckets=2, properties=LAKE)
        self.writers = [TableWriter(fluss.cluster, table) for table in self.tables]
        self.appended, self.state = 0, dict[int, str]()

    @property
    def tables(self) -> list[FlussTable]:
        return [self.log, self.keyed]

    def write(self, rng: np.random.Generator) -> None:
        """Some rows more in both, and some less in the keyed one."""
        rows = keyed_rows(rng)
        self.writers[0].append(numbers(self.appended, 10))
        self.writers[1].upsert(rows)
        self.appended += 10
        self.state.update(zip(*rows.to_pydict().values(), strict=True))
        gone = rows.slice(0, 3)
        self.writers[1].delete(gone)
        for key in gone["id"].to_pylist():
            self.state.pop(key, None)

    def require_in(self, lake: ts.Lake) -> None:
        """The lake has each row of the log once, and of each key the newest row."""
        log, keyed = (lake.table(str(table.path)) for table in self.tables)
        assert sorted(log.scan().to_arrow()["id"].to_pylist()) == list(range(self.appended))
        rows = keyed.scan().to_arrow()
        assert dict(zip(*rows.select(["id", "text"]).to_pydict().values(), strict=True)) == self.state
        assert rows.num_rows == len(self.state)
        assert (log.check(), keyed.check()) == ([], [])


def test_tables_of_its_plugin_are_tiered_and_say_the_path_of_the_offsets(
    newest: Fluss, lake: ts.Lake, seeds: tuple[int, ...]
):
    assert newest.cluster.version == (0, 9)
    pair = Pair(newest)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for _ in range(2):
            pair.write(rng)
            with service(newest, lake, pair.tables):
                until(lambda: all(is_tiered(newest, t) for t in pair.tables), what="rounds of ours")
            pair.require_in(lake)
    for table in pair.tables:
        said = lake.table(str(table.path)).store.snapshots.latest().properties
        place = (
            f"{newest.servers.remote_folder}/lake/{DATABASE}/{table.path.table}-{table.table_id}/metadata/"
        )
        assert said[tiered.OFFSETS].startswith(place)
        assert said[tiered.OWN_OFFSETS].startswith('[{"bucket":0')


def test_lists_maps_and_rows_of_a_log_are_tiered(newest: Fluss, lake: ts.Lake):
    row = ts.ROW({"x": ts.INT, "y": ts.ROW({"z": STRING})})
    columns = {"id": BIGINT, "l": ts.ARRAY(ts.INT), "r": row, "m": ts.MAP(STRING, ts.ARRAY(BIGINT))}
    table = newest.table(columns, properties=LAKE)
    rows = [
        {"id": 1, "l": [1, None], "r": {"x": 1, "y": {"z": "a"}}, "m": [("k", [1]), ("j", None)]},
        {"id": 2, "l": None, "r": None, "m": None},
        {"id": 3, "l": [], "r": {"x": None, "y": None}, "m": []},
    ]
    TableWriter(newest.cluster, table).append(pa.Table.from_pylist(rows, table.arrow_schema))
    with service(newest, lake, [table]):
        until(lambda: is_tiered(newest, table), what="a round of ours")
    found = lake.table(str(table.path))
    assert found.scan(columns=list(columns)).to_arrow().sort_by("id").to_pylist() == rows
    assert found.check() == []


def test_fluss_s_own_job_and_our_service_take_turns(
    newest: Fluss, lake: ts.Lake, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
):
    """Once ours ends before it has told the cluster what it has committed to the lake."""
    counterparts.need("Fluss's tiering job")
    pair, rng = Pair(newest), np.random.default_rng(seeds[0])

    def are_tiered() -> bool:
        return all(is_tiered(newest, table) for table in pair.tables)

    def are_in_lake() -> bool:
        return all(not lake_is_behind(newest, lake, table) for table in pair.tables)

    def silent(*_: object, **__: object) -> None:
        raise Unavailable("the service is killed before it says this")

    for _ in range(2):
        pair.write(rng)
        newest.servers.start_tiering_job()
        until(are_tiered, what="rounds of Fluss's job")
        newest.servers.kill("job")
        pair.require_in(lake)
        pair.write(rng)
        with monkeypatch.context() as killed, service(newest, lake, pair.tables):
            killed.setattr(FlussTieringCluster, "commit_lake_snapshot", silent)
            until(are_in_lake, what="rounds of ours in the lake")
        assert not are_tiered()
    newest.servers.start_tiering_job()
    pair.write(rng)
    until(are_tiered, what="Fluss's job behind ours that was killed")
    newest.servers.kill("job")
    with service(newest, lake, pair.tables) as job:
        until(lambda: all(one.state == "Tiered" for one in job.tables()), what="ours behind Fluss's job")
    pair.require_in(lake)


def lake_is_behind(fluss: Fluss, lake: ts.Lake, table: FlussTable) -> bool:
    """Whether the log has rows that the offsets of ours in the lake do not reach."""
    said = lake.table(str(table.path)).store.snapshots.latest().properties
    listed = json.loads(said.get(tiered.OWN_OFFSETS, "[]"))
    offsets = {one["bucket"]: one["offset"] for one in listed}
    ends = fluss.admin.offsets(table, fluss.admin.buckets(table))
    return any(at > offsets.get(bucket.bucket, 0) for bucket, at in ends.items())
