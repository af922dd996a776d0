"""What the checkout adds to SQL: connectors of its data sets, loaded when a table of theirs is used."""

from __future__ import annotations

from tablestore.table import features


def provide() -> None:
    """Make `'connector' = 'tpch-cdc'` known to SQL."""
    features.provide({"connector tpch-cdc": "notebooks.demo.tpch_connector:CONNECTOR"})
