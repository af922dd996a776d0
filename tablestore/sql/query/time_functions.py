"""The functions of dates and times."""

from __future__ import annotations

from tablestore.core.errors import InvalidRequest
from tablestore.sql.query.function import Rows, text_of
from tablestore.sql.query.patterns import strftime_pattern, strptime_pattern
from tablestore.sql.query.time_patterns import compiled
from tablestore.sql.text import literal_text

_MOMENT = r"^\s*\d{4}-\d{1,2}-\d{1,2} \d{1,2}:\d{1,2}:\d{1,2}"  # what is behind does not count
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")


def _pattern(arguments: list[str], place: int) -> str:
    java = text_of(arguments[place], "a time pattern") if len(arguments) > place else "yyyy-MM-dd HH:mm:ss"
    return "'" + strptime_pattern(java).replace("'", "''") + "'"


def _unit(arguments: list[str]) -> str:
    unit = arguments[0].upper().removeprefix("SQL_TSI_")
    if unit not in _UNITS:
        raise InvalidRequest(f"{arguments[0]} is no unit of time: {', '.join(_UNITS)}")
    return unit


def micros(value: str) -> str:
    """A time as a TIMESTAMP; digits behind the microseconds are cut, not rounded."""
    nanos = f"epoch_ns(CAST({value} AS TIMESTAMP_NS))"
    floor = f"({nanos} - ({nanos} % 1000 + 1000) % 1000) // 1000"
    cut = f"make_timestamp({floor})"
    return f"(CASE typeof({value}) WHEN 'TIMESTAMP_NS' THEN {cut} ELSE CAST({value} AS TIMESTAMP) END)"


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
        found = strftime_pattern(java)
        if found:
            return f"strftime({moment}, {literal_text(found)})"
        compiled(java)
    fraction = f"strftime(TRY_CAST({value} AS TIMESTAMP_NS), '%n')"
    fraction = f"CASE typeof({value}) WHEN 'TIMESTAMP_NS' THEN {fraction} ELSE strftime({moment}, '%n') END"
    return f"own_date_format({moment}, {pattern}, {fraction})"


def _to_timestamp(arguments: list[str]) -> str:
    if len(arguments) == 1:
        return f"TRY_CAST({arguments[0]} AS TIMESTAMP)"
    return f"try_strptime({arguments[0]}, {_pattern(arguments, 1)})"


def _to_date(arguments: list[str]) -> str:
    if len(arguments) == 1:
        return f"TRY_CAST({arguments[0]} AS DATE)"
    return f"CAST(try_strptime({arguments[0]}, {_pattern(arguments, 1)}) AS DATE)"


def _unix_timestamp(arguments: list[str]) -> str:
    if not arguments:
        return "CAST(floor(epoch(now())) AS BIGINT)"
    if len(arguments) == 1:
        return f"CAST(floor(epoch(TRY_CAST({arguments[0]} AS TIMESTAMP))) AS BIGINT)"
    return f"CAST(floor(epoch({_to_timestamp(arguments)})) AS BIGINT)"


def _from_unixtime(arguments: list[str]) -> str:
    return f"strftime(make_timestamp(CAST({arguments[0]} AS BIGINT) * 1000000), {_pattern(arguments, 1)})"


def _timestampadd(arguments: list[str]) -> str:
    unit = _unit(arguments)
    return f"(({arguments[2]}) + CAST({arguments[1]} AS BIGINT) * INTERVAL 1 {unit})"


def _rand_integer(arguments: list[str]) -> str:
    return f"CAST(floor(random() * ({arguments[-1]})) AS INTEGER)"


TIMES: Rows = (
    ("DATE_FORMAT(time, pattern)", "As text by Java's pattern, 'yyyy-MM-dd'.", _date_format),
    ("TO_DATE(text[, 'pattern'])", "The date of a text, by Java's pattern; else NULL.", _to_date),
    ("TO_TIMESTAMP(text[, 'pattern'])", "The time of a text, by Java's pattern; else NULL.", _to_timestamp),
    (
        "TO_TIMESTAMP_LTZ(n, precision)",
        "The instant of a number of seconds (0) or milliseconds (3) since 1970.",
        "to_timestamp(CAST({0} AS DOUBLE) / power(10, {1}))",
    ),
    ("FROM_UNIXTIME(seconds[, 'pattern'])", "Seconds since 1970 as text, in UTC.", _from_unixtime),
    ("YEAR(time)", "Its year.", "year(CAST({0} AS TIMESTAMP))"),
    ("QUARTER(time)", "Its quarter, 1 to 4.", "quarter(CAST({0} AS TIMESTAMP))"),
    ("MONTH(time)", "Its month, 1 to 12.", "month(CAST({0} AS TIMESTAMP))"),
    ("WEEK(time)", "Its week by ISO 8601.", "week(CAST({0} AS TIMESTAMP))"),
    ("WEEKOFYEAR(time)", "Its week by ISO 8601.", "week(CAST({0} AS TIMESTAMP))"),
    ("DAY(time)", "Its day of the month.", "day(CAST({0} AS TIMESTAMP))"),
    ("DAYOFMONTH(time)", "Its day of the month.", "day(CAST({0} AS TIMESTAMP))"),
    ("DAYOFYEAR(time)", "Its day of the year.", "dayofyear(CAST({0} AS TIMESTAMP))"),
    ("DAYOFWEEK(time)", "Its day of the week; 1 is Sunday.", "(dayofweek(CAST({0} AS TIMESTAMP)) + 1)"),
    ("HOUR(time)", "Its hour.", "hour(CAST({0} AS TIMESTAMP))"),
    ("MINUTE(time)", "Its minute.", "minute(CAST({0} AS TIMESTAMP))"),
    ("SECOND(time)", "Its second.", "second(CAST({0} AS TIMESTAMP))"),
    (
        "TIMESTAMPDIFF(unit, a, b)",
        "How many whole units from a to b.",
        lambda a: f"date_sub('{_unit(a)}', CAST({a[1]} AS TIMESTAMP), CAST({a[2]} AS TIMESTAMP))",
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
    ("LAST_DAY(date)", "The last day of its month.", "last_day(CAST({0} AS DATE))"),
    (
        "DATE_TRUNC('unit', time)",
        "The beginning of its unit.",
        "date_trunc({0}, CAST({1} AS TIMESTAMP))",
    ),
)
NOW: Rows = (
    ("NOW()", "This moment.", "now()"),
    (
        "UNIX_TIMESTAMP([text[, 'pattern']])",
        "Seconds since 1970, of now or of a text in UTC.",
        _unix_timestamp,
    ),
    ("CURRENT_DATE()", "Today.", "current_date"),
    ("CURRENT_TIMESTAMP()", "This moment.", "now()"),
    ("LOCALTIMESTAMP()", "Now, without a zone.", "CAST(now() AS TIMESTAMP)"),
    ("LOCALTIME()", "The time of day.", "CAST(CAST(now() AS TIMESTAMP) AS TIME)"),
    ("CURRENT_TIME()", "The time of day.", "CAST(CAST(now() AS TIMESTAMP) AS TIME)"),
    ("RAND()", "A number from 0 to 1, another each time.", "random()"),
    ("RAND_INTEGER(n)", "A whole number from 0 below n, another each time.", _rand_integer),
    ("UUID()", "A fresh name.", "CAST(uuid() AS VARCHAR)"),
)
