"""Metadata columns: what is known of a change beside its row, as columns of the target. Names and types are
those of Paimon's MySQL CDC."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.cdc.capture.names import SourceName, words
from tablestore.cdc.capture.source import TableRows
from tablestore.core.errors import NotFound
from tablestore.format.types.arrow_types import STRING, TIMESTAMP_LTZ
from tablestore.format.types.data_type import DataType, to_arrow

METADATA = {
    "database_name": "the database in the source",
    "table_name": "the table in the source",
    "op_ts": "when the change was committed in the source; 1970-01-01 for rows of a snapshot",
}
METADATA_TYPES = {"database_name": STRING, "table_name": STRING, "op_ts": TIMESTAMP_LTZ(3)}


@dataclass(frozen=True, slots=True)
class CapturedMetadata:
    """The column `name` of the target with `what` of `METADATA`."""

    name: str
    what: str

    @classmethod
    def of(cls, wanted: str | Iterable[str], prefix: str = "") -> tuple[CapturedMetadata, ...]:
        """Columns as written: several with commas, or a list; raises NotFound with the nearest."""
        names = [name for name in words(wanted, "metadata columns") if name]
        for name in names:
            if name not in METADATA:
                raise NotFound.among("metadata column", name, METADATA)
        return tuple(cls(prefix + name, name) for name in dict.fromkeys(names))

    @property
    def type(self) -> DataType:
        return METADATA_TYPES[self.what].not_null()

    @property
    def of_change(self) -> bool:
        """Whether it differs from change to change of one row, so that it can be in no key."""
        return self.what == "op_ts"

    def values(self, rows: TableRows) -> pa.Array:
        """Its value in each row."""
        return metadata_values(self.what, rows.table, rows.rows.num_rows, rows.seconds)


def metadata_values(what: str, table: SourceName, rows: int, seconds: pa.Array | None) -> pa.Array:
    """One of `METADATA` for some rows of a table, which were committed `seconds` after 1970 (None: of a
    snapshot)."""
    if what == "op_ts":
        millis = pa.array(np.zeros(rows, np.int64)) if seconds is None else _millis(seconds)
        return millis.cast(to_arrow(METADATA_TYPES[what]))
    return pa.repeat(table.database if what == "database_name" else table.table, rows)


def _millis(seconds: pa.Array) -> pa.Array:
    values = seconds.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(values * 1000)
