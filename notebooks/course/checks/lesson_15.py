"""What notebook 15 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import tablestore as ts


def names_that_are_unknown(looking: Any, unknown: Any) -> None:
    """A nation that is renamed later is not known before."""
    names = set(
        looking.sql("SELECT DISTINCT n_name FROM ads_nation_purchase_power").to_arrow()["n_name"].to_pylist()
    )
    assert "PERU" not in names
    assert "unknown" in names
    assert unknown.answer.own == ("FRANCE: FRANCE", "PERU: unknown")


def old_rows_stay(later: Any, stay: Any, since: Any) -> None:
    """What was joined stays, and later orders have the new name."""
    assert later.answer.own == stay
    assert since > 0


def sums_follow(same_sums: Any, lake: ts.Lake) -> None:
    """Every sum follows, and a left join loses no row."""
    assert same_sums(), "every sum follows what was added and taken back"
    enriched, orders = (lake.table(f"default.{name}").scan().count() for name in ("dwd_orders", "ods_orders"))
    assert enriched == orders, "a left join loses no row"
