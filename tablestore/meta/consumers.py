"""Consumers: positions of named stream readers, stored in `consumer/consumer-<id>` (FORMAT.md 20.3).

A position also keeps the snapshots from it on from expiring. The age of a consumer is that of its file:
expiry forgets one that has not moved for `consumer.expiration-time`.
"""

from __future__ import annotations

import json
import re

from tablestore.core.errors import Corrupt, brief
from tablestore.format import checksums
from tablestore.io.paths import checked_name, join
from tablestore.meta.refs import existing_name
from tablestore.meta.store import Store

_FILE = re.compile(r"consumer-(.+)")


def next_snapshot(store: Store, consumer: str) -> int | None:
    """The next snapshot of this consumer; None for a new consumer. Raises Corrupt for a damaged file."""
    path = _path(store, existing_name(consumer, "consumer"))
    try:
        found = json.loads(checksums.require_intact(store.io.read(path), path))["nextSnapshot"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise Corrupt(path, f"not a consumer file: {brief(e)}") from e
    if isinstance(found, bool) or not isinstance(found, int):
        raise Corrupt(path, f"nextSnapshot is {found!r}")
    return found


def names(store: Store) -> dict[str, int]:
    """Every consumer with the time it last moved, in epoch milliseconds."""
    listed = store.io.list(store.paths.consumer_dir)
    return {m[1]: s.modified_ms for s in listed if not s.is_dir and (m := _FILE.fullmatch(s.name))}


def all_next(store: Store) -> dict[str, int]:
    """The next snapshot of every consumer. Raises Corrupt for a damaged file."""
    found = {name: next_snapshot(store, name) for name in names(store)}
    return {name: n for name, n in found.items() if n is not None}


def record(store: Store, consumer: str, snapshot: int) -> None:
    """Set the consumer's next snapshot; earlier ones may expire."""
    path = _path(store, existing_name(consumer, "consumer"))
    store.require_same()
    if not store.io.exists(path):
        checked_name(consumer, "consumer")
    text = json.dumps({"nextSnapshot": snapshot}).encode()
    store.io.replace(path, checksums.sealed(text), after=store.after)


def delete(store: Store, consumer: str) -> None:
    """Remove a consumer; an absent one is fine."""
    store.io.delete(_path(store, existing_name(consumer, "consumer")))
    store.sync(store.paths.consumer_dir)


def expired(store: Store, *, age_ms: int) -> list[str]:
    """Names of consumers that have not moved for `age_ms`."""
    oldest = store.env.now_ms() - age_ms
    return [name for name, moved in names(store).items() if moved < oldest]


def _path(store: Store, consumer: str) -> str:
    return join(store.paths.consumer_dir, f"consumer-{consumer}")
