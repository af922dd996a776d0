"""The connectors there are, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tablestore import doors
from tablestore.core.errors import NotFound, Unsupported
from tablestore.sql.connectors import datagen, filesystem, kafka, mysql_cdc, printing
from tablestore.sql.connectors.connector import Connector

CONNECTORS: Mapping[str, Connector] = MappingProxyType(
    {
        one.name: one
        for one in (
            datagen.CONNECTOR,
            filesystem.CONNECTOR,
            kafka.CONNECTOR,
            mysql_cdc.CONNECTOR,
            printing.CONNECTOR,
            printing.BLACKHOLE,
        )
    }
)
_ABSENT = {
    "tpch-cdc": "it comes with `from notebooks import course` in a checkout of the workbench",
}


def connector_of(name: str) -> Connector:
    """The connector of a name. Raises Unsupported for one of other engines, NotFound naming the nearest."""
    if name in doors.connectors:
        return doors.connectors[name]()
    if name in _ABSENT:
        raise Unsupported(
            f"connector {name!r}", f"{_ABSENT[name]}; there are {', '.join(sorted(CONNECTORS))}"
        )
    if name not in CONNECTORS:
        raise NotFound.among("connector", name, CONNECTORS)
    return CONNECTORS[name]
