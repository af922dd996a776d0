"""Offsets of a log in properties of snapshots: which ones hold, and which texts are none."""

from __future__ import annotations

import pytest

from tablestore.core.errors import Corrupt, NotFound
from tablestore.format.snapshot import APPEND, Snapshot
from tablestore.log import offsets


def snapshot(number: int, text: str | None = None) -> Snapshot:
    named = None if text is None else {offsets.PROPERTY: text}
    return Snapshot(number, 0, "", "", "user", number, APPEND, 0, properties=named)


def test_a_number_stands_for_a_bucket_of_a_partition() -> None:
    assert [offsets.number(*of) for of in [(None, 3), (0, 3), (1, 0), (2, 3)]] == [3, 3, 1048576, 2097155]
    assert [offsets.bucket_of(number) for number in (3, 1048575, 1048576, 2097155)] == [3, 1048575, 0, 3]


@pytest.mark.parametrize("by_bucket", [{}, {0: 0}, {1: 5, 0: 20, 2097155: 1 << 40}])
def test_a_text_is_parsed_as_what_it_was(by_bucket: dict[int, int]) -> None:
    assert offsets.parse(offsets.text(by_bucket), "snapshot-1") == by_bucket


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", "null", '{"a": 1}', '{"0": -1}', '{"0": 1.0}', '{"0": "1"}', '{"0": true}']
)
def test_another_text_is_corrupt_and_named_with_its_file(text: str) -> None:
    with pytest.raises(Corrupt, match=r"snapshot-7.*tablestore.log-offsets .* is no JSON object of offsets"):
        offsets.of_snapshot(snapshot(7, text))
    with pytest.raises(Corrupt, match="elsewhere"):
        offsets.of_snapshot(snapshot(7, text), "elsewhere")


def test_a_snapshot_without_the_property_names_none() -> None:
    assert offsets.of_snapshot(snapshot(1)) is None
    assert offsets.of_snapshot(snapshot(1, "{}")) == {}


@pytest.mark.parametrize(
    ("texts", "expected", "reads"),
    [
        ({}, {}, []),
        ({3: '{"0": 7}', 2: '{"0": 5}'}, {0: 7}, []),  # its own
        ({3: None, 2: '{"0": 5}', 1: '{"0": 1}'}, {0: 5}, [2]),  # another engine made the newest
        ({3: None, 2: "{}"}, {}, [2]),  # none of any bucket is known, too
        ({3: None, 2: None, 1: '{"0": 1}'}, {0: 1}, [2, 1]),
        ({3: None, 2: None, 1: None}, {}, [2, 1]),  # back to the first: the start of the log
    ],
)
def test_the_newest_snapshot_that_names_offsets_says_which_hold(
    texts: dict[int, str | None], expected: dict[int, int], reads: list[int]
) -> None:
    read: list[int] = []

    def get(number: int) -> Snapshot:
        read.append(number)
        return snapshot(number, texts[number])

    latest = snapshot(max(texts), texts[max(texts)]) if texts else None
    assert offsets.known(latest, get) == expected
    assert read == reads


def test_offsets_that_expired_with_their_snapshots_are_not_known() -> None:
    def get(number: int) -> Snapshot:
        if number < 8:
            raise NotFound(f"no snapshot {number}")
        return snapshot(number)

    with pytest.raises(NotFound, match=r"snapshot 9 names no offsets .* make a new table with a log"):
        offsets.known(snapshot(9), get)


def test_offsets_advance_by_bucket() -> None:
    assert offsets.advanced({0: 5, 1: 2}, {1: 4, 2: 1}) == {0: 5, 1: 4, 2: 1}


@pytest.mark.parametrize(
    ("ours", "others", "reaches"),
    [
        ({}, {}, True),
        ({0: 5}, {0: 5}, True),
        ({0: 6, 1: 1}, {0: 5}, True),
        ({0: 4}, {0: 5}, False),
        ({0: 9}, {0: 5, 1: 1}, False),  # nothing of bucket 1 is there
        ({}, {0: 0}, True),
    ],
)
def test_offsets_reach_others_in_every_bucket(
    ours: dict[int, int], others: dict[int, int], reaches: bool
) -> None:
    assert offsets.reaches(ours, others) is reaches
