"""Options of `format("tablestore")`: which ones a read, a stream and a sink have, and the table's among them.

Spark passes on every option, names in lower case. One that is neither of these nor an option of the table
with an effect there is refused with the nearest names, so that a misspelt one never gives wrong rows in
silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from enum import Enum

from tablestore.core.errors import InvalidOption, InvalidRequest
from tablestore.core.options import rules as option_rules
from tablestore.core.options.rules import require_usable
from tablestore.format.predicates.predicate import Predicate
from tablestore.io.confined import roots_in
from tablestore.io.s3_options import is_s3_key, require_s3_key
from tablestore.read.scan import scan_mode
from tablestore.read.scan.scan_mode import SnapshotState
from tablestore.table.lake import Lake, open_table
from tablestore.table.scan import Scan
from tablestore.table.table import Table

TABLE_SOURCE = "tablestore"
lakes: dict[str, Lake] = {}
"""The lakes that are catalogs of Spark in this process, by name."""
_SCAN = ("scan.", "incremental-")
_STARTS = ("scan.mode", "scan.snapshot-id", "scan.timestamp", "scan.timestamp-millis")
_SPARKS_OWN = ("checkpointlocation",)


class Use(Enum):
    """The use of a table, with the options of the source for it."""

    READ = (
        *("path", "roots", "columns", "snapshot-id", "timestamp", "pushdown", "where"),
        *("splits", "pinned"),  # of reads that are planned: which splits, and at which snapshot (0: at none)
    )
    STREAM = ("path", "roots", "columns", "start", "rowkind", "normalize", "consumer-id")
    WRITE = ("path", "roots", "rowkind")
    STREAM_WRITE = ("path", "roots", "rowkind", "user")


_CALLED = {
    Use.READ: "batch reads",
    Use.STREAM: "streams",
    Use.WRITE: "batch writes",
    Use.STREAM_WRITE: "streaming sinks",
}


def path_of(options: Mapping[str, str]) -> str:
    """The location of the table; raises InvalidRequest that says how to name it."""
    if "location" in options or not options.get("path"):  # Spark adds a location when it makes a table
        raise InvalidRequest(
            'format("tablestore") needs the path of a table: load(path), option("path", …) or, in SQL, '
            'CREATE TEMPORARY VIEW v USING tablestore OPTIONS (path "…"). For tables by name, instead of '
            "CREATE TABLE … USING tablestore, which makes nothing that can be read, call lake.register(spark)"
        )
    return options["path"]


def used(options: Mapping[str, str], use: Use) -> Table:
    """The table that the options name, with the options of its own; raises InvalidOption for one that has no
    effect."""
    path = path_of(options)
    given = _of_table(options, use)
    reach = {k: v for k, v in options.items() if is_s3_key(k)}
    table = open_table(path, options=reach, roots=roots_in(options.get("roots")))
    return table.with_options(given) if given else table


def read_of(options: Mapping[str, str]) -> Table:
    """The table of a batch read, at the snapshot or time that the options name."""
    table, moment = used(options, Use.READ), options.get("timestamp")
    if options.get("snapshot-id"):
        return table.at(snapshot=int(options["snapshot-id"]))
    return table.at(timestamp=int(moment) if moment.isdigit() else moment) if moment else table


def scan_of(options: Mapping[str, str], columns: Sequence[str] | None, where: Predicate | str | None) -> Scan:
    """The scan of a batch read: of what the options name, or under today's columns at the snapshot that they
    pin."""
    scan = read_of(options).scan(columns, where)
    pinned = options.get("pinned")
    if pinned is None:
        return scan
    snapshot = scan.store.snapshots.get(int(pinned)) if int(pinned) else None
    return replace(scan, target=SnapshotState(snapshot))


def switched(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """The value of an option that is true or false; raises InvalidOption for other texts."""
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise InvalidOption(f"option {name} {options[name]!r} must be true or false")
    return text == "true"


def _of_table(options: Mapping[str, str], use: Use) -> dict[str, str]:
    """Those options that are the table's."""
    table_options = {}
    for key, value in options.items():
        if is_s3_key(key):
            require_s3_key(key)
        elif key not in use.value and key not in _SPARKS_OWN:
            _require_place(key, use)
            table_options[key] = value
    require_usable(table_options)
    return table_options


def _require_place(key: str, use: Use) -> None:
    """Raise InvalidOption for an option that is unknown, or has no effect in this use."""
    elsewhere = [other for other in Use if key in other.value]
    if elsewhere:
        uses = " and ".join(_CALLED[other] for other in elsewhere)
        raise InvalidOption(f"option {key!r} is of {uses}, this is one of the {_CALLED[use]}")
    if option_rules.fate(key) is None:
        option_names = {name for other in Use for name in other.value} | option_rules.names()
        near = get_close_matches(key, option_names, n=3, cutoff=0.6)
        hint = (
            f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(use.value)}"
        )
        raise InvalidOption(f"unknown option {key!r}; {hint}")
    if use is Use.STREAM and key not in _STARTS:
        raise InvalidOption(f"option {key!r} has no effect in a stream of Spark; set it on the table")
    if use in (Use.WRITE, Use.STREAM_WRITE) and key.startswith(_SCAN):
        raise InvalidOption(f"option {key!r} has no effect in a write")


def start_of(options: Mapping[str, str]) -> str:
    """The start of a stream: latest-full, latest or a snapshot id; from `start`, else from the table's
    `scan.*`."""
    table = used(options, Use.STREAM)
    if options.get("start"):
        return options["start"]
    mode = scan_mode.mode_of(table.store)
    if mode in ("latest-full", "latest"):
        return mode
    upcoming = scan_mode.following(table.store).next_snapshot
    if upcoming is None:
        raise InvalidOption(f"scan.mode {mode!r} is not of streams of Spark: start them at a snapshot id")
    return str(upcoming)
