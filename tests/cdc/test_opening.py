"""Sources by their address: what is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tablestore.cdc.capture.names import Patterns
from tablestore.cdc.opening import MysqlAddress, rules_of, source_address
from tablestore.core.errors import InvalidRequest, Unsupported


def test_topics_do_not_take_rows_without_a_key(tmp_path: Path) -> None:
    address = source_address("kafka://127.0.0.1:1/shop", (), {"format": "debezium-json"})
    rules = rules_of(address, {"into": "ods", "keyless": "append"})
    with pytest.raises(Unsupported, match=r"keyless='append' of topics.*primary_keys"):
        address.open(rules, checkpoint=str(tmp_path), follow=False)


def test_tables_and_columns_to_leave_out_or_to_read_again() -> None:
    settings = {"left_out": {"orders": "photo, place", "crm.*": ["x"]}, "read_again": "orders,crm.p?"}
    address = source_address("mysql://me@db.example/shop", (), settings)
    assert isinstance(address, MysqlAddress)
    assert address.settings == {
        "left_out": (("shop.orders", ("photo", "place")), ("crm.*", ("x",))),
        "read_again": Patterns(("shop.orders", "crm.p?")),
    }
    for wrong in ({"left_out": ["photo"]}, {"left_out": {"orders": 5}}, {"read_again": 5}):
        with pytest.raises(InvalidRequest):
            source_address("mysql://me@db.example/shop", (), wrong)
