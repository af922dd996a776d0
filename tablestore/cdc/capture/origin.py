"""Where a capture goes on, so that a lost checkpoint loses and repeats no row (`flow/origin.py`, of many
tables).

Spark numbers batches from 0 in every new checkpoint, and commit identifiers must rise: a small file of the
checkpoint says which identifier batch 0 has and at which offset it starts. In a fresh checkpoint these are
those after the newest batch that any table of the lake has: it may lack in others, so it is read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.flow.source import Offset
from tablestore.io.paths import join, location
from tablestore.io.routed import file_io_for
from tablestore.table.lake import Lake

_FILE = "tablestore-origin.json"


@dataclass(frozen=True, slots=True)
class CaptureOrigin:
    """Batch 0 has commit identifier `identifier` and starts at `start` (None: at the very beginning)."""

    identifier: int
    start: Offset | None


def origin_of(checkpoint: str, lake: Lake, *, user: str, source: str) -> CaptureOrigin:
    """The origin of a checkpoint of commits by `user` of what `source` names; written if no batch was ever
    planned there.

    Raises InvalidRequest for a checkpoint of another capture, and for one that is older than commits of this
    user.
    """
    folder = location(checkpoint)
    io, path = file_io_for(folder), join(folder, _FILE)
    planned = [int(s.name) for s in io.list(join(folder, "offsets")) if s.name.isdigit()]
    known = max(_positions(lake, user), default=None, key=lambda found: found[0])
    mine = {"v": 1, "user": user, "source": source}
    if not planned:
        made = CaptureOrigin(0, None) if known is None else CaptureOrigin(known[0] + 1, _start(user, *known))
        _require_same(io.read(path), mine, checkpoint) if io.exists(path) else io.make_dir(folder)
        text = json.dumps({**mine, "identifier": made.identifier, "start": made.start})
        io.replace(path, text.encode())
        return made
    try:
        found = _require_same(io.read(path), mine, checkpoint)
    except FileNotFoundError:
        raise InvalidRequest(
            f"{checkpoint} is the checkpoint of another query; use a fresh directory"
        ) from None
    if known is not None and known[0] > found.identifier + max(planned):
        raise InvalidRequest(
            f"tables have commits of {user!r} that {checkpoint} did not plan: it went on under another "
            "checkpoint; use that one or a fresh directory"
        )
    return found


def _require_same(data: bytes, mine: dict[str, object], checkpoint: str) -> CaptureOrigin:
    found = json.loads(data)
    for key, value in mine.items():
        if found.get(key) != value:
            raise InvalidRequest(
                f"{checkpoint} is the checkpoint of a capture with {key} {found.get(key)!r}, "
                f"and not {value!r}: use another name= or checkpoint="
            )
    return CaptureOrigin(int(found["identifier"]), found["start"])


def _positions(lake: Lake, user: str) -> Iterator[tuple[int, str | None]]:
    for name in lake.tables():
        try:
            found = lake.table(name).position(user)
        except NotFound:  # dropped meanwhile
            continue
        if found is not None:
            yield found


def _start(user: str, identifier: int, position: str | None) -> Offset:
    """Where the batch of a commit began."""
    try:
        found = json.loads(position or "")
        start: Offset = found["start"]
    except (ValueError, TypeError, KeyError):
        raise InvalidRequest(
            f"commits of {user!r} are there, and none of a capture: give it another name="
        ) from None
    return start
