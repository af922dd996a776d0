"""Parsers of option values (sizes, durations, enums, …), and the declaration of a typed option.

A parser takes the stored text and raises ValueError with the end of the sentence "it must be …".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum, Flag, StrEnum, auto
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_SIZES = {
    unit: shift
    for shift, units in {
        0: ("", "b", "bytes"),
        10: ("k", "kb", "kibibytes"),
        20: ("m", "mb", "mebibytes"),
        30: ("g", "gb", "gibibytes"),
        40: ("t", "tb", "tebibytes"),
    }.items()
    for unit in units
}
_NANOS = {
    unit: nanos
    for nanos, units in {
        1: ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
        1_000: ("µs", "micro", "micros", "microsecond", "microseconds"),
        1_000_000: ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
        1_000_000_000: ("s", "sec", "secs", "second", "seconds"),
        60_000_000_000: ("m", "min", "minute", "minutes"),
        3_600_000_000_000: ("h", "hour", "hours"),
        86_400_000_000_000: ("d", "day", "days"),
    }.items()
    for unit in units
}
_AMOUNT = re.compile(r"\s*(\d+)\s*([A-Za-zµ]*)\s*")
_SIZE_UNITS = {"tb": 1 << 40, "gb": 1 << 30, "mb": 1 << 20, "kb": 1 << 10, "bytes": 1}
_TIME_UNITS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000, "ms": 1}
_STATS_MODE = re.compile(r"none|counts|full|truncate\([1-9]\d{0,8}\)")
DATA_FORMATS = ("parquet", "orc", "avro")
SCAN_MODES = (
    "default",
    "latest-full",
    "full",
    "latest",
    "compacted-full",
    "from-timestamp",
    "from-creation-timestamp",
    "from-file-creation-time",
    "from-snapshot",
    "from-snapshot-full",
    "incremental",
)
INFINITE = 2147483647
ENDLESS = 9223372036854775807


class Place(Flag):
    """Where an option may be set: when a table is created, by ALTER TABLE, for one use (`with_options`, or a
    hint in SQL)."""

    CREATE = auto()
    ALTER = auto()
    SCAN = auto()

    def __str__(self) -> str:
        return ", ".join(str(place.name).lower() for place in self)


EVERYWHERE = Place.CREATE | Place.ALTER | Place.SCAN
STORED = Place.CREATE | Place.ALTER  # for one use it would change what stored files mean, or what others see


class MergeEngine(StrEnum):
    """How rows of one key become one row."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class LookupCompact(StrEnum):
    """How soon tables whose compaction looks keys up compact level 0."""

    RADICAL = "radical"
    GENTLE = "gentle"


class SortOrder(StrEnum):
    """Whether the greatest or the least sequence wins."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class ChangelogProducer(StrEnum):
    """Where changelog files come from."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class CompactionStrategy(StrEnum):
    """Which rules choose the files that a bucket's compaction merges."""

    UNIVERSAL = "universal"
    LEVELED = "leveled"


class Durability(StrEnum):
    """What a commit survives once it has returned."""

    PROCESS = "process"
    COMMIT = "commit"


def memory_size(text: str) -> int:
    """Bytes of `128 mb`, `64kb`, `1024`."""
    if text.strip().lower() == "infinite":
        return ENDLESS
    match = _AMOUNT.fullmatch(text)
    if not match or match[2].lower() not in _SIZES:
        raise ValueError("a size such as '128 mb'")
    return int(match[1]) << _SIZES[match[2].lower()]


def duration_ms(text: str) -> int:
    """Milliseconds of `1 h`, `10 min`, `30s`, `500 ms`; a bare number is milliseconds."""
    match = _AMOUNT.fullmatch(text)
    if not match or match[2].lower() not in _NANOS:
        raise ValueError("a duration such as '10 min'")
    return int(match[1]) * _NANOS[match[2].lower()] // 1_000_000


def boolean(text: str) -> bool:
    """true or false, in any case."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.strip().lower() == "true"


def by_level(text: str) -> tuple[tuple[int, str], ...]:
    """Values by level of `0:avro,3:parquet`."""
    pairs = [part.partition(":") for part in text.split(",") if part.strip()]
    if not all(colon and level.strip().isdecimal() for level, colon, _ in pairs):
        raise ValueError("pairs of a level and a value such as '0:avro,5:parquet'")
    return tuple((int(level), value.strip().lower()) for level, _, value in pairs)


def real(text: str) -> float:
    """A number with or without a fraction."""
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


def names(text: str) -> tuple[str, ...]:
    """The parts of `a, b`."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def directory_inside(text: str) -> str:
    """`data/files`: a directory below the table's own."""
    parts = text.rstrip("/").split("/")
    if text and (not _plain(text) or ":" in parts[0] or {"", ".", ".."}.intersection(parts)):
        raise ValueError("a path inside the table's directory, such as 'data': not absolute, no '..'")
    return text.rstrip("/")


def name_start(text: str) -> str:
    """`data-`: what file names begin with."""
    if "/" in text or not _plain(text) or text.startswith(".") or len(text.encode()) > 100:
        raise ValueError("the start of a file name: no '/', no leading dot, up to 100 bytes")
    return text


def _plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return not any(c < " " or c == "\\" for c in text)


def integer(text: str) -> int:
    """A whole number of 32 bits; `infinite` is the largest."""
    return _whole(text, bits=32)


def long(text: str) -> int:
    """A whole number of 64 bits; `infinite` is the largest of 32."""
    return _whole(text, bits=64)


def _whole(text: str, *, bits: int) -> int:
    if text.strip().lower() == "infinite":
        return INFINITE
    try:
        number = int(text)
    except ValueError:
        raise ValueError("a whole number") from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"a whole number of {bits} bits")
    return number


def enum(kind: type[Enum]) -> Callable[[str], Any]:
    """A parser of the values of `kind`, in any case."""

    def parse(text: str) -> Any:
        try:
            return kind(text.strip().lower())
        except ValueError:
            raise ValueError("one of " + ", ".join(str(e.value) for e in kind)) from None

    return parse


def as_people_write(value: Any, parse: Callable[[str], Any]) -> str | None:
    """A parsed value as an option's text: `128 mb`, `1 h`, `true`, `a, b`; None for None."""
    if value is None:
        return None
    if parse is memory_size:
        return "infinite" if value == ENDLESS else _in_units(value, _SIZE_UNITS)
    if parse is duration_ms:
        return _in_units(value, _TIME_UNITS)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(":".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in value)
    if parse in (integer, long) and value == INFINITE:
        return "infinite"
    return str(getattr(value, "value", value))


def _in_units(count: int, units: Mapping[str, int]) -> str:
    """`count` in the largest unit of which it is a whole number."""
    whole = ((name, unit) for name, unit in units.items() if count and count % unit == 0)
    name, unit = next(whole, ([*units][-1], 1))
    return f"{count // unit} {name}"


def one_of(*allowed: str) -> Callable[[str], str]:
    """A parser of these words, in any case."""

    def parse(text: str) -> str:
        word = text.strip().lower()
        if word not in allowed:
            raise ValueError("one of " + ", ".join(allowed))
        return word

    return parse


def between(parse: Callable[[str], Any], least: float, most: float = ENDLESS) -> Callable[[str], Any]:
    """A parser of numbers from `least` to `most`, as `parse` reads them; NaN is none."""

    def parse_within(text: str) -> Any:
        value = parse(text)
        if not least <= value <= most:
            raise ValueError(f"at least {least}" if most == ENDLESS else f"from {least} to {most}")
        return value

    return parse_within


def by_level_of(parse: Callable[[str], Any]) -> Callable[[str], tuple[tuple[int, str], ...]]:
    """A parser of values by level, `0:avro,3:parquet`: each level once, with a value that `parse` takes."""

    def parse_each(text: str) -> tuple[tuple[int, str], ...]:
        pairs = by_level(text)
        if len(dict(pairs)) < len(pairs):
            raise ValueError("pairs with each level once")
        for _, value in pairs:
            parse(value)
        return pairs

    return parse_each


def statistics_mode(text: str) -> str:
    """`truncate(16)`, `full`, `counts`, `none`: which statistics of a column are kept."""
    mode = text.strip().lower()
    if not _STATS_MODE.fullmatch(mode.replace(" ", "")):
        raise ValueError("none, counts, truncate(n) or full")
    return mode


def time_zone(text: str) -> str:
    """`Europe/Berlin`, `UTC`: a zone of the IANA database."""
    try:
        ZoneInfo(text)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError("a time zone such as 'Europe/Berlin'") from None
    return text


def opt(
    key: str,
    parse: Callable[[str], Any],
    default: Any,
    meaning: str,
    *aliases: str,
    strict: Callable[[str], Any] | None = None,
    least: float | None = None,
    most: float = ENDLESS,
    places: Place = EVERYWHERE,
) -> Any:
    """A field of TableOptions: key as stored, parser, default of Paimon 2.0.0, meaning, fallback keys.

    `strict` is the parser of values that are set here, where it takes fewer than `parse`: what another engine
    stored still opens. `least` and `most` are bounds of such numbers. `places`: where the option may be set.
    """
    if least is not None:
        strict = between(parse, least, most)
    return field(
        default=default,
        metadata={
            "key": key,
            "parse": parse,
            "meaning": meaning,
            "aliases": aliases,
            "strict": strict or parse,
            "places": places,
        },
    )
