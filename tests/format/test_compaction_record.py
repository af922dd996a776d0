"""Compaction records as text: nothing is lost, many are small, damage is told."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablestore.core.errors import Corrupt, InvalidRequest
from tablestore.core.zstandard import zstd
from tablestore.format import commit_message
from tablestore.format.commit_message import CommitMessage
from tablestore.format.compaction_record import (
    MAX_BYTES,
    CompactionRecord,
    LevelInput,
    MergeShape,
    Trial,
    foreign_record,
    from_json,
    from_property,
    to_json,
    to_property,
)
from tests.lsm.trees import data_file

counts = st.integers(0, 1 << 62)
inputs = st.lists(st.builds(LevelInput, st.integers(0, 6), counts, counts, counts), max_size=3).map(tuple)
trials = st.builds(
    Trial,
    st.text(max_size=9),
    st.sampled_from(["fired", "no", "off", "not reached"]),
    st.dictionaries(st.text(max_size=5), st.none() | counts | st.floats(0, 9), max_size=3).map(
        lambda d: tuple(d.items())
    ),
    st.lists(st.tuples(st.text(max_size=4), counts, st.booleans()), max_size=2).map(tuple),
    st.none() | st.builds(MergeShape, st.integers(0, 6), inputs),
)
made = st.builds(
    CompactionRecord,
    bucket=st.integers(-2, 1 << 30),
    strategy=st.none() | st.sampled_from(["universal", "leveled"]),
    rule=st.none() | st.text(min_size=1, max_size=9),
    text=st.text(max_size=20),
    output_level=st.integers(0, 9),
    inputs=inputs,
    bytes_read=counts,
    rows_out=counts,
    millis=st.none() | counts,
    stalled=st.booleans(),
    asked=st.booleans(),
    trials=st.lists(trials, max_size=3).map(tuple),
    partition=st.text(max_size=9),
)


@settings(max_examples=50)
@given(st.lists(made, max_size=4))
def test_records_come_back_as_they_were(records):
    assert [from_json(to_json(r)) for r in records] == records
    assert list(from_property(to_property(records), "s")) == records
    message = CommitMessage(b"", 1, 2, compactions=tuple(records))
    assert commit_message.decode(commit_message.encode(message)) == message


def record(bucket: int) -> CompactionRecord:
    numbers = (("runs", 6), ("trigger", 5), ("newer", 1_234_567 * bucket), ("oldest", 7_654_321 + bucket))
    runs = tuple(LevelInput(0, 1, 10_000 + 17 * bucket * i, 400 + bucket) for i in range(3))
    steps = tuple(("ratio", 10_007 * bucket + i, 101.0, 9_000 + bucket, 0) for i in range(4))
    return CompactionRecord(
        bucket,
        "universal",
        "file number",
        f"runs 6 > trigger 5: {bucket}",
        5,
        runs,
        bytes_read=123_456 * bucket,
        trials=(Trial("early full", "off"), Trial("file number", "fired", numbers, steps)),
        partition=f"p={bucket % 12}",
    )


def test_many_buckets_cost_a_snapshot_little():
    text = to_property([record(i) for i in range(168)])
    assert len(text) < 100 * 168
    assert len(from_property(text, "s")) == 168


def test_a_commit_of_very_many_buckets_leaves_the_sums_out():
    records = [record(i) for i in range(3000)]
    text = to_property(records)
    assert MAX_BYTES < len(text) < 30 * 3000
    kept = from_property(text, "s")
    assert kept == tuple(replace(r, trials=()) for r in records)


NINE = ",".join(["0"] * 8)
BIG = f'[{{"b": 0, "o": 1, "n": [{NINE},9223372036854775808]}}]'
BOMB = "zstd:" + base64.b64encode(zstd.compress(b"[" + b" " * (80 << 20))).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[{}]",
        "zstd:???",
        "zstd:AAAA",
        '[{"b": "x", "o": 1, "n": []}]',
        "[[]]",
        "7",
        "null",
        BIG,
        BOMB,
    ],
)
def test_damage_is_reported_with_its_place(text):
    with pytest.raises(Corrupt, match="snapshot-7"):
        from_property(text, "snapshot-7")


def test_a_message_of_an_older_version_is_refused():
    data = commit_message.encode(CommitMessage(b"", 1, 2))
    with pytest.raises(InvalidRequest, match="version 03"):
        commit_message.decode(b"\x03" + data[1:])


def test_compactions_of_other_engines_come_from_the_manifests():
    old = data_file("a", 0, 9, level=5, file_size=100, row_count=10)
    new = [data_file(n, 0, 9, max_sequence=s, file_size=10, row_count=2) for n, s in (("b", 7), ("c", 9))]
    moved = data_file("m", 20, 29, level=0, file_size=50, row_count=5, max_sequence=3)
    out = data_file("d", 0, 9, level=5, file_size=110, row_count=11)
    actual = foreign_record("p=1", 3, [old, *new, moved], [out, moved.upgraded(5)], [])
    assert (actual.strategy, actual.rule, actual.output_level) == (None, None, 5)
    assert actual.inputs == (LevelInput(0, 3, 70, 9), LevelInput(5, 1, 100, 10))
    assert (actual.bytes_read, actual.bytes_written, actual.bytes_moved) == (120, 110, 50)
    assert (actual.rows_in, actual.rows_out, actual.files_moved) == (14, 11, 1)
