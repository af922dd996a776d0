"""Files of a journal: put and claimed, numbered and swept, and named where they hold something else."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.flow.checkpoint import origin_in_lake
from tablestore.flow.journal import JournalFiles, NumberedFiles


def test_a_file_is_put_again_and_claimed_once(tmp_path: Path):
    files = JournalFiles.at(str(tmp_path / "deep" / "journal"))
    assert (files.read("a.json"), files.value("a.json"), files.fields("a.json")) == (None, None, None)
    for value in ({"n": 1}, {"n": "ß"}):
        files.put("a.json", value)
        assert files.fields("a.json") == value
    assert [files.claim("b", b"first"), files.claim("b", b"second")] == [True, False]
    assert files.read("b") == b"first"


def test_numbered_files_come_in_order_and_the_newest_stay(tmp_path: Path):
    kept, last = 7, 31
    states = NumberedFiles(JournalFiles.at(str(tmp_path)), "states", kept, ".json")
    numbers = list(range(last + 1))
    for number in sorted(numbers, key=str, reverse=True):
        states.files.put(states.name(number), [number])
    (tmp_path / "states" / ".7.json.crc").write_bytes(b"")
    (tmp_path / "states" / "other").write_bytes(b"")
    assert states.numbers() == numbers
    assert states.sweep(last) == numbers[:-kept]
    assert states.numbers() == numbers[-kept:]
    assert states.files.value(states.name(last)) == [last]
    assert (tmp_path / "states" / "other").exists()


@pytest.mark.parametrize("data", [b"", b'{"v": 1', b"[1]"])
def test_a_file_that_holds_something_else_is_named(tmp_path: Path, data: bytes):
    """Such as the origin of a checkpoint that a loss of power has emptied."""
    (tmp_path / "tablestore-origin.json").write_bytes(data)
    with pytest.raises(ts.Corrupt, match=r"tablestore-origin\.json: no JSON"):
        origin_in_lake(str(tmp_path), ts.connect(tmp_path / "lake"), user="job", source="shop")
