"""Dates and times: zones by their names, Java's patterns, and the functions as DuckDB has them: intervals,
parts and roundings.

Patterns such as `yyyy-MM-dd HH:mm:ss` are said in DuckDB's letters where it has them; texts are read that its
strptime does not read. A week that is rounded begins on Sunday.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from functools import lru_cache
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tablestore.core.errors import InvalidOption, InvalidRequest, Unsupported
from tablestore.format.time_text import pattern_parts, pieces_of, read_by, time_of, written
from tablestore.sql.query.function import FunctionRows, text_of
from tablestore.sql.text import literal_text

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_WRITTEN = {
    **{"yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "uu": "%y", "MM": "%m", "M": "%-m", "LL": "%m", "L": "%-m"},
    **{"MMM": "%b", "LLL": "%b", "MMMM": "%B", "LLLL": "%B", "dd": "%d", "d": "%-d", "DDD": "%j", "D": "%-j"},
    **{"E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A", "a": "%p"},
    **{"HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S"},
    **{"SSS": "%g", "SSSSSS": "%f"},
}
_READ = {**_WRITTEN, "y": "%Y", "u": "%Y", "SSSSSSSSS": "%n"}
_PLAIN = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")
EXTRACTED = frozenset(
    "YEAR ISOYEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND NANOSECOND DOW DAYOFWEEK "
    "ISODOW DOY DAYOFYEAR EPOCH DECADE CENTURY MILLENNIUM".split()
)
_DAYS = ("DAY", "HOUR", "MINUTE", "SECOND")
_SECONDS = {"DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}
_LONG = (*"DAY WEEK MONTH QUARTER YEAR DECADE CENTURY MILLENNIUM".split(),)
_OF_TIME = ("HOUR", "MINUTE", "SECOND", "MILLISECOND")

_MOMENT = r"^\s*\d{4}-\d{1,2}-\d{1,2} \d{1,2}:\d{1,2}:\d{1,2}"  # what is behind does not count
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")


@lru_cache(maxsize=64)
def zone(name: str) -> dt.tzinfo:
    """The zone of a name, `Europe/Berlin`, `UTC`, `+08:00`, `GMT+8`. Raises InvalidRequest."""
    offset = _OFFSET.fullmatch(name)
    if offset:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes <= 18 * 60:
            return dt.timezone(dt.timedelta(minutes=minutes if offset[1] == "+" else -minutes))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(f"{name!r} is no zone of time") from None


def converted(text: str, start: str, end: str) -> str | None:
    """The text of a time of zone `start` as one of zone `end`; None for a text that is no time."""
    try:
        local = dt.datetime.strptime(text, "%Y-%m-%d %H:%M:%S")
        return local.replace(tzinfo=zone(start)).astimezone(zone(end)).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return None


def instants(local: pa.Array, name: str) -> pa.Array:
    """Timestamps without a zone as instants of the zone of that name, in their unit. Where a clock is set
    back it is the earlier of two; a time that is skipped is as much later as the clock is set forward, as in
    Java and by CAST."""
    near = pc.assume_timezone(local, name, ambiguous="earliest", nonexistent="earliest")
    skipped = pc.subtract(local, pc.local_timestamp(near))  # since the last moment before the clock is set
    return pc.add(near, skipped)


def known_zone(name: str) -> str:
    """The name of a zone as Arrow and DuckDB read it. Raises InvalidOption for what is no zone."""
    offset = _OFFSET.fullmatch(name)
    try:
        zone(name)
    except InvalidRequest:
        offset, name = None, ""
    if not name or (offset and offset[3] not in (None, "00")):
        raise InvalidOption(
            "a zone of time is a name such as 'Europe/Berlin', 'UTC' or whole hours: 'GMT+08:00'"
        )
    return f"Etc/GMT{'-' if offset[1] == '+' else '+'}{int(offset[2])}" if offset else name


def strftime_pattern(java: str) -> str | None:
    """The pattern for a time as text; None if DuckDB cannot say it."""
    return _spelled(java, _WRITTEN)


def strptime_pattern(java: str) -> str | None:
    """The pattern for a text as time; None if DuckDB cannot say it."""
    return _spelled(java, _READ)


def _spelled(java: str, letters: Mapping[str, str]) -> str | None:
    spelled = ""
    for part in pattern_parts(java):
        if part.sign or (part.letter and part.text not in letters):
            return None
        spelled += letters[part.text] if part.letter else part.text.replace("%", "%%")
    return spelled


def formatted(at: pa.Array, patterns: pa.Array, fractions: pa.Array) -> pa.Array:
    """Times by patterns; `fractions` are nine digits of their seconds. Raises InvalidRequest for what is no
    pattern."""
    nanos, texts = fractions.cast(pa.int64()), pa.nulls(len(at), pa.string())
    for pattern in pc.unique(patterns.drop_null()):
        texts = pc.if_else(pc.equal(patterns, pattern), written(at, pattern.as_py(), nanos), texts)
    return texts


def parsed(text: str, pattern: str, prefix: bool) -> dt.datetime | None:
    """The time of a text, None if it is none; an empty pattern is `yyyy-MM-dd[ HH:mm:ss[.S]]`.

    What a text leaves out is the beginning of 1970. `prefix`: what stands behind does not count; else a text
    that does not follow its pattern may be of the usual form. Raises Unsupported for a letter of a pattern
    that says nothing of a time.
    """
    if pattern:
        expression, letters = read_by(pattern)
        match = expression.match(text) if prefix else expression.fullmatch(text)
        if match is not None:
            at = time_of({k: v for k, v in zip(letters, match.groups(), strict=True) if v is not None})
            if at is not None or prefix:
                return at
    return None if prefix else _usual(text)


def _usual(text: str) -> dt.datetime | None:
    match = _PLAIN.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    fraction = int((match[7] or "").ljust(6, "0")[:6])
    try:
        at = dt.datetime(year, month, day) + dt.timedelta(hours=hour, minutes=minute, seconds=second)
        return at + dt.timedelta(microseconds=fraction) if hour < 25 else None
    except (ValueError, OverflowError):
        return None


def _unit(arguments: list[str]) -> str:
    unit = arguments[0].upper().removeprefix("SQL_TSI_")
    if unit not in _UNITS:
        raise InvalidRequest(f"{arguments[0]} is no unit of time: {', '.join(_UNITS)}")
    return unit


def micros(value: str, *, safe: bool = False) -> str:
    """A time as a TIMESTAMP; digits behind the microseconds are cut, not rounded. `safe`: NULL for what is no
    time."""
    nanos = f"epoch_ns(TRY_CAST({value} AS TIMESTAMP_NS))"
    cut = f"make_timestamp(({nanos} - ({nanos} % 1000 + 1000) % 1000) // 1000)"
    cast = f"{'TRY_' if safe else ''}CAST({value} AS TIMESTAMP)"
    return f"(CASE typeof({value}) WHEN 'TIMESTAMP_NS' THEN {cut} ELSE {cast} END)"


def _moment(value: str) -> str:
    """A time, or a text `yyyy-MM-dd HH:mm:ss` without its fraction, as a TIMESTAMP; NULL for another text."""
    text = f"regexp_extract(CAST({value} AS VARCHAR), '{_MOMENT}')"
    parsed = f"try_strptime({text}, '%Y-%m-%d %H:%M:%S')"
    return f"(CASE WHEN typeof({value}) = 'VARCHAR' THEN {parsed} ELSE {micros(value)} END)"


def _date_format(arguments: list[str]) -> str:
    """By DuckDB's strftime where it has the letters, else by ours."""
    value, pattern = arguments
    moment = _moment(value)
    if pattern.startswith("'"):
        java = text_of(pattern, "a time pattern")
        letters = strftime_pattern(java)
        if letters:
            return f"strftime({moment}, {literal_text(letters)})"
        pieces_of(java)
    fraction = f"strftime(TRY_CAST({value} AS TIMESTAMP_NS), '%n')"
    fraction = f"CASE typeof({value}) WHEN 'TIMESTAMP_NS' THEN {fraction} ELSE strftime({moment}, '%n') END"
    return f"own_date_format({moment}, {pattern}, {fraction})"


def _to_timestamp(arguments: list[str]) -> str:
    time = _cut_time(f"own_parse_time({arguments[0]}, '', FALSE)")
    if len(arguments) == 2:
        time = _cut_time(_parsed(*arguments, prefix=False))
    return time


def _cut_time(value: str) -> str:
    return f"CAST(date_trunc('milliseconds', {value}) AS TIMESTAMP_MS)"


def _parsed(text: str, pattern: str, *, prefix: bool) -> str:
    """A text by a pattern as a TIMESTAMP: by DuckDB's strptime where that has the letters, and what this does
    not read by ours. `prefix`: what stands behind does not count."""
    own = f"own_parse_time({text}, {pattern}, {str(prefix).upper()})"
    java = text_of(pattern, "a time pattern") if pattern.startswith("'") else ""
    letters = strptime_pattern(java) if "y" in java or "u" in java else None
    read_by(java)
    return own if letters is None else f"coalesce(try_strptime({text}, {literal_text(letters)}), {own})"


def _to_date(arguments: list[str]) -> str:
    if len(arguments) == 2:
        return f"CAST({_parsed(*arguments, prefix=True)} AS DATE)"
    text = f"trim({arguments[0]})"
    day = f"regexp_extract({text}, '^(\\d{{1,4}}-\\d{{1,2}}-\\d{{1,2}})( .*)?$', 1)"
    cases = f"WHEN regexp_full_match({text}, '\\d{{4}}') THEN {text} || '-01-01'"
    cases += f" WHEN regexp_full_match({text}, '\\d{{4}}-\\d{{1,2}}') THEN {text} || '-01'"
    return f"TRY_CAST(CASE {cases} ELSE {day} END AS DATE)"


def _unix_timestamp(arguments: list[str]) -> str:
    if not arguments:
        return "CAST(floor(epoch(now())) AS BIGINT)"
    at = _moment(arguments[0]) if len(arguments) == 1 else _parsed(*arguments, prefix=True)
    return f"CAST(floor(epoch(CAST({at} AS TIMESTAMPTZ))) AS BIGINT)"


def _from_unixtime(arguments: list[str]) -> str:
    pattern = arguments[1] if len(arguments) == 2 else "'yyyy-MM-dd HH:mm:ss'"
    return _date_format([f"CAST(to_timestamp(CAST({arguments[0]} AS BIGINT)) AS TIMESTAMP)", pattern])


def _instant(arguments: list[str]) -> str:
    """TO_TIMESTAMP_LTZ of a number and its digits of a second, or of a text, its pattern and its zone."""
    value, *more = arguments
    pattern = more[0] if more and not more[0].isdecimal() else "''"
    text = f"own_parse_time(CAST({value} AS VARCHAR), {pattern}, FALSE)"
    zone = more[1] if len(more) == 2 else "'UTC'"
    of_text = f"timezone({zone}, {text})"
    digits = more[0] if more and more[0].isdecimal() else "3"
    if digits not in ("0", "3"):
        raise InvalidRequest(f"TO_TIMESTAMP_LTZ takes seconds (0) or milliseconds (3), not {digits}")
    of_number = f"to_timestamp(TRY_CAST({value} AS DOUBLE) / {10 ** int(digits)})"
    return f"(CASE WHEN typeof({value}) = 'VARCHAR' THEN {of_text} ELSE {of_number} END)"


def _clock(part: str, value: str) -> str:
    """Hour, minute or second; digits behind the microseconds do not round it."""
    exact = f"{part}({micros(value)})"
    return f"(CASE typeof({value}) WHEN 'TIMESTAMP_NS' THEN {exact} ELSE extract({part} FROM {value}) END)"


def _timestampdiff(arguments: list[str]) -> str:
    a, b = micros(arguments[1]), micros(arguments[2])
    return f"CAST(date_sub('{_unit(arguments)}', {a}, {b}) AS INTEGER)"


def _timestampadd(arguments: list[str]) -> str:
    unit = _unit(arguments)
    return f"(({arguments[2]}) + CAST({arguments[1]} AS BIGINT) * INTERVAL 1 {unit})"


def _rand_integer(arguments: list[str]) -> str:
    return f"CAST(floor(random() * ({arguments[-1]})) AS INTEGER)"


TIMES: FunctionRows = (
    ("DATE_FORMAT(time, pattern)", "As text by Java's pattern, 'yyyy-MM-dd'.", _date_format),
    ("TO_DATE(text[, 'pattern'])", "The date of a text, by Java's pattern; else NULL.", _to_date),
    ("TO_TIMESTAMP(text[, 'pattern'])", "The time of a text, by Java's pattern; else NULL.", _to_timestamp),
    (
        "TO_TIMESTAMP_LTZ(value[, precision, zone])",
        "The instant of a number of milliseconds since 1970, or seconds with precision 0, or of a text by a "
        "pattern and a zone.",
        _instant,
    ),
    (
        "FROM_UNIXTIME(seconds[, 'pattern'])",
        "Seconds since 1970 as text, in the session's zone.",
        _from_unixtime,
    ),
    ("YEAR(time)", "Its year.", lambda a: f"year({micros(a[0])})"),
    ("QUARTER(time)", "Its quarter, 1 to 4.", lambda a: f"quarter({micros(a[0])})"),
    ("MONTH(time)", "Its month, 1 to 12.", lambda a: f"month({micros(a[0])})"),
    ("WEEK(time)", "Its week by ISO 8601.", lambda a: f"week({micros(a[0])})"),
    ("WEEKOFYEAR(time)", "Its week by ISO 8601.", lambda a: f"week({micros(a[0])})"),
    ("DAY(time)", "Its day of the month.", lambda a: f"day({micros(a[0])})"),
    ("DAYOFMONTH(time)", "Its day of the month.", lambda a: f"day({micros(a[0])})"),
    ("DAYOFYEAR(time)", "Its day of the year.", lambda a: f"dayofyear({micros(a[0])})"),
    ("DAYOFWEEK(time)", "Its day of the week; 1 is Sunday.", lambda a: f"(dayofweek({micros(a[0])}) + 1)"),
    ("HOUR(time)", "Its hour.", lambda a: _clock("hour", a[0])),
    ("MINUTE(time)", "Its minute.", lambda a: _clock("minute", a[0])),
    ("SECOND(time)", "Its second.", lambda a: _clock("second", a[0])),
    (
        "TIMESTAMPDIFF(unit, a, b)",
        "How many whole units from a to b.",
        _timestampdiff,
    ),
    ("TIMESTAMPADD(unit, n, time)", "The time n units later.", _timestampadd),
    (
        "DATEDIFF(b, a)",
        "How many days from a to b.",
        "date_diff('day', CAST({1} AS DATE), CAST({0} AS DATE))",
    ),
    ("DATE_ADD(date, days)", "The date days later.", "(CAST({0} AS DATE) + CAST({1} AS INTEGER))"),
    ("DATE_SUB(date, days)", "The date days earlier.", "(CAST({0} AS DATE) - CAST({1} AS INTEGER))"),
    (
        "ADD_MONTHS(date, n)",
        "The date n months later.",
        "CAST(CAST({0} AS DATE) + (CAST({1} AS INTEGER) * INTERVAL 1 MONTH) AS DATE)",
    ),
    (
        "CONVERT_TZ(text, from, to)",
        "A text `yyyy-MM-dd HH:mm:ss` of one zone as one of another; NULL for another text.",
        "own_convert_tz({*})",
    ),
    ("LAST_DAY(date)", "The last day of its month.", "last_day(CAST({0} AS DATE))"),
    (
        "DATE_TRUNC('unit', time)",
        "The beginning of its unit.",
        "date_trunc({0}, CAST({1} AS TIMESTAMP))",
    ),
)
NOW: FunctionRows = (
    ("NOW()", "This moment.", "now()"),
    (
        "UNIX_TIMESTAMP([text[, 'pattern']])",
        "Seconds since 1970, of now or of a text in the session's zone.",
        _unix_timestamp,
    ),
    ("PROCTIME()", "This moment.", "now()"),
    ("CURRENT_ROW_TIMESTAMP()", "This moment.", "now()"),
    ("CURRENT_DATE()", "Today.", "current_date"),
    ("CURRENT_TIMESTAMP()", "This moment.", "now()"),
    ("LOCALTIMESTAMP()", "Now, without a zone.", "CAST(now() AS TIMESTAMP)"),
    ("LOCALTIME()", "The time of day.", "CAST(CAST(now() AS TIMESTAMP) AS TIME)"),
    ("CURRENT_TIME()", "The time of day.", "CAST(CAST(now() AS TIMESTAMP) AS TIME)"),
    ("RAND()", "A number from 0 to 1, another each time.", "random()"),
    ("RAND_INTEGER(n)", "A whole number from 0 below n, another each time.", _rand_integer),
    ("UUID()", "A fresh name.", "CAST(uuid() AS VARCHAR)"),
)


def interval(node: exp.Interval) -> str | None:
    """`INTERVAL '1 02:03:04.5' DAY TO SECOND` and the like; None for an interval of one unit, which DuckDB
    reads itself. Raises InvalidRequest for a text that does not fit its units."""
    unit = node.args.get("unit")
    if isinstance(unit, exp.Anonymous):  # DAY(3): its digits
        return f"INTERVAL {_text(node)!r} {unit.name}"
    if not isinstance(unit, exp.IntervalSpan):
        return None
    first, last = unit.this.name.upper(), unit.expression.name.upper()
    text = _text(node)
    if (first, last) == ("YEAR", "MONTH"):
        months = re.fullmatch(r"\s*([+-]?)(\d+)-(\d+)\s*", text)
        if months is None:
            raise InvalidRequest(f"{text!r} is no interval YEAR TO MONTH: write '1-2'")
        return f"to_months({months[1]}{int(months[2]) * 12 + int(months[3])})"
    if first not in _DAYS or last not in _DAYS or first == last:
        raise Unsupported(f"an interval {first} TO {last}")
    units = _DAYS[_DAYS.index(first) : _DAYS.index(last) + 1]
    numbers = re.fullmatch(r"\s*([+-]?)([\d:. ]+?)\s*", text)
    parts = re.split("[ :]+", numbers[2]) if numbers else []
    if numbers is None or len(parts) != len(units):
        raise InvalidRequest(f"{text!r} is no interval {first} TO {last}: write '1 02:03:04.5', '02:03', …")
    seconds = sum(float(part) * _SECONDS[unit] for part, unit in zip(parts, units, strict=True))
    return f"to_microseconds({numbers[1]}{round(seconds * 1_000_000)})"


def _text(node: exp.Interval) -> str:
    if not isinstance(node.this, exp.Literal):
        raise Unsupported("an interval that is no literal", "write n * INTERVAL '1' DAY")
    return str(node.this.name)


def extract(unit: str, value: str) -> str:
    """EXTRACT as a BIGINT; of a fraction only what is behind the second."""
    nanos = f"epoch_ns(TRY_CAST({value} AS TIMESTAMP_NS)) % 1000000000"
    usual = f"CAST(floor({_part(unit, value)}) AS BIGINT)"
    if unit == "NANOSECOND":
        usual, exact = f"(extract(microsecond FROM {value}) % 1000000 * 1000)", nanos
    elif unit in ("MICROSECOND", "MILLISECOND"):
        exact = usual
    else:
        exact = f"CAST(floor({_part(unit, micros(value))}) AS BIGINT)"
    if exact == usual:
        return usual
    return f"(CASE typeof({value}) WHEN 'TIMESTAMP_NS' THEN {exact} ELSE {usual} END)"


def _part(unit: str, value: str) -> str:
    if unit in ("DOW", "DAYOFWEEK"):
        return f"(extract(dow FROM {value}) + 1)"
    fraction = {"MILLISECOND": 1000, "MICROSECOND": 1_000_000}.get(unit)
    return f"extract({unit} FROM {value})" + (f" % {fraction}" if fraction else "")


def rounded(function: str, unit: str, value: str, kind: str | None) -> str:
    """`floor` or `ceil` of a time to a unit; `kind` is the type of the value if it is known."""
    if kind == "TIME":
        if unit not in _OF_TIME:
            raise InvalidRequest(f"a TIME is rounded to {', '.join(_OF_TIME)}, not {unit}")
        return (
            f"CAST({rounded(function, unit, f'(DATE {chr(39)}1970-01-01{chr(39)} + {value})', None)} AS TIME)"
        )
    at = value if kind == "TIMESTAMP_LTZ" else micros(value)
    floor = f"date_trunc('{unit}', {at})"
    if unit == "WEEK":
        floor = f"(date_trunc('week', {at} + INTERVAL 1 DAY) - INTERVAL 1 DAY)"
    result = floor
    if function == "ceil":
        result = f"(CASE WHEN {floor} = {at} THEN {at} ELSE {floor} + INTERVAL 1 {unit} END)"
    return f"CAST({result} AS DATE)" if kind == "DATE" and unit in _LONG else result


def overlaps(left: tuple[str, str], right: tuple[str, str], *, spans: tuple[bool, bool]) -> str:
    """Whether two periods overlap, ends included; a span is the length of a period, not its end."""
    ends = []
    for (start, end), span in zip((left, right), spans, strict=True):
        end = f"({start} + {end})" if span else end
        ends.append((f"least({start}, {end})", f"greatest({start}, {end})"))
    (a, b), (c, d) = ends
    return f"({b} >= {c} AND {d} >= {a})"
