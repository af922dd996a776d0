"""Positions, admission and pieces of work in a change directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tablestore.cdc.source import ChangeDirectory, Chunk, LogBytes, Position
from tablestore.core.errors import Corrupt, InvalidRequest, NotFound
from tablestore.io.fileio import LocalFileIO
from tests.cdc.changes import SCHEMA, directory, envelope, inserts, row, transaction

START = Position()


def opened(path: Path) -> ChangeDirectory:
    return ChangeDirectory(LocalFileIO(), str(path), "item")


@pytest.fixture
def source(tmp_path: Path) -> ChangeDirectory:
    log = [inserts(range(100, 140)) + inserts(range(140, 150)), inserts(range(150, 160))]
    return opened(directory(tmp_path / "s", chunks=[range(10), range(10, 30), range(30, 35)], log=log))


def walk(source: ChangeDirectory, *, chunks: int, log_bytes: int, start: Position = START) -> list[Position]:
    collected = []
    while (after := source.next(start, chunks=chunks, log_bytes=log_bytes)) != start:
        collected.append(after)
        start = after
    return collected


def ids(source: ChangeDirectory, start: Position, end: Position) -> list[int]:
    pieces = source.work(start, end)
    return [i for w in pieces for c in source.read(w, SCHEMA) for i in c.rows["id"].to_pylist()]


def test_chunks_come_first_then_the_log_and_nothing_twice(source: ChangeDirectory):
    stops = walk(source, chunks=2, log_bytes=1)
    assert [p.chunks for p in stops] == [2, 3, 3, 3, 3]
    seen = []
    for start, end in zip([Position(), *stops], stops, strict=False):
        seen += ids(source, start, end)
    assert seen == [*range(35), *range(100, 160)]
    assert stops[-1] == source.end()


def test_a_batch_holds_whole_transactions_whatever_its_size(source: ChangeDirectory):
    start = Position(3)
    whole = len(inserts(range(100, 140)))
    assert walk(source, chunks=1, log_bytes=whole // 3, start=start)[0].offset == whole
    assert walk(source, chunks=1, log_bytes=1 << 20, start=start)[0] == Position(
        3, "00001.jsonl", whole + len(inserts(range(140, 150)))
    )


def test_long_stretches_are_parsed_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tablestore.cdc.source._PARSE_BYTES", 100_000)
    source = opened(directory(tmp_path / "s", chunks=[[1]], log=[inserts(range(3000), "x" * 400)]))
    [piece] = source.work(Position(1), source.end())
    assert isinstance(piece, LogBytes)
    read = list(source.read(piece, SCHEMA))
    assert len(read) > 5
    assert [i for c in read for i in c.rows["id"].to_pylist()] == list(range(3000))


def test_a_torn_tail_is_left_until_it_is_whole(tmp_path: Path):
    whole, more = inserts([1, 2]), inserts([3])
    path = directory(tmp_path / "s", chunks=[[0]], log=[whole + more[: len(more) - 5]], ended=False)
    source = opened(path)
    assert source.end() == Position(1, "00001.jsonl", len(whole))
    assert walk(source, chunks=1, log_bytes=1 << 20)[-1] == source.end()
    assert not source.finished()
    (path / "log" / "00001.jsonl").write_text(whole + more)
    assert ids(source, Position(1, "00001.jsonl", len(whole)), source.end()) == [3]


def test_a_log_file_without_a_whole_transaction_is_not_entered(tmp_path: Path):
    torn = inserts([2])[:-3]
    source = opened(directory(tmp_path / "s", chunks=[[0]], log=[inserts([1]), torn], ended=False))
    assert source.end().file == "00001.jsonl"
    assert walk(source, chunks=1, log_bytes=1 << 20)[-1] == source.end()


def test_a_new_log_file_is_found_by_a_reader_that_had_finished_the_one_before(tmp_path: Path):
    path = directory(tmp_path / "s", chunks=[[0]], log=[inserts([1])], ended=False)
    at = opened(path).end()
    (path / "log" / "00002.jsonl").write_text(inserts([2]))
    after = opened(path).next(at, chunks=1, log_bytes=1 << 20)
    assert (after.file, ids(opened(path), at, after)) == ("00002.jsonl", [2])


def test_chunks_give_plain_strings_as_inserts(source: ChangeDirectory):
    [changes] = source.read(source.chunks[0], SCHEMA)
    assert changes.rows.to_pylist() == [row(i, "base") for i in range(10)]
    assert set(changes.kinds.to_pylist()) == {0}
    assert source.schema.field("name").type == SCHEMA.field("name").type


def test_updates_and_deletes_keep_their_place(tmp_path: Path):
    events = [envelope("u", row(1), row(1, "b")), envelope("d", row(1, "b"), None)]
    source = opened(directory(tmp_path / "s", chunks=[[1]], log=[transaction(events)]))
    [work] = source.work(Position(1), source.end())
    [changes] = source.read(work, SCHEMA)
    assert changes.kinds.to_pylist() == [1, 2, 3]


def test_a_position_survives_its_json_and_refuses_another_version():
    here = Position(3, "00002.jsonl", 77)
    assert Position.of(here.to_dict()) == here
    with pytest.raises(InvalidRequest, match="version 2"):
        Position.of({"v": 2})


def test_what_is_missing_or_damaged_is_named(tmp_path: Path):
    with pytest.raises(NotFound, match=r"source\.json"):
        _ = opened(tmp_path).description
    path = directory(tmp_path / "s", chunks=[[1]], log=[])
    with pytest.raises(NotFound, match="item"):
        _ = ChangeDirectory(LocalFileIO(), str(path), "items").description
    (path / "chunks" / "00001.parquet").unlink()
    with pytest.raises(Corrupt, match="missing"):
        list(opened(path).read(Chunk(0, str(path / "chunks" / "00001.parquet"), 1), SCHEMA))
    (path / "chunks" / "00001.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(Corrupt):
        list(opened(path).read(Chunk(0, str(path / "chunks" / "00001.parquet"), 1), SCHEMA))


def test_chunks_say_their_keys_and_the_log_positions_they_were_read_between(source: ChangeDirectory):
    path = Path(source.path) / "chunks.json"
    entries = json.loads(path.read_text())
    first = entries[0] | {"lo": 0, "hi": 9, "position": ["00001.jsonl", 0]}
    second = entries[1] | {"lo": 10, "hi": 29, "low": ["00001.jsonl", 0], "high": ["00002.jsonl", 7]}
    path.write_text(json.dumps([first, second, entries[2]]))
    marks = opened(Path(source.path)).chunk_marks
    assert [(m.number, m.rows, m.lo, m.hi) for m in marks[:2]] == [(0, 10, 0, 9), (1, 20, 10, 29)]
    assert marks[0].low == marks[0].high == Position(0, "00001.jsonl", 0)
    assert (marks[1].low, marks[1].high) == (Position(0, "00001.jsonl", 0), Position(0, "00002.jsonl", 7))
    assert marks[2].high == Position()


def test_positions_are_bytes_of_log_from_its_start(source: ChangeDirectory):
    sizes = [path.stat().st_size for path in sorted((Path(source.path) / "log").glob("*.jsonl"))]
    assert source.log_bytes(Position(2)) == 0
    assert source.log_bytes(Position(3, "00001.jsonl", 5)) == 5
    assert source.log_bytes(Position(3, "00002.jsonl", 5)) == sizes[0] + 5
    assert source.log_bytes(source.end()) == sum(sizes)
