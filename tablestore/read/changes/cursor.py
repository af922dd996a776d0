"""The cursor of a stream: the next snapshot, and which one came before it; of a log its offsets.

Text form: JSON `{"v": 1, "snapshot": 8, "after": "…"}`. `after` is the uuid of snapshot 7, or who
committed it and when: after a rollback another snapshot may have its id. With `"log": {"0": 20}` the stream
goes on in the log there, where all rows of snapshot 7 are delivered; with `"inside": true` some of snapshot
8, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tablestore.core.errors import Corrupt, InvalidRequest, NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.log import offsets
from tablestore.log.offsets import Offsets
from tablestore.meta.snapshots import SnapshotStore

VERSION = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a stream goes on: at `snapshot`, if the one before still has the mark `after` (None: unknown), or
    at the offsets `log`; `inside`: these lie within what that snapshot adds."""

    snapshot: int
    after: str | None = None
    log: Offsets | None = field(default=None, hash=False)
    inside: bool = False

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor of a text; raises InvalidRequest for one that `text` did not make."""
        try:
            body = json.loads(text)
            version, snapshot = body["v"], body["snapshot"]
        except (ValueError, KeyError, TypeError):
            raise InvalidRequest(f"{text!r} is no cursor of a stream") from None
        if version != VERSION or not isinstance(snapshot, int):
            raise InvalidRequest(f"cursor {text!r} is of version {version!r}; version {VERSION} is known")
        log = None if body.get("log") is None else offsets_of(body["log"])
        return cls(snapshot, body.get("after"), log, bool(body.get("inside", False)))

    @property
    def text(self) -> str:
        """The cursor as it is stored."""
        fields: dict[str, Any] = {} if self.after is None else {"after": self.after}
        if self.log is not None:
            fields["log"] = {str(bucket): self.log[bucket] for bucket in sorted(self.log)}
        if self.inside:
            fields["inside"] = True
        return json.dumps({"v": VERSION, "snapshot": self.snapshot, **fields})


def offsets_of(value: Any) -> dict[int, int]:
    """The offsets of a log as a caller gives them, {bucket: offset}; raises InvalidRequest for others."""
    try:
        return offsets.parse(json.dumps({str(k): v for k, v in value.items()}), "")
    except (Corrupt, AttributeError, TypeError, ValueError):
        text = "are a mapping of each bucket to its offset, such as {0: 20}"
        raise InvalidRequest(f"{value!r} is no place in a log: offsets {text}") from None


def was_rolled_back(snapshots: SnapshotStore, snapshot: int, mark: str | None) -> bool:
    """Whether a snapshot that was delivered under this mark (None: unknown) is gone, and not by expiry."""
    if mark is None or snapshot < (snapshots.earliest_id() or 0):
        return False
    try:
        return mark_of(snapshots.get(snapshot)) != mark
    except NotFound:
        return snapshot >= (snapshots.earliest_id() or 0)


def mark_of(snapshot: Snapshot) -> str:
    """What distinguishes a snapshot from another one of its id."""
    who = f"{snapshot.commit_user} {snapshot.commit_identifier} {snapshot.time_millis}"
    return snapshot.uuid or who
