"""How a result shows itself: as text and as HTML, its first rows, what it says below them."""

from __future__ import annotations

import datetime as dt
import html.parser
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.sql import Result, Session
from tablestore.sql.rendering import columns_of, cut, printable, shown, text_table


def stream(batches: int, rows: int = 1000) -> tuple[Result, list[int]]:
    """A result whose batches come one by one, and how many have come."""
    schema, asked = pa.schema({"n": pa.int64()}), [0]

    def coming() -> Iterator[pa.RecordBatch]:
        for i in range(batches):
            asked[0] += 1
            yield pa.record_batch({"n": pa.array(range(i * rows, (i + 1) * rows), pa.int64())})

    return Result(pa.RecordBatchReader.from_batches(schema, coming())), asked


def test_rows_are_a_table_with_numbers_at_the_right(session: Session) -> None:
    text = repr(session.sql("SELECT order_id, customer, amount FROM orders ORDER BY order_id"))
    assert text.splitlines()[:-1] == [
        "order_id │ customer │ amount",
        "─────────┼──────────┼───────",
        "       1 │ ann      │  12.50",
        "       2 │ bob      │   8.00",
        "       3 │ NULL     │   NULL",
    ]
    assert text.splitlines()[-1].startswith("3 rows · 0.")


def test_a_statement_without_rows_shows_what_it_did(session: Session) -> None:
    assert repr(session.sql("USE shop")).startswith("the current database is lake.shop · 0.")
    written = repr(session.sql("INSERT INTO orders VALUES (4, 'dan', 1.5)"))
    assert written.startswith("1 row into ")
    assert written.count("snapshot") == 1
    assert Result(snapshots=(7,), rows_affected=3).summary() == "3 rows affected · snapshot 7 · 0.00 s"


def test_more_rows_are_counted_and_can_be_read_afterwards() -> None:
    actual, _ = stream(3)
    text = repr(actual)
    assert "… 2,980 more rows\n3,000 rows · 0.00 s" in text
    assert len(text.splitlines()) == 2 + 20 + 2
    assert actual.to_reader().read_all()["n"].to_pylist() == list(range(3000))


def test_showing_reads_no_more_than_it_may_keep() -> None:
    actual, asked = stream(5_000)
    text = repr(actual)
    assert "… more rows\nat least 1,000,000 rows" in text
    assert asked[0] == 1000
    assert sum(batch.num_rows for batch in actual.to_batches()) == 5_000_000
    assert "given as a stream" in repr(actual)
    assert "given as a stream" in actual._repr_html_()


def test_the_head_reads_what_it_needs() -> None:
    actual, asked = stream(50)
    assert actual.head(5)["n"].to_pylist() == [0, 1, 2, 3, 4]
    assert asked[0] == 1
    assert len(actual.to_arrow()) == 50_000


def test_what_was_interrupted_is_not_taken_for_all() -> None:
    def coming() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise KeyboardInterrupt

    actual = Result(pa.table({"n": [1]}).to_reader())
    actual._coming = coming()
    with pytest.raises(KeyboardInterrupt):
        repr(actual)
    with pytest.raises(ts.InvalidRequest, match="run the statement again"):
        actual.to_arrow()


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, pa.int32(), "NULL"),
        (True, pa.bool_(), "TRUE"),
        (1.0, pa.float32(), "1.0"),
        (Decimal("1.50"), pa.decimal128(8, 2), "1.50"),
        (b"\x00\xff", pa.binary(), "x'00ff'"),
        (dt.date(2026, 1, 2), pa.date32(), "2026-01-02"),
        (1, pa.timestamp("ns"), "1970-01-01 00:00:00.000000001"),
        ([1, None], pa.list_(pa.int32()), "[1, NULL]"),
        ({"a": "it's", "b": 2}, pa.struct({"a": pa.string(), "b": pa.int8()}), "{a: 'it''s', b: 2}"),
        ([("k", 1)], pa.map_(pa.string(), pa.int8()), "{'k': 1}"),
        ("NULL", pa.string(), "NULL"),
    ],
)
def test_values_are_shown_as_sql_has_them(value: object, kind: pa.DataType, text: str) -> None:
    assert shown(pa.scalar(value, kind)) == text


def test_what_a_terminal_acts_on_is_written_out() -> None:
    assert printable("a\nb\x1b[31m\u202ec") == "a\\nb\\x1b[31m\\u202ec"
    assert columns_of("中a") == 3
    assert cut("中中中", 4) == "中…"
    assert "\x1b" not in text_table(pa.table({"\x1b[2J": ["\x1b[2J"]}))


def test_a_table_keeps_to_the_width_of_its_terminal() -> None:
    rows = pa.table({f"column_{i}": ["x" * 50] for i in range(9)})
    for width in (20, 40, 80, 120):
        lines = text_table(rows, width=width).splitlines()
        assert max(map(columns_of, lines[:3])) <= width
    assert "more columns: " in text_table(rows, width=40)
    assert "x" * 50 in text_table(rows, width=None)


class PageTags(html.parser.HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.data.append(data)


def test_cells_never_become_html() -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(1)> $x^2$ &amp;"
    page = Result(pa.table({hostile: [hostile, None]}), message=hostile)._repr_html_()
    actual = PageTags(page)
    assert set(actual.tags) == {"div", "table", "thead", "tbody", "tr", "th", "td", "i"}
    assert actual.data.count(hostile) == 2
    assert "$" not in page
    assert "NULL" in actual.data


def test_html_shows_the_first_rows_in_pages_and_counts_the_rest() -> None:
    page = stream(2)[0]._repr_html_()
    assert page.count("<tr>") == 501
    assert "… 1,500 more rows" in page
    actual = PageTags(page)
    assert actual.tags.count("input") == actual.tags.count("tbody") == 10
    assert page.count(" checked>") == 1
    assert [text for text in actual.data if "–" in text][::9] == ["1–50", "451–500"]
    assert "script" not in actual.tags
    again = Result(pa.table({"n": range(60)}))
    names = [again._repr_html_().partition('name="')[2].partition('"')[0] for _ in range(2)]
    assert names[0] != names[1]  # two outputs of a notebook turn their own pages
    assert "input" not in PageTags(Result(pa.table({"n": range(50)}))._repr_html_()).tags
    assert "2,000 rows · 0.00 s" in page
    assert "color:" not in page  # light and dark come from the page around it
