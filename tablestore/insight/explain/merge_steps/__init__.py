"""Merges of a few keys step by step: what the merge function did with each row, and why."""

from tablestore.insight.explain.merge_steps.steps import (
    DROPPED,
    REFUSED,
    Merging,
    RunRows,
    StepPlace,
    event_steps,
    merged_steps,
)

__all__ = ["DROPPED", "REFUSED", "Merging", "RunRows", "StepPlace", "event_steps", "merged_steps"]
