"""Which snapshots expiry keeps, why, and until when: rules over ids and times (FORMAT.md 19.1).

The oldest snapshots expire: each rule says from which id on it keeps them, the lowest id wins, and all rules
are reported. Pure, except that `consumer_bounds` and `position_bounds` read files. Used by expiry, by its
preview and by the attribution of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from tablestore.format.snapshot import Snapshot
from tablestore.meta import consumers, positions
from tablestore.meta.store import Store

NEWEST, AGE, LIMIT, CONSUMER, POSITION = "newest", "age", "limit", "consumer", "position"


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    """How many snapshots stay and for how long: the newest `keep_min` always, others while younger than
    `age_ms`, never more than `keep_max`. `limit`: how many expire at once. `decoupled`: each leaves a
    long-lived changelog."""

    keep_min: int
    keep_max: int
    age_ms: int
    limit: int
    decoupled: bool = False

    @classmethod
    def of(cls, store: Store) -> ExpirePolicy:
        """The policy of the table's options for snapshots."""
        o = store.options
        counts = (o.snapshot_min_retained, o.snapshot_max_retained, o.snapshot_time_retained_ms)
        return cls(*counts, o.snapshot_expire_limit, o.changelog_decoupled)

    @classmethod
    def of_changelogs(cls, store: Store) -> ExpirePolicy:
        """The policy of the table's options for long-lived changelogs."""
        o = store.options
        counts = (o.changelog_min_retained, o.changelog_max_retained, o.changelog_time_retained_ms)
        return cls(*counts, o.snapshot_expire_limit)


@dataclass(frozen=True, slots=True)
class Bound:
    """One rule and the snapshots it keeps: those from `first` on.

    `until_ms`: epoch milliseconds at which the rule ends by itself, None if only a commit or a call ends it;
    `name`: that of the consumer, for the rule of a consumer.
    """

    rule: str
    first: int
    text: str
    until_ms: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Extent:
    """The snapshots that may expire, from `earliest` to before `end`; `bounds`: the rules, strictest
    first."""

    earliest: int
    end: int
    bounds: tuple[Bound, ...]

    @property
    def protected_by(self) -> tuple[str, ...]:
        """Names of what keeps snapshots that counts and age alone would let expire."""
        counted = min((b.first for b in self.bounds if b.rule in (NEWEST, LIMIT)), default=self.end)
        readers = (b for b in self.bounds if b.rule in (CONSUMER, POSITION))
        return tuple(b.text for b in readers if b.first < counted)


def extent(
    policy: ExpirePolicy,
    *,
    earliest: int,
    latest: int,
    time_of: Callable[[int], int | None],
    now_ms: int,
    protected: Iterable[Bound] = (),
) -> Extent:
    """What the policy lets expire at this moment; `time_of` gives a snapshot's time, None for an absent one.

    Snapshots beyond `keep_max` expire whatever their age; others once their successor is older than `age_ms`.
    """
    newest = Bound(NEWEST, latest - policy.keep_min + 1, f"the newest {policy.keep_min} stay")
    limit = Bound(LIMIT, earliest + policy.limit, f"up to {policy.limit} expire at once")
    bounds = [newest, *protected, *([limit] if limit.first <= latest else [])]
    end = min(b.first for b in bounds)
    for snapshot_id in range(max(latest - policy.keep_max + 1, earliest), end):
        successor = time_of(snapshot_id + 1)  # None: a rollback to an expired snapshot left a gap
        if successor is not None and now_ms - successor < policy.age_ms:
            text = f"the current state less than {duration(policy.age_ms)} ago"
            bounds.append(Bound(AGE, snapshot_id, text, successor + policy.age_ms))
            end = snapshot_id
            break
    while end > earliest and time_of(end) is None:
        end -= 1  # the first snapshot that stays must exist
    bounds.sort(key=lambda b: b.first)
    return Extent(earliest, max(end, earliest), tuple(bounds))


def consumer_bounds(store: Store, *, changelogs: bool = False, ignoring: Iterable[str] = ()) -> list[Bound]:
    """The bounds of consumers on snapshots (with `changelogs`: on long-lived changelogs); `ignoring` are
    names of consumers that are about to be forgotten."""
    options = store.options
    if not changelogs and options.consumer_changelog_only and options.changelog_decoupled:
        return []
    passed, moved, age = set(ignoring), consumers.names(store), options.consumer_expiration_ms
    bounds = []
    for name, next_snapshot in consumers.all_next(store).items():
        if name not in passed:
            until = None if age is None or name not in moved else moved[name] + age
            text = f"consumer {name} (next snapshot {next_snapshot})"
            bounds.append(Bound(CONSUMER, next_snapshot, text, until, name))
    return bounds


def position_bounds(store: Store, latest: Snapshot | None) -> list[Bound]:
    """The bound of the newest snapshot with positions of streaming writers; none without such."""
    holder = positions.holder(store.snapshots, latest)
    return [] if holder is None else [Bound(POSITION, holder, f"stream positions in snapshot {holder}")]


def duration(millis: int) -> str:
    """`1 h`, `90 s`, `1500 ms`: in the largest unit that divides it."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if millis >= size and millis % size == 0:
            return f"{millis // size} {unit}"
    return f"{millis} ms"


def moment(millis: int) -> str:
    """An instant as local wall clock, to the second."""
    try:
        return datetime.fromtimestamp(millis / 1000).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{millis} ms after 1970"
