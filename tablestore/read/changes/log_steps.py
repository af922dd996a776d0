"""What a stream of a table with a log does next: read the log, read a snapshot's files, or wait. Pure.

The log is the order of all changes and the files are a prefix of it, so a place in the log is one in the
files, too: rows of the log before it are delivered, and with them all rows of some snapshot, its base. While
the log still has the rows behind the place, they come from there; where retention took them first, or files
of the log are missing, the files of the snapshots behind the base give them, one by one, until the log has
the rest. Nothing is left out.
What comes twice are rows of one commit, where the place lies inside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tablestore.log.offsets import Offsets, reaches

SnapshotId = int


@dataclass(frozen=True, slots=True)
class LogPlace:
    """How far a stream is: rows of the log below `offsets` (None: not known, since the stream begins with
    files) and those of snapshot `base` (0: of none) and before are delivered. `inside`: rows behind the base,
    too, so that the files behind it begin with rows that were delivered."""

    offsets: Offsets | None = field(hash=False)
    base: SnapshotId = 0
    inside: bool = False


@dataclass(frozen=True, slots=True)
class LogState:
    """What there is: the log from `start` to `end`, its visible end, and snapshots up to `newest` (0: none).
    `keyed`: whether rows that come twice are recognised by their key. `has`: where the log ends, with what is
    not visible yet, if that is not its visible end."""

    start: Offsets = field(hash=False)
    end: Offsets = field(hash=False)
    newest: SnapshotId
    keyed: bool
    has: Offsets | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Read the log from the place up to `stop`."""

    stop: Offsets = field(hash=False)


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """Read what the files of `snapshot` changed, for this reason."""

    snapshot: SnapshotId
    reason: str


@dataclass(frozen=True, slots=True)
class WaitForRows:
    """There is nothing yet; `log`: rows may come to the log first, else to a snapshot."""

    log: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """Rows behind the place are nowhere any more, or not to be told from those that were delivered."""

    why: str


LogStep = ReadLog | ReadFiles | WaitForRows | Lost
BEGINS_WITH_FILES = "the stream starts before the log does"


def next_step(place: LogPlace, now: LogState) -> LogStep:
    """The next step of a stream at `place`."""
    if place.offsets is None:
        if now.newest > place.base:
            return ReadFiles(place.base + 1, BEGINS_WITH_FILES)
        return WaitForRows(log=False)
    at, has = place.offsets, now.end if now.has is None else now.has
    for bucket, offset in sorted(at.items()):
        last = max(now.end.get(bucket, 0), has.get(bucket, 0))
        if last < offset:
            return Lost(f"the log of bucket {bucket} ends at offset {last}, before {offset}")
    gone = {b: o for b, o in now.start.items() if at.get(b, 0) < o}
    if not gone:
        if reaches(at, now.end):
            return WaitForRows(log=True)
        stop = {b: max(at.get(b, 0), min(now.end.get(b, 0), has.get(b, 0))) for b in sorted({*at, *now.end})}
        if not reaches(at, stop):
            return ReadLog(stop)
        bucket, end = next((b, o) for b, o in sorted(now.end.items()) if at.get(b, 0) < o)
        why = f"the log of bucket {bucket} ends at offset {has.get(bucket, 0)}, before {end}"
    else:
        bucket, oldest = min(gone.items())
        why = f"the log of bucket {bucket} starts at offset {oldest}, this stream is at {at.get(bucket, 0)}"
    if now.newest <= place.base:
        return Lost(f"{why}, and no snapshot has the rows between")
    if place.inside and not now.keyed:
        return Lost(f"{why}, inside a commit, and without a primary key its rows cannot be told apart")
    return ReadFiles(place.base + 1, why)
