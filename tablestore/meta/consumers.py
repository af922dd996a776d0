"""Consumers: the place a named stream reader has come to, kept in `consumer/consumer-<id>`.

It also keeps the snapshots from there on from expiring.
"""

from __future__ import annotations

import json
import re

from tablestore.errors import Corrupt
from tablestore.io.paths import checked_name, join
from tablestore.meta.store import Store

_FILE = re.compile(r"consumer-(.+)")


def next_snapshot(store: Store, consumer: str) -> int | None:
    """The next snapshot of this consumer; None for one that is new. Raises Corrupt for a damaged file."""
    path = _path(store, consumer)
    try:
        found = json.loads(store.io.read(path))["nextSnapshot"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as e:
        raise Corrupt(path, f"not a consumer file: {e!r}") from e
    if not isinstance(found, int):
        raise Corrupt(path, f"nextSnapshot is {found!r}")
    return found


def all_next(store: Store) -> dict[str, int]:
    """The next snapshot of every consumer. Raises Corrupt for a damaged file."""
    listed = store.io.list(store.paths.consumer_dir)
    names = [m[1] for s in listed if not s.is_dir and (m := _FILE.fullmatch(s.name))]
    found = {name: next_snapshot(store, name) for name in names}
    return {name: n for name, n in found.items() if n is not None}


def record(store: Store, consumer: str, snapshot: int) -> None:
    """Let the consumer go on at `snapshot`; what lies before may expire."""
    store.io.replace(_path(store, consumer), json.dumps({"nextSnapshot": snapshot}).encode())


def _path(store: Store, consumer: str) -> str:
    return join(store.paths.consumer_dir, f"consumer-{checked_name(consumer, 'consumer')}")
