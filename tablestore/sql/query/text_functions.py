"""The functions of texts, bytes and JSON."""

from __future__ import annotations

from tablestore.sql.query.function import Rows


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


TEXT: Rows = (
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
