"""How long a log of Fluss keeps its rows, by the properties of its table."""

from __future__ import annotations

from collections.abc import Mapping

from tablestore.core.options.values import duration_ms

TTL = "table.log.ttl"
_TTL = "7d"


def kept_ms(properties: Mapping[str, str]) -> int | None:
    """Milliseconds from the append of a row on; None: for ever."""
    try:
        kept = duration_ms(properties.get(TTL, _TTL))
    except ValueError:  # such as -1
        return None
    return kept if kept > 0 else None
