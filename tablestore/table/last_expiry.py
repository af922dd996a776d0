"""What the last expiry after a commit of a handle saw: until when no snapshot can expire.

The oldest snapshot of a table never comes back to a lower id while the newest grows, so the two rules that
keep it, the number of snapshots and its age, need no file. Consumers and stream positions only keep more.
Where another handle rolled the table back meanwhile, an expiry comes later than it could. Safe to share
between threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.meta.expiry_rules import AGE, ExpirePolicy
from tablestore.write.retention.expiry_result import Expiry


@dataclass(slots=True)
class LastExpiry:
    """`kept` is (id of the oldest snapshot, epoch milliseconds until when its age keeps it), None before the
    first expiry."""

    kept: tuple[int, int] | None = None

    def nothing_due(self, policy: ExpirePolicy, newest: int, now_ms: int) -> bool:
        """Whether the policy cannot let any snapshot go, `newest` being the id of the newest."""
        if self.kept is None or newest < self.kept[0]:
            return False
        count = newest - self.kept[0] + 1
        return count <= policy.keep_min or (count <= policy.keep_max and now_ms < self.kept[1])

    def note(self, done: Expiry) -> None:
        """Remember what an expiry saw."""
        if done.remaining is None:
            self.kept = None
            return
        oldest = done.remaining[0]
        ends = (b.until_ms or 0 for b in done.bounds if b.rule == AGE and b.first == oldest)
        self.kept = oldest, max(ends, default=0)
