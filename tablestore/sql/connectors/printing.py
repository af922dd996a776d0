"""`print` shows each row with its kind, `+I[1, ann, 12.50]`; `blackhole` takes rows and forgets them."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.options.values import boolean
from tablestore.flow.batch import Work
from tablestore.flow.sink import Computation, SinkBatch
from tablestore.format import rowkind
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

    def write(self, batch: pa.RecordBatch, kinds: pa.Array | None = None) -> None:
        """Show the rows, one a line, each with its kind; without kinds they are new."""
        values = self._options.values
        prefix = f"{values['print-identifier']}> " if values["print-identifier"] else ""
        columns = [_shown(a, f) for a, f in zip(batch.columns, self._options.columns, strict=True)]
        rows = pc.binary_join_element_wise(*columns, ", ")
        file = sys.stderr if values["standard-error"] else sys.stdout
        texts = ["+I"] * len(rows) if kinds is None else rowkind.texts(kinds).to_pylist()
        for kind, row in zip(texts, rows.to_pylist(), strict=True):
            print(f"{prefix}{kind}[{row}]", file=file)
        file.flush()

    def finish(self) -> str:
        return "shown"

    def abandon(self) -> None:
        """What was shown stays."""


@dataclass(frozen=True)
class _PrintedStream:
    """Changes are shown by the process that runs the job; a batch that a crash repeats is shown again."""

    options: ConnectorOptions

    def write(self, batch: SinkBatch) -> int:
        printer, count = _Printer(self.options), 0
        for work in batch.batch.works():
            for rows, kinds in batch.changes(work):
                printer.write(rows, kinds)
                count += rows.num_rows
        return count


def _shown(array: pa.Array, f: DataField) -> pa.Array:
    """A column as text."""
    if f.type.is_binary:
        texts = (f"x'{v.as_py().hex()}'" if v.is_valid else "null" for v in array)
        return pa.array(texts, pa.string())
    return cast_text.of(array, f.type).fill_null("null")


CONNECTOR = Connector(
    "print", "shows each row", _OPTIONS, sink=_Printer, stream_sink=_PrintedStream, takes_retracts=True
)


class _Nowhere:
    def write(self, batch: pa.RecordBatch) -> None:
        """Forget the rows."""

    def finish(self) -> str:
        return "nowhere"

    def abandon(self) -> None:
        """There is nothing to remove."""


@dataclass(frozen=True)
class CountTask:
    """The task that computes changes and counts them."""

    changes: Computation

    def __call__(self, work: Work) -> int:
        return sum(rows.num_rows for rows, _ in self.changes(work))


@dataclass(frozen=True)
class _Forgotten:
    """Changes are computed, and forgotten."""

    def write(self, batch: SinkBatch) -> int:
        return sum(batch.batch.over(CountTask(batch.changes), batch.batch.works()))


def _sink(_: ConnectorOptions) -> _Nowhere:
    return _Nowhere()


BLACKHOLE = Connector(
    "blackhole",
    "takes rows and forgets them",
    (),
    sink=_sink,
    stream_sink=lambda _: _Forgotten(),
    takes_retracts=True,
)
