"""Texts of properties: which batches of the log hold the rows before the offsets of a lake table."""

from __future__ import annotations

import pytest

from tablestore.core.errors import Corrupt
from tablestore.fluss.log_records import BatchMark
from tablestore.tiering.lake_offsets import batches_text, parse_batches, parse_offsets_file
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


def test_offsets_in_a_file_of_fluss() -> None:
    """Both as Fluss 0.9.1 wrote them, and a bucket of which it knows nothing."""
    plain = b'{"version":1,"table_id":1,"bucket_offsets":[61,71]}'
    assert parse_offsets_file(plain, "f") == {FIRST: 61, TieredBucket(None, 1): 71}
    parts = (
        b'{"version":1,"table_id":2,"partition_offsets":[{"partition_id":12,"bucket_offsets":[-1,0,5,9]}]}'
    )
    assert parse_offsets_file(parts, "f") == {TieredBucket(12, 1): 0, TieredBucket(12, 2): 5, SECOND: 9}
    assert parse_offsets_file(b'{"version":1,"table_id":1}', "f") == {}


@pytest.mark.parametrize(
    "text",
    [b"", b"[", b"[1]", b'{"bucket_offsets":[1]}', b'{"version":1,"bucket_offsets":["x"]}', b"\xff\xfe"],
)
def test_a_file_that_holds_no_offsets_is_damage(text: bytes) -> None:
    with pytest.raises(Corrupt, match="holds no offsets of a cluster"):
        parse_offsets_file(text, "f")
    with pytest.raises(Corrupt, match="version 2, and this release reads version 1"):
        parse_offsets_file(b'{"version":2}', "f")
