"""Types only become wider, and only where Paimon reads older files so."""

from __future__ import annotations

import pytest

from tablestore.cdc.capture.schema_change import widened
from tablestore.format.types.arrow_types import as_type


@pytest.mark.parametrize(
    ("here", "there", "found"),
    [
        ("INT", "BIGINT", "BIGINT"),
        ("BIGINT", "INT", "BIGINT"),
        ("VARCHAR(10)", "VARCHAR(20)", "VARCHAR(20)"),
        ("VARCHAR(20)", "VARCHAR(10)", "VARCHAR(20)"),
        ("CHAR(5)", "VARCHAR(3)", "VARCHAR(5)"),
        ("STRING", "CHAR(5)", "STRING"),
        ("DECIMAL(10, 2)", "DECIMAL(8, 4)", "DECIMAL(12, 4)"),
        ("DECIMAL(38, 2)", "DECIMAL(38, 4)", None),
        ("INT", "DECIMAL(5, 2)", "DECIMAL(12, 2)"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6)"),
        ("TIMESTAMP(6)", "DATE", None),
        ("DATE", "TIMESTAMP(3)", None),
        ("INT", "STRING", None),
        ("STRING", "INT", None),
        ("INT NOT NULL", "BIGINT", "BIGINT NOT NULL"),
    ],
)
def test_a_column_has_room_for_what_was_and_what_comes(here: str, there: str, found: str | None) -> None:
    wanted = None if found is None else as_type(found, "found")
    assert widened(as_type(here, "here"), as_type(there, "there")) == wanted
