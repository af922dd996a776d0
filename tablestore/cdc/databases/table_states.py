"""How far a table of a captured database is."""

from __future__ import annotations

READING, SETTLING, FOLLOWED, UNUSABLE, HELD, GONE = (
    "snapshot",  # rows up to `key` are read
    "settling",  # all rows are read, some maybe ahead of the position
    "log",
    "skipped",  # it is not captured; one with a digest was before
    "paused",  # it was captured, and is not until it is asked for
    "dropped",  # its rows stay in the lake
)
