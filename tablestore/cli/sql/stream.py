"""A stream on a terminal: its rows as they come, until its end or Ctrl-C; then what came in all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.quantities import many
from tablestore.sql import Result
from tablestore.sql.rendering import TextRows, seconds


class CountedStream:
    """The rows of a SELECT in streaming mode, counted by kind of change while they are read."""

    def __init__(self, result: Result) -> None:
        self._result, self._kinds, self._began = result, Counter[str](), time.monotonic()

    @property
    def schema(self) -> pa.Schema:
        """The columns; the first is the kind of change."""
        return self._result.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as they come."""
        for batch in self._result.to_batches():
            for group in pc.value_counts(batch.column(0)).to_pylist():
                self._kinds[group["values"]] += group["counts"]
            yield batch

    def summary(self) -> str:
        """`3 changes (+I 1, -U 1, +U 1) · 2.50 s`."""
        kinds = ", ".join(f"{kind} {rows:,}" for kind, rows in sorted(self._kinds.items()))
        words = many(self._kinds.total(), "change") + (f" ({kinds})" if kinds else "")
        return f"{words} · {seconds(time.monotonic() - self._began)}"


def show(result: Result, *, width: int) -> bool:
    """Print the rows of a stream as they come, and what came when it ends; whether it has ended by itself,
    not by Ctrl-C."""
    stream, table, ended = CountedStream(result), TextRows(result.schema, width=width), True
    if result.endless:
        print("rows come until Ctrl-C", flush=True)
    try:
        for batch in stream.to_batches():
            print("\n".join(table.lines(pa.Table.from_batches([batch]))), flush=True)
    except KeyboardInterrupt:
        ended = False
        result.stop()
        print()
    print("\n".join([*table.omitted(), ("" if ended else "stopped: ") + stream.summary()]))
    return ended
