"""What notebook 12 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import tablestore as ts


def what_it_costs_today(today: dict[str, Any]) -> None:
    """Each byte is written once at least, and an estimate says why."""
    assert today["write_amplification"] >= 1, "each byte is written once at least"
    assert today["why"], "what is estimated says why"


def one_replay(view: Any, what_if: Any) -> None:
    """The picture shows the replay that the lesson counts."""
    assert view.comparison.changed.rows == what_if.changed.rows, "the picture shows the same replay"


def the_same_verdict(other: Any, instead: Any) -> None:
    """The view and the comparison say the same."""
    assert other.model.verdict == instead.verdict("B")


def the_tables_own_files(what_if: Any) -> None:
    """The replay under the own options ends with the table's own files."""
    assert what_if.reproduced, "the replay under the own options ends with the table's own files"
    assert abs(what_if.actual.write_amplification - what_if.real_write_amplification) < 0.01


def as_forecast(forecast: Any, real: Any, twin: ts.Table, table: ts.Table) -> None:
    """The twin compacted as often as forecast, and its bytes are within 5 percent."""
    assert forecast.total("compactions") == real["compactions"], "the same compactions as forecast"
    assert abs(forecast.write_amplification / real["write_amplification"] - 1) < 0.05, "within 5 %"
    assert twin.scan().count() == table.scan().count(), "and the same rows, whatever the options"


def asked_again(table: ts.Table, what_if: Any, TRIGGER: str, later: int) -> None:
    """Asked again, the answer is the same, and the table is as it was."""
    assert table.what_if({TRIGGER: later}).changed.rows == what_if.changed.rows, (
        "asked again, the same answer"
    )
    assert table.check() == [], "the table is as it was"
