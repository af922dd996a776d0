"""`tpch-cdc`: the change stream of TPC-H as a table that SQL follows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablestore as ts
from datasets import cdc, tpch
from notebooks.demo import refresh_loop, sql_connectors
from tablestore.format import rowkind
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.streaming.follow import follow
from tablestore.sql.streaming.plan import planned

SOURCE = """CREATE TEMPORARY TABLE lineitem_source
(l_orderkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15, 2))
WITH ('connector' = 'tpch-cdc', 'table' = 'lineitem', 'scale-factor' = '0.001', 'pairs' = '4', {})"""


@pytest.fixture
def session(tmp_path: Path) -> ts.sql.Session:
    sql_connectors.provide()
    return ts.sql_session(ts.connect(tmp_path / "lake"))


def snapshot() -> pa.Table:
    """The line items that the stream begins with."""
    return pa.Table.from_batches(
        b for path in tpch.base("0.001", ["lineitem"])["lineitem"] for b in tpch.read(path)
    )


def changes(session: Any, sql: str, *, until: int | None = None) -> pa.Table:
    """Columns of the query and `kind`, to the end of the stream or so many rows."""
    collected: list[pa.Table] = []
    for rows, kinds in follow(planned(session, reader(()).read(pieces(sql)[0]), sql)):
        collected.append(pa.Table.from_batches([rows]).append_column("kind", rowkind.texts(kinds)))
        if until is not None and sum(map(len, collected)) >= until:
            break
    return pa.concat_tables(collected)


def test_it_gives_the_snapshot_and_then_the_log_to_its_end(session: Any, tmp_path: Path) -> None:
    session.sql(SOURCE.format(f"'path' = '{tmp_path / 'source'}'"))
    actual = changes(session, "SELECT l_orderkey AS k FROM lineitem_source WHERE l_quantity > 10")
    many = pc.field("l_quantity") > Decimal("10.00")
    base = len(snapshot().filter(many))
    log = cdc.read_log(
        source := cdc.open_source(tmp_path / "source"), cdc.LOG_START, source.log_end(), table="lineitem"
    )
    assert base + len(log.filter(many)) == len(actual)
    assert set(actual["kind"].to_pylist()) == {"+I", "-D"}


def test_a_stream_by_hand_grows_pair_by_pair(session: Any, tmp_path: Path) -> None:
    session.sql(SOURCE.format(f"'path' = '{tmp_path / 'source'}', 'pace' = 'manual'"))
    sql = "SELECT l_orderkey FROM lineitem_source"
    rows = len(snapshot())
    assert len(changes(session, sql, until=rows)) == rows, "the snapshot, and nothing of the log"
    assert cdc.advance(tmp_path / "source") == 1
    assert cdc.advance(tmp_path / "source", 2) == 3
    with_three = len(cdc.read_log(s := cdc.open_source(tmp_path / "source"), cdc.LOG_START, s.log_end()))
    assert len(changes(session, sql, until=rows + with_three)) == rows + with_three
    assert not cdc.open_source(tmp_path / "source").finished()
    assert cdc.advance(tmp_path / "source", 9) == 4
    assert cdc.open_source(tmp_path / "source").finished()
    at_once = cdc.generate(
        tmp_path / "at once", "0.001", pairs=4, tables=("orders", "lineitem"), progress=False
    )
    for file in at_once.log_files():
        assert (tmp_path / "source" / "log" / file.name).read_bytes() == file.read_bytes()


def test_what_it_refuses(session: Any, tmp_path: Path) -> None:
    session.sql(SOURCE.format("'pace' = '1'"))
    sql = "SELECT l_orderkey FROM lineitem_source"
    with pytest.raises(ts.InvalidOption, match="needs option 'path'"):
        changes(session, sql)
    with pytest.raises(ts.Unsupported, match="in batch mode"):
        session.sql(sql).to_arrow()


def test_the_refresh_loop_numbers_its_sets_as_the_article_says_or_as_its_script_does() -> None:
    linear = [(s.start, s.stop - 1) for s in refresh_loop.sets(3, first=100)]
    assert linear == [(1, 100), (101, 200), (201, 300)]
    doubling = [(s.start, s.stop - 1) for s in refresh_loop.sets(4, first=100, numbering="article")]
    assert doubling == [(1, 100), (101, 200), (201, 400), (401, 800)]
    with pytest.raises(ValueError, match="linear or article"):
        refresh_loop.sets(2, numbering="log")
