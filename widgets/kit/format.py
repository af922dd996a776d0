"""Numbers, units and names as text: the same words on every machine, whatever its locale.

Bytes are IEC with three significant digits; ids have no separators; an absent value is an en dash. Pure.
Called by every model and figure.
"""

import math
import re
from datetime import UTC, datetime

from widgets.kit.svg import plain

MAX_VALUE = 160
"""Characters of a value of the data that are shown."""
ABSENT = "–"
MINUS = "−"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LONG = re.compile(r"(?<![\w'])(?<!\d\.)\d{5,18}(?![\w'])(?!\.\d)")
_WHOLE = re.compile(r"\[?(-?\d{1,18})\]?")


def _three(value: float) -> str:
    """Three significant digits, never in scientific notation."""
    size = abs(value)
    if round(size, 2) < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if round(size, 1) < 100 else f"{value:.0f}"


def bytes_text(count: int | None) -> str:
    """`9.46 MiB`, `25.6 MiB`, `560 MiB`, `1.10 GiB`; below one KiB whole bytes."""
    if count is None:
        return ABSENT
    value, unit = float(abs(count)), 0
    while unit < len(_UNITS) - 1 and value >= (1024 if unit == 0 else 1023.5):
        value, unit = value / 1024, unit + 1
    sign = MINUS if count < 0 else ""
    return f"{sign}{int(value)} B" if unit == 0 else f"{sign}{_three(value)} {_UNITS[unit]}"


def factor(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """An estimated factor: its range `1.1 to 1.9`, rounded outward; `≈ 1.31` where no range is known."""
    if value is None:
        return ABSENT
    if low is None or high is None or low >= high:
        return f"≈ {value:.2f}"
    step = 10 if high < 10 else 1
    digits = 1 if high < 10 else 0
    ends = math.floor(low * step + 0.05) / step, math.ceil(high * step - 0.05) / step
    return f"{ends[0]:.{digits}f} to {ends[1]:.{digits}f}"


def bytes_range(count: int, low: int, high: int) -> str:
    """Estimated bytes: their range `9.10 to 11.0 KiB`; `≈ 9.46 MiB` where its ends read alike."""
    ends = bytes_text(low), bytes_text(high)
    if ends[0] == ends[1]:
        return f"≈ {bytes_text(count)}"
    (number, unit), last = ends[0].split(" "), ends[1].split(" ")[1]
    return f"{number if unit == last else ends[0]} to {ends[1]}"


def count(value: int | None) -> str:
    """`652,692` in full; a negative number has a true minus."""
    if value is None:
        return ABSENT
    return f"{value:,}".replace("-", MINUS)


def short_count(value: float | None) -> str:
    """`653 k`, `40.8 M` for axes and headings."""
    if value is None:
        return ABSENT
    size, sign = abs(value), MINUS if value < 0 else ""
    if size < 999.5:
        return f"{sign}{size:.0f}"
    if size < 999_500:
        thousands = size / 1e3
        return f"{sign}{thousands:.1f} k" if thousands < 9.95 else f"{sign}{thousands:.0f} k"
    for limit, unit, scale in ((999.5e6, "M", 1e6), (999.5e9, "G", 1e9)):
        if size < limit:
            return f"{sign}{_three(size / scale)} {unit}"
    return f"{sign}{_three(size / 1e12)} T"


def plus(value: int) -> str:
    """`+652,692`, `−14`, `+0`."""
    return f"{MINUS if value < 0 else '+'}{abs(value):,}"


def plus_rows(value: int) -> str:
    """`+652,692 rows`, `+1 row`, `−14 rows`."""
    return f"{plus(value)} {'row' if abs(value) == 1 else 'rows'}"


def percent(part: float, whole: float) -> str:
    """`62 %`; a part that is not nothing never reads `0 %`, one that is not all never `100 %`."""
    if whole <= 0:
        return ABSENT
    share = 100 * part / whole
    if 0 < share < 0.5:
        return "< 1 %"
    return "99 %" if 99.5 <= share < 100 else f"{share:.0f} %"


def snapshot_id(snapshot: int | None) -> str:
    """`#7819`, never `#7,819`."""
    return ABSENT if snapshot is None else f"#{snapshot}"


def duration(seconds: float | None) -> str:
    """`0.4 s`, `1:52`, `2:03:09`."""
    if seconds is None:
        return ABSENT
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    total = round(seconds)
    minutes, rest = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def seconds_text(seconds: float | None) -> str:
    """`40 ms`, `1.4 s`, `2:03`."""
    if seconds is not None and 0 < seconds < 0.0995:
        return f"{max(round(seconds * 1000), 1)} ms"
    return duration(seconds)


def clock(seconds: float) -> str:
    """`12:47:08` in UTC, of seconds after 1970."""
    return f"{datetime.fromtimestamp(int(seconds), UTC):%H:%M:%S}"


def stamp(time: datetime | None, *, today: datetime | None = None) -> str:
    """`12:47:08`, with its day if that is not `today`'s."""
    if time is None:
        return ABSENT
    clock = time.strftime("%H:%M:%S")
    if today is not None and time.date() == today.date():
        return clock
    year = f" {time.year}" if today is not None and time.year != today.year else ""
    return f"{time.day} {time.strftime('%b')}{year} {clock}"


def key(text: str | None) -> str:
    """A key as shown: a whole number gets separators, anything else stays as stored."""
    if text is None:
        return "null"
    whole = _WHOLE.fullmatch(text)
    return f"{int(whole.group(1)):,}".replace("-", MINUS) if whole else text


def grouped(text: str) -> str:
    """`max 1,488,731 < 40,000`: whole numbers of five digits and more, outside quotes and names, get
    separators; years stay."""
    return _LONG.sub(lambda match: f"{int(match.group()):,}", text)


def key_range(low: str | None, high: str | None) -> str:
    """`18,000 … 1,492,000`."""
    return f"{key(low)} … {key(high)}"


def file_name(name: str, *, keep: int = 26) -> str:
    """A file name shortened in the middle: `data-91c4…-3.parquet`."""
    if len(name) <= keep:
        return name
    tail = re.search(r"-\d+\.\w+$", name)
    ending = tail.group(0) if tail and len(tail.group(0)) < keep - 6 else name[-(keep // 3) :]
    return f"{name[: max(keep - len(ending) - 1, 4)]}…{ending}"


def plural(number: int, noun: str) -> str:
    """`1 file`, `2 files`, `1,200 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def value(text: object) -> str | None:
    """A value of the data on one line, cut to `MAX_VALUE`; None for NULL."""
    if text is None:
        return None
    if isinstance(text, bool):
        return "true" if text else "false"
    if isinstance(text, bytes):
        text = f"0x{text.hex()}"
    shown = plain(text)
    if isinstance(text, int | float):
        shown = shown.replace("-", MINUS)
    return shown if len(shown) <= MAX_VALUE else f"{shown[: MAX_VALUE - 1]}…"


def short_partition(partition: str) -> str:
    """`l_year=1995/l_month=6` → `1995/6`."""
    return "/".join(part.split("=", 1)[-1] for part in partition.split("/"))
