"""`blackhole`: takes rows and forgets them."""

from __future__ import annotations

import pyarrow as pa

from tablestore.sql.connectors.connector import Connector, ConnectorOptions


class _Nowhere:
    def write(self, batch: pa.RecordBatch) -> None:
        """Forget the rows."""

    def finish(self) -> str:
        return "nowhere"

    def abandon(self) -> None:
        """There is nothing to remove."""


def _sink(_: ConnectorOptions) -> _Nowhere:
    return _Nowhere()


CONNECTOR = Connector("blackhole", "takes rows and forgets them", (), sink=_sink)
