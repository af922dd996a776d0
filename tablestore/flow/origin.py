"""The commit identifier at which a streaming query starts, so that a lost checkpoint loses and repeats no
row.

Spark numbers batches from 0 in every new checkpoint; commit identifiers must rise. So a fresh checkpoint gets
a small file: batch 0 has the identifier after the last one in the table, and starts at the position in the
table. It is written before the query first starts, and never again once Spark has recorded an offset.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tablestore.core.errors import InvalidRequest
from tablestore.core.options.names import UUID
from tablestore.io.paths import join, location
from tablestore.io.syncing import Sync
from tablestore.table.table import Table


@dataclass(frozen=True, slots=True)
class Origin:
    """Batch 0 has commit identifier `identifier` and starts at `position` (None: at the very beginning)."""

    identifier: int
    position: str | None


def origin_of(checkpoint: str, table: Table, user: str) -> Origin:
    """The origin of a checkpoint of commits by `user` to `table`; written if no batch was ever planned there.

    Raises InvalidRequest for a checkpoint of another query, and for one older than the table's commits.
    """
    io, folder = table.store.io.inner, location(checkpoint)  # the caller's own place
    path = join(folder, "tablestore-origin.json")
    planned = [int(s.name) for s in io.list(join(folder, "offsets")) if s.name.isdigit()]
    if not planned:
        identifier, position = table.position(user) or (-1, None)
        mine = {"v": 1, "user": user, "table": _identity(table)}
        made = json.dumps({**mine, "identifier": identifier + 1, "position": position}).encode()
        io.replace(path, made, after=Sync(folder) if table.store.durable else None)
    try:
        found = json.loads(io.read(path))
    except FileNotFoundError:
        raise InvalidRequest(
            f"{checkpoint} is the checkpoint of another query; use a fresh directory"
        ) from None
    if (found["user"], found["table"]) != (user, _identity(table)):
        raise InvalidRequest(
            f"{checkpoint} is the checkpoint of another table or user; use a fresh directory"
        )
    known = table.position(user)
    if planned and known is not None and known[0] > found["identifier"] + max(planned):
        raise InvalidRequest(
            f"the table has commits of {user!r} that {checkpoint} did not plan: it went on under another "
            "checkpoint; use that one or a fresh directory"
        )
    return Origin(found["identifier"], found["position"])


def _identity(table: Table) -> str:
    """What differs between a table and one that was created in its place."""
    return table.options.get(UUID, table.location)
