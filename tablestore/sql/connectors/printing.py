"""`print`: shows each row as `+I[1, ann, 12.50]`."""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.options.values import boolean
from tablestore.format.types import cast_text
from tablestore.format.types.data_type import DataField
from tablestore.sql.connectors.connector import Connector, ConnectorOptions, Option

_OPTIONS = (
    Option("print-identifier", "stands before each row, with `> `", default=""),
    Option("standard-error", "show rows on standard error", boolean, default=False),
    Option("sink.parallelism", refused="rows are shown by one thread"),
)


class _Printer:
    def __init__(self, options: ConnectorOptions) -> None:
        self._options = options

    def write(self, batch: pa.RecordBatch) -> None:
        """Show the rows, one a line."""
        values = self._options.values
        prefix = f"{values['print-identifier']}> " if values["print-identifier"] else ""
        columns = [_shown(a, f) for a, f in zip(batch.columns, self._options.columns, strict=True)]
        rows = pc.binary_join_element_wise(*columns, ", ")
        file = sys.stderr if values["standard-error"] else sys.stdout
        for row in rows.to_pylist():
            print(f"{prefix}+I[{row}]", file=file)

    def finish(self) -> str:
        return "shown"

    def abandon(self) -> None:
        """What was shown stays."""


def _shown(array: pa.Array, f: DataField) -> pa.Array:
    """A column as text."""
    if f.type.is_binary:
        texts = (f"x'{v.as_py().hex()}'" if v.is_valid else "null" for v in array)
        return pa.array(texts, pa.string())
    return cast_text.of(array, f.type).fill_null("null")


CONNECTOR = Connector("print", "shows each row", _OPTIONS, sink=_Printer)
