"""The functions of JSON; `dialect/parser.py` reads the words among their arguments.

Paths are as `lax $.a[0].b`. Without `lax` a path is strict: what it does not find is an error, and errors
give NULL unless ON ERROR says otherwise; in lax mode it is empty. Numbers keep their digits, keys are
sorted.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tablestore.core.errors import InvalidRequest
from tablestore.sql.query.function import FunctionRows

_STEP = re.compile(
    r"\.(?P<name>[\w$-]+)|(?P<every>\.\*|\[\*\])|\.\.(?P<deep>[\w$-]+)|\[(?P<index>-?\d+)\]"
    r"|\[(?P<low>-?\d*):(?P<high>-?\d*)\]|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]"
)

_TEXT = """(CASE WHEN ({0}) IS NULL THEN NULL
    WHEN typeof({0}) LIKE 'TIMESTAMP%' THEN '"' || replace(CAST({0} AS VARCHAR), ' ', 'T') || '"'
    WHEN typeof({0}) = 'BLOB' THEN '"' || to_base64(TRY_CAST(CAST({0} AS VARCHAR) AS BLOB)) || '"'
    WHEN typeof({0}) LIKE 'DECIMAL%' THEN CAST({0} AS VARCHAR)
    ELSE CAST(to_json({0}) AS VARCHAR) END)"""


class _Failed(Exception):
    """The text is no JSON, or a strict path leads nowhere."""


def value(text: str | None, path: str | None, on_empty: str, on_error: str) -> str | None:
    """The scalar at a path, as text. Behaviours are `NULL`, `ERROR` or `=` before a default."""
    if text is None or path is None:
        return None
    lax, steps = _steps(path)
    try:
        item = _at(text, lax, steps)
    except _Failed as e:
        return _otherwise(on_error, str(e))
    scalar = not isinstance(item, dict | list)
    if item is None or (lax and not scalar):
        return _otherwise(on_empty, f"nothing is at {path}")
    if not scalar:
        return _otherwise(on_error, f"no scalar is at {path}")
    return item if isinstance(item, str) else written(item)


def query(text: str | None, path: str | None, wrapper: str, on_empty: str, on_error: str) -> str | None:
    """The JSON at a path, as text; `wrapper`: whether it is put into an array (WITHOUT, CONDITIONAL,
    UNCONDITIONAL). Behaviours as of `value`."""
    if text is None or path is None:
        return None
    lax, steps = _steps(path)
    try:
        item = _at(text, lax, steps)
    except _Failed as e:
        return _otherwise(on_error, str(e))
    if item is not None and (
        wrapper == "UNCONDITIONAL" or (wrapper == "CONDITIONAL" and not isinstance(item, list))
    ):
        item = [item]
    if item is None:
        return _otherwise(on_empty, f"nothing is at {path}")
    if not isinstance(item, dict | list):
        return _otherwise(on_empty if lax else on_error, f"a scalar is at {path}")
    return written(item)


def exists(text: str, path: str, on_error: str) -> bool | None:
    """Whether something is at a path. `on_error`: TRUE, FALSE, UNKNOWN or ERROR."""
    lax, steps = _steps(path)
    try:
        return _at(text, lax, steps) is not None
    except _Failed as e:
        if on_error == "ERROR":
            raise InvalidRequest(str(e)) from None
        return None if on_error == "UNKNOWN" else on_error == "TRUE"


def kind(text: str) -> str:
    """OBJECT, ARRAY or SCALAR; empty where the text is no JSON."""
    try:
        item = _read(text)
    except _Failed:
        return ""
    return "OBJECT" if isinstance(item, dict) else "ARRAY" if isinstance(item, list) else "SCALAR"


def quoted(text: str) -> str:
    """The text as a JSON string in ASCII."""
    return json.dumps(text).replace("/", "\\/")


def unquoted(text: str) -> str:
    """The text of a JSON string; what is none stays."""
    try:
        item = _read(text)
    except _Failed:
        return text
    return item if isinstance(item, str) else text


def written(item: Any) -> str:
    """A value as JSON."""
    if isinstance(item, dict):
        pairs = (f"{json.dumps(k, ensure_ascii=False)}:{written(item[k])}" for k in sorted(item))
        return "{" + ",".join(pairs) + "}"
    if isinstance(item, list):
        return "[" + ",".join(map(written, item)) + "]"
    return str(item) if isinstance(item, Decimal) else json.dumps(item, ensure_ascii=False)


def _read(text: str) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(word)

    try:
        return json.loads(text, parse_float=Decimal, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise _Failed(f"{text[:60]!r} is no JSON") from None


def _otherwise(behaviour: str, problem: str) -> str | None:
    if behaviour == "ERROR":
        raise InvalidRequest(problem)
    return behaviour[1:] if behaviour.startswith("=") else None


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[bool, tuple[re.Match[str], ...]]:
    """Whether a path is lax, and its steps. Raises InvalidRequest."""
    mode, _, rest = path.strip().partition(" ")
    mode, rest = (
        (mode.lower(), rest.strip()) if mode.lower() in ("lax", "strict") else ("strict", path.strip())
    )
    steps, at = [], 1
    while rest.startswith("$") and at < len(rest):
        step = _STEP.match(rest, at)
        if step is None:
            break
        steps.append(step)
        at = step.end()
    if not rest.startswith("$") or at != len(rest):
        raise InvalidRequest(f"{path!r} is no path: write $.name, $.array[0], $.array[*], $['a name']")
    return mode == "lax", tuple(steps)


def _at(text: str, lax: bool, steps: tuple[re.Match[str], ...]) -> Any:
    """What a path leads to: one value, or a list of those that it finds if a step leads to several."""
    items, several = [_read(text)], False
    for step in steps:
        single = step["name"] or step["quoted"] or step["index"]
        several = several or single is None
        items = [child for parent in items for child in _children(parent, step)]
        if not items and not several:
            if lax:
                return None
            raise _Failed(f"nothing is at {step[0]}")
    return items if several else items[0]


def _children(parent: Any, step: re.Match[str]) -> list[Any]:
    if isinstance(parent, dict):
        if step["deep"]:
            below = [c for child in parent.values() for c in _children(child, step)]
            return ([parent[step["deep"]]] if step["deep"] in parent else []) + below
        name = step["name"] if step["name"] is not None else step["quoted"]
        if name is not None:
            return [parent[name]] if name in parent else []
        return list(parent.values()) if step["every"] else []
    if isinstance(parent, list):
        if step["deep"]:
            return [c for child in parent for c in _children(child, step)]
        if step["index"] is not None:
            at = int(step["index"])
            return [parent[at]] if -len(parent) <= at < len(parent) else []
        if step["low"] is not None:
            low, high = (int(step[end]) if step[end] else None for end in ("low", "high"))
            return parent[low:high]
        return parent if step["every"] else []
    return []


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


JSON: FunctionRows = (
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
JSON_AGGREGATES: FunctionRows = (
    (
        "JSON_OBJECTAGG([KEY] key VALUE value [NULL|ABSENT ON NULL])",
        "An object of a member a row, as text.",
        _object_of_rows,
    ),
    ("JSON_ARRAYAGG(value [NULL|ABSENT ON NULL])", "An array of a value a row, as text.", _array_of_rows),
)
