"""Orders ⟕ customer ⟕ nation as changes, summed per year and nation: a chain of tables that keeps up."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablestore as ts
from datasets import tpch
from tablestore import col
from tablestore.table.table import Table

WANTED = {
    "orders": ["o_orderkey", "o_custkey", "o_totalprice", "o_orderdate"],
    "customer": ["c_custkey", "c_name", "c_nationkey"],
    "nation": ["n_nationkey", "n_name"],
}
UNKNOWN = "UNKNOWN"


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    paths = tpch.base("0.01", tuple(WANTED), progress=False)
    return {
        name: pa.Table.from_batches(b for path in paths[name] for b in tpch.read(path, columns))
        for name, columns in WANTED.items()
    }


class Chain:
    """orders → wide (each order with its customer's name and nation) → sums."""

    def __init__(self, lake: ts.Lake, tables: dict[str, pa.Table]) -> None:
        def made(name: str, schema: pa.Schema | dict, key: list[str], **options: object) -> Table:
            return lake.create_table(f"tpch.{name}", schema=schema, primary_key=key, options=options)

        self.orders, self.customer, self.nation = (
            made(n, tables[n].schema, [c[0]], bucket=2) for n, c in WANTED.items()
        )
        with_lookup = {
            "changelog-producer": "lookup",
            "changelog-producer.row-deduplicate": True,
            "bucket": 2,
        }
        wide = {"o_orderkey": ts.BIGINT, "o_year": ts.INT, "o_totalprice": "DECIMAL(15,2)"}
        self.wide = made(
            "wide", wide | {"c_name": ts.STRING, "n_name": ts.STRING}, ["o_orderkey"], **with_lookup
        )
        sums = {
            "o_year": ts.INT,
            "n_name": ts.STRING,
            "o_sum_totalprice": "DECIMAL(38,2)",
            "o_orders": ts.BIGINT,
        }
        summed = {f"fields.{n}.aggregate-function": "sum" for n in ("o_sum_totalprice", "o_orders")}
        self.sums = made(
            "sums", sums, ["o_year", "n_name"], **{"merge-engine": "aggregation", "bucket": 1}, **summed
        )
        self.customers = self.customer.lookup(
            {"c_custkey": "o_custkey"},
            columns=["c_name", "c_nationkey"],
            fill={"c_name": UNKNOWN},
            follow=False,
        )
        self.nations = self.nation.lookup(
            {"n_nationkey": "c_nationkey"}, columns=["n_name"], fill={"n_name": UNKNOWN}, follow=False
        )

    def go_on(self) -> None:
        """Everything that is new in the orders, through to the sums."""
        self.customers.refresh()
        self.nations.refresh()
        consumer = {"consumer": "chain"}
        for step in self.orders.stream(follow=False, **consumer):
            rows = self.nations.join(self.customers.join(step.to_arrow()))
            rows = rows.append_column("o_year", pc.year(rows["o_orderdate"]).cast(pa.int32()))
            self.wide.write(rows.select(["rowkind", *self.wide.schema.names]), row_kind_column="rowkind")
            step.done()
        for step in self.wide.stream(start="earliest", follow=False, **consumer):
            rows = step.to_arrow().append_column(
                "o_orders", pa.repeat(pa.scalar(1), step.to_arrow().num_rows)
            )
            rows = rows.rename_columns({"o_totalprice": "o_sum_totalprice"})
            self.sums.write(rows.select(["rowkind", *self.sums.schema.names]), row_kind_column="rowkind")
            step.done()

    def found(self) -> pd.DataFrame:
        rows = self.sums.scan(where=col("o_orders") > 0).to_pandas()
        return rows.sort_values(["o_year", "n_name"]).reset_index(drop=True)


def by_hand(orders: pd.DataFrame) -> pd.DataFrame:
    grouped = orders.groupby(["o_year", "n_name"], as_index=False)
    sums = grouped.agg(o_sum_totalprice=("o_totalprice", "sum"), o_orders=("o_orderkey", "count"))
    return sums.sort_values(["o_year", "n_name"]).reset_index(drop=True)


def joined(tables: dict[str, pa.Table]) -> pd.DataFrame:
    orders, customer, nation = (tables[n].to_pandas() for n in WANTED)
    wide = orders.merge(customer, how="left", left_on="o_custkey", right_on="c_custkey")
    wide = wide.merge(nation, how="left", left_on="c_nationkey", right_on="n_nationkey")
    wide["n_name"] = wide["n_name"].fillna(UNKNOWN)
    wide["o_year"] = pd.to_datetime(wide["o_orderdate"]).dt.year.astype("int32")
    return wide


def test_the_chain_sums_each_order_with_the_nation_its_customer_had_when_it_came(
    tmp_path: Path, tables: dict[str, pa.Table]
) -> None:
    chain = Chain(ts.connect(str(tmp_path)), tables)
    late = pc.greater(tables["customer"]["c_custkey"], 1400)  # these customers come after their orders
    chain.nation.write(tables["nation"])
    chain.customer.write(tables["customer"].filter(pc.invert(late)))
    chain.orders.write(tables["orders"])
    chain.go_on()
    tables_then = {**tables, "customer": tables["customer"].filter(pc.invert(late))}
    truth = joined(tables_then)
    assert UNKNOWN in set(truth["n_name"])
    pd.testing.assert_frame_equal(chain.found(), by_hand(truth), check_dtype=False)

    # all customers are there, and some have moved: of the old orders none changes, of rewritten ones each
    moved = tables["customer"].to_pandas()
    moved["c_nationkey"] = (moved["c_nationkey"] + moved["c_custkey"] % 2) % 25
    chain.customer.write(moved)
    again = tables["orders"].filter(pc.equal(pc.bit_wise_and(tables["orders"]["o_orderkey"], 7), 1))
    chain.orders.write(
        again.set_column(2, "o_totalprice", pc.add(again["o_totalprice"], again["o_totalprice"]))
    )
    chain.orders.delete(col("o_orderkey") < 100)
    chain.go_on()
    later = joined({**tables, "orders": again, "customer": pa.Table.from_pandas(moved, preserve_index=False)})
    later["o_totalprice"] *= 2
    truth = pd.concat([truth[~truth["o_orderkey"].isin(later["o_orderkey"])], later])
    truth = truth[truth["o_orderkey"] >= 100]
    pd.testing.assert_frame_equal(chain.found(), by_hand(truth), check_dtype=False)
    for table in (chain.orders, chain.wide, chain.sums):
        assert table.check() == []
