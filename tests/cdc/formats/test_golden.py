"""Events that a real Debezium wrote in four ways lead to the rows that the server had in the end, cell by
cell."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablestore.cdc.final_rows import FinalRows
from tablestore.cdc.formats.registry import format_of
from tablestore.format.messages.messages import decoded
from tests.cdc.formats.messages_of import columns, messages

GOLDEN = Path(__file__).parents[2] / "golden" / "debezium"
ITEMS = {
    "order_id": "BIGINT NOT NULL",
    "line": "INT NOT NULL",
    "qty": "DECIMAL(10, 3) NOT NULL",
    "discount": "DECIMAL(4, 2)",
    "comment": "STRING",
}
ORDERS = {
    "id": "BIGINT NOT NULL",
    "price": "DECIMAL(15, 2)",
    "big": "DECIMAL(38, 10)",
    "created": "TIMESTAMP(6)",
    "d0": "TIMESTAMP(0)",
    "day": "DATE",
    "t": "BIGINT",  # microseconds: a TIME of MySQL may be negative and beyond 24 hours
    "ts": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    **dict.fromkeys(["j", "e", "s"], "STRING"),
    "b1": "BOOLEAN",
    "b10": "BYTES",
    "flag": "BOOLEAN",
    "bin": "BYTES",
    "f": "FLOAT",
    "dbl": "DOUBLE",
    "y": "INT",
    "u": "BIGINT",
    "i8": "TINYINT",
    "i16": "INT",
    "i24": "INT",
    **dict.fromkeys(["name", "note", "c"], "STRING"),
}
MODES = {
    "events": {"decimal.handling.mode": "precise"},
    "events_schemas": {"schema-include": "true"},
    "events_string_modes": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "bigint.unsigned.handling.mode": "precise",
        "binary.handling.mode": "base64",
    },
    "events_connect_modes": {"decimal.handling.mode": "double", "time.precision.mode": "connect"},
}
OTHER_TYPES = {
    "events_string_modes": {"t": "STRING", "u": "DECIMAL(20, 0)"},
    "events_connect_modes": {"big": "DOUBLE"},
}


def micros(text: str) -> int:
    """A TIME of MySQL."""
    sign, clock = (-1, text[1:]) if text.startswith("-") else (1, text)
    hours, minutes, seconds = clock.split(":")
    return sign * ((int(hours) * 60 + int(minutes)) * 60_000_000 + round(Decimal(seconds) * 1_000_000))


def whole(text: str) -> int:
    return int(text)


OF_MYSQL: dict[str, Callable[[str], Any]] = {
    "bigint": whole,
    "int": whole,
    "smallint": whole,
    "mediumint": whole,
    "year": whole,
    "tinyint": whole,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "timestamp": lambda text: datetime.fromisoformat(text + "+00:00"),
    "date": date.fromisoformat,
    "time": micros,
    "bit": lambda text: int(text, 16),
    "varbinary": bytes.fromhex,
    "float": lambda text: float(np.float32(text)),
    "double": float,
}


def expected(table: str, mode: str) -> list[dict[str, Any]]:
    """The rows of the server as this way of writing can tell them."""
    lines = [json.loads(line) for line in (GOLDEN / "final_state.jsonl").read_text().splitlines()]
    actual = next(line for line in lines if line["table"] == table)
    rows = []
    for cells in actual["rows"]:
        row = {}
        for column, text in zip(actual["columns"], cells, strict=True):
            kind = column["type"].partition("(")[0].partition(" ")[0]
            row[column["name"]] = None if text is None else OF_MYSQL.get(kind, str)(text)
        rows.append(as_written(row, mode) if table == "orders" else row)
    return sorted(rows, key=lambda r: json.dumps(r, default=str))


def as_written(row: dict[str, Any], mode: str) -> dict[str, Any]:
    """What is lost by the way of writing, and by nothing else."""
    within = row["t"] is not None and 0 <= row["t"] < 86_400_000_000
    if mode == "events_connect_modes":  # times in milliseconds, and none beyond a day; decimals as doubles
        row["created"] = row["created"] and row["created"].replace(
            microsecond=row["created"].microsecond // 1000 * 1000
        )
        row["t"] = row["t"] // 1000 if within else None
        row["big"] = None if row["big"] is None else float(row["big"])
    elif mode == "events_string_modes":
        row["t"] = "00:00:00.000001Z" if within else None
    if mode != "events_string_modes" and row["u"] == 2**64 - 1:
        row["u"] = -1
    return row


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Bits as numbers, for the server says them so."""
    bits = row["b10"]
    b10 = None if bits is None else int.from_bytes(bits, "little")
    return {
        **row,
        "b1": None if row["b1"] is None else int(row["b1"]),
        "b10": b10,
        "flag": row["flag"] if row["flag"] is None else int(row["flag"]),
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("table", ["orders", "items"])
def test_events_lead_to_the_rows_of_the_server(table: str, mode: str):
    types = ITEMS if table == "items" else ORDERS | OTHER_TYPES.get(mode, {})
    lines = [json.loads(line) for line in (GOLDEN / f"{mode}.jsonl").read_text().splitlines()]
    values = [line["value"] for line in lines if line["topic"] == f"srv.shop.{table}"]
    assert len(values) > 5
    fields = columns(**types)
    format, _ = format_of("debezium-json", fields, MODES[mode])
    key = ["order_id", "line"] if table == "items" else ["id"]
    final = FinalRows(pa.schema([f.arrow for f in fields]), key)
    for _, part in decoded(messages(*values), format):
        final.add(part)
    rows = final.rows().to_pylist()
    if table == "orders":
        rows = [comparable(row) for row in rows]
    if (
        table == "items"
    ):  # rows before the ALTER have no discount in events; no event tells what the server adds
        rows = [row | {"discount": row["discount"] or Decimal("0.05")} for row in rows]
    assert sorted(rows, key=lambda r: json.dumps(r, default=str)) == expected(table, mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_truncate_is_refused_by_name(mode: str):
    lines = [json.loads(line) for line in (GOLDEN / f"{mode}.jsonl").read_text().splitlines()]
    values = [line["value"] for line in lines if line["topic"] == "srv.shop.added"]
    format, _ = format_of("debezium-json", columns(k="STRING NOT NULL", v="INT"), MODES[mode])
    with pytest.raises(ValueError, match=r"topic 't', partition 3, offset \d+: .*op 't'"):
        list(decoded(messages(*values), format))
