"""The whole engine on S3: every verb of a table, from threads and from other processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.capture.report import CaptureJournal
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.sink import CaptureSink, SinkSettings
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, NotFound, Unavailable
from tablestore.table.place import TablePlace
from tests.cdc.capture.fakes import FakeBatch, FakeSource, FakeStep, captured, piece, rows
from tests.servers.s3 import KEY, SECRET, S3Server

pytestmark = pytest.mark.sample(1)  # by default each test on one of the servers

FEBRUARY = date(2026, 2, 2)
COLUMNS = {"day": "DATE NOT NULL", "k": ts.INT, "v": ts.STRING, "price": ts.DECIMAL(20, 2)}


@pytest.fixture
def options(s3: S3Server) -> dict[str, Any]:
    return {"warehouse": f"{s3.bucket()}/some/lake", **s3.options}


def rows_of(table: ts.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in table.scan(columns=["k", "v"]).to_arrow().to_pylist())


def batch(*keys: int, v: str = "x", day: date = date(2026, 1, 1)) -> list[dict[str, Any]]:
    return [{"day": day, "k": k, "v": v, "price": None} for k in keys]


@pytest.mark.sample(1)
def test_every_verb_of_a_table_works_there(options: dict[str, Any]) -> None:
    lake = ts.connect(**options)
    table = lake.create_table(
        "shop.orders",
        schema=COLUMNS,
        primary_key=["day", "k"],
        partition_by=["day"],
        options={"bucket": 2, "changelog-producer": "input", "num-sorted-run.compaction-trigger": 3},
    )
    assert table.location == f"{options['warehouse']}/shop.db/orders"
    for i in range(6):
        table.write(batch(*range(i, i + 20), v=f"v{i}"))
    table.write(batch(500, day=FEBRUARY))
    table.delete(ts.col("k") < 3)
    table.update({"v": "new"}, where=ts.col("k") == 24)
    table.compact(full=True)
    assert rows_of(table)[:2] == [(3, "v3"), (4, "v4")]
    assert rows_of(table)[-2:] == [(24, "new"), (500, "x")]
    assert table.get({"day": FEBRUARY, "k": 500}, columns=["v"]) == {"v": "x"}
    assert len(list(table.stream(start=1, follow=False))) >= 9
    table.overwrite(batch(7, day=FEBRUARY))
    assert table.expire_snapshots(keep=2).snapshots
    assert table.check() == []
    assert [k for k, _ in rows_of(ts.connect(**options).table("shop.orders"))] == sorted([*range(3, 25), 7])
    table.truncate()
    assert rows_of(lake.table("shop.orders")) == []
    lake.drop_database("shop", cascade=True)
    assert lake.databases() == []


class HourLater(Env):
    """The clock of this machine, with durations that are an hour longer once `waited` is set."""

    waited = False

    def monotonic(self) -> float:
        return super().monotonic() + 3600 * self.waited


def test_a_writer_that_is_open_for_long_leaves_a_sign(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    created = ts.connect(**options).create_table("shop.orders", schema=COLUMNS, primary_key=["k"])
    reached = {k: v for k, v in options.items() if k != "warehouse"}
    table = ts.connect(options["warehouse"], **reached, env=HourLater()).table("shop.orders")
    with table.writer() as w:
        monkeypatch.setattr(HourLater, "waited", True)
        w.write(batch(1))
        (writer,) = created.remove_orphans("1 min", dry_run=False).writers
        assert (writer.process, str(writer)) == (os.getpid(), f"process {os.getpid()} on {SYSTEM.host()}")
    assert created.remove_orphans("1 min").writers == ()
    assert rows_of(created.refresh()) == [(1, "x")]


def test_a_table_opens_by_its_path(options: dict[str, Any]) -> None:
    lake = ts.connect(**options)
    lake.create_table("shop.orders", schema=COLUMNS, primary_key=["k"]).write(batch(1))
    reached = {k: v for k, v in options.items() if k != "warehouse"}
    table = ts.open(f"{options['warehouse']}/shop.db/orders", options=reached)
    table.write(batch(2))
    assert [k for k, _ in rows_of(table)] == [1, 2]
    with pytest.raises(NotFound, match="it is a lake"):
        ts.open(options["warehouse"], options=reached)
    lake.rename_table("shop.orders", "shop.sold")
    assert [k for k, _ in rows_of(lake.table("shop.sold"))] == [1, 2]
    assert lake.table("shop.sold").check() == []
    lake.create_database("empty")
    assert ts.connect(**options).databases() == ["empty", "shop"]


IN_A_WORKER = """
import pickle, sys
import tablestore as ts
table = ts.Table(pickle.load(open(sys.argv[1], "rb")), "shop.orders")
table.write([{**row, "k": row["k"] + 10} for row in table.scan().to_arrow().to_pylist()])
"""


def test_a_store_travels_to_workers_with_its_keys_hidden(options: dict[str, Any], tmp_path: Path) -> None:
    table = ts.connect(**options).create_table("shop.orders", schema=COLUMNS, primary_key=["k"])
    table.write(batch(1, 2))
    packed = tmp_path / "store.pickle"
    packed.write_bytes(pickle.dumps(table.store))
    assert SECRET.encode() not in packed.read_bytes()
    assert SECRET not in repr(table.store)
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", IN_A_WORKER, packed], cwd=root, check=True, timeout=300)
    assert [k for k, _ in rows_of(table)] == [1, 2, 11, 12]


def test_tasks_of_a_capture_reach_the_store_by_the_keys_of_its_lake(
    options: dict[str, Any], tmp_path: Path
) -> None:
    lake, source, journal = ts.connect(**options), FakeSource(), CaptureJournal(str(tmp_path / "checkpoint"))
    values = [("+I", n, n) for n in range(9)]
    source.steps = [FakeStep([captured("item")], [piece(rows("item", values))])]
    source.steps += [FakeStep((), [piece(rows("item", [("+U", 1, n)], seconds=n))]) for n in range(20, 24)]
    rules = CaptureRules.of("shop.*", into="ods", options={"num-sorted-run.compaction-trigger": 2})
    sink = CaptureSink(lake, source, rules, SinkSettings("job", compact_every=2), journal)
    for n in range(5):
        start, end = ({"v": 1, "at": at} for at in (n, n + 1))
        sink.write(FakeBatch(source, n, start, end), n)
    table = lake.table("ods.item")
    assert table.get({"id": 1}) == {"id": 1, "v": 23}
    assert "COMPACT" in table.inspect.snapshots().column("commit_kind").to_pylist()
    place = TablePlace.of(table)
    assert SECRET.encode() not in pickle.dumps(place)
    assert "s3." not in repr(place)
    assert pickle.loads(pickle.dumps(place)).opened().scan().count() == 9


def test_keys_may_come_from_the_environment(options: dict[str, Any], s3: S3Server) -> None:
    table = ts.connect(**options).create_table("shop.orders", schema=COLUMNS, primary_key=["k"])
    program = "import sys, tablestore as ts; ts.open(sys.argv[1]).write([{'day': None, 'k': 5}])"
    program = program.replace("None", "__import__('datetime').date(2026, 1, 1)")
    variables = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    variables["AWS_ENDPOINT"] = s3.endpoint
    subprocess.run(
        [sys.executable, "-c", program, table.location],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, **variables},
        check=True,
        timeout=300,
    )
    assert rows_of(table) == [(5, None)]


def test_wrong_keys_and_absent_buckets_are_said(versitygw: S3Server) -> None:
    wrong = {**versitygw.options, "s3.secret-key": "not the secret"}
    with pytest.raises(Unavailable, match=r"access refused; check s3\.access-key, s3\.secret-key") as raised:
        ts.connect(versitygw.bucket(), **wrong).tables()
    assert "not the secret" not in str(raised.value)
    with pytest.raises((Unavailable, NotFound), match="no-such-bucket"):
        ts.connect("s3://no-such-bucket/lake", **versitygw.options).create_database("shop")


def test_a_file_in_a_bucket_is_no_lake(options: dict[str, Any]) -> None:
    lake = ts.connect(**options)
    lake.create_table("shop.orders", schema=COLUMNS, primary_key=["k"])
    with pytest.raises(InvalidRequest, match="bucket"):
        ts.connect("s3://")


def test_bytes_are_attributed_and_expiry_is_previewed_there(options: dict[str, Any]) -> None:
    table = ts.connect(**options).create_table(
        "shop.orders", schema=COLUMNS, primary_key=["day", "k"], options={"bucket": 1, "write-only": True}
    )
    for i in range(4):
        table.write(batch(i))
    table.compact(full=True)
    storage = table.inspect.storage()
    assert {r["state"] for r in storage.files.to_pylist()} == {"live", "kept"}
    assert storage.bytes == sum(
        table.store.io.size(f"{table.location}/{p}") for p in storage.files["path"].to_pylist()
    )
    asked, done = table.expire_snapshots(keep=1, dry_run=True), table.expire_snapshots(keep=1)
    assert (set(asked.files), asked.bytes) == (set(done.files), done.bytes)
    left = table.inspect.storage()
    gone = {
        f"{table.location}/{p}"
        for p in {*storage.files["path"].to_pylist()} - {*left.files["path"].to_pylist()}
    }
    assert gone == set(asked.files)
    assert {r["state"] for r in left.files.to_pylist()} == {"live"}
