"""Tiering of a table with a log: whether a service brings its rows into files, and how late it may be.

One field each, as in `log_store`. Part of `options.TableOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.core.options.values import boolean, duration_ms, opt


@dataclass(frozen=True)
class TieringOptions:
    """Who brings the rows of a log into files: its writers, or rounds of tiering, and how often."""

    tiering_enabled: bool = opt(
        "tablestore.tiering.enabled",
        boolean,
        False,
        "writers append to the log alone, and rounds of tiering bring its rows into files",
    )
    tiering_freshness_ms: int = opt(
        "tablestore.tiering.freshness",
        duration_ms,
        180_000,
        "how long after its last round a table is due for the next",
    )
