"""Texts of properties: which batches of the log hold the rows before the offsets of a lake table."""

from __future__ import annotations

import pytest

from tablestore.core.errors import Corrupt
from tablestore.fluss.log_records import BatchMark
from tablestore.tiering.lake_offsets import batches_text, parse_batches
from tablestore.tiering.splits import TieredBucket

FIRST, SECOND = TieredBucket(None, 0), TieredBucket(12, 3)
MARKS = {FIRST: BatchMark(90, 1_700_000_000_000, 7), SECOND: BatchMark(0, 5, 2**32 - 1)}


def test_batches_come_back() -> None:
    offsets = {FIRST: 100, SECOND: 4}
    text = batches_text(offsets, MARKS)
    assert text == "[[null,0,100,90,1700000000000,7],[12,3,4,0,5,4294967295]]"
    assert parse_batches(text, offsets, "snapshot-1") == MARKS


def test_a_batch_says_nothing_of_another_offset() -> None:
    """Another service has committed since, which carried the property on and did not know it."""
    text = batches_text({FIRST: 100, SECOND: 4}, MARKS)
    assert parse_batches(text, {FIRST: 100, SECOND: 9}, "snapshot-1") == {FIRST: MARKS[FIRST]}
    assert batches_text({SECOND: 4}, MARKS) == "[[12,3,4,0,5,4294967295]]"


@pytest.mark.parametrize("text", ["", "{", "5", "[[1]]", "[[1,2,3]]", "[[1,2,3,4,5,6,7]]", '[["x"]]'])
def test_a_text_that_is_none_is_damage(text: str) -> None:
    with pytest.raises(Corrupt, match="is no list of batches"):
        parse_batches(text, {}, "snapshot-1")
