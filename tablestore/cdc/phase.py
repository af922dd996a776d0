"""The two phases of a load: its full half, whose commits may write no changelog, and its increments."""

from __future__ import annotations

PHASE_OPTION = "tablestore.full-phase-changelog"  # of a table; false: the full half writes no changelog
PHASE = "tablestore.phase"  # a property of the snapshots of a load
FULL_PHASE, CHANGES_PHASE = "full", "increment"
