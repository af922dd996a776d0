"""The connectors of ours, by name. `doors` loads them when a table first uses one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tablestore.sql.connectors import datagen, filesystem, kafka, mysql_cdc, postgres_cdc, printing
from tablestore.sql.connectors.connector import Connector

CONNECTORS: Mapping[str, Connector] = MappingProxyType(
    {
        connector.name: connector
        for connector in (
            datagen.CONNECTOR,
            filesystem.CONNECTOR,
            kafka.CONNECTOR,
            mysql_cdc.CONNECTOR,
            postgres_cdc.CONNECTOR,
            printing.CONNECTOR,
            printing.BLACKHOLE,
        )
    }
)
