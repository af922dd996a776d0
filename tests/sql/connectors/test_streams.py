"""Connectors as streams: the same rows between two offsets whenever they are read."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.flow.source import Offset, StreamSource
from tablestore.sql import Session
from tablestore.sql.connectors.connector import ConnectorTable
from tablestore.sql.text import Name

DATAGEN = (
    "CREATE TEMPORARY TABLE made (n INT, word STRING, at TIMESTAMP(3), half DECIMAL(4, 1)) WITH "
    "('connector' = 'datagen', 'fields.word.length' = '3', 'fields.n.kind' = 'sequence', "
    "'fields.n.start' = '1', 'fields.n.end' = '200000', 'rows-per-second' = '{}')"
)


def stream(session: Session, name: str) -> StreamSource:
    table = session.temporary_table(Name((name,)))
    assert table is not None
    return ConnectorTable(name, table, session.roots).stream()


def between(source: StreamSource, start: Offset, end: Offset, **more: Any) -> pa.Table:
    batches = [b for piece in source.pieces(start, end) for b, _ in piece.read(source.schema.names, **more)]
    return pa.Table.from_batches(batches, source.schema)


def test_datagen_gives_the_same_rows_in_any_pieces_and_after_a_restart(session: Session) -> None:
    session.sql(DATAGEN.format(1_000_000))
    source = stream(session, "made")
    first, last = source.initial(), source.latest()
    assert last is not None
    assert source.ended(last)
    assert not source.ended(first)
    whole = between(source, first, last)
    assert whole["n"].to_pylist() == list(range(1, 200_001))
    middle = [{**first, "rows": n} for n in (0, 1, 65_536, 70_000, 150_001, 200_000)]
    again: StreamSource = pickle.loads(pickle.dumps(source))
    parts = [between(again, a, b) for a, b in pairwise(middle)]
    assert pa.concat_tables(parts).equals(whole)
    session.sql("DROP TEMPORARY TABLE made")
    session.sql(DATAGEN.format(1_000_000))  # another seed of its own; the offset has the old one
    assert between(stream(session, "made"), middle[2], middle[3]).equals(parts[2])
    assert between(source, first, last, where=ts.col("n") <= 3)["n"].to_pylist() == [1, 2, 3]


def test_datagen_gives_so_many_rows_a_second(session: Session) -> None:
    session.sql(DATAGEN.format(7))
    source = stream(session, "made")
    start = source.initial()
    end = source.next(start)
    assert end["rows"] == 7
    assert source.next(end)["rows"] in (7, 8, 9)
    at = between(source, start, end)["at"].to_pylist()
    assert [(b - a).total_seconds() for a, b in pairwise(at)] == pytest.approx([1 / 7] * 6, abs=0.002)


def test_files_are_read_once_and_later_ones_where_a_stream_looks_for_them(
    session: Session, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, watched in (("once", ""), ("watched", ", 'source.monitor-interval' = '1 ms'")):
        session.sql(
            f"CREATE TEMPORARY TABLE {name} (n INT) WITH ('connector' = 'filesystem', "
            f"'path' = '{folder}', 'format' = 'csv'{watched})"
        )
    (folder / "a.csv").write_text("1\n2\n")
    for name in ("once", "watched"):
        source = stream(session, name)
        first = source.initial()
        end = source.next(first)
        assert between(source, first, end)["n"].to_pylist() == [1, 2]
        (folder / f"{name}.csv").write_text("7\n")
        later = source.next(end) if name == "watched" else end
        while name == "watched" and later == end:
            later = source.next(end)
        rows = between(source, end, later)["n"].to_pylist()
        assert (rows, source.ended(end)) == (([7], False) if name == "watched" else ([], True))
        (folder / f"{name}.csv").unlink()


def test_a_stream_of_made_up_rows_is_counted(session: Session) -> None:
    session.sql(DATAGEN.format(1_000_000))
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    result = session.sql("SELECT count(*) AS n FROM made WHERE n > 10").to_arrow()
    assert result["n"].to_pylist()[-1] == 199_990
