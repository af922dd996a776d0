"""Change-event envelopes → rows with kinds, held against events of a real Debezium."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tablestore.cdc.source import decode
from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.messages.messages import Changes
from tests.cdc.changes import SCHEMA, envelope, row, transaction

GOLDEN = Path(__file__).parents[1] / "golden" / "debezium"


def decoded(*lines: str) -> list[tuple[int, dict]]:
    changes = decode("\n".join(lines).encode(), table="item", schema=SCHEMA)
    return list(zip(changes.kinds.to_pylist(), changes.rows.to_pylist(), strict=True))


def test_each_op_gives_its_row_kinds_in_event_order():
    lines = [
        envelope("r", None, row(1)),
        envelope("u", row(1), row(1, "changed")),
        envelope("c", None, row(2)),
        envelope("d", row(1, "changed"), None),
    ]
    assert decoded(*lines) == [
        (0, row(1)),
        (1, row(1)),
        (2, row(1, "changed")),
        (0, row(2)),
        (3, row(1, "changed")),
    ]


def test_transactions_tombstones_and_other_tables_are_passed_over():
    tombstone = json.dumps({"topic": "srv.shop.item", "key": {"id": 1}, "value": None})
    other = envelope("c", None, row(9), table="item2")
    text = transaction([envelope("d", row(1), None), tombstone, other])
    assert decoded(text) == [(3, row(1))]


def test_text_keeps_every_character():
    name = 'naïve 😀 "quoted" \\ back \n line'
    assert decoded(envelope("c", None, row(1, name))) == [(0, row(1, name))]


def test_nothing_decodes_to_no_rows_of_the_right_types():
    changes = decode(b"", table="item", schema=SCHEMA)
    assert (changes.num_rows, changes.rows.schema.types) == (0, SCHEMA.types)


def test_nulls_stay_null():
    empty = {"id": 1, "price": None, "day": None, "name": None}
    line = json.dumps({"topic": "srv.shop.item", "value": {"before": None, "after": empty, "op": "c"}})
    assert decoded(line) == [(0, empty)]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"topic": "srv.shop.item", "value": {"before": null, "after": null, "op": "t"}}', Unsupported),
        ('{"topic": "srv.shop.item", "value": 7}', SchemaMismatch),
        ("no json at all", SchemaMismatch),
        (envelope("c", None, row(1)).replace('"0.25"', '"0.125"'), SchemaMismatch),
        (envelope("c", None, row(1)).replace('"0.25"', '"many"'), SchemaMismatch),
    ],
    ids=["truncate", "no envelope", "no json", "too many decimals", "no number"],
)
def test_what_has_no_row_form_is_refused(line: str, error: type[Exception]):
    with pytest.raises(error):
        decode(line.encode(), table="item", schema=SCHEMA)


def test_a_column_type_without_a_wire_form_is_named():
    schema = pa.schema([("id", pa.int64()), ("blob", pa.binary())])
    with pytest.raises(Unsupported, match="blob"):
        decode(envelope("c", None, row(1)).encode(), table="item", schema=schema)


REAL = {
    "orders": pa.schema(
        [
            ("id", pa.int64()),
            ("price", pa.decimal128(15, 2)),
            ("big", pa.decimal128(38, 10)),
            ("e", pa.string()),
            ("i8", pa.int8()),
            ("i16", pa.int32()),
            ("i24", pa.int32()),
            ("name", pa.string()),
            ("note", pa.string()),
        ]
    ),
    "items": pa.schema(
        [
            ("order_id", pa.int64()),
            ("line", pa.int32()),
            ("qty", pa.decimal128(10, 3)),
            ("comment", pa.string()),
        ]
    ),
}


@pytest.mark.parametrize("table", REAL)
def test_replaying_real_events_ends_at_the_servers_final_state(table: str):
    schema, keys = REAL[table], 2 if table == "items" else 1
    events = (GOLDEN / "events_string_modes.jsonl").read_bytes()
    changes = decode(events, table=f"shop.{table}", schema=schema)
    assert replayed(changes, keys) == final_state(table, schema.names, keys)


def replayed(changes: Changes, keys: int) -> dict[tuple, tuple]:
    state: dict[tuple, tuple] = {}
    for kind, values in zip(changes.kinds.to_pylist(), changes.rows.to_pylist(), strict=True):
        text = tuple(
            f"{v:f}" if isinstance(v, Decimal) else v if v is None else str(v) for v in values.values()
        )
        if kind in (1, 3):
            state.pop(text[:keys], None)
        else:
            state[text[:keys]] = text
    return state


def final_state(table: str, names: list[str], keys: int) -> dict[tuple, tuple]:
    for line in (GOLDEN / "final_state.jsonl").read_text().splitlines():
        document = json.loads(line)
        if document["table"] == table:
            at = [[c["name"] for c in document["columns"]].index(n) for n in names]
            rows = [tuple(r[i] for i in at) for r in document["rows"]]
            return {r[:keys]: r for r in rows}
    raise AssertionError(f"no final state of {table}")
