"""Tables that a sink could not follow: the next batch captures them no longer.

    <checkpoint>/tablestore-paused.json    the offset at which a batch ends, the tables, and why

It is read where the next batch is planned from that offset, and says nothing behind any other: what stands in
the offsets is what counts. Where the file is lost, the batch that comes again fails on the same table again,
and writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tablestore.cdc.capture.names import SourceName
from tablestore.flow.source import Offset
from tablestore.io.paths import join, location
from tablestore.io.routed import file_io_for

_FILE = "tablestore-paused.json"


@dataclass(frozen=True, slots=True)
class PausedTables:
    """Those of a checkpoint."""

    checkpoint: str

    def at(self, offset: Offset) -> dict[SourceName, str]:
        """The tables that are captured no longer behind an offset, with the reason."""
        place = location(self.checkpoint)
        try:
            item = json.loads(file_io_for(place).read(join(place, _FILE)))
        except (FileNotFoundError, ValueError):
            return {}
        if item.get("end") != offset:
            return {}
        return {SourceName(database, table): reason for database, table, reason in item["tables"]}

    def note(self, offset: Offset, tables: Mapping[SourceName, str]) -> None:
        """Write which tables they are, in place of what was written before."""
        place = location(self.checkpoint)
        listed = [[name.database, name.table, reason] for name, reason in tables.items()]
        text = json.dumps({"v": 1, "end": offset, "tables": listed}, ensure_ascii=False)
        file_io_for(place).make_dir(place)
        file_io_for(place).replace(join(place, _FILE), text.encode())
