"""Functions that DuckDB lacks, worked out here value by value: their names in its SQL begin with `own_`.

A connection knows those that a query names (`register`). A function gets the values of one row, None for
NULL, and gives its value; what is slow in Python stays out of here where DuckDB's own functions can do it.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote_plus, unquote_to_bytes, urlsplit

import duckdb
import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.sql.query import json_functions, time_functions
from tablestore.sql.query.function import AT_ONCE, add_functions, create, require_length
from tablestore.sql.query.time_functions import converted

_PLACE = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")

T = TypeVar("T")
_TEXT, _NUMBER = "VARCHAR", "BIGINT"
_SPECIAL = "[]()|^-+*_%?{}"  # characters that an escape may stand before in SIMILAR TO
_REGEX_SPECIAL = "[]()|^-+*?{}$\\."
_SHA = {224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def printf(text: str, values: list[str | None], types: list[str]) -> str | None:
    """The text with the values in their places; NULL for what Java refuses: a place without a value, a
    conversion of a value of another type, a letter that is none."""
    text_so_far, at, following = "", 0, 0
    while (percent := text.find("%", at)) >= 0:
        place = _PLACE.match(text, percent)
        if place is None:
            return None
        text_so_far, at = text_so_far + text[at:percent], place.end()
        index, flags, width, digits, letter = place.groups()
        if letter in "%n":
            text_so_far += "%" if letter == "%" else "\n"
            continue
        require_length(len(text_so_far) + max(_number(width), _number(digits)), "PRINTF")
        number = int(index) - 1 if index else following
        following += not index
        if not 0 <= number < len(values):
            return None
        shown = _shown(values[number], types[number], letter, flags, digits)
        if shown is None:
            return None
        text_so_far += _padded(shown, flags, int(width or 0), numeric=letter in "doxXfeEgG")
    return text_so_far + text[at:]


def _number(digits: str | None) -> int:
    """The number; one of many digits is any large one, which int() would refuse."""
    return int(digits[:20]) if digits else 0


def _shown(value: str | None, kind: str, letter: str, flags: str, digits: str | None) -> str | None:
    if letter.lower() in ("s", "b"):
        shown = str(value is not None and value != "false").lower() if letter in "bB" else value or ""
        shown = "null" if value is None and letter in "sS" else shown
        shown = shown[: int(digits)] if digits is not None else shown
        return shown.upper() if letter.isupper() else shown
    if value is None:
        return "null" if letter in "doxXfeEgGc" else None
    if letter in "dox" or letter == "X":
        return _whole(int(value), letter, flags) if kind in _WHOLE and digits is None else None
    if letter in "feEgG" and (kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL")):
        return _fraction(float(value), letter, flags, 6 if digits is None else int(digits))
    return None


def _whole(value: int, letter: str, flags: str) -> str:
    if letter == "d":
        return _signed(f"{abs(value):{',' if ',' in flags else ''}d}", value < 0, flags)
    return f"{value if value >= 0 else value + (1 << 32):{letter}}"


def _fraction(value: float, letter: str, flags: str, digits: int) -> str:
    kind = letter
    if letter in "gG":  # Java rounds to significant digits, and keeps zeros
        digits = max(digits, 1)
        plain = value == 0 or 1e-4 <= abs(value) < 10**digits
        kind = "f" if plain else "eE"[letter == "G"]
        whole = len(str(int(abs(value)))) if plain and abs(value) >= 1 else 1
        digits = digits - whole if plain else digits - 1
    comma = "," if "," in flags and kind == "f" else ""
    return _signed(f"{abs(value):{comma}.{digits}{kind}}", value < 0, flags)


def _signed(digits: str, negative: bool, flags: str) -> str:
    if negative:
        return f"({digits})" if "(" in flags else f"-{digits}"
    return f"+{digits}" if "+" in flags else f" {digits}" if " " in flags else digits


def _padded(shown: str, flags: str, width: int, *, numeric: bool) -> str:
    if "-" in flags:
        return shown.ljust(width)
    if "0" in flags and numeric:
        sign = shown[:1] if shown[:1] in ("-", "+", " ") else ""
        return sign + shown[len(sign) :].rjust(width - len(sign), "0")
    return shown.rjust(width)


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """Types of the arguments and the result as DuckDB names them; `strict`: NULL where an argument is;
    `columns`: it takes and gives whole columns."""

    arguments: tuple[str, ...]
    result: str
    value: Callable[..., Any]
    strict: bool = True
    columns: bool = False


def relation_of(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """The query as a relation of the connection, which gets to know the functions of it."""
    register(connection, sql)
    return connection.sql(str(sql))


def register(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Make the functions known that this SQL names."""
    add_functions(connection, sql)
    for name, function in OWN.items() if "own_" in sql else ():
        if f"{name}(" in sql:
            _create(connection, name, function)


def _create(connection: duckdb.DuckDBPyConnection, name: str, function: OwnFunction) -> None:
    def column(*arguments: pa.ChunkedArray) -> pa.Array:
        if function.columns:
            return function.value(*(argument.combine_chunks() for argument in arguments))
        rows = zip(*(argument.to_pylist() for argument in arguments), strict=True)
        strict, value = function.strict, function.value
        values = (None if strict and None in row else value(*row) for row in rows)
        return pa.array(_bounded(values, name), _ARROW[function.result])

    place = inspect.Parameter.POSITIONAL_ONLY
    names = [inspect.Parameter(f"a{i}", place) for i in range(len(function.arguments))]
    column.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]  # DuckDB counts them
    create(connection, name, column, function.arguments, function.result)


def _bounded(values: Iterable[Any], name: str) -> list[Any]:
    """The values. Raises InvalidRequest once they are more text than memory should hold at once."""
    kept, characters = [], 0
    for value in values:
        characters += len(value) if isinstance(value, str) else 0
        if characters > AT_ONCE:
            shown = name.removeprefix("own_").upper()
            most = f"at most {AT_ONCE:,} characters for 2,048 rows"
            raise InvalidRequest(f"{shown} makes {most}: shorten its texts, or add LIMIT")
        kept.append(value)
    return kept


_ARROW = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "BLOB": pa.binary(),
    "TIMESTAMP": pa.timestamp("us"),
    "VARCHAR[]": pa.list_(pa.string()),
    "MAP(VARCHAR, VARCHAR)": pa.map_(pa.string(), pa.string()),
}


def _initcap(text: str) -> str:
    return re.sub("[0-9A-Za-z]+", lambda word: word[0][0].upper() + word[0][1:].lower(), text)


def _instr(text: str, part: str, start: int, nth: int) -> int:
    """Where the part stands for the nth time from a place on, backwards from a negative one; 0 if nowhere."""
    if nth < 1 or start == 0:
        raise InvalidRequest("INSTR counts places and occurrences from 1")
    at = start - 2 if start > 0 else len(text) + start + 1
    for _ in range(nth):
        at = text.find(part, at + 1) if start > 0 else text.rfind(part, 0, at + len(part) - 1)
        if at < 0:
            return 0
    return at + 1


def _repeat(text: str, times: int) -> str:
    require_length(len(text.encode()) * times, "REPEAT")
    return text * times


def _lpad(text: str, length: int, by: str) -> str:
    return _filler(text, length, by, "LPAD") + text[:length]


def _rpad(text: str, length: int, by: str) -> str:
    return text[:length] + _filler(text, length, by, "RPAD")


def _filler(text: str, length: int, by: str, function: str) -> str:
    require_length(length, function)
    missing = max(length - len(text), 0)
    return (by * (missing // len(by) + 1))[:missing]


def _replace(text: str, part: str, by: str) -> str:
    require_length(len(text) + text.count(part) * (len(by) - len(part)), "REPLACE")
    return text.replace(part, by)


def _sha2(text: str, bits: int) -> str:
    if bits not in _SHA:
        raise InvalidRequest(f"SHA2 has {', '.join(map(str, _SHA))} bits, not {bits}")
    return hashlib.new(_SHA[bits], text.encode()).hexdigest()


def _encode(text: str, charset: str) -> bytes:
    if charset.upper() == "UTF-16":
        return b"\xfe\xff" + text.encode("utf-16-be")
    return _of_charset(charset, lambda: text.encode(charset, "replace"))


def _decode(data: bytes, charset: str) -> str:
    if charset.upper() == "UTF-16" and data[:2] not in (b"\xfe\xff", b"\xff\xfe"):
        charset = "utf-16-be"
    return _of_charset(charset, lambda: data.decode(charset, "replace"))


def _of_charset(charset: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except LookupError:
        raise InvalidRequest(f"{charset!r} is no character set") from None


def _from_base64(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except ValueError:
        raise InvalidRequest(f"{text[:60]!r} is not in base 64") from None


def _url_encode(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")


def _url_decode(text: str) -> str | None:
    if re.search("%(?![0-9A-Fa-f]{2})", text):
        return None
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


def _parse_url(url: str, part: str, key: str | None) -> str | None:
    if url is None or part is None:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if not parts.scheme:
        return None
    query = url.partition("#")[0].partition("?")[2] if "?" in url else None
    if key is not None:
        match = re.search(f"(?:^|&){re.escape(key)}=([^&]*)", query or "")
        return match[1] if part == "QUERY" and match else None
    user = parts.netloc.rpartition("@")[0]
    return {
        "HOST": parts.netloc.rpartition("@")[2].partition(":")[0] or None,
        "PATH": parts.path,
        "QUERY": query,
        "REF": url.partition("#")[2] if "#" in url else None,
        "PROTOCOL": parts.scheme,
        "FILE": parts.path + (f"?{query}" if query is not None else ""),
        "AUTHORITY": parts.netloc or None,
        "USERINFO": user or None,
    }.get(part)


def _str_to_map(text: str, pairs: str, values: str) -> list[tuple[str, str | None]]:
    """`a=1,b=2` as pairs; the separators are regular expressions."""
    entries: dict[str, str | None] = {}
    for pair in re.split(pairs, text) if text else ():
        parts = re.split(values, pair, maxsplit=1)
        entries[parts[0]] = parts[1] if len(parts) == 2 else None
    return list(entries.items())


def similar(pattern: str, escape: str = "") -> str:
    """The pattern of SIMILAR TO as a regular expression. Raises InvalidRequest for a bad escape."""
    regex, i = "", 0
    while i < len(pattern):
        c, i = pattern[i], i + 1
        if c == escape:
            if i == len(pattern) or (pattern[i] not in _SPECIAL and pattern[i] != escape):
                raise InvalidRequest(f"{pattern!r} has an escape before no special character")
            regex, i = regex + ("\\" if pattern[i] in _REGEX_SPECIAL else "") + pattern[i], i + 1
        elif c == "%":
            regex += "(?s:.*)"
        elif pattern.startswith("[:", i - 1) and ":]" in pattern[i:]:
            end = pattern.index(":]", i)
            kind = pattern[i + 1 : end].lower()
            regex, i = regex + ("\\s" if kind == "whitespace" else f"[:{kind}:]"), end + 2
        else:
            regex += "." if c == "_" else c
    return regex


OWN: Mapping[str, OwnFunction] = MappingProxyType(
    {
        "own_initcap": OwnFunction((_TEXT,), _TEXT, _initcap),
        "own_instr": OwnFunction((_TEXT, _TEXT, _NUMBER, _NUMBER), _NUMBER, _instr),
        "own_replace": OwnFunction((_TEXT, _TEXT, _TEXT), _TEXT, _replace),
        "own_repeat": OwnFunction((_TEXT, _NUMBER), _TEXT, _repeat),
        "own_lpad": OwnFunction((_TEXT, _NUMBER, _TEXT), _TEXT, _lpad),
        "own_rpad": OwnFunction((_TEXT, _NUMBER, _TEXT), _TEXT, _rpad),
        "own_sha2": OwnFunction((_TEXT, _NUMBER), _TEXT, _sha2),
        "own_encode": OwnFunction((_TEXT, _TEXT), "BLOB", _encode),
        "own_decode": OwnFunction(("BLOB", _TEXT), _TEXT, _decode),
        "own_from_base64": OwnFunction((_TEXT,), _TEXT, _from_base64),
        "own_url_encode": OwnFunction((_TEXT,), _TEXT, _url_encode),
        "own_url_decode": OwnFunction((_TEXT,), _TEXT, _url_decode),
        "own_parse_url": OwnFunction((_TEXT, _TEXT, _TEXT), _TEXT, _parse_url, strict=False),
        "own_str_to_map": OwnFunction((_TEXT, _TEXT, _TEXT), "MAP(VARCHAR, VARCHAR)", _str_to_map),
        "own_similar": OwnFunction((_TEXT, _TEXT), _TEXT, similar),
        "own_printf": OwnFunction((_TEXT, "VARCHAR[]", "VARCHAR[]"), _TEXT, printf),
        "own_json_value": OwnFunction(
            (_TEXT, _TEXT, _TEXT, _TEXT), _TEXT, json_functions.value, strict=False
        ),
        "own_json_query": OwnFunction(
            (_TEXT, _TEXT, _TEXT, _TEXT, _TEXT), _TEXT, json_functions.query, strict=False
        ),
        "own_json_exists": OwnFunction((_TEXT, _TEXT, _TEXT), "BOOLEAN", json_functions.exists),
        "own_json_kind": OwnFunction((_TEXT,), _TEXT, json_functions.kind),
        "own_json_quote": OwnFunction((_TEXT,), _TEXT, json_functions.quoted),
        "own_json_unquote": OwnFunction((_TEXT,), _TEXT, json_functions.unquoted),
        "own_date_format": OwnFunction(
            ("TIMESTAMP", _TEXT, _TEXT), _TEXT, time_functions.formatted, columns=True
        ),
        "own_parse_time": OwnFunction((_TEXT, _TEXT, "BOOLEAN"), "TIMESTAMP", time_functions.parsed),
        "own_convert_tz": OwnFunction((_TEXT, _TEXT, _TEXT), _TEXT, converted),
    }
)
