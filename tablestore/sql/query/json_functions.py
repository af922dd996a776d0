"""The functions of JSON; `dialect/json_calls.py` reads the words among their arguments."""

from __future__ import annotations

from tablestore.sql.query.function import Rows

_TEXT = """(CASE WHEN ({0}) IS NULL THEN NULL
    WHEN typeof({0}) LIKE 'TIMESTAMP%' THEN '"' || replace(CAST({0} AS VARCHAR), ' ', 'T') || '"'
    WHEN typeof({0}) = 'BLOB' THEN '"' || to_base64(TRY_CAST(CAST({0} AS VARCHAR) AS BLOB)) || '"'
    WHEN typeof({0}) LIKE 'DECIMAL%' THEN CAST({0} AS VARCHAR)
    ELSE CAST(to_json({0}) AS VARCHAR) END)"""


def _object(arguments: list[str]) -> str:
    """The members in the order of their keys, where these are literals."""
    on_null, *members = arguments
    pairs = list(zip(members[::2], members[1::2], strict=True))
    if all(key.startswith("'") for key, _ in pairs):
        pairs.sort()
    texts = [f"CAST(to_json({key}) AS VARCHAR) || ':' || {_or_null(v, on_null)}" for key, v in pairs]
    return _in("{", texts, "}")


def _array(arguments: list[str]) -> str:
    on_null, *values = arguments
    return _in("[", [_or_null(v, on_null) for v in values], "]")


def _in(left: str, texts: list[str], right: str) -> str:
    inner = ", ".join(["','", *texts])
    return f"('{left}' || concat_ws({inner}) || '{right}')" if texts else f"'{left}{right}'"


def _or_null(value: str, on_null: str) -> str:
    return value if on_null == "'ABSENT'" else f"coalesce({value}, 'null')"


def _object_of_rows(arguments: list[str]) -> str:
    on_null, key, value = arguments
    pair = f"CAST(to_json({key}) AS VARCHAR) || ':' || {_or_null(value, on_null)}"
    return f"('{{' || coalesce(string_agg({pair}, ','), '') || '}}')"


def _array_of_rows(arguments: list[str]) -> str:
    on_null, value = arguments
    return f"('[' || coalesce(string_agg({_or_null(value, on_null)}, ','), '') || ']')"


JSON: Rows = (
    (
        "JSON_VALUE(json, path [RETURNING type] [… ON EMPTY] [… ON ERROR])",
        "The scalar at a path such as '$.a.b', as text or another type; "
        "ON EMPTY and ON ERROR: NULL, ERROR, DEFAULT value.",
        "own_json_value({*})",
    ),
    (
        "JSON_QUERY(json, path [… WRAPPER] [… ON EMPTY] [… ON ERROR])",
        "The object or array at a path, as text; WITH [CONDITIONAL] ARRAY WRAPPER puts it into an array; "
        "ON EMPTY and ON ERROR: NULL, ERROR, EMPTY ARRAY, EMPTY OBJECT.",
        "own_json_query({*})",
    ),
    (
        "JSON_EXISTS(json, path [… ON ERROR])",
        "Whether something is at a path; ON ERROR: TRUE, FALSE, UNKNOWN, ERROR.",
        "own_json_exists({*})",
    ),
    ("IS_JSON(text)", "Whether the text is JSON.", "(own_json_kind({0}) <> '')"),
    ("JSON_STRING(value)", "The value as JSON.", _TEXT),
    ("JSON_QUOTE(text)", "The text as a JSON string in ASCII.", "own_json_quote({0})"),
    ("JSON_UNQUOTE(text)", "The text of a JSON string.", "own_json_unquote({0})"),
    (
        "JSON_OBJECT([KEY] key VALUE value, … [NULL|ABSENT ON NULL])",
        "An object of these members, as text.",
        _object,
    ),
    ("JSON_ARRAY(value, … [NULL|ABSENT ON NULL])", "An array of these values, as text.", _array),
    ("GET_JSON_OBJECT(json, path)", "The value at a path, as text.", "json_extract_string({0}, {1})"),
)
JSON_AGGREGATES: Rows = (
    (
        "JSON_OBJECTAGG([KEY] key VALUE value [NULL|ABSENT ON NULL])",
        "An object of a member a row, as text.",
        _object_of_rows,
    ),
    ("JSON_ARRAYAGG(value [NULL|ABSENT ON NULL])", "An array of a value a row, as text.", _array_of_rows),
)
