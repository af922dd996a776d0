"""StreamTable: the last changes of a stream, how many of each kind, and its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import tablestore as ts
import widgets
from widgets.stream.model import StreamModel, at_time, text_form, with_batch

SCHEMA = pa.schema({"op": pa.string(), "k": pa.int64(), "v": pa.string()})


def batch(*rows: tuple[str, int, str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], SCHEMA)


class StreamedChanges:
    """Batches one by one; without an end where `endless`."""

    def __init__(self, *batches: pa.RecordBatch, endless: bool = False, error: str = "") -> None:
        self.schema, self._batches, self._endless, self._error = SCHEMA, batches, endless, error
        self._stopped = threading.Event()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._batches
        if self._error:
            raise ts.Corrupt("f", self._error)
        if self._endless:
            self._stopped.wait(240)

    def stop(self) -> None:
        self._stopped.set()


def test_the_last_rows_are_kept_and_all_are_counted() -> None:
    model = StreamModel("t", SCHEMA.empty_table())
    model = with_batch(model, batch(("+I", 1, "a"), ("+I", 2, None)), keep=3)
    model = with_batch(model, batch(("-U", 1, "a"), ("+U", 1, "b")), keep=3)
    assert model.last["k"].to_pylist() == [2, 1, 1]
    assert model.counts == {"+I": 2, "-U": 1, "+U": 1}
    assert model.rows == 4
    assert text_form(model).splitlines() == [
        "op │ k │ v",
        "+I │ 2 │ NULL",
        "−U │ 1 │ a",
        "+U │ 1 │ b",
        "… the last 3 of 4",
        "4 changes · +I 2 · −U 1 · +U 1 · 0 rows/s · for 0.0 s",
    ]


def test_the_speed_is_that_of_the_last_seconds() -> None:
    model = StreamModel("t", SCHEMA.empty_table())
    for second in range(1, 10):
        model = with_batch(model, batch(*[("+I", 1, "a")] * (100 if second < 5 else 10)), keep=3)
        model = at_time(model, float(second))
    assert model.speed == pytest.approx(10)
    assert len(model.marks) < 6


def test_a_stream_that_ends() -> None:
    view = widgets.StreamTable(StreamedChanges(batch(("+I", 1, "a"))), title="SELECT").wait(240)
    assert (view.model.state, view.running) == ("ended", False)
    assert view.data().num_rows == 1
    assert view.frame["title"] == "SELECT"
    assert "ended after" in view.frame["subtitle"]


def test_stop_ends_a_stream_without_an_end() -> None:
    view = widgets.StreamTable(StreamedChanges(batch(("+I", 1, "a")), endless=True)).wait_for_rows(60)
    assert view.running
    assert view.model.rows == 1
    view._handle_custom_msg({"verb": "stop"}, [])
    view.wait(240)
    assert view.model.state == "stopped"


def test_leaving_the_page_stops_it() -> None:
    stream = StreamedChanges(endless=True)
    view = widgets.StreamTable(stream)
    view.close()
    view.wait(240)
    assert view.model.state == "stopped"


def test_an_error_is_shown_below_what_came() -> None:
    view = widgets.StreamTable(StreamedChanges(batch(("+I", 1, "a")), error="a page is damaged")).wait(240)
    assert view.model.state == "failed"
    assert "a page is damaged" in view.frame["svg"]
    assert "a page is damaged" in repr(view)
    assert view.data().num_rows == 1


@pytest.mark.parametrize("width", [240, 660, 1040])
def test_columns_without_room_are_counted(width: int) -> None:
    schema = pa.schema([("op", pa.string()), *((f"column_{i}", pa.int64()) for i in range(40))])
    stream = StreamedChanges()
    stream.schema = schema
    view = widgets.StreamTable(stream).wait(240)
    assert "more columns" in view.figure(width=width).body


def test_what_is_no_stream_is_refused() -> None:
    for wrong in (None, 3, pa.table({"op": ["+I"]}), ts.sql_session().sql("SELECT 1")):
        with pytest.raises(ts.InvalidRequest, match="StreamTable takes the result of a SELECT in streaming"):
            widgets.StreamTable(wrong)
    with pytest.raises(ts.InvalidRequest, match="at least one"):
        widgets.StreamTable(StreamedChanges(), keep=0)
