"""A table as the sink of a stream: batches in it once, and of their pieces the later one wins."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa

import tablestore as ts
from tablestore.flow.batch import Streams, Work
from tablestore.flow.sink import SinkBatch, TableSink
from tablestore.flow.source import Changes, RowsStream
from tablestore.flow.writing import RowsWritten
from tablestore.table.place import TablePlace


@dataclass
class BatchBackwards:
    """A batch whose tasks are done in turn, the last one first, after a pickled trip."""

    streams: Streams
    number: int = 0

    def __post_init__(self) -> None:
        self.start = self.streams.initial()
        self.end = self.streams.next(self.start)

    def works(self) -> Sequence[Work]:
        return self.streams.works(self.start, self.end)

    def over(
        self, task: Callable[[Any], Any], items: Sequence[Any], *, count: Callable[[Any], int] | None = None
    ) -> list[Any]:
        sent = [pickle.loads(pickle.dumps((task, item))) for item in items]
        return [call(item) for call, item in reversed(sent)][::-1]

    def counted(self) -> Mapping[int, int]:
        return {}


def all_columns(work: Work) -> Changes:
    return work.piece.read(["k", "v"])


def write(table: ts.Table, *parts: list[tuple[int, int]], identifier: int = 0) -> int:
    """The rows that a batch brings of pieces with these pairs of k and v."""
    rows = [pa.table({"k": pa.array([k for k, _ in p]), "v": pa.array([v for _, v in p])}) for p in parts]
    batch = BatchBackwards(Streams(tuple(RowsStream(part) for part in rows)))
    sink = TableSink(TablePlace.of(table))
    return sink.write(SinkBatch(batch, all_columns, "job", identifier, f"batch {identifier}"))


def test_of_two_pieces_with_a_key_the_later_one_wins(lake: ts.Lake):
    schema = {"k": ts.BIGINT, "v": ts.BIGINT}
    table = lake.create_table("shop.t", schema=schema, primary_key=["k"], options={"bucket": 1})
    assert write(table, [(1, 1), (2, 1)], [(1, 2)], [(1, 3)]) == 4
    assert table.refresh().scan().to_arrow().to_pylist() == [{"k": 1, "v": 3}, {"k": 2, "v": 1}]
    assert write(table, [(2, 9)]) == 0, "the batch is there"
    assert write(table, [(2, 9)], identifier=1) == 1
    assert table.refresh().scan().to_arrow().column("v").to_pylist() == [3, 9]
    assert table.position("job") == (1, "batch 1")
    assert table.check() == []


def test_a_table_with_dynamic_buckets_is_written_here_and_has_each_batch_once(lake: ts.Lake):
    schema = {"k": ts.BIGINT, "v": ts.BIGINT}
    table = lake.create_table("shop.t", schema=schema, primary_key=["k"], options={"bucket": -1})
    assert write(table, [(1, 1), (2, 1)], [(1, 2)]) == 3
    assert write(table, [(1, 9)]) == 0, "the batch is there"
    assert write(table, [(2, 3)], identifier=1) == 1
    assert sorted(table.refresh().scan().to_arrow().to_pydict()["v"]) == [2, 3]
    assert table.position("job") == (1, "batch 1")
    assert table.check() == []


def test_rows_without_a_key_are_numbered_in_the_order_of_pieces(lake: ts.Lake):
    schema = {"k": ts.BIGINT, "v": ts.BIGINT}
    table = lake.create_table("shop.t", schema=schema, options={"bucket": 1, "bucket-key": "k"})
    for identifier in range(2):
        begin = identifier * 3
        write(table, *([(k, k)] for k in range(begin, begin + 3)), identifier=identifier)
    files = table.refresh().inspect.files().select(["min_sequence_number", "min_value_stats"]).to_pylist()
    ordered = sorted(files, key=itemgetter("min_sequence_number"))
    rows = [int(re.search(r"\bk\W+(\d+)", file["min_value_stats"])[1]) for file in ordered]  # type: ignore[index]  # else it fails
    assert rows == list(range(6)), files
    assert len({file["min_sequence_number"] for file in files}) == 6
    assert table.scan().to_arrow().column("k").to_pylist() == list(range(6))
    assert table.check() == []


def test_written_rows_add_up():
    parts = [RowsWritten((b"a",), 2, newest=5), RowsWritten((b"b",), 1, 3, 4, 2), RowsWritten()]
    assert RowsWritten.sum(parts) == RowsWritten((b"a", b"b"), 3, 3, 4, 5)
    assert (RowsWritten.sum(parts).rows, RowsWritten.sum([])) == (6, RowsWritten())
