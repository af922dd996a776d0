"""The functions that a query may use: what each means, and how DuckDB is asked for it.

The table is the allow-list: a name that is not here is refused before anything runs, so no query reaches a
function that reads files, settings or the environment. Meanings are those of Flink SQL where it has the
function, else of Spark. In `sql`, {0} {1} … are the arguments and {*} all of them; without `sql` the name
goes as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.sql.query.patterns import strftime_pattern

_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
Sql = str | Callable[[list[str]], str]
Rows = Sequence[tuple[str, str] | tuple[str, str, Sql]]


@dataclass(frozen=True)
class Function:
    """One function. `kind` is scalar, aggregate or window; `steady` that it gives the same each time."""

    syntax: str
    text: str
    sql: Sql = ""
    kind: str = "scalar"
    steady: bool = True

    @property
    def name(self) -> str:
        return self.syntax.partition("(")[0]

    @cached_property
    def arity(self) -> tuple[int, int]:
        """Fewest and most arguments, as the syntax shows them."""
        inner, optional, fewest, most = self.syntax.partition("(")[2].removesuffix(")"), 0, 0, 0
        for argument in filter(
            None, inner.replace("[", ",[,").replace("]", ",],").replace(" ", "").split(",")
        ):
            optional += (argument == "[") - (argument == "]")
            if argument not in "[]…":
                fewest, most = fewest + (not optional), most + 1
        return fewest, 1 << 30 if "…" in inner else most

    def render(self, arguments: list[str]) -> str:
        """The call as DuckDB reads it; arguments are SQL texts. Raises InvalidRequest for too many or few."""
        fewest, most = self.arity
        if not fewest <= len(arguments) <= most:
            raise InvalidRequest(f"{self.syntax} is called with {len(arguments)} arguments")
        if callable(self.sql):
            return self.sql(arguments)
        if not self.sql:
            return f"{self.name.lower()}({', '.join(arguments)})"
        return self.sql.replace("{*}", "{all}").format(*arguments, all=", ".join(arguments))


def _text_of(literal: str, what: str) -> str:
    """The text of a literal argument."""
    if len(literal) < 2 or not literal.startswith("'") or not literal.endswith("'"):
        raise Unsupported(f"{what} that is no literal")
    return literal[1:-1].replace("''", "'")


def _pattern(arguments: list[str], place: int) -> str:
    java = _text_of(arguments[place], "a time pattern") if len(arguments) > place else "yyyy-MM-dd HH:mm:ss"
    return "'" + strftime_pattern(java).replace("'", "''") + "'"


def _unit(arguments: list[str]) -> str:
    unit = arguments[0].upper().removeprefix("SQL_TSI_")
    if unit not in _UNITS:
        raise InvalidRequest(f"{arguments[0]} is no unit of time: {', '.join(_UNITS)}")
    return unit


def _date_format(arguments: list[str]) -> str:
    return f"strftime(CAST({arguments[0]} AS TIMESTAMP), {_pattern(arguments, 1)})"


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


def _any_null(call: str) -> Callable[[list[str]], str]:
    """NULL if one of the arguments is; DuckDB leaves NULLs out."""

    def render(arguments: list[str]) -> str:
        tests = " OR ".join(f"({a}) IS NULL" for a in arguments)
        return f"CASE WHEN {tests} THEN NULL ELSE {call}({', '.join(arguments)}) END"

    return render


def _joined(arguments: list[str]) -> str:
    return "(" + " || ".join(f"CAST({a} AS VARCHAR)" for a in arguments) + ")"


def _regexp_extract(arguments: list[str]) -> str:
    group = arguments[2] if len(arguments) == 3 else "0"
    text, pattern = arguments[:2]
    return f"CASE WHEN regexp_matches({text}, {pattern}) THEN regexp_extract({text}, {pattern}, {group}) END"


def _regexp_replace(arguments: list[str]) -> str:
    text, pattern, by = arguments
    by = f"regexp_replace({by}, '\\$([0-9])', '\\\\\\1', 'g')"  # Java's $1 is \1 here
    return f"regexp_replace({text}, {pattern}, {by}, 'g')"


def _substring(arguments: list[str]) -> str:
    start = arguments[1]
    if not start.isdecimal() or start == "0":
        start = f"(CASE WHEN ({start}) = 0 THEN 1 ELSE {start} END)"
    return f"substring({', '.join([arguments[0], start, *arguments[2:]])})"


def _log(arguments: list[str]) -> str:
    return f"ln({arguments[0]})" if len(arguments) == 1 else f"(ln({arguments[1]}) / ln({arguments[0]}))"


def _rand_integer(arguments: list[str]) -> str:
    return f"CAST(floor(random() * ({arguments[-1]})) AS INTEGER)"


def _listagg(arguments: list[str]) -> str:
    return f"string_agg({arguments[0]}, {arguments[1] if len(arguments) == 2 else chr(39) + ',' + chr(39)})"


_TEXT: Rows = (
    ("CONCAT(text, …)", "The texts joined; NULL if one is NULL.", _joined),
    ("CONCAT_WS(separator, text, …)", "The texts that are not NULL, with a separator between them."),
    ("UPPER(text)", "In capitals."),
    ("UCASE(text)", "In capitals.", "upper({0})"),
    ("LOWER(text)", "In small letters."),
    ("LCASE(text)", "In small letters.", "lower({0})"),
    ("CHAR_LENGTH(text)", "How many characters.", "length({0})"),
    ("CHARACTER_LENGTH(text)", "How many characters.", "length({0})"),
    ("LENGTH(text)", "How many characters."),
    ("OCTET_LENGTH(text)", "How many bytes.", "octet_length(encode({0}))"),
    ("SUBSTRING(text, start[, length])", "A part; the first character is 1, −1 the last.", _substring),
    ("SUBSTR(text, start[, length])", "A part; the first character is 1, −1 the last.", _substring),
    ("LEFT(text, n)", "The first n characters."),
    ("RIGHT(text, n)", "The last n characters."),
    ("LPAD(text, length, by)", "Filled up, or cut, to a length on the left."),
    ("RPAD(text, length, by)", "Filled up, or cut, to a length on the right."),
    ("LTRIM(text)", "Without the blanks on the left."),
    ("RTRIM(text)", "Without the blanks on the right."),
    ("BTRIM(text[, characters])", "Without blanks, or these characters, at both ends.", "trim({*})"),
    ("TRIM(text[, characters])", "Without blanks, or these characters, at both ends.", "trim({*})"),
    ("REPLACE(text, part, by)", "Every part replaced."),
    ("REVERSE(text)", "From the last character to the first."),
    ("REPEAT(text, n)", "The text n times."),
    ("TRANSLATE(text, from, to)", "Characters replaced one by one."),
    ("LOCATE(part, text)", "Where the part begins, 0 if nowhere.", "strpos({1}, {0})"),
    ("INSTR(text, part)", "Where the part begins, 0 if nowhere.", "strpos({0}, {1})"),
    ("ASCII(text)", "The number of the first character."),
    ("CHR(n)", "The character of a number."),
    ("STARTSWITH(text, part)", "Whether it begins so.", "starts_with({0}, {1})"),
    ("ENDSWITH(text, part)", "Whether it ends so.", "ends_with({0}, {1})"),
    ("CONTAINS(text, part)", "Whether the part is in it."),
    ("SPLIT(text, separator)", "The parts between separators, as an array.", "string_split({0}, {1})"),
    (
        "SPLIT_INDEX(text, separator, i)",
        "Part i, counted from 0; NULL beyond.",
        "list_extract(string_split({0}, {1}), CAST({2} AS BIGINT) + 1)",
    ),
    ("REGEXP(text, pattern)", "Whether the pattern is found in it.", "regexp_matches({0}, {1})"),
    ("REGEXP_LIKE(text, pattern)", "Whether the pattern is found in it.", "regexp_matches({0}, {1})"),
    ("REGEXP_EXTRACT(text, pattern[, group])", "What matches, or a group of it; else NULL.", _regexp_extract),
    ("REGEXP_REPLACE(text, pattern, by)", "Every match replaced; $1 is a group.", _regexp_replace),
    ("REGEXP_COUNT(text, pattern)", "How many matches.", "len(regexp_extract_all({0}, {1}))"),
    ("MD5(text)", "The MD5 in hexadecimal."),
    ("SHA1(text)", "The SHA-1 in hexadecimal."),
    ("SHA256(text)", "The SHA-256 in hexadecimal."),
    ("HEX(text)", "Hexadecimal."),
    ("UNHEX(text)", "The bytes of hexadecimal text."),
    ("TO_BASE64(text)", "In base 64.", "to_base64(CAST({0} AS BLOB))"),
    ("FROM_BASE64(text)", "The text of base 64.", "decode(from_base64({0}))"),
    (
        "JSON_VALUE(json, path)",
        "The value at a path such as '$.a.b', as text.",
        "json_extract_string({0}, {1})",
    ),
    ("GET_JSON_OBJECT(json, path)", "The value at a path, as text.", "json_extract_string({0}, {1})"),
    ("JSON_QUERY(json, path)", "The JSON at a path.", "CAST(json_extract({0}, {1}) AS VARCHAR)"),
    ("JSON_EXISTS(json, path)", "Whether something is at a path.", "json_exists({0}, {1})"),
    ("IS_JSON(text)", "Whether the text is JSON.", "json_valid({0})"),
    ("LEVENSHTEIN(a, b)", "How many characters to change."),
)
_TIMES: Rows = (
    ("DATE_FORMAT(time, 'pattern')", "As text by Java's pattern, 'yyyy-MM-dd'.", _date_format),
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
_NOW: Rows = (
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
_NUMBERS: Rows = (
    ("ABS(n)", "Without its sign."),
    ("CEIL(n)", "The next whole number above."),
    ("CEILING(n)", "The next whole number above.", "ceil({0})"),
    ("FLOOR(n)", "The next whole number below."),
    ("ROUND(n[, digits])", "Rounded, a half away from 0."),
    ("TRUNCATE(n[, digits])", "Cut off.", "trunc({*})"),
    ("SIGN(n)", "−1, 0 or 1."),
    ("SQRT(n)", "The square root."),
    ("POWER(n, m)", "n to the power of m."),
    ("POW(n, m)", "n to the power of m.", "power({0}, {1})"),
    ("EXP(n)", "e to the power of n."),
    ("LN(n)", "The natural logarithm."),
    ("LOG([base, ]n)", "The logarithm of a base, else the natural one.", _log),
    ("LOG10(n)", "The logarithm of base 10."),
    ("LOG2(n)", "The logarithm of base 2."),
    ("MOD(n, m)", "What is left of a division.", "(({0}) % ({1}))"),
    ("PI()", "π."),
    ("E()", "e.", "exp(1)"),
    ("ATAN2(y, x)", "The angle of a point."),
    ("BIN(n)", "In binary."),
    ("BITCOUNT(n)", "How many bits are set.", "bit_count({0})"),
)
_ANGLES: Rows = tuple(
    (f"{name}(n)", f"The {name.lower()} of a number.")
    for name in "SIN COS TAN COT ASIN ACOS ATAN SINH COSH TANH DEGREES RADIANS".split()
)
_CHOICES: Rows = (
    ("COALESCE(a, …)", "The first that is not NULL."),
    ("IFNULL(a, b)", "b where a is NULL.", "coalesce({0}, {1})"),
    ("NVL(a, b)", "b where a is NULL.", "coalesce({0}, {1})"),
    ("NVL2(a, b, c)", "b where a is not NULL, else c.", "CASE WHEN ({0}) IS NOT NULL THEN {1} ELSE {2} END"),
    ("NULLIF(a, b)", "NULL where a = b, else a."),
    ("IF(condition, a, b)", "a where the condition is true, else b.", "CASE WHEN {0} THEN {1} ELSE {2} END"),
    ("GREATEST(a, …)", "The greatest; NULL if one is NULL.", _any_null("greatest")),
    ("LEAST(a, …)", "The least; NULL if one is NULL.", _any_null("least")),
    ("TYPEOF(a)", "The name of its type."),
)
_NESTED: Rows = (
    ("CARDINALITY(array)", "How many elements."),
    ("SIZE(array)", "How many elements.", "cardinality({0})"),
    ("ELEMENT(array)", "Its only element.", "({0})[1]"),
    ("ARRAY_CONTAINS(array, a)", "Whether a is in it.", "list_contains({0}, {1})"),
    ("ARRAY_POSITION(array, a)", "Where a is, from 1; 0 if nowhere.", "coalesce(list_position({0}, {1}), 0)"),
    ("ARRAY_DISTINCT(array)", "Each element once.", "list_distinct({0})"),
    ("ARRAY_CONCAT(a, b)", "One array behind the other.", "list_concat({0}, {1})"),
    ("ARRAY_SORT(array)", "In order.", "list_sort({0})"),
    (
        "ARRAY_JOIN(array, separator)",
        "Its texts with a separator between them.",
        "list_aggregate({0}, 'string_agg', {1})",
    ),
    ("ARRAY_MAX(array)", "The greatest element.", "list_aggregate({0}, 'max')"),
    ("ARRAY_MIN(array)", "The least element.", "list_aggregate({0}, 'min')"),
    ("MAP_KEYS(map)", "Its keys."),
    ("MAP_VALUES(map)", "Its values."),
    ("ROW(a, …)", "A row of these values.", "row({*})"),
)
_AGGREGATES: Rows = (
    ("COUNT([a])", "How many rows, or values that are not NULL."),
    ("SUM(a)", "The sum of the values; of whole numbers a BIGINT."),
    ("AVG(a)", "The mean, as a DOUBLE."),
    ("MIN(a)", "The least."),
    ("MAX(a)", "The greatest."),
    ("STDDEV(a)", "The standard deviation of a sample."),
    ("STDDEV_SAMP(a)", "The standard deviation of a sample."),
    ("STDDEV_POP(a)", "The standard deviation of all."),
    ("VARIANCE(a)", "The variance of a sample."),
    ("VAR_SAMP(a)", "The variance of a sample."),
    ("VAR_POP(a)", "The variance of all."),
    ("CORR(a, b)", "The correlation."),
    ("COVAR_POP(a, b)", "The covariance of all."),
    ("COVAR_SAMP(a, b)", "The covariance of a sample."),
    ("LISTAGG(text[, separator])", "The texts joined, by a comma or another separator.", _listagg),
    ("STRING_AGG(text[, separator])", "The texts joined, by a comma or another separator.", _listagg),
    ("COLLECT_LIST(a)", "The values as an array.", "list({0})"),
    ("ARRAY_AGG(a)", "The values as an array.", "list({0})"),
    ("APPROX_COUNT_DISTINCT(a)", "About how many different values."),
    ("MEDIAN(a)", "The median."),
    ("MODE(a)", "The most frequent value."),
    ("BOOL_AND(a)", "Whether all are true."),
    ("BOOL_OR(a)", "Whether one is true."),
    ("EVERY(a)", "Whether all are true.", "bool_and({0})"),
    ("ANY_VALUE(a)", "Some value."),
    ("MAX_BY(a, b)", "a of the row with the greatest b."),
    ("MIN_BY(a, b)", "a of the row with the least b."),
)
_WINDOWS: Rows = (
    ("ROW_NUMBER()", "The number of the row, from 1."),
    ("RANK()", "The rank, with gaps behind ties."),
    ("DENSE_RANK()", "The rank without gaps."),
    ("PERCENT_RANK()", "The rank as a share."),
    ("CUME_DIST()", "The share of rows up to this one."),
    ("NTILE(n)", "Which of n equal parts."),
    ("LAG(a[, n, otherwise])", "a of the row n before."),
    ("LEAD(a[, n, otherwise])", "a of the row n behind."),
    ("FIRST_VALUE(a)", "a of the first row."),
    ("LAST_VALUE(a)", "a of the last row."),
    ("NTH_VALUE(a, n)", "a of row n."),
)


def _family(rows: Rows, kind: str = "scalar", *, steady: bool = True) -> list[Function]:
    return [Function(r[0], r[1], r[2] if len(r) == 3 else "", kind, steady) for r in rows]


_ALL = (
    *(one for rows in (_TEXT, _TIMES, _NUMBERS, _ANGLES, _CHOICES, _NESTED) for one in _family(rows)),
    *_family(_NOW, steady=False),
    *_family(_AGGREGATES, "aggregate"),
    *_family(_WINDOWS, "window"),
)
FUNCTIONS: Mapping[str, Function] = MappingProxyType({one.name: one for one in _ALL})
"""Every function by its name in capitals."""
