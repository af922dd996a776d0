"""Handle: a table as it was opened; the functions behind the verbs of `Table` take one. Immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tablestore.core.errors import CommitConflict, InvalidRequest
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.log.log import Log
from tablestore.meta.expiry_rules import AGE, ExpirePolicy
from tablestore.meta.store import Store
from tablestore.read.scan import fallback, time_travel
from tablestore.read.scan.fallback import OtherBranch
from tablestore.read.table_log import log_of
from tablestore.table.lookup import Lookups
from tablestore.table.scan import Scan, snapshot_scan
from tablestore.write.retention.expiry_result import Expiry


@dataclass(slots=True)
class LastExpiry:
    """What the last expiry after a commit of a handle saw: until when no snapshot can expire. `kept` is (id
    of the oldest snapshot, epoch milliseconds until when its age keeps it), None before the first expiry.

    The oldest snapshot never comes back to a lower id while the newest grows, so the two rules that keep it,
    the number of snapshots and its age, need no file. Consumers and stream positions only keep more. Where
    another handle rolled the table back meanwhile, an expiry comes later than it could. Safe to share between
    threads.
    """

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


@dataclass(frozen=True)
class Handle:
    """The store under the schema it was opened with; `at` is the snapshot that was chosen, None: the
    newest, `moment_ms` the moment by which it was chosen. `used_with`: options of this use, which the schema
    of the store has and nothing stores."""

    store: Store
    name: str
    at: Snapshot | None = None
    moment_ms: int | None = None
    used_with: Mapping[str, str] = field(default_factory=dict, compare=False)

    @cached_property
    def lookups(self) -> Lookups:
        """The point reads of the table, which keep what they have read of files."""
        return Lookups()

    @cached_property
    def last_expiry(self) -> LastExpiry:
        """What the last expiry after a commit saw."""
        return LastExpiry()

    @cached_property
    def log(self) -> Log | None:
        """The log of the table, None without one."""
        return log_of(self.store)

    def state(self, where: Predicate | None = None) -> Scan:
        """A scan of all rows of the newest snapshot or the chosen one, whatever the scan options say: writes
        are based on it."""
        if self.at is not None:
            return snapshot_scan(time_travel.at(self.store, self.at), self.at, None, where)
        return snapshot_scan(self.store, self.store.snapshots.latest(), None, where)

    def other_branch(self) -> OtherBranch | None:
        """The branch that is read beside this one, at the time of `state`."""
        return fallback.newest(self.store) if self.at is None else fallback.as_of(self.store, self.at)

    def require_present(self) -> None:
        """Raise InvalidRequest for a table of the past, which is read-only, NotFound where the table is gone
        or another one."""
        self.require_not_past()
        self.store.require_same()

    def require_not_past(self) -> None:
        """Raise InvalidRequest for a table of the past, which is read-only."""
        if self.at is not None:
            raise InvalidRequest(f"this is {self.name} at snapshot {self.at.id}: the past is read-only")

    def require_current(self) -> None:
        """Raise CommitConflict if the table was altered: rows that are read to be written again need every
        column that it has now."""
        self.store.require_same()
        newest = self.store.schemas.ids()[-1]
        if newest > self.store.schema.id:
            raise CommitConflict(
                f"{self.name} was altered to schema {newest}; this is schema {self.store.schema.id}: "
                "refresh() it and try again"
            )
