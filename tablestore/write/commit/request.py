"""The request of a commit and its answer: who commits with what, and which snapshots it made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tablestore.core.errors import CommitConflict, InvalidRequest
from tablestore.format.snapshot import BATCH_IDENTIFIER, Snapshot
from tablestore.log.offsets import Offsets
from tablestore.log.transaction_id import TransactionId
from tablestore.lsm.compaction.recording import Stall
from tablestore.meta.store import Newest
from tablestore.write.retention.expiry_result import Expiry

_LONG = 1 << 63


@dataclass(frozen=True, slots=True)
class LostCompaction:
    """A compaction that came with a write and is not in the table; the next commit or compaction does it.

    `unknown`: it may be in the table, so its files stay. `awaited`: readers or streams of changes see the
    rows of the write only with it.
    """

    reason: str
    unknown: bool = False
    awaited: bool = False

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Committed:
    """What a write made: 0 (empty or replayed), 1 or 2 snapshots; `rows` counts the rows of the new files.

    A replay that compacts what an interrupted commit left, or a compaction that is done again, adds its
    snapshot. `lost_compaction`: the rows are in the table, the compaction that came with them is not.
    `expired`: what expired afterwards by the table's options, None if nothing. `stalls`: buckets whose writer
    had to wait for compaction. `replaced_partitions`: how many partitions an overwrite took rows away from,
    None for other writes. `from_log`: the rows were in the table's log, and came into files from there, by
    this writer or by another one that was first.
    """

    snapshots: tuple[int, ...] = ()
    rows: int = 0
    replayed: bool = False
    expired: Expiry | None = field(default=None, compare=False)
    stalls: tuple[Stall, ...] = field(default=(), compare=False)
    lost_compaction: LostCompaction | None = None
    replaced_partitions: int | None = field(default=None, compare=False)
    from_log: bool = field(default=False, compare=False)

    @property
    def snapshot(self) -> int | None:
        """Id of the last snapshot made, None if there was nothing to commit."""
        return self.snapshots[-1] if self.snapshots else None

    def __repr__(self) -> str:
        also = "" if self.expired is None else f", expired={self.expired!r}"
        count = self.replaced_partitions
        also += f", replaced_partitions={count}" if count is not None else ""
        also += ", from_log=True" if self.from_log else ""
        also += f", stalls={self.stalls!r}" if self.stalls else ""
        also += f", lost_compaction={str(self.lost_compaction)!r}" if self.lost_compaction else ""
        return f"Committed(snapshots={self.snapshots}, rows={self.rows}, replayed={self.replayed}{also})"


@dataclass(frozen=True, slots=True)
class Basis:
    """The snapshot that a commit was made from, None for the empty table.

    The commit is refused if the table no longer has it, or if rows changed since; with `buckets` only if rows
    in buckets of the commit changed or its partitions were overwritten, with `appends` only the latter.
    """

    snapshot: Snapshot | None
    appends: bool = False
    buckets: bool = False


class LogMoved(CommitConflict):
    """The files of the table are not where the rows of a commit begin in its log: those of others come first,
    or somebody has put these into files already."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """The rows of a commit in the log of its table: per bucket of theirs, the offset of the first and that
    behind the last. The commit goes on top of a snapshot that names `start` in these buckets, and no
    other. `last`: the last transaction of them, None of a log that does not number these."""

    start: Offsets
    end: Offsets
    last: TransactionId | None = None

    def __post_init__(self) -> None:
        gone_back = [bucket for bucket, offset in self.end.items() if offset < self.start.get(bucket, 0)]
        assert not gone_back, f"the offsets of a snapshot never go back, as those of buckets {gone_back} do"


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Who commits, under which identifier, with which properties. `basis`: the snapshot that the rows were
    made from; `compacted_from`: id of the snapshot that compactions were made from, 0 for the empty table;
    `newest`: what the writer saw when it was opened; `handed_over`: the messages were made elsewhere and may
    come twice; `log`: where the rows are in the table's log, if they are; `positions`: those of other
    streams, whose rows came by the log, as (identifier, position) by user."""

    user: str
    identifier: int = BATCH_IDENTIFIER
    position: str | None = None
    properties: Mapping[str, str] | None = None
    watermark: int | None = None
    basis: Basis | None = None
    compacted_from: int | None = None
    newest: Newest | None = None
    handed_over: bool = False
    log: LogRange | None = None
    positions: Mapping[str, tuple[int, str | None]] | None = None

    def __post_init__(self) -> None:
        """Raise InvalidRequest for what a snapshot file cannot hold: the table could not be read
        afterwards."""
        for name in ("identifier", "watermark"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and -_LONG <= value < _LONG
            if not whole and (name, value) != ("watermark", None):
                raise InvalidRequest(f"{name} {value!r} must be a whole number of 64 bits")
        texts = {"user": self.user, "position": "" if self.position is None else self.position}
        if not isinstance(self.properties or {}, Mapping):
            raise InvalidRequest(f"properties {self.properties!r} must be a mapping of texts")
        for key, value in (*texts.items(), *(self.properties or {}).items()):
            if not isinstance(key, str) or not isinstance(value, str):
                raise InvalidRequest(f"{key!r} of a commit must be text, not {value!r}")

    @property
    def streaming(self) -> bool:
        """Whether the identifier is one of a stream, so that a replay can be recognised."""
        return self.identifier != BATCH_IDENTIFIER
