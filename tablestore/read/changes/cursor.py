"""The cursor of a stream: the next snapshot, and which one came before it.

Text form: JSON `{"v": 1, "snapshot": 8, "after": "…"}`. `after` is the uuid of snapshot 7, or who
committed it and when: after a rollback another snapshot may have its id.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.meta.snapshots import SnapshotStore

VERSION = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a stream goes on: at `snapshot`, if the one before still has the mark `after` (None: unknown)."""

    snapshot: int
    after: str | None = None

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor of a text; raises InvalidRequest for one that `text` did not make."""
        try:
            body = json.loads(text)
            version, found = body["v"], body["snapshot"]
        except (ValueError, KeyError, TypeError):
            raise InvalidRequest(f"{text!r} is no cursor of a stream") from None
        if version != VERSION or not isinstance(found, int):
            raise InvalidRequest(f"cursor {text!r} is of version {version!r}; version {VERSION} is known")
        return cls(found, body.get("after"))

    @property
    def text(self) -> str:
        """The cursor as it is stored."""
        known = {} if self.after is None else {"after": self.after}
        return json.dumps({"v": VERSION, "snapshot": self.snapshot, **known})


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
