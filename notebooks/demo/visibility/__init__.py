"""The visibility lab: four ways to write a table, and when its readers see the rows."""

from notebooks.demo.visibility.lab import VisibilityLab, run
from notebooks.demo.visibility.outcome import Load, VisibilityOutcome

__all__ = ["Load", "VisibilityLab", "VisibilityOutcome", "run"]
