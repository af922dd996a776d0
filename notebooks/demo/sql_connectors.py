"""What the checkout adds to SQL: connectors of its data sets, loaded when a table of theirs is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tablestore import doors


def provide() -> None:
    """Make `'connector' = 'tpch-cdc'` known to SQL."""
    doors.connectors["tpch-cdc"] = _tpch_cdc


def _tpch_cdc() -> Any:
    return import_module("notebooks.demo.tpch_connector").CONNECTOR
