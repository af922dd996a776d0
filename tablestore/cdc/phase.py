"""What snapshots of a load say of it: properties of its commits.

A load has two phases: its full half, whose commits may write no changelog, and its increments.
"""

from __future__ import annotations

PHASE_OPTION = "tablestore.full-phase-changelog"  # of a table; false: the full half writes no changelog
PHASE = "tablestore.phase"
FULL_PHASE, CHANGES_PHASE = "full", "increment"
ROWS, STARTED = "tablestore.rows", "tablestore.started"
SOURCE_TIME = "tablestore.source-time"  # milliseconds after 1970: the newest commit in the source it holds
STATEMENT = "tablestore.statement"  # the statements of the source that it followed
