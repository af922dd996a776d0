"""How lookup joins keep and refresh what they look up, under the names of Paimon's Flink connector.

One field each: key, parser, default, meaning. The last two have the names that Flink gives to caches of its
own connectors. Part of `options.TableOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tablestore.core.options.values import INFINITE, boolean, duration_ms, enum, integer, opt


class LookupCacheMode(StrEnum):
    """What a lookup join holds of its table; `partial` is a name of ours for what `auto` may choose."""

    AUTO = "auto"
    FULL = "full"
    MEMORY = "memory"
    PARTIAL = "partial"


@dataclass(frozen=True)
class LookupOptions:
    """How lookup joins keep and refresh what they look up."""

    lookup_cache_mode: LookupCacheMode = opt(
        "lookup.cache",
        enum(LookupCacheMode),
        LookupCacheMode.AUTO,
        "what a lookup join holds: full (all rows, on disk beyond lookup.cache-max-memory-size), memory "
        "(all, never on disk), partial (rows that were asked for), auto",
    )
    lookup_cache_rows: int = opt(
        "lookup.cache-rows", integer, 10_000, "keys that a partial cache of a lookup join holds"
    )
    lookup_discovery_ms: int | None = opt(
        "lookup.continuous.discovery-interval",
        duration_ms,
        None,
        "wait between a lookup join's looks for snapshots; continuous.discovery-interval if absent",
    )
    lookup_async: bool = opt(
        "lookup.async", boolean, False, "a lookup join of a stream looks rows up ahead, on threads"
    )
    lookup_threads: int = opt("lookup.async-thread-number", integer, 16, "how many threads")
    lookup_refresh_async: bool = opt(
        "lookup.refresh.async", boolean, False, "a lookup join refreshes on a thread and answers meanwhile"
    )
    lookup_refresh_pending: int = opt(
        "lookup.refresh.async.pending-snapshot-count",
        integer,
        5,
        "snapshots behind which it waits for the refresh all the same",
    )
    lookup_full_load: int = opt(
        "lookup.refresh.full-load-threshold",
        integer,
        INFINITE,
        "snapshots behind which a lookup join reads its table anew",
    )
    lookup_expire_write_ms: int | None = opt(
        "lookup.partial-cache.expire-after-write",
        duration_ms,
        None,
        "age to which a partial cache keeps a key",
    )
    lookup_expire_access_ms: int | None = opt(
        "lookup.partial-cache.expire-after-access",
        duration_ms,
        None,
        "time for which a partial cache keeps a key that nobody asks for",
    )
