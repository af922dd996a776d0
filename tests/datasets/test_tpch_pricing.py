"""Q1 against a slow twin, and its edges."""

from collections import defaultdict
from datetime import date
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa

from datasets import tpch
from datasets.tpch.pricing import SCHEMA


def slow_q1(rows: list[dict]) -> list[dict]:
    groups = defaultdict(list)
    for row in rows:
        day = row["l_shipdate"]
        if (day.year < 1998 or (day.year == 1998 and day.month <= 9)) and day <= date(1998, 9, 2):
            groups[row["l_returnflag"], row["l_linestatus"]].append(row)
    out = []
    for (flag, status), members in sorted(groups.items()):
        count = len(members)
        quantity = sum(m["l_quantity"] for m in members)
        price = sum(m["l_extendedprice"] for m in members)
        discount = sum(m["l_discount"] for m in members)
        out.append(
            {
                "l_returnflag": flag,
                "l_linestatus": status,
                "sum_qty": quantity,
                "sum_base_price": price,
                "sum_disc_price": sum(m["l_extendedprice"] * (1 - m["l_discount"]) for m in members),
                "sum_charge": sum(
                    m["l_extendedprice"] * (1 - m["l_discount"]) * (1 + m["l_tax"]) for m in members
                ),
                "avg_qty": (quantity / count).quantize(Decimal("0.000001"), ROUND_HALF_UP),
                "avg_price": (price / count).quantize(Decimal("0.000001"), ROUND_HALF_UP),
                "avg_disc": (discount / count).quantize(Decimal("0.000001"), ROUND_HALF_UP),
                "count_order": count,
            }
        )
    return out


def test_q1_equals_a_row_by_row_computation_in_decimals() -> None:
    path = tpch.base("0.01", parts=4, progress=False)["lineitem"][1]
    batches = list(tpch.read(path, batch_rows=3333))
    answer = tpch.q1(batches)
    assert answer.schema == SCHEMA
    assert answer.to_pylist() == slow_q1(pa.Table.from_batches(batches).to_pylist())
    assert tpch.q1(reversed(batches)).equals(answer)


def test_q1_of_nothing_has_no_groups() -> None:
    assert tpch.q1([]).equals(SCHEMA.empty_table())
    assert tpch.q1([pa.RecordBatch.from_pylist([], tpch.LINEITEM)]).equals(SCHEMA.empty_table())


def test_q1_stops_at_the_second_of_september_1998() -> None:
    rows = tpch.refresh("0.01", 1).lineitem.slice(0, 2)
    place = rows.schema.get_field_index("l_shipdate")
    days = pa.array([date(1998, 9, 2), date(1998, 9, 3)])
    assert tpch.q1([rows.set_column(place, rows.schema.field(place), days)])["count_order"].to_pylist() == [1]
