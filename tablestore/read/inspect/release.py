"""When expiry may free a file: the rules of retention told for one combination of those who need it.

A file that the newest snapshot reads is live: a later commit must replace it first. Otherwise it goes when
all of these let go: the last snapshot that reads it (by number, age and consumers), tags, branches and
long-lived changelogs. A text is made once a combination, not a file. Pure but for what `Releases` looks up
when it is made. Called by `read/inspect/attribution.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.meta import refs, retention
from tablestore.meta.retention import ExpirePolicy, moment
from tablestore.meta.store import Store
from tablestore.option_values import INFINITE
from tablestore.read.inspect.claims import BRANCH, CONSUMER, TABLE, TAG, Holder

LIVE, KEPT, FREE, FOREIGN, MISSING = "live", "kept", "free", "foreign", "missing"
STATES = (LIVE, KEPT, FREE, FOREIGN, MISSING)


@dataclass(frozen=True, slots=True)
class Needs:
    """Who needs a file: the last of this branch's snapshots and of its long-lived changelogs that read it,
    and the other holders."""

    snapshot: int | None
    changelog: int | None
    others: tuple[Holder, ...]

    def names(self, kind: str) -> list[str]:
        """Names of the holders of one kind."""
        return [h.name for h in self.others if h.kind == kind]


@dataclass(frozen=True, slots=True)
class Release:
    """When a file goes. `after_ms` (epoch): no earlier than that; `after_snapshot`: no earlier than this
    snapshot is there; None if it is not a matter of time, or of commits, alone."""

    state: str
    text: str
    consumers: tuple[str, ...] = ()
    after_ms: int | None = None
    after_snapshot: int | None = None


class Releases:
    """The table's retention as it is now. Immutable once made."""

    def __init__(self, store: Store) -> None:
        snapshots = store.snapshots.all()
        self._times = {s.id: s.time_millis for s in snapshots}
        self._ids = sorted(self._times)
        self._policy = ExpirePolicy.of(store)
        latest = snapshots[-1] if snapshots else None
        self._holds = [*retention.holds(store), *retention.positions_held(store, latest)]
        self._write_only, self._now = store.options.write_only, store.env.now_ms()
        self._tags = {t.name: t for t in refs.all_tags(store)}
        self._tags_end = store.options.tag_expire_enabled
        self._local_now = store.env.local_now_ms()
        self._age = store.options.consumer_expiration_ms

    @property
    def newest(self) -> int | None:
        """Id of the newest snapshot."""
        return self._ids[-1] if self._ids else None

    def of(self, needs: Needs) -> Release:
        """What must happen before a file with these needs is freed."""
        if any(h.kind == TABLE for h in needs.others):
            return Release(LIVE, "with the table")
        if needs.snapshot is not None and needs.snapshot == self.newest:
            return Release(LIVE, f"live: snapshot {needs.snapshot}, the newest, reads it")
        for name in needs.names(CONSUMER):
            return Release(KEPT, self._consumer(name))
        parts, consumers, times, alone = list[str](), tuple[str, ...](), list[int](), True
        after_snapshot = None
        if needs.snapshot is not None:
            text, after_ms, after_snapshot, consumers = self._snapshot(needs.snapshot)
            parts.append(text)
            times += [] if after_ms is None else [after_ms]
            alone = after_ms is not None
        for name in needs.names(TAG):
            text, after_ms = self._tag(name)
            parts.append(text)
            times += [] if after_ms is None else [after_ms]
            alone = alone and after_ms is not None
        parts += [f"branch {name} is deleted or lets it go" for name in needs.names(BRANCH)]
        if needs.changelog is not None:
            parts.append(f"long-lived changelog {needs.changelog} expires")
        alone = alone and needs.changelog is None and not needs.names(BRANCH)
        text = "when " + " and ".join(parts)
        return Release(KEPT, text, consumers, max(times) if alone and times else None, after_snapshot)

    def _snapshot(self, snapshot_id: int) -> tuple[str, int | None, int, tuple[str, ...]]:
        """Text, time, snapshot and consumers that decide when this snapshot expires."""
        policy, newest = self._policy, self._ids[-1]
        successor = next((self._times[i] for i in self._ids if i > snapshot_id), self._now)
        old_at, enough = successor + policy.age_ms, snapshot_id + policy.keep_min
        most = snapshot_id + max(policy.keep_max, policy.keep_min)
        waits = []
        if newest >= most:  # one too many, whatever its age
            old_at = self._now
        elif old_at > self._now:
            early = f" (or once snapshot {most} is there)" if policy.keep_max < INFINITE else ""
            waits.append(f"not before {moment(old_at)}{early}")
        if newest < enough:
            waits.append(f"once snapshot {enough} is there")
        held = [b for b in self._holds if b.first <= snapshot_id]
        waits += [f"once {b.text} moved on" for b in held]  # of a stream: with its next commit
        call = "with expire_snapshots()" if self._write_only else "with a commit"
        if waits:
            call = f"{', '.join(waits)}, {call}"
        names = tuple(b.name for b in held if b.name)
        return f"snapshot {snapshot_id} expires: {call}", None if held else old_at, enough, names

    def _tag(self, name: str) -> tuple[str, int | None]:
        ends = self._tags[name].ends_ms if name in self._tags else None
        if ends is None or not self._tags_end or self._write_only:
            return f"tag {name} is deleted", None
        return f"tag {name} ends", self._now + (ends - self._local_now)

    def _consumer(self, name: str) -> str:
        later = "" if self._age is None else f", or has not moved for {retention.duration(self._age)}"
        return f"when consumer {name} is deleted{later}"
