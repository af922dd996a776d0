"""The scan mode that a table's options ask for, and which options have a place in it (FORMAT.md 21.2). Pure.

Used by reads, and when a table is created or altered: Paimon does not open one whose options contradict each
other.
"""

from __future__ import annotations

from collections.abc import Mapping

from tablestore.core.errors import InvalidOption
from tablestore.core.options.values import SCAN_MODES

_PLACES = {
    "scan.snapshot-id": ("from-snapshot", "from-snapshot-full"),
    "scan.tag-name": ("from-snapshot",),
    "scan.watermark": ("from-snapshot",),
    "scan.version": ("from-snapshot",),
    "scan.timestamp": ("from-timestamp",),
    "scan.timestamp-millis": ("from-timestamp",),
    "scan.file-creation-time-millis": ("from-file-creation-time",),
    "scan.creation-time-millis": ("from-creation-timestamp",),
    "incremental-between": ("incremental",),
    "incremental-between-timestamp": ("incremental",),
    "incremental-to-auto-tag": ("incremental",),
}
_OLD_NAMES = {"scan.timestamp-millis": "log.scan.timestamp-millis"}


def mode_of(mode: str, options: Mapping[str, str]) -> str:
    """The scan mode in force where `scan.mode` is `mode`; raises InvalidOption for unknown ones and for
    options that contradict it."""
    if mode not in SCAN_MODES:
        raise InvalidOption(f"option 'scan.mode' is {mode!r}; it must be one of {', '.join(SCAN_MODES)}")
    set_keys = places_given(options)
    if mode == "default":
        mode = _PLACES[set_keys[0]][0] if set_keys else "latest-full"
    wrong = [key for key in set_keys if mode not in _PLACES[key]]
    if wrong:
        raise InvalidOption(f"option {wrong[0]!r} has no place in scan.mode {mode!r}; leave out one of them")
    wanted = [key for key, modes in _PLACES.items() if mode in modes]
    if wanted and len(set_keys) != 1:
        raise InvalidOption(f"scan.mode {mode!r} wants exactly one of {', '.join(wanted)}; given: {set_keys}")
    return "latest-full" if mode == "full" else mode


def places_given(options: Mapping[str, str]) -> list[str]:
    """The options there are that say where a read starts, by their current names."""
    return [key for key in _PLACES if key in options or _OLD_NAMES.get(key, key) in options]
