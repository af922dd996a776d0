"""Health: how the buckets of a table stand at one snapshot, and a verdict in one sentence.

Which compaction is due is the engine's own `Decision`. Reads manifests alone. Behind `inspect.health()`; and
who would read the table wrongly, by a rule base of readers (`inspect.readers()`).
"""

from __future__ import annotations

from tablestore.insight.health.measure import health
from tablestore.insight.health.reader_rules import readers
from tablestore.insight.health.verdict import BUCKETS, STATES, Health, verdict

__all__ = ["BUCKETS", "STATES", "Health", "health", "readers", "verdict"]
