"""What notebook 08 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import tablestore as ts


def all_rows_or_none(first_seen: Any, publish: Any, crashes: Any) -> None:
    """At every step the table is sound, and has all 20 rows or none."""
    assert first_seen == publish + 1
    assert all(crash.safe for crash in crashes), "sound, done again exactly once, cleaned up: at every step"
    assert [crash.visible for crash in crashes] == [False] * (publish + 1) + [True] * (
        len(crashes) - publish - 1
    )
    assert {crash.rows for crash in crashes} == {200, 220}, "all 20 rows or none"


def four_orphans(worst: Any, publish: Any) -> None:
    """The most that a kill leaves are four files."""
    assert worst.at == publish
    assert worst.orphans == 4, "a data file, a manifest, two manifest lists"


def killed_compactions(compaction: Any) -> None:
    """Compaction changes no row, killed or not."""
    assert all(crash.safe for crash in compaction.run())
    assert {crash.rows for crash in compaction.run()} == {200}, "compaction changes no row, killed or not"


def snapshots_go_first(removed: Any, expiry: Any) -> None:
    """Expiry deletes snapshots before the data files that they name."""
    firsts = [name.partition("-")[0] for name in removed]
    assert firsts.index("data") > max(place for place, name in enumerate(firsts) if name == "snapshot")
    assert all(crash.safe for crash in expiry.run())


def every_crash(total: Any, safe: Any, table: ts.Table) -> None:
    """Every crash of the three labs was survived, and the table is sound."""
    assert total == safe
    assert table.check() == []
