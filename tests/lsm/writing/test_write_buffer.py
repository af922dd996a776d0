"""The write buffer: order, folding, and how often rows are copied."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tablestore.format.types.arrow_types import BIGINT, STRING, DataField
from tablestore.lsm.merge.groups import SequenceOrder
from tablestore.lsm.merge.merge_function import Deduplicate
from tablestore.lsm.writing import writer
from tablestore.lsm.writing.writer import WriteBuffer
from tests.lsm.rows import RAW, comparable, key_fields, kv_batch, merged_model, rows_of, same

KEYS = key_fields([BIGINT])


def buffer_of(*batches, keys=KEYS):
    buffer = WriteBuffer(keys)
    for batch in batches:
        buffer.append(batch)
    return buffer


def address(batch: pa.RecordBatch) -> int:
    return batch.column("v").buffers()[2].address


@st.composite
def arrivals(draw):
    types = draw(st.lists(st.sampled_from(list(RAW)), min_size=1, max_size=2))
    pool = draw(st.lists(st.tuples(*(RAW[t] for t in types)), min_size=1, max_size=8))
    count = draw(st.integers(1, 30))
    numbers = draw(st.permutations(range(count)))
    rows = [(s, draw(st.integers(0, 3)), *draw(st.sampled_from(pool)), f"v{s}") for s in numbers]
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=4)))
    return key_fields(types), [rows[a:b] for a, b in zip([0, *cuts], [*cuts, count], strict=True)]


@given(arrivals(), st.integers(1, 8))
def test_folded_and_raw_rows_equal_a_model_for_every_piece_size(case, piece_rows):
    fields, batches = case
    usual, writer._PIECE_ROWS = writer._PIECE_ROWS, piece_rows
    try:
        rows = buffer_of(*(kv_batch(b, fields) for b in batches), keys=fields).drain()
        folded, raw = rows_of(rows.folded(Deduplicate()), fields), rows_of(rows.raw(), fields)
    finally:
        writer._PIECE_ROWS = usual
    every = rows_of([kv_batch(b, fields) for b in batches], fields)
    assert same(folded, list(merged_model(every, fields).values()))
    assert same(raw, sorted(every, key=lambda r: (comparable(r, fields), r[0])))


@given(arrivals(), st.booleans())
def test_a_sequence_field_comes_before_the_sequence_number(case, descending):
    fields, batches = case
    order = SequenceOrder((DataField(9, "v", STRING),), descending)
    buffer = WriteBuffer(fields, order)
    for batch in batches:
        buffer.append(kv_batch([(*r[:-1], f"v{r[0] % 3}") for r in batch], fields))
    rows = buffer.drain()
    folded = rows_of(rows.folded(Deduplicate(sequence=order)), fields)
    every = rows_of([kv_batch([(*r[:-1], f"v{r[0] % 3}") for r in b], fields) for b in batches], fields)
    turned = -1 if descending else 1
    winners = {}
    for row in sorted(every, key=lambda r: (turned * (r[0] % 3), r[0])):
        winners[comparable(row, fields)] = row
    assert same(folded, list(dict(sorted(winners.items())).values()))


def test_rows_in_key_order_are_flushed_as_they_came():
    batches = [kv_batch([(i, 0, i, "v")], KEYS) for i in range(5)]
    rows = buffer_of(*batches).drain()
    assert [address(b) for b in rows.folded(Deduplicate())] == [address(b) for b in batches]
    assert [address(b) for b in rows.raw()] == [address(b) for b in batches]


def test_a_repeated_key_is_not_key_order():
    rows = buffer_of(kv_batch([(0, 0, 1, "a"), (1, 0, 1, "b")], KEYS)).drain()
    assert rows_of(rows.folded(Deduplicate()), KEYS) == [(1, 0, 1, "b")]


def test_drain_leaves_an_empty_buffer():
    buffer = buffer_of(kv_batch([(0, 0, 1, "a")], KEYS))
    assert (buffer.rows, buffer.bytes > 0) == (1, True)
    buffer.drain()
    assert (buffer.rows, buffer.bytes) == (0, 0)


def test_settled_slices_no_longer_hold_the_batch_they_were_cut_from():
    whole = kv_batch([(i, 0, i, "v" * 100) for i in range(1000)], KEYS)
    for slices in ([whole.slice(5, 1)], [whole.slice(5, 1), whole.slice(9, 2)]):
        buffer = buffer_of(*slices)
        buffer.settle()
        batches = buffer.drain().batches
        assert sum(b.get_total_buffer_size() for b in batches) < 2000
        assert rows_of(batches, KEYS) == rows_of(slices, KEYS)


def test_settling_twice_copies_new_slices_only():
    buffer = buffer_of(kv_batch([(0, 0, 0, "a")], KEYS))
    buffer.settle()
    first = address(buffer._batches[0])
    buffer.append(kv_batch([(1, 0, 1, "b")], KEYS))
    buffer.settle()
    buffer.settle()
    assert address(buffer._batches[0]) == first
    assert len(buffer._batches) == 2


def test_settling_copies_slices_of_larger_batches_and_nothing_else():
    whole = kv_batch([(i, 0, i, f"v{i}" * 50) for i in range(1000)], KEYS)
    own = [kv_batch([(i, 0, i, f"w{i}" * 50)], KEYS) for i in (2000, 2001)]
    given = [whole.slice(0, 2), own[0], whole.slice(2, 2), whole.slice(4, 2), own[1]]
    actual = writer.settled(given)
    assert [b.num_rows for b in actual] == [2, 1, 4, 1]
    assert pa.Table.from_batches(actual) == pa.Table.from_batches(given)
    assert [address(b) for b in (actual[1], actual[3])] == [address(b) for b in own]
    assert sum(b.get_total_buffer_size() for b in actual) < 2 * sum(b.nbytes for b in actual)
