"""When expiry may remove a file: the rules of retention as a text, for each combination of its holders.

A file that the newest snapshot reads is live: a later commit must replace it first. Otherwise it goes when
no holder needs it any more: the last snapshot that reads it (by number, age and consumers), tags, branches
and long-lived changelogs. A text is made once a combination, not a file. Pure but for what `Releases` looks
up when it is made. Called by `insight/inspect/storage.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from tablestore.core.options.values import INFINITE
from tablestore.insight.inspect.claim_book import BRANCH, CONSUMER, TABLE, TAG, Holder
from tablestore.meta import changelogs, expiry_rules, refs
from tablestore.meta.expiry_rules import Bound, ExpirePolicy, moment
from tablestore.meta.store import Store

LIVE, KEPT, FREE, FOREIGN, MISSING = "live", "kept", "free", "foreign", "missing"
STATES = (LIVE, KEPT, FREE, FOREIGN, MISSING)


@dataclass(frozen=True, slots=True)
class Needs:
    """Who needs a file: the last of this branch's snapshots and of its long-lived changelogs that read it,
    the last snapshot whose changelog will, once that has expired, and the other holders."""

    snapshot: int | None
    changelog: int | None
    coming: int | None
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


@dataclass(frozen=True, slots=True)
class _Wait:
    """One of the things that must happen, and what of them is a matter of time or of commits alone."""

    text: str
    after_ms: int | None = None
    after_snapshot: int | None = None
    consumers: tuple[str, ...] = ()


class Releases:
    """The table's retention as it is now. Immutable once made."""

    def __init__(self, store: Store) -> None:
        snapshots = store.snapshots.all()
        self._times = {s.id: s.time_millis for s in snapshots}
        self._ids = sorted(self._times)
        self._policy = ExpirePolicy.of(store)
        latest = snapshots[-1] if snapshots else None
        self._lasting_policy = ExpirePolicy.of_changelogs(store)
        self._lasting = {c.id: c.time_millis for c in changelogs.all_of(store)}
        self._lasting_holds = expiry_rules.consumer_bounds(store, changelogs=True)
        self._holds = [*expiry_rules.consumer_bounds(store), *expiry_rules.position_bounds(store, latest)]
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
        waits = list[_Wait]()
        if needs.snapshot is not None:
            waits.append(self._snapshot(needs.snapshot))
        waits += [self._tag(name) for name in needs.names(TAG)]
        waits += [_Wait(f"branch {name} is deleted or lets it go") for name in needs.names(BRANCH)]
        lasting = max((i for i in (needs.changelog, needs.coming) if i is not None), default=None)
        if lasting is not None:
            waits.append(self._changelog(lasting))
        times = [w.after_ms for w in waits]
        return Release(
            KEPT,
            "when " + " and ".join(w.text for w in waits),
            tuple(dict.fromkeys(name for w in waits for name in w.consumers)),
            None if None in times else max((t for t in times if t is not None), default=None),
            max((w.after_snapshot for w in waits if w.after_snapshot is not None), default=None),
        )

    def _snapshot(self, snapshot_id: int) -> _Wait:
        """What decides when this snapshot expires."""
        after = bisect_right(self._ids, snapshot_id)
        successor = self._times[self._ids[after]] if after < len(self._ids) else self._now
        return self._expires(f"snapshot {snapshot_id}", snapshot_id, self._policy, successor, self._holds)

    def _changelog(self, snapshot_id: int) -> _Wait:
        """What decides when this long-lived changelog expires, or the one that the snapshot will leave. The
        newest one stays, so the snapshot after it must have expired, too."""
        created = self._times.get(snapshot_id, self._lasting.get(snapshot_id, self._now))
        what = f"long-lived changelog {snapshot_id}"
        own = self._expires(what, snapshot_id, self._lasting_policy, created, self._lasting_holds)
        if snapshot_id + 1 not in self._times:
            return own
        after = self._snapshot(snapshot_id + 1)
        ends = None if own.after_ms is None or after.after_ms is None else max(own.after_ms, after.after_ms)
        enough = max(own.after_snapshot or 0, after.after_snapshot or 0)
        return replace(own, after_ms=ends, after_snapshot=enough)

    def _expires(
        self, what: str, snapshot_id: int, policy: ExpirePolicy, since_ms: int, bounds: list[Bound]
    ) -> _Wait:
        """When a snapshot that is as old as `since_ms`, or its changelog, expires by a policy."""
        newest, old_at, enough = self._ids[-1], since_ms + policy.age_ms, snapshot_id + policy.keep_min
        limit = snapshot_id + max(policy.keep_max, policy.keep_min)
        waits = []
        if newest >= limit:  # one too many, whatever its age
            old_at = self._now
        elif old_at > self._now:
            early = f" (or once snapshot {limit} is there)" if policy.keep_max < INFINITE else ""
            waits.append(f"not before {moment(old_at)}{early}")
        if newest < enough:
            waits.append(f"once snapshot {enough} is there")
        holding = [b for b in bounds if b.first <= snapshot_id]
        waits += [f"once {b.text} moved on" for b in holding]  # of a stream: with its next commit
        call = "with expire_snapshots()" if self._write_only else "with a commit"
        if waits:
            call = f"{', '.join(waits)}, {call}"
        names = tuple(b.name for b in holding if b.name)
        return _Wait(f"{what} expires: {call}", None if holding else old_at, enough, names)

    def _tag(self, name: str) -> _Wait:
        ends = self._tags[name].ends_ms if name in self._tags else None
        if ends is None or not self._tags_end or self._write_only:
            return _Wait(f"tag {name} is deleted")
        return _Wait(f"tag {name} ends: with a commit", self._now + (ends - self._local_now))

    def _consumer(self, name: str) -> str:
        later = "" if self._age is None else f", or has not moved for {expiry_rules.duration(self._age)}"
        return f"when consumer {name} is deleted{later}"
