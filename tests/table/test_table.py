"""The public face: what a person types, and what comes back."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import NotFound, Unsupported
from tests.faults import SimEnv


@pytest.fixture
def orders(lake: ts.Lake) -> ts.Table:
    table = lake.create_table(
        "shop.orders",
        schema={"id": ts.BIGINT, "dt": ts.DATE, "status": ts.STRING, "amount": ts.DECIMAL(10, 2)},
        primary_key=["id", "dt"],
        partition_by=["dt"],
        options={"bucket": 2, "changelog-producer": "input"},
    )
    table.write(rows(range(6)))
    return table


def rows(ids: range, status: str = "open") -> pa.Table:
    days = [date(2026, 1, 1 + i % 2) for i in ids]
    return pa.table({"id": list(ids), "dt": days, "status": [status] * len(ids), "amount": list(ids)})


def ids(table: ts.Table, **scan: object) -> list[int]:
    return sorted(table.scan(["id"], **scan).to_arrow()["id"].to_pylist())


def test_databases_and_tables_come_and_go(lake: ts.Lake, orders: ts.Table) -> None:
    lake.create_database("empty")
    with pytest.raises(ts.AlreadyExists):
        lake.create_database("empty")
    assert (lake.databases(), lake.tables("shop"), lake.tables()) == (
        ["empty", "shop"],
        ["orders"],
        ["shop.orders"],
    )
    assert "shop.orders" in lake
    assert "shop.orders" in repr(lake)
    with pytest.raises(ts.InvalidRequest, match="holds 1 tables"):
        lake.drop_database("shop")
    lake.drop_table("shop.orders")
    lake.drop_table("shop.orders", if_exists=True)
    with pytest.raises(NotFound):
        lake.drop_table("shop.orders")
    lake.drop_database("shop")
    assert lake.tables() == []


def test_a_table_describes_itself(lake: ts.Lake, orders: ts.Table) -> None:
    assert orders.primary_key == ("id", "dt")
    assert orders.partition_by == ("dt",)
    assert orders.schema.field("amount").type == pa.decimal128(10, 2)
    assert repr(orders) == (
        "Table(shop.orders at snapshot 1: 4 columns, primary key (id, dt), partitioned by (dt))"
    )
    assert ts.open(orders.location).name == "shop.orders"
    assert lake.table("shop.orders$snapshots")["commit_kind"].to_pylist() == ["APPEND"]
    assert lake.table("`shop`.`orders`").options["bucket"] == "2"


@pytest.mark.parametrize(
    "data",
    [
        rows(range(7, 8)),
        rows(range(7, 8)).to_batches()[0],
        rows(range(7, 8)).to_reader(),
        rows(range(7, 8)).to_pandas(),
        rows(range(7, 8)).to_pylist(),
        iter(rows(range(7, 8)).to_batches()),
        pa.table(
            {
                "id": pa.array([7], pa.uint32()),
                "dt": [date(2026, 1, 2)],
                "status": pa.array(["open"], pa.large_string()),
            }
        ),
    ],
    ids=["table", "batch", "reader", "pandas", "dicts", "batches", "other types"],
)
def test_anything_arrow_like_goes_in(orders: ts.Table, data: object) -> None:
    committed = orders.write(data)
    assert (committed.snapshot, committed.rows, committed.replayed) == (2, 1, False)
    assert orders.get({"id": 7, "dt": date(2026, 1, 2)})["status"] == "open"


def test_an_empty_write_commits_nothing(orders: ts.Table) -> None:
    assert orders.write(rows(range(0))).snapshots == ()


def test_rows_are_found_by_key(orders: ts.Table) -> None:
    assert orders.get({"id": 3, "dt": date(2026, 1, 2)}, columns=["amount"]) == {"amount": Decimal("3.00")}
    assert orders.get({"id": 3, "dt": date(2026, 1, 1)}) is None
    keys = pa.table({"id": [1, 2, 99], "dt": [date(2026, 1, 2), date(2026, 1, 1), date(2026, 1, 1)]})
    assert sorted(orders.get_many(keys, columns=["id"])["id"].to_pylist()) == [1, 2]
    with pytest.raises(ts.InvalidRequest, match="id, dt"):
        orders.get({"id": 3})
    with pytest.raises(ts.SchemaMismatch, match="lack dt"):
        orders.get_many(pa.table({"id": [1]}))


def test_keys_are_found_and_deleted_as_frames_have_them(orders: ts.Table) -> None:
    frame = pd.DataFrame({"id": [1.0, 3.0, 5.0], "dt": pd.to_datetime(["2026-01-02"] * 3), "n": [0, 1, 1]})
    assert sorted(orders.get_many(frame[frame.n > 0])["id"].to_pylist()) == [3, 5]
    for keys in ({"id": [1.5], "dt": [date(2026, 1, 2)]}, {"id": [float("nan")], "dt": [date(2026, 1, 2)]}):
        with pytest.raises(ts.SchemaMismatch, match=r"the keys do not fit: column .id. .*row 0"):
            orders.get_many(keys)
    orders.delete(frame[frame.n > 0])
    assert ids(orders) == [0, 1, 2, 4]


def test_updates_write_what_a_changelog_consumer_needs(orders: ts.Table) -> None:
    orders.update({"status": "paid"}, where=col("amount") >= 4)
    changes = orders.changes(since=1).sort_by([("id", "ascending")]).to_pylist()
    assert [(c["rowkind"], c["id"], c["status"]) for c in changes] == [
        ("-U", 4, "open"),
        ("+U", 4, "paid"),
        ("-U", 5, "open"),
        ("+U", 5, "paid"),
    ]
    assert ids(orders, where=col("status") == "paid") == [4, 5]
    with pytest.raises(ts.InvalidRequest, match="primary key"):
        orders.update({"id": 1}, where=col("id") == 2)
    with pytest.raises(NotFound, match="status"):
        orders.update({"statsu": 1}, where=col("id") == 2)
    assert orders.check() == []


@pytest.mark.parametrize(
    ("value", "stored", "said"),
    [
        (2.0, 2, None),
        (float("nan"), None, None),
        (pa.scalar(7, pa.int8()), 7, None),
        (2.5, None, "row 0 of the batch holds 2.5"),
        (2.0**70, None, "up to"),
        ("2", None, "'n' is string and the table has INT"),
        (True, None, "'n' is bool"),
        (col("n"), None, "column 'n'"),
    ],
)
def test_updates_take_what_a_write_would(
    lake: ts.Lake, value: object, stored: object, said: str | None
) -> None:
    for keys in (["k"], []):
        options = {} if keys else {"deletion-vectors.enabled": True}
        table = lake.create_table(
            f"d.t{len(keys)}", schema={"k": ts.INT, "n": ts.INT}, primary_key=keys, options=options
        )
        table.write([{"k": 1, "n": 1}])
        if said is None:
            table.update({"n": value}, where="k = 1")
            assert table.scan().to_arrow().to_pylist() == [{"k": 1, "n": stored}]
        else:
            with pytest.raises(ts.SchemaMismatch, match=said):
                table.update({"n": value}, where="k = 1")
            assert table.store.snapshots.latest_id() == 1


def test_names_are_near_whatever_their_case_and_lists_select(orders: ts.Table) -> None:
    with pytest.raises(NotFound, match="did you mean amount"):
        orders.scan(where="AMOUNT > 1")
    with pytest.raises(ts.SchemaMismatch, match="did you mean 'amount'"):
        orders.write([{"id": 1, "dt": date(2026, 1, 1), "AMOUNT": 1}])
    with pytest.raises(ts.InvalidRequest, match="text goes in 'single' ones"):
        orders.scan(where='status = "open"')
    with pytest.raises(ts.SchemaMismatch, match=r"pass table\.scan\(\)"):
        orders.write(orders)
    assert orders.scan().select(["id", "dt"]).names == orders.scan().select("id", "dt").names == ("id", "dt")
    for call in (lambda: orders.scan().select("id", ["dt"]), lambda: orders.scan([1])):
        with pytest.raises(ts.InvalidRequest, match="is none"):
            call()
    assert orders.system("snapshots").scan().select(["snapshot_id"]).schema.names == ["snapshot_id"]


def test_rows_go_by_predicate_and_by_keys(orders: ts.Table) -> None:
    orders.delete(col("id") < 2)
    orders.delete(pd.DataFrame({"id": [2, 77], "dt": [date(2026, 1, 1), date(2026, 1, 1)]}))
    assert ids(orders) == [3, 4, 5]
    deleted = orders.changes(since=1)
    assert set(deleted["rowkind"].to_pylist()) == {"-D"}
    assert sorted(deleted["amount"].to_pylist()) == [Decimal(0), Decimal(1), Decimal(2)]
    assert orders.delete(col("id") > 1000).snapshots == ()


def test_overwrite_replaces_the_partitions_the_data_touch(orders: ts.Table) -> None:
    orders.overwrite(rows(range(10, 11)))
    assert ids(orders) == [1, 3, 5, 10]
    orders.overwrite(rows(range(11, 12)), partition={"dt": "2026-01-02"})
    assert ids(orders) == [10, 11]
    with pytest.raises(ts.SchemaMismatch, match="2026-01-01"):
        orders.overwrite(rows(range(12, 13)), partition={"dt": "2026-01-02"})
    orders.truncate(partition={"dt": date(2026, 1, 1)})
    assert ids(orders) == [11]
    orders.truncate()
    assert ids(orders) == []
    kinds = [s["commit_kind"] for s in orders.inspect.snapshots().to_pylist()]
    assert kinds == ["APPEND", *["OVERWRITE"] * 4]
    assert orders.check() == []
    files = [p for p in Path(orders.location).rglob("data-*") if p.is_file()]
    live = {
        f["file_name"] for s in orders.store.snapshots.ids() for f in orders.inspect.levels(s).to_pylist()
    }
    assert {p.name for p in files} == live, "the refused overwrite left nothing"


def test_a_writer_commits_many_batches_at_once(orders: ts.Table) -> None:
    with orders.writer(user="loader", identifier=3, position="p3") as w:
        for i in range(10, 13):
            w.write(rows(range(i, i + 1)))
    assert len(w.committed.snapshots) == 1
    assert orders.position("loader") == (3, "p3")
    with pytest.raises(ts.InvalidRequest, match="has committed"):
        w.write(rows(range(1)))
    with pytest.raises(ts.InvalidRequest, match="user="):
        orders.write(rows(range(1)), identifier=4)


def test_engine_writers_hand_out_bytes_that_commit_once(orders: ts.Table) -> None:
    base = orders.max_sequence() + 1
    messages = []
    for task in range(2):
        w = pickle.loads(pickle.dumps(orders.store)) and ts.open(orders.location).open_writer(
            sequence_base=base + task * 2**32, changelog=False
        )
        w.write(rows(range(3), status=f"task {task}"))
        messages += w.prepare()
    first = orders.commit(messages, user="job", identifier=1)
    again = orders.commit(messages, user="job", identifier=1)
    assert (len(first.snapshots), again.replayed) == (1, True)
    actual = orders.scan(where=col("id") < 3).to_arrow()
    assert set(actual["status"].to_pylist()) == {"task 1"}, "a later task wins for the same key"
    assert orders.store.snapshots.latest().changelog_manifest_list is None
    assert orders.check() == []


def test_scans_are_lazy_and_composable(orders: ts.Table) -> None:
    scan = orders.scan(columns=["id", "status"]).filter(col("id") > 1).filter(col("id") < 5)
    assert scan.schema.names == ["id", "status"]
    assert scan.count() == 3
    assert scan.head(2).to_arrow().num_rows == 2
    assert scan.select("id").to_reader().read_all().column_names == ["id"]
    assert pa.table(scan).num_rows == 3
    assert sorted(scan.to_pandas()["id"]) == [2, 3, 4]
    assert "skipped" in repr(orders.scan(where=col("dt") == "2026-01-01").explain())
    with pytest.raises(NotFound, match=r"column 'idd'.*id"):
        orders.scan(columns=["idd"]).to_arrow()


def test_the_past_can_be_read_by_id_and_time(orders: ts.Table) -> None:
    then = orders.store.snapshots.get(1).time_millis
    ts.open(orders.location, env=SimEnv(now_ms=then + 1000)).delete(col("id") == 0)
    assert ids(orders.at(snapshot=1)) == [0, 1, 2, 3, 4, 5]
    assert ids(orders.at(timestamp=then)) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(NotFound):
        orders.at(timestamp=then - 1)


def test_a_consumer_keeps_its_snapshots_from_expiring(orders: ts.Table) -> None:
    for i in range(10, 14):
        orders.write(rows(range(i, i + 1)))
    seen = [c.snapshot for c in orders.stream(start=2, until=3, consumer="dashboard")]
    assert seen == [2, 3]
    preview = orders.expire_snapshots(keep=1, dry_run=True)
    assert any("dashboard" in p for p in preview.protected_by)
    orders.expire_snapshots(keep=1)
    assert 4 in orders.store.snapshots.ids()
    assert orders.check() == []


def test_options_for_one_use_are_not_stored(orders: ts.Table) -> None:
    orders.with_options({"write-only": True}).write(rows(range(3)))
    assert "write-only" not in orders.refresh().options


@pytest.mark.parametrize("name", ["rename"])
def test_what_is_not_there_yet_says_so_by_name(orders: ts.Table, name: str) -> None:
    with pytest.raises(Unsupported, match=f"Table.{name}"):
        getattr(orders, name)


def test_unsupported_doors_say_so() -> None:
    with pytest.raises(Unsupported, match="hdfs://"):
        ts.connect("hdfs://host/lake")
