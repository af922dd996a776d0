"""Consumers: positions of named stream readers, stored in `consumer/consumer-<id>` (FORMAT.md 20.3).

A position also keeps the snapshots from it on from expiring. The age of a consumer is that of its file:
expiry forgets one that has not moved for `consumer.expiration-time`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tablestore.core.errors import Corrupt, brief
from tablestore.core.options.names import UUID
from tablestore.format import checksums
from tablestore.io import outcomes
from tablestore.io.paths import checked_name, join
from tablestore.meta.refs import existing_name
from tablestore.meta.store import Store

_FILE = re.compile(r"consumer-(.+)")
_TABLE, _NAME = "tablestore.table", "tablestore.consumer"  # whose position it is
_LOG, _INSIDE, _AFTER = "tablestore.log-offsets", "tablestore.log-inside", "tablestore.after"


@dataclass(frozen=True, slots=True)
class ConsumerPlace:
    """Where a consumer goes on: at a snapshot, or in a table with a log at these offsets, where all older
    snapshots are delivered (`inside`: some of that one, too). `after` is the mark of the snapshot before the
    next one, if it is known: a rollback may have replaced it."""

    next_snapshot: int
    log: Mapping[int, int] | None = field(default=None, hash=False)
    inside: bool = False
    after: str | None = None


def next_snapshot(store: Store, consumer: str) -> int | None:
    """The next snapshot of this consumer; None for a new consumer. Raises Corrupt for a damaged file."""
    at = place(store, consumer)
    return None if at is None else at.next_snapshot


def place(store: Store, consumer: str) -> ConsumerPlace | None:
    """Where this consumer goes on; None for a new one. Raises Corrupt for a damaged file."""
    path = _path(store, existing_name(consumer, "consumer"))
    try:
        body = json.loads(checksums.require_intact(store.io.read(path), path))
        next_id, log = body["nextSnapshot"], body.get(_LOG)
        log = None if log is None else {int(bucket): int(offset) for bucket, offset in log.items()}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Corrupt(path, f"not a consumer file: {brief(e)}") from e
    if isinstance(next_id, bool) or not isinstance(next_id, int):
        raise Corrupt(path, f"nextSnapshot is {next_id!r}")
    own = store.schema.options.get(UUID)
    if body.get(_NAME, consumer) != consumer or (own and body.get(_TABLE, own) != own):
        whose = f"consumer {body.get(_NAME)!r} of table {body.get(_TABLE)}"
        remedy = f"table.consumers.delete({consumer!r}) removes it; its stream starts anew then"
        raise Corrupt(path, f"it is the position of {whose}, in the place of this one", remedy=remedy)
    return ConsumerPlace(next_id, log, bool(body.get(_INSIDE, False)), body.get(_AFTER))


def names(store: Store) -> dict[str, int]:
    """Every consumer with the time it last moved, in epoch milliseconds."""
    listed = store.io.list(store.paths.consumer_dir)
    return {m[1]: s.modified_ms for s in listed if not s.is_dir and (m := _FILE.fullmatch(s.name))}


def all_next(store: Store) -> dict[str, int]:
    """The next snapshot of every consumer. Raises Corrupt for a damaged file."""
    next_of = {name: next_snapshot(store, name) for name in names(store)}
    return {name: n for name, n in next_of.items() if n is not None}


def record(
    store: Store,
    consumer: str,
    snapshot: int,
    *,
    log: Mapping[int, int] | None = None,
    inside: bool = False,
    after: str | None = None,
) -> None:
    """Set the consumer's next snapshot with the mark of the one before, and its place in the log; earlier
    ones may expire."""
    path = _path(store, existing_name(consumer, "consumer"))
    store.require_same()
    if not store.io.exists(path):
        checked_name(consumer, "consumer")
    body: dict[str, Any] = {"nextSnapshot": snapshot, _NAME: consumer}
    if own := store.schema.options.get(UUID):
        body[_TABLE] = own
    if log is not None:
        body |= {_LOG: {str(bucket): log[bucket] for bucket in sorted(log)}} | (
            {_INSIDE: True} if inside else {}
        )
    if after is not None:
        body[_AFTER] = after
    text = json.dumps(body).encode()
    outcomes.put(store.io, path, checksums.sealed(text), after=store.after)


def delete(store: Store, consumer: str) -> None:
    """Remove a consumer; an absent one is fine."""
    outcomes.remove(store.io, _path(store, existing_name(consumer, "consumer")), after=store.after)


def expired(store: Store, *, age_ms: int) -> list[str]:
    """Names of consumers that have not moved for `age_ms`."""
    oldest = store.env.now_ms() - age_ms
    return [name for name, moved in names(store).items() if moved < oldest]


def _path(store: Store, consumer: str) -> str:
    return join(store.paths.consumer_dir, f"consumer-{consumer}")
