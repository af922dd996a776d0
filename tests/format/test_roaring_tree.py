"""64-bit bitmaps in the form of Roaring64Bitmap: sets come back, unions are unions, damage is named.

That the bytes are Java's for any values is shown in tests/peers/test_bitmaps.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablestore.format import roaring_tree

# What Java Paimon 2.0.0 keeps for these values, and for their union with {7, 9, 2^41, 4, 5, 6}.
OF_JAVA = bytes.fromhex(
    "0102000000000000000002000200000000010004000000000000000000000000000000000004000000000001000000010000000000"
    "000001000000fe020000000102040000000100020003000500010201000000000002000000000000000000000001000000"
)
UNITED = bytes.fromhex(
    "0103000000000000000003000200000002010004000000000000000000000000000000000004000000000001000000010000000000"
    "000004000000000002000000020000000000000001000000fe0300000001000800000002000100060009000000010201000000000"
    "0010201000000000003000000000000000000000002000000"
)
SETS = st.lists(
    st.integers(0, 2**64 - 1) | st.integers(0, 200) | st.integers(2**40, 2**40 + 2**20), max_size=60
).map(lambda v: np.array(sorted(set(v)), dtype=np.uint64))


def test_bytes_of_java_are_read_written_and_joined() -> None:
    values = np.array([1, 2, 3, 5, 2**40], dtype=np.uint64)
    more = np.array([4, 5, 6, 7, 9, 2**41], dtype=np.uint64)
    assert np.array_equal(roaring_tree.decode(OF_JAVA), values)
    assert roaring_tree.encode(values) == OF_JAVA
    assert roaring_tree.union(OF_JAVA, roaring_tree.encode(more)) == UNITED


@given(SETS, SETS, SETS)
def test_unions_hold_what_their_parts_hold(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    united = roaring_tree.union(
        roaring_tree.union(roaring_tree.encode(a), roaring_tree.encode(b)), roaring_tree.encode(c)
    )
    assert roaring_tree.decode(united).tolist() == sorted({*a.tolist(), *b.tolist(), *c.tolist()})


@pytest.mark.parametrize("count", [4096, 4097, 65_535, 65_536, 65_537])
def test_containers_of_every_size_come_back(count: int) -> None:
    for step in (1, 2):
        values = np.arange(count, dtype=np.uint64) * np.uint64(step)
        assert np.array_equal(roaring_tree.decode(roaring_tree.encode(values)), values)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_bitmap_are_refused(data: bytes) -> None:
    try:
        values = roaring_tree.decode(data)
    except ValueError:
        return
    assert (np.diff(values.astype(object)) > 0).all()


@given(SETS.filter(len), st.data())
def test_a_bitmap_with_one_byte_changed_is_a_bitmap_or_refused(
    values: np.ndarray, data: st.DataObject
) -> None:
    created = bytearray(roaring_tree.encode(values))
    created[data.draw(st.integers(0, len(created) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = roaring_tree.decode(bytes(created))
    except ValueError:
        return
    assert (np.diff(decoded.astype(object)) > 0).all()
    assert np.array_equal(roaring_tree.decode(roaring_tree.encode(decoded)), decoded)
