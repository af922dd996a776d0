"""The functions of texts and bytes."""

from __future__ import annotations

from collections.abc import Callable

from tablestore.core.errors import InvalidRequest
from tablestore.sql.query.function import LONGEST, SHORT, FunctionRows, too_long


def _joined(arguments: list[str]) -> str:
    return "(" + " || ".join(f"CAST({a} AS VARCHAR)" for a in arguments) + ")"


def _substring(arguments: list[str]) -> str:
    """DuckDB's own where place and length are plain; else a length below 0 gives NULL, and a place before the
    first character an empty text."""
    text, start, *length = arguments
    plain = start.isdecimal() and start != "0"
    begin = start if plain else f"(CASE WHEN ({start}) = 0 THEN 1 ELSE {start} END)"
    part = f"substring({', '.join([text, begin, *length])})"
    cases = ""
    if length and not length[0].isdecimal():
        cases += f"WHEN ({length[0]}) < 0 THEN NULL "
    if not plain and start != "0":
        cases += f"WHEN ({start}) < -length({text}) THEN '' "
    return f"(CASE {cases}ELSE {part} END)" if cases else part


def _counted(function: str) -> str:
    return f"{function}({{0}}, CASE WHEN ({{1}}) < 0 THEN 0 ELSE {{1}} END)"


def _padded(function: str) -> Callable[[list[str]], str]:
    """Long texts are made by a function of ours, which counts them."""

    def render(arguments: list[str]) -> str:
        text, length, by = f"CAST({arguments[0]} AS VARCHAR)", *arguments[1:]
        within = f"CASE WHEN ({length}) BETWEEN 0 AND {SHORT} THEN {length} END"
        usual = f"{function}({text}, {within}, nullif({by}, ''))"
        if length.isdecimal() and int(length) <= SHORT:
            return usual
        own = f"own_{function}({text}, CAST({length} AS BIGINT), nullif({by}, ''))"
        return f"(CASE WHEN ({length}) > {SHORT} THEN {own} ELSE {usual} END)"

    return render


def _repeated(arguments: list[str]) -> str:
    """The same."""
    text, times = f"CAST({arguments[0]} AS VARCHAR)", arguments[1]
    long = f"CAST(strlen({text}) AS DOUBLE) * ({times}) > {SHORT}"
    usual = f"repeat({text}, CASE WHEN {long} THEN 0 ELSE {times} END)"
    return f"(CASE WHEN {long} THEN own_repeat({text}, CAST({times} AS BIGINT)) ELSE {usual} END)"


def _located(text: str, part: str, start: str = "1") -> str:
    if start == "1":
        return f"CAST(strpos({text}, {part}) AS INTEGER)"
    begin = f"greatest(coalesce({start}, 1), 1)"
    rest = f"strpos(substring({text}, CAST({begin} AS BIGINT)), {part})"
    cases = f"WHEN ({start}) IS NULL THEN NULL WHEN ({part}) = '' AND ({text}) IS NOT NULL THEN 1"
    return f"CAST(CASE {cases} WHEN {rest} > 0 THEN {rest} + {begin} - 1 ELSE {rest} END AS INTEGER)"


def _instr(arguments: list[str]) -> str:
    if len(arguments) == 2:
        return _located(*arguments)
    text, part, start, nth = [*arguments, "1"][:4]
    return f"CAST(own_instr({text}, {part}, {start}, {nth}) AS INTEGER)"


_SHORT = 100  # characters of a literal by which DuckDB itself may replace


def _replace(arguments: list[str]) -> str:
    _, part, by = arguments
    plain = part.startswith("'") and part != "''" and by.startswith("'") and len(by) < _SHORT
    return f"{'replace' if plain else 'own_replace'}({', '.join(arguments)})"


def _split_index(arguments: list[str]) -> str:
    text, separator, place = arguments
    if separator.isdecimal():
        separator = f"chr({separator})"
    parts = f"string_split({text}, CASE {separator} WHEN '' THEN ' ' ELSE {separator} END)"
    part = f"list_extract({parts}, CAST({place} AS BIGINT) + 1)"
    return f"(CASE WHEN ({place}) >= 0 AND ({text}) <> '' THEN {part} END)"


def _elt(arguments: list[str]) -> str:
    place, *texts = arguments
    return f"(CASE {place} {' '.join(f'WHEN {i} THEN {text}' for i, text in enumerate(texts, 1))} END)"


def _str_to_map(arguments: list[str]) -> str:
    separators = ("','", "'='")[len(arguments) - 1 :]
    return f"own_str_to_map({', '.join([*arguments, *separators])})"


def _printf(arguments: list[str]) -> str:
    text, *values = arguments
    shown = ", ".join(f"CAST({v} AS VARCHAR)" for v in values)
    types = ", ".join(f"typeof({v})" for v in values)
    return f"own_printf({text}, CAST([{shown}] AS VARCHAR[]), CAST([{types}] AS VARCHAR[]))"


def _regexp(arguments: list[str]) -> str:
    text, pattern = arguments
    if pattern.startswith("'") and pattern != "''":
        return f"regexp_matches({text}, {pattern})"
    return f"(CASE WHEN ({pattern}) = '' THEN FALSE ELSE regexp_matches({text}, {pattern}) END)"


def _groups(pattern: str) -> int | None:
    """How many groups a literal pattern has."""
    if not pattern.startswith("'"):
        return None
    plain = pattern.replace("\\\\", "").replace("\\(", "")
    return plain.count("(") - plain.count("(?") + plain.count("(?P<") + plain.count("(?<")


def _regexp_extract(arguments: list[str]) -> str:
    text, pattern, group = [*arguments, "0"][:3]
    groups = _groups(pattern)
    if group.startswith("-") or (groups is not None and group.isdecimal() and int(group) > groups):
        return f"CAST(nullif({text}, {text}) AS VARCHAR)"
    return f"CASE WHEN regexp_matches({text}, {pattern}) THEN regexp_extract({text}, {pattern}, {group}) END"


def _regexp_extract_all(arguments: list[str]) -> str:
    text, pattern, group = [*arguments, "1"][:3]
    groups = _groups(pattern)
    if group.startswith("-") or (groups is not None and group.isdecimal() and int(group) > groups):
        return "CAST(NULL AS VARCHAR[])"
    return f"regexp_extract_all({text}, {pattern}, {group})"


def _regexp_instr(arguments: list[str]) -> str:
    text, pattern = arguments
    before = f"regexp_extract({text}, '^([\\s\\S]*?)(?:' || {pattern} || ')', 1)"
    matches = f"regexp_matches({text}, {pattern})"
    place = f"CASE WHEN {matches} THEN length({before}) + 1 WHEN NOT {matches} THEN 0 END"
    return f"CAST({place} AS INTEGER)"


def _regexp_replace(arguments: list[str]) -> str:
    text, pattern, by = arguments
    by = by if by.startswith("'") and "\\" not in by else f"replace({by}, '\\', '\\\\')"
    grown = f"strlen({text}) + len(regexp_extract_all({text}, {pattern})) * strlen({by})"
    may_grow = f"(strlen({text}) + 1) * CAST(strlen({by}) AS DOUBLE) > {LONGEST} AND {grown} > {LONGEST}"
    refused = f"WHEN {may_grow} THEN error('{too_long('REGEXP_REPLACE')}') "
    short = by.startswith("'") and len(by) < _SHORT
    pattern = pattern if short else f"CASE {refused}ELSE {pattern} END"
    return f"regexp_replace({text}, {pattern}, {by}, 'g')"


def _sha2(arguments: list[str]) -> str:
    if not arguments[1].isdecimal():
        return f"own_sha2({', '.join(arguments)})"
    if arguments[1] not in ("224", "256", "384", "512"):
        raise InvalidRequest(f"SHA2 has 224, 256, 384 or 512 bits, not {arguments[1]}")
    return f"own_sha2({', '.join(arguments)})"


_ASCII = """CAST(CASE WHEN ({0}) = '' THEN 0 ELSE
    (CAST('0x' || hex(encode({0}))[1:2] AS INTEGER) + 128) % 256 - 128 END AS INTEGER)"""

TEXT: FunctionRows = (
    ("CONCAT(text, …)", "The texts joined; NULL if one is NULL.", _joined),
    ("CONCAT_WS(separator, text, …)", "The texts that are not NULL, with a separator between them."),
    ("UPPER(text)", "In capitals.", "upper(replace({0}, 'ß', 'SS'))"),
    ("UCASE(text)", "In capitals.", "upper(replace({0}, 'ß', 'SS'))"),
    ("LOWER(text)", "In small letters.", "lower(replace({0}, 'İ', 'i̇'))"),
    ("LCASE(text)", "In small letters.", "lower(replace({0}, 'İ', 'i̇'))"),
    (
        "INITCAP(text)",
        "Words of ASCII letters and digits with a capital, the rest small.",
        "own_initcap({0})",
    ),
    ("CHAR_LENGTH(text)", "How many characters.", "CAST(length({0}) AS INTEGER)"),
    ("CHARACTER_LENGTH(text)", "How many characters.", "CAST(length({0}) AS INTEGER)"),
    ("LENGTH(text)", "How many characters.", "CAST(length({0}) AS INTEGER)"),
    ("OCTET_LENGTH(text)", "How many bytes.", "CAST(octet_length(encode({0})) AS INTEGER)"),
    ("SUBSTRING(text, start[, length])", "A part; the first character is 1, −1 the last.", _substring),
    ("SUBSTR(text, start[, length])", "A part; the first character is 1, −1 the last.", _substring),
    ("LEFT(text, n)", "The first n characters.", _counted("left")),
    ("RIGHT(text, n)", "The last n characters.", _counted("right")),
    ("LPAD(text, length, by)", "Filled up, or cut, to a length on the left.", _padded("lpad")),
    ("RPAD(text, length, by)", "Filled up, or cut, to a length on the right.", _padded("rpad")),
    ("LTRIM(text[, characters])", "Without blanks, or these characters, on the left."),
    ("RTRIM(text[, characters])", "Without blanks, or these characters, on the right."),
    ("BTRIM(text[, characters])", "Without blanks, or these characters, at both ends.", "trim({*})"),
    ("TRIM(text[, characters])", "Without blanks, or these characters, at both ends.", "trim({*})"),
    ("REPLACE(text, part, by)", "Every part replaced.", _replace),
    ("REVERSE(text)", "From the last character to the first."),
    ("REPEAT(text, n)", "The text n times.", _repeated),
    (
        "TRANSLATE(text, from, to)",
        "Characters replaced one by one.",
        "translate({0}, coalesce({1}, ''), coalesce({2}, ''))",
    ),
    (
        "LOCATE(part, text[, start])",
        "Where the part begins, 0 if nowhere.",
        lambda a: _located(a[1], a[0], *a[2:]),
    ),
    (
        "INSTR(text, part[, start, nth])",
        "Where the part begins, 0 if nowhere; backwards from a negative start.",
        _instr,
    ),
    ("ASCII(text)", "The first byte of the text, from −128 to 127; 0 if it is empty.", _ASCII),
    (
        "CHR(n)",
        "The character of a number, of which the last eight bits count.",
        "(CASE WHEN ({0}) < 0 THEN '' ELSE chr(CAST(({0}) & 255 AS INTEGER)) END)",
    ),
    ("STARTSWITH(text, part)", "Whether it begins so.", "starts_with({0}, {1})"),
    ("STARTS_WITH(text, part)", "The same, as conditions of scans spell it.", "starts_with({0}, {1})"),
    ("ENDSWITH(text, part)", "Whether it ends so.", "ends_with({0}, {1})"),
    ("CONTAINS(text, part)", "Whether the part is in it."),
    (
        "SPLIT(text, separator)",
        "The parts between separators, as an array; without a separator the characters.",
        "(CASE WHEN ({0}) = '' THEN CAST([] AS VARCHAR[]) ELSE string_split({0}, {1}) END)",
    ),
    ("SPLIT_INDEX(text, separator, i)", "Part i, counted from 0; NULL beyond.", _split_index),
    ("ELT(i, text, …)", "Text i, counted from 1; NULL beyond.", _elt),
    (
        "STR_TO_MAP(text[, pairs, values])",
        "`a=1,b=2` as a map; the separators are regular expressions.",
        _str_to_map,
    ),
    ("PRINTF(text, value, …)", "The values in their places, `%05d %s`, by Java's format.", _printf),
    ("REGEXP(text, pattern)", "Whether the pattern is found in it.", _regexp),
    ("REGEXP_LIKE(text, pattern)", "Whether the pattern is found in it.", _regexp),
    ("REGEXP_EXTRACT(text, pattern[, group])", "What matches, or a group of it; else NULL.", _regexp_extract),
    (
        "REGEXP_EXTRACT_ALL(text, pattern[, group])",
        "A group of every match, the first unless another is named, as an array.",
        _regexp_extract_all,
    ),
    ("REGEXP_SUBSTR(text, pattern)", "What matches; else NULL.", _regexp_extract),
    ("REGEXP_INSTR(text, pattern)", "Where the first match begins, 0 if nowhere.", _regexp_instr),
    ("REGEXP_REPLACE(text, pattern, by)", "Every match replaced by a text.", _regexp_replace),
    (
        "REGEXP_COUNT(text, pattern)",
        "How many matches.",
        "CAST(len(regexp_extract_all({0}, {1})) AS INTEGER)",
    ),
    ("MD5(text)", "The MD5 in hexadecimal."),
    ("SHA1(text)", "The SHA-1 in hexadecimal."),
    ("SHA224(text)", "The SHA-224 in hexadecimal.", "own_sha2({0}, 224)"),
    ("SHA256(text)", "The SHA-256 in hexadecimal."),
    ("SHA384(text)", "The SHA-384 in hexadecimal.", "own_sha2({0}, 384)"),
    ("SHA512(text)", "The SHA-512 in hexadecimal.", "own_sha2({0}, 512)"),
    ("SHA2(text, bits)", "The SHA-2 of 224, 256, 384 or 512 bits in hexadecimal.", _sha2),
    ("HEX(value)", "A text, bytes or a number in hexadecimal.", "hex({0})"),
    (
        "UNHEX(text)",
        "The bytes of hexadecimal text; NULL if it is none.",
        "(CASE WHEN regexp_full_match({0}, '[0-9A-Fa-f]*') THEN unhex({0}) END)",
    ),
    (
        "ENCODE(text, charset)",
        "The bytes of a text, `UTF-8`, `UTF-16`, `ISO-8859-1`, `US-ASCII`.",
        "own_encode({0}, {1})",
    ),
    ("DECODE(bytes, charset)", "The text of bytes.", "own_decode({0}, {1})"),
    ("TO_BASE64(text)", "In base 64.", "to_base64(encode({0}))"),
    ("FROM_BASE64(text)", "The text of base 64.", "own_from_base64({0})"),
    ("URL_ENCODE(text)", "The text as a part of a URL's query.", "own_url_encode({0})"),
    ("URL_DECODE(text)", "The text of a part of a URL's query; NULL if it is none.", "own_url_decode({0})"),
    (
        "PARSE_URL(url, part[, key])",
        "HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY or USERINFO of a URL, or a key of its query.",
        lambda a: f"own_parse_url({', '.join([*a, 'CAST(NULL AS VARCHAR)'][:3])})",
    ),
    ("LEVENSHTEIN(a, b)", "How many characters to change."),
)
