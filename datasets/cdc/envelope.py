"""Change events as Debezium JSON text, built by column: one string kernel call for a whole batch of events.

The text of a transaction holds its own position, so lengths are counted before the lines are joined. No
value needs escaping: the texts of TPC-H have no quotes, backslashes or control characters. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datasets.cdc.plan import INSERTS, Transactions
from datasets.tpch.schema import PRIMARY_KEYS

PREFIX, DATABASE, SERVER_ID = "srv", "tpch", 1


@dataclass(frozen=True, slots=True)
class TableEvents:
    """Rows of one table that change, in event order; `order[i]` is the place of row i's order in the pair."""

    table: str
    rows: pa.RecordBatch
    order: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LogText:
    """A piece of a log file and, for each transaction in it, the offset in the file where it ends."""

    text: memoryview
    ends: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Events:
    """The events of one table: text up to the frame, and where each stands among all (from 0)."""

    table: str
    text: pa.Array
    transaction: NDArray[np.int64]
    total: NDArray[np.int64]
    own: NDArray[np.int64]

    def numbers(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Row in the transaction (from 0), total order and order within the table (from 1), as text."""
        return tuple(pa.array(n).cast(pa.string()) for n in (self.total, self.total + 1, self.own + 1))


def render(tables: list[TableEvents], cuts: Transactions, *, half: int, file: str, offset: int) -> LogText:
    """The lines of the transactions `cuts`, to stand at `offset` of `file`.

    `tables` hold all events of these transactions; of one order, the earlier table's come first.
    """
    events = _placed(tables, cuts, half)
    counts = {e.table: np.bincount(e.transaction, minlength=len(cuts)) for e in events}
    markers = [_markers(cuts, k, {table: int(n[k]) for table, n in counts.items()}) for k in range(len(cuts))]
    sizes = np.sum([_sizes(e, cuts, half, file) for e in events], axis=0)
    positions, ends = [], []
    for k, (begin, end) in enumerate(markers):
        positions.append(offset)
        rows = sum(int(n[k]) for n in counts.values())
        offset += len(begin) + len(end) + int(sizes[k]) + rows * len(str(offset))
        ends.append(offset)
    lines = [_lines(e, cuts, half, file, positions) for e in events]
    text = _in_order(lines, events, markers)
    return LogText(text, np.array(ends, np.int64))


def _placed(tables: list[TableEvents], cuts: Transactions, half: int) -> list[_Events]:
    order = np.concatenate([t.order for t in tables])
    rank = np.empty(len(order), np.int64)
    rank[np.argsort(order, kind="stable")] = np.arange(len(order))
    transaction = np.searchsorted(cuts.ends, order, side="right")
    counts = np.bincount(transaction, minlength=len(cuts))
    total = rank - (np.cumsum(counts) - counts)[transaction]
    placed, first = [], 0
    for table in tables:
        mine = slice(first, first + len(table.order))
        own = np.bincount(transaction[mine], minlength=len(cuts))
        place = np.arange(len(table.order)) - (np.cumsum(own) - own)[transaction[mine]]
        placed.append(_Events(table.table, _row_text(table, half), transaction[mine], total[mine], place))
        first = mine.stop
    return placed


def _row_text(events: TableEvents, half: int) -> pa.Array:
    """Topic, key, before and after of each event: everything up to the source block."""
    values = {name: _json(events.rows[name]) for name in events.rows.schema.names}
    head = f'{{"topic":"{PREFIX}.{DATABASE}.{events.table}","key":'
    row = _object(values)
    images = ["null", *row] if half == INSERTS else [*row, "null"]
    cut = 1 if half == INSERTS else len(row)
    pieces = [
        head,
        *_object({name: values[name] for name in PRIMARY_KEYS[events.table]}),
        ',"value":{"before":',
    ]
    pieces += [*images[:cut], ',"after":', *images[cut:], ","]
    return pc.binary_join_element_wise(*pieces, "")


def _object(values: Mapping[str, list]) -> list:
    """The pieces of a JSON object with these members."""
    pieces: list = []
    for name, value in values.items():
        pieces += [f'{"," if pieces else "{"}"{name}":', *value]
    return [*pieces, "}"]


def _json(column: pa.Array) -> list:
    """The pieces of a column's JSON values: numbers bare, dates as days, decimals and text in quotes."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_integer(column.type):
        return [column.cast(pa.string())]
    return ['"', column.cast(pa.string()), '"']


def _frame(
    table: str, cuts: Transactions, k: int, half: int, file: str, pos: str
) -> tuple[str, str, str, str]:
    """What surrounds the three numbers of an event of transaction `k`."""
    ms, id_ = int(cuts.ts_ms[k]), _id(cuts, k)
    moment = f'"ts_us":{ms * 1000},"ts_ns":{ms * 1_000_000}'
    source = (
        f'"source":{{"version":"1","connector":"embedded","name":"{PREFIX}","ts_ms":{ms},"snapshot":"false",'
        f'"db":"{DATABASE}","sequence":null,{moment},"table":"{table}","server_id":{SERVER_ID},"gtid":"{id_}",'
        f'"file":"{file}","pos":{pos},"row":'
    )
    transaction = f',"thread":null,"query":null}},"transaction":{{"id":"{id_}","total_order":'
    op = "c" if half == INSERTS else "d"
    return source, transaction, ',"data_collection_order":', f'}},"op":"{op}","ts_ms":{ms},{moment}}}}}\n'


def _id(cuts: Transactions, k: int) -> str:
    return f"0-{SERVER_ID}-{cuts.first_number + k}"


def _markers(cuts: Transactions, k: int, counts: Mapping[str, int]) -> tuple[str, str]:
    """The lines that begin and end transaction `k`."""
    head = f'{{"topic":"{PREFIX}.transaction","key":{{"id":"{_id(cuts, k)}"}},"value":{{"status":'
    when = f'"ts_ms":{int(cuts.ts_ms[k])}}}}}\n'
    begin = f'{head}"BEGIN","id":"{_id(cuts, k)}","event_count":null,"data_collections":null,{when}'
    collections = ",".join(
        f'{{"data_collection":"{DATABASE}.{table}","event_count":{count}}}' for table, count in counts.items()
    )
    total = f'"event_count":{sum(counts.values())},"data_collections":[{collections}]'
    end = f'{head}"END","id":"{_id(cuts, k)}",{total},{when}'
    return begin, end


def _sizes(events: _Events, cuts: Transactions, half: int, file: str) -> NDArray[np.int64]:
    """Bytes of each transaction's events, without the digits of `pos`."""
    frames = np.array(
        [sum(map(len, _frame(events.table, cuts, k, half, file, ""))) for k in range(len(cuts))]
    )
    lengths = sum(
        pc.binary_length(text).to_numpy().astype(np.int64) for text in (events.text, *events.numbers())
    )
    return np.bincount(events.transaction, lengths + frames[events.transaction], len(cuts)).astype(np.int64)


def _lines(events: _Events, cuts: Transactions, half: int, file: str, positions: list[int]) -> pa.Array:
    frames = [_frame(events.table, cuts, k, half, file, str(pos)) for k, pos in enumerate(positions)]
    of = pa.array(events.transaction)
    pieces = [pa.array(piece, pa.string()).take(of) for piece in zip(*frames, strict=True)]
    row, total, own = events.numbers()
    source, transaction, collection, tail = pieces
    return pc.binary_join_element_wise(
        events.text, source, row, transaction, total, collection, own, tail, ""
    )


def _in_order(lines: list[pa.Array], events: list[_Events], markers: list[tuple[str, str]]) -> memoryview:
    """All lines as one text: per transaction its BEGIN, its events by total order, its END."""
    numbers = np.arange(len(markers))
    begins, ends = (pa.array(marker, pa.string()) for marker in zip(*markers, strict=True))
    transaction = np.concatenate([numbers, *[e.transaction for e in events], numbers])
    place = np.concatenate([numbers * 0 - 1, *[e.total for e in events], numbers * 0 + (1 << 40)])
    text = pa.concat_arrays([begins, *lines, ends]).take(pa.array(np.lexsort((place, transaction))))
    stop = np.frombuffer(text.buffers()[1], np.int32)[len(text)]
    return memoryview(text.buffers()[2])[: int(stop)]
