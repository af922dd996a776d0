"""Fluss's own tiering job of 0.9 with our coordinator: it tiers tables of ours into a Paimon of its own, in
turns with our service, and is handed no table whose lake is itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tablestore as ts
from notebooks.demo.fluss import FlussTieringJob
from tablestore.fluss.sign_in import Credentials
from tablestore.meta import positions
from tablestore.tiering.coordinator.coordinator import Coordinator
from tests.servers.test_fluss_tiering import until
from tests.suite import counterparts

pytestmark = pytest.mark.large
_JOB_SECONDS = 480
TIERED = {
    **{"log.system": "embedded", "bucket": 2, "tablestore.tiering.enabled": True},
    **{"tablestore.tiering.freshness": "5 s"},
}
COLUMNS = {"id": ts.BIGINT.not_null(), "text": ts.STRING}
OF_LOG = {"__bucket": ts.INT, "__offset": ts.BIGINT, "__timestamp": ts.TIMESTAMP_LTZ(3)}
"""The columns that tables of Fluss's plugin have beside their own."""


class Tables:
    """A log table, a keyed one, and a keyed one whose rows are in files of the lake itself; and a second
    lake with places for all three, as Fluss's plugin makes them."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.other = ts.connect(folder / "lake"), ts.connect(folder / "other")
        self.log = self.lake.create_table("shop.log", schema=COLUMNS, options={**TIERED, "bucket-key": "id"})
        self.keyed, self.own = (
            self.lake.create_table(f"shop.{name}", schema=COLUMNS, primary_key=["id"], options=TIERED)
            for name in ("keyed", "own")
        )
        self.own.write([{"id": 1, "text": "one"}])
        self.own.log.finish()
        for name, keys in (("log", None), ("keyed", ["id"]), ("own", ["id"])):
            options = {"bucket": 2, "bucket-key": "id"} if keys is None else {"bucket": 2}
            schema = {**COLUMNS, **OF_LOG}
            self.other.create_table(f"shop.{name}", schema=schema, primary_key=keys, options=options)
        self.appended, self.state = 0, dict[int, str]()

    def write(self, rng: np.random.Generator) -> None:
        """Some rows more in both that go elsewhere, and some less in the keyed one."""
        ids = range(self.appended, self.appended + 10)
        self.log.write([{"id": i, "text": f"row {i}"} for i in ids])
        self.appended += 10
        keys = np.unique(rng.integers(0, 50, 20)).tolist()
        rows = {key: f"row {rng.integers(1000)}" for key in keys}
        changes = [{"id": key, "text": text, "kind": "+I"} for key, text in rows.items()]
        changes += [{**row, "kind": "-D"} for row in changes[:3]]
        self.keyed.write(changes, row_kind_column="kind")  # `delete` would bring rows into files
        self.state.update(rows)
        for key in keys[:3]:
            self.state.pop(key)

    def are_there(self) -> bool:
        """Whether the other lake has each row of the log once, and of each key the newest."""
        log, keyed = (self.other.table(f"shop.{name}").scan().to_arrow() for name in ("log", "keyed"))
        there = sorted(log["id"].to_pylist()) == list(range(self.appended))
        return there and sorted(
            zip(*keyed.select(["id", "text"]).to_pydict().values(), strict=True)
        ) == sorted(self.state.items())

    def path(self, name: str) -> str:
        """What the newest snapshot of the other lake says of the offsets."""
        return self.other.table(f"shop.{name}").store.snapshots.latest().properties[positions.OFFSETS]


@contextmanager
def job(coordinator: Coordinator, tables: Tables) -> Iterator[FlussTieringJob]:
    password = Path(coordinator.token_file).read_text()
    user = Credentials("any", password)
    with FlussTieringJob(coordinator.server, Path(tables.other.warehouse), sign_in=user) as running:
        yield running


def test_fluss_s_job_tiers_our_tables_in_turns_with_our_service(tmp_path: Path, seeds: tuple[int, ...]):
    counterparts.need("Fluss 0.9")
    counterparts.need("Fluss's tiering job")
    tables, rng = Tables(tmp_path), np.random.default_rng(seeds[0])
    tables.write(rng)
    with tables.lake.coordinator() as coordinator:
        with job(coordinator, tables) as running:
            try:
                until(tables.are_there, _JOB_SECONDS, what="the first round of Fluss's job")
                tables.write(rng)
                until(tables.are_there, _JOB_SECONDS, what="its second round")
            except AssertionError as e:
                e.add_note(f"{coordinator.tables()}\n{running.output('job')[-5000:]}")
                raise
        states = {
            table_state.table.table_path: (table_state.rounds, table_state.failures)
            for table_state in coordinator.tables()
        }
        assert states["shop.own"] == (0, 0)
        assert states["shop.log"][1] == states["shop.keyed"][1] == 0
        place = f"{tables.lake.warehouse}/.tablestore/coordinator/lake/shop/"
        assert all(tables.path(name).startswith(f"{place}{name}-") for name in ("log", "keyed"))
    tables.write(rng)
    with tables.lake.coordinator() as coordinator:  # which knows what the first one did
        service = tables.other.tier(f"fluss://{coordinator.address}", tables="shop.log,shop.keyed")
        try:
            until(tables.are_there, what="a round of ours behind Fluss's job")
        finally:
            service.stop()
    assert [tables.other.table(f"shop.{name}").check() for name in ("log", "keyed")] == [[], []]
