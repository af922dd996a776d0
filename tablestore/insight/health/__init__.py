"""Health: how the buckets of a table stand at one snapshot, and a verdict in one sentence.

Which compaction is due is the engine's own `Decision`. Reads manifests alone. Behind `inspect.health()`; and
who would read the table wrongly, by a rule base of readers (`inspect.readers()`). `alarms` are findings over
the table's history (`inspect.alarms()`).
"""

from __future__ import annotations

from tablestore.insight.health.alarms import Alarm, AlarmHistory, AlarmLimits, alarm_history
from tablestore.insight.health.measure import BUCKETS, STATES, Health, Healths, health, verdict
from tablestore.insight.health.reader_rules import readers

__all__ = [
    "BUCKETS",
    "STATES",
    "Alarm",
    "AlarmHistory",
    "AlarmLimits",
    "Health",
    "Healths",
    "alarm_history",
    "health",
    "readers",
    "verdict",
]
