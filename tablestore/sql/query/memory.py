"""How much memory this process has, and may take: what DuckDB does not count in its own limit.

Where the system does not say it, as outside of Linux, nothing is known and nothing is stopped.
"""

from __future__ import annotations

import os
from pathlib import Path

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_MEMORY, _SYSTEM = Path("/proc/self/statm"), Path("/proc/meminfo")
_ROOM = 512 << 20  # for rows on their way in and out


def resident_bytes() -> int | None:
    """What of this process is in memory; None where it is not known."""
    try:
        return int(_MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def may_grow_bytes(limit: str) -> int | None:
    """By how much a query may make this process grow: twice its limit, `476.8 MiB` as DuckDB shows it, and
    some room, or nine tenths of what the system has left; None where that is not known."""
    number, _, unit = limit.partition(" ")
    try:
        lines = dict(line.split(":", 1) for line in _SYSTEM.read_text().splitlines())
        left = int(lines["MemAvailable"].split()[0]) * 1024
        return min(2 * int(float(number) * _UNITS[unit]) + _ROOM, left * 9 // 10)
    except (OSError, ValueError, KeyError):
        return None
