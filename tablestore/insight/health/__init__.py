"""Health: how the buckets of a table stand at one snapshot, and a verdict in one sentence.

Which compaction is due is the engine's own `Decision`. Reads manifests alone. Behind `inspect.health()`; and
who would read the table wrongly, by a rule base of readers (`inspect.readers()`).
"""

from __future__ import annotations

from tablestore.insight.health.measure import BUCKETS, STATES, Health, health, verdict
from tablestore.insight.health.reader_rules import readers

__all__ = ["BUCKETS", "STATES", "Health", "health", "readers", "verdict"]
