"""Results of ours beside answers of Flink: an Arrow table as texts of Flink's client, and what differs.

    assert flink_texts.difference(answer, lambda: session.sql(text).to_arrow(), ordered=ordered(text)) == ""

DOUBLE and FLOAT are equal when they agree to 12 and 6 digits: the same sum may be added in another order, and
Java before 19 does not always print the shortest text. Types are compared by kind (`INT`, `DECIMAL(10, 2)`),
without what Arrow's types do not hold: NOT NULL, lengths of strings and bytes, digits of times, MULTISET.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.peers.cells import cells
from tests.peers.sql_scripts import ScriptAnswer, sort_key

NUMBERS = {pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT"}
NUMBERS |= {pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.date32(): "DATE"}
DIGITS = {"DOUBLE": 1e-12, "FLOAT": 1e-6}
KINDS = (
    (r"(CHAR|VARCHAR)\(\d+\)", "STRING"),
    (r"(BINARY|VARBINARY)\(\d+\)", "BYTES"),
    (r"(TIME|TIMESTAMP|TIMESTAMP_LTZ)\(\d\)", r"\1"),
)


def difference(
    answer: ScriptAnswer, run: Callable[[], pa.Table], *, ordered: bool, types: bool = False
) -> str:
    """What `run` gives otherwise than Flink did, in words; empty if nothing. With `types` also the kinds of
    the columns. Of a stream the kinds of changes are compared, too; ours are the column `op`. Two errors
    agree, whatever they say."""
    try:
        actual = run()
    except Exception as e:
        return "" if answer.error else f"an error of ours, none of Flink's: {type(e).__name__}: {e}"
    if answer.error:
        return f"no error of ours; Flink: {answer.error}"
    if not answer.columns:
        return ""
    kinds_found = actual["op"].to_pylist() if answer.kinds else []
    actual = actual.drop(["op"]) if answer.kinds else actual
    names = [name for name, _ in answer.columns]
    if actual.column_names != names:
        return f"columns {actual.column_names}, Flink {names}"
    kinds = [kind(text) for _, text in answer.columns]
    if types and (ours := [arrow_kind(t) for t in actual.schema.types]) != kinds:
        return f"types {ours}, Flink {kinds}"
    rows = texts(actual, [text for _, text in answer.columns])
    wanted = list(answer.rows)
    if answer.kinds:
        rows = [(*row, kind) for row, kind in zip(rows, kinds_found, strict=True)]
        wanted = [(*row, kind) for row, kind in zip(wanted, answer.kinds, strict=True)]
        kinds = [*kinds, "STRING"]
    rows = rows if ordered else sorted(rows, key=sort_key)
    wanted = wanted if ordered else sorted(wanted, key=sort_key)
    if len(rows) == len(wanted):
        agree = [_same(a, b, kinds) for a, b in zip(rows, wanted, strict=True)]
        if all(agree):
            return ""
    return "\n".join(["rows of ours, then Flink's:", *map(str, rows), "", *map(str, wanted)])


def texts(table: pa.Table, types: Sequence[str]) -> list[tuple[str | None, ...]]:
    """Rows as Flink's client prints them; `types` are Flink's, for the digits that a timestamp shows."""
    shown = [_column(table.select([i]), text) for i, text in enumerate(types)]
    return list(zip(*shown, strict=True))


def kind(text: str) -> str:
    """Flink's type as far as an Arrow type can say it."""
    text = text.replace(" NOT NULL", "").replace(" *PROCTIME*", "").replace(" *ROWTIME*", "")
    text = re.sub(r"\bMULTISET<(.*)>", r"MAP<\1, INT>", text)
    for pattern, wide in KINDS:
        text = re.sub(rf"\b{pattern}", wide, text)
    return text


def arrow_kind(t: pa.DataType) -> str:
    """`kind` of what an Arrow type holds."""
    if t in NUMBERS:
        return NUMBERS[t]
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    if pa.types.is_timestamp(t):
        return "TIMESTAMP_LTZ" if t.tz else "TIMESTAMP"
    if pa.types.is_map(t):
        return f"MAP<{arrow_kind(t.key_type)}, {arrow_kind(t.item_type)}>"
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return f"ARRAY<{arrow_kind(t.value_type)}>"
    if pa.types.is_struct(t):
        return f"ROW<{', '.join(f'`{f.name}` {arrow_kind(f.type)}' for f in t)}>"
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return "STRING"
    return "TIME" if pa.types.is_time(t) else "BYTES" if "binary" in str(t) else str(t)


def _column(table: pa.Table, flink_type: str) -> list[str | None]:
    if pa.types.is_timestamp(table.schema.types[0]) and table.schema.types[0].tz:  # shown in their zone
        table = pa.table({table.column_names[0]: pc.local_timestamp(table.column(0))})
    values = [row[0] for row in cells(table)]
    digits = re.match(r"TIMESTAMP(?:_LTZ)?\((\d)\)", flink_type)
    actual = [None if v is None else _shown(v, table.schema.types[0]) for v in values]
    return [v and _cut(v, int(digits[1])) for v in actual] if digits else actual


def _cut(text: str, digits: int) -> str:
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')[:digits]}" if digits else whole


def _shown(v: Any, t: pa.DataType) -> str:
    if v is None:
        return "NULL"
    if pa.types.is_map(t):
        return "{" + ", ".join(f"{_shown(k, t.key_type)}={_shown(x, t.item_type)}" for k, x in v) + "}"
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return "[" + ", ".join(_shown(x, t.value_type) for x in v) + "]"
    if pa.types.is_struct(t):
        return "(" + ", ".join(_shown(v[f.name], f.type) for f in t) + ")"
    if isinstance(v, bool):
        return str(v).upper()
    if isinstance(v, dict):
        return f"x'{v['hex']}'"
    if isinstance(v, float):
        return java_double(v)
    if pa.types.is_time(t):
        return v.partition(".")[0]
    return v.removesuffix("Z") if pa.types.is_timestamp(t) else str(v)


def java_double(v: float) -> str:
    """A double as Java prints it: plain from 1e-3 up to 1e7, else with an exponent."""
    if v == 0 or 1e-3 <= abs(v) < 1e7:
        text = f"{Decimal(repr(v)):f}"
        return text if "." in text else f"{text}.0"
    sign, digits, _ = Decimal(repr(v)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    return f"{'-' * sign}{text[0]}.{text[1:] or 0}E{Decimal(repr(v)).adjusted()}"


def _same(ours: Sequence[str | None], theirs: Sequence[str | None], kinds: Sequence[str]) -> bool:
    return all(_same_cell(a, b, k) for a, b, k in zip(ours, theirs, kinds, strict=True))


def _same_cell(a: str | None, b: str | None, k: str) -> bool:
    if a is None or b is None or k not in DIGITS:
        return a == b
    x, y = float(a), float(b)
    return math.isclose(x, y, rel_tol=DIGITS[k]) or (math.isnan(x) and math.isnan(y))
