"""How lookup joins keep and refresh what they look up, under the names of Paimon's Flink connector.

One field each: key, parser, default, meaning. The last two have the names that Flink gives to caches of its
own connectors. Part of `options.TableOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tablestore.core.options.values import INFINITE, boolean, duration_ms, enum, integer, long, opt


class LookupCacheMode(StrEnum):
    """Which rows of its table a lookup join caches; `partial` is our name for one choice of `auto`."""

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
        "what a lookup join caches: full (all rows, on disk beyond lookup.cache-max-memory-size), memory "
        "(all, never on disk), partial (rows that were looked up), auto",
    )
    lookup_cache_rows: int = opt(
        "lookup.cache-rows", long, 10_000, "maximum keys in the partial cache of a lookup join", least=0
    )
    lookup_discovery_ms: int | None = opt(
        "lookup.continuous.discovery-interval",
        duration_ms,
        None,
        "how often a lookup join looks for new snapshots; continuous.discovery-interval if absent",
    )
    lookup_async: bool = opt(
        "lookup.async", boolean, False, "a lookup join of a stream prefetches on threads"
    )
    lookup_threads: int = opt("lookup.async-thread-number", integer, 16, "threads of lookup.async", least=1)
    lookup_refresh_async: bool = opt(
        "lookup.refresh.async",
        boolean,
        False,
        "a lookup join refreshes in the background and answers meanwhile",
    )
    lookup_refresh_pending: int = opt(
        "lookup.refresh.async.pending-snapshot-count",
        integer,
        5,
        "with lookup.refresh.async: snapshots behind at which a lookup join waits for the refresh",
        least=1,
    )
    lookup_full_load: int = opt(
        "lookup.refresh.full-load-threshold",
        integer,
        INFINITE,
        "snapshots behind at which a lookup join reads its whole table again",
        least=1,
    )
    lookup_expire_write_ms: int | None = opt(
        "lookup.partial-cache.expire-after-write",
        duration_ms,
        None,
        "time after which a partial cache drops a key",
    )
    lookup_expire_access_ms: int | None = opt(
        "lookup.partial-cache.expire-after-access",
        duration_ms,
        None,
        "time after its last lookup when a partial cache drops a key",
    )
