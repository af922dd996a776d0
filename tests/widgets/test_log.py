"""LogAndLake: what the log of a table and its snapshots become, and how a reader is placed between them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tablestore as ts
import widgets
from tablestore.log.embedded import roll_up
from tablestore.read.changes.change import Change
from tests.widgets import logs
from widgets.log.axis import LEAST, axis
from widgets.log.model import LogModel


def view_of(table: ts.Table, **options: object) -> widgets.LogAndLake:
    return widgets.LogAndLake(table, follow=0, **options)


def test_files_and_snapshots_are_those_of_the_engine(tmp_path: Path) -> None:
    table = logs.visits(tmp_path)
    model = view_of(table).model
    assert [file.first for file in model.files] == [1, 2, 3, 4, 5, 6]
    assert sum(model.end.values()) == 21 == model.rows
    assert [transaction.user for transaction in model.transactions] == ["till-0", "till-1"] * 3
    assert [model.at(snapshot.offsets or {}) for snapshot in model.snapshots] == [1, 3, 6, 10, 15, 21]
    assert model.spans == ((0, 1), (1, 3), (3, 6), (6, 10), (10, 15), (15, 21))
    assert (model.log_only, model.hidden) == (0, 0)


def test_one_bucket_has_its_own_offsets(tmp_path: Path) -> None:
    table = logs.visits(tmp_path)
    view = view_of(table, bucket=1)
    own = [row for row in view.data().to_pylist() if row["bucket"] == 1]
    assert view.model.spans == tuple((row["start"], row["end"]) for row in own)
    assert view.model.at(view.model.end) == table.log.end[1]
    with pytest.raises(Exception, match="0 to 1"):
        view.bucket = 7
    view.bucket = None
    assert len(view.model.shown) == 2


def test_small_files_become_a_segment_with_its_transactions(tmp_path: Path) -> None:
    table = logs.visits(tmp_path, buckets=1, commits=0)
    for number in range(66):
        table.write({"k": [number], "v": ["v"]})
    model = view_of(table).model
    assert [(file.first, file.last, file.transactions) for file in model.files[:2]] == [
        (1, 32, 32),
        (33, 33, 1),
    ]
    assert "1 segment" in str(view_of(table))


def test_the_end_of_the_log_that_no_snapshot_names(tmp_path: Path) -> None:
    table = logs.visits(tmp_path, buckets=1, **{"log.consistency": "eventual"})
    with table.writer() as writer:
        writer.write({"k": [1, 2], "v": ["a", "b"]})
        model = view_of(table).model
        assert (model.log_only, model.hidden, model.transactions[-1].user) == (2, 0, None)
        assert "2 offsets in the log only: readers of the log see them" in view_of(table).to_svg()
    assert view_of(table).model.log_only == 0


def test_what_is_hidden_is_said(tmp_path: Path) -> None:
    model = view_of(logs.visits(tmp_path, buckets=1)).model
    behind = {"in_files": {0: 15}, "visible": {0: 15}}
    values = {name: getattr(model, name) for name in LogModel.__slots__}
    assert "6 offsets in the log only: hidden until" in LogModel(**values | behind).rest_words
    half = LogModel(**values | behind | {"visible": {0: 17}})
    assert "6 offsets in the log only, 4 of them hidden" in half.rest_words


def test_a_new_reader_takes_the_state_and_then_the_log(tmp_path: Path) -> None:
    table = logs.visits(tmp_path, buckets=1)
    reader = view_of(table).model.reader
    assert reader is not None
    assert [(step.kind, step.snapshot, step.stop) for step in reader.planned] == [("state", 6, {0: 21})]
    assert (reader.switch, reader.end) == ({0: 21}, "then it waits for rows")


def test_a_cursor_has_a_place_and_a_next_step(tmp_path: Path) -> None:
    table = logs.visits(tmp_path, buckets=1, commits=4)
    (cursor,) = logs.cursors(table)
    view = view_of(table, reader=cursor)
    assert "waits for rows" in str(view)
    logs.add(table, 4)
    reader = view.refresh().model.reader
    assert reader is not None
    assert (reader.place, [(s.kind, s.start, s.stop) for s in reader.planned]) == (
        {0: 10},
        [("log", {0: 10}, {0: 15})],
    )


def test_a_reader_whose_rows_have_expired_reads_files_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roll_up, "SETTLED_MS", -(1 << 40))
    table = logs.visits(tmp_path, buckets=1, commits=3)
    cursor = logs.cursors(table)[-1]
    table = table.alter(ts.set_options({"tablestore.log.retention-bytes": "1"}))
    for number in range(3, 6):
        logs.add(table, number)
    view = view_of(table, reader=cursor)
    model = view.model
    assert model.start == {0: 15}
    assert model.reader is not None
    assert [(s.kind, s.count) for s in model.reader.planned] == [("files", 2), ("log", 1)]
    assert "starts at offset 15, this stream is at 6" in model.reader.planned[0].reason
    assert model.reader.switch == {0: 15}
    assert "reads files: the log of bucket 0 starts at offset 15" in view.to_svg()
    assert "15 gone" in view.to_svg()
    assert "15 offsets expired" in str(view)
    taken = view_of(table, reader=list(table.stream(start=cursor, follow=False, normalize=False)))
    assert taken.model.reader is not None
    step = taken.model.reader.taken[0]
    assert (step.first, step.snapshot, model.named(step.first - 1)) == (4, 5, {0: 6})
    assert "has read: files of 2 snapshots up to 5 → log 15 … 21" in taken.to_svg(width=1440)


def test_a_reader_that_is_lost_gets_the_words_of_the_engine(tmp_path: Path) -> None:
    table = logs.visits(tmp_path, buckets=1)
    view = view_of(table, reader={"log": {0: 999}})
    assert "ends at offset 21, before 999" in str(view)
    assert "ends at offset 21, before 999" in view.frame["svg"]


@pytest.mark.parametrize("follow", [0, 0.1])
def test_a_running_stream_is_followed(tmp_path: Path, follow: float) -> None:
    table = logs.visits(tmp_path, buckets=1, commits=2)
    stream = table.stream(timeout=240, normalize=False)
    view = widgets.LogAndLake(table, reader=stream, follow=follow)
    logs.add(table, 2)
    end = time.monotonic() + 240
    while view.model.reader.place != {0: 6} and time.monotonic() < end:
        time.sleep(0.02)
    reader = view.model.reader
    assert [step.kind for step in reader.taken] == ["state", "log"]
    assert reader.switch == {0: 3}
    assert reader.place == {0: 6}
    view.close()


def test_steps_are_taken_one_by_one(tmp_path: Path) -> None:
    table = logs.visits(tmp_path, buckets=1, commits=2)
    view, steps = view_of(table), list(table.stream(follow=False, normalize=False))
    assert view.take(steps[0]).model.reader.taken[0].snapshot == 2
    listed = view_of(table, reader=steps)
    logs.add(table, 2)
    steps += table.stream(start=steps[-1].cursor, follow=False, normalize=False)
    listed.look()
    assert "has read state of snapshot 2 → log 3 … 6" in str(listed)


def test_a_look_reads_again_only_what_has_changed(tmp_path: Path) -> None:
    table = logs.visits(tmp_path, buckets=1, commits=2)
    view = view_of(table)
    before = view.model
    view.look()
    assert view.model is before
    logs.add(table, 2)
    view.look()
    assert view.model.end == {0: 6}


def test_tables_without_a_log_and_strange_readers_are_refused(tmp_path: Path) -> None:
    plain = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.INT})
    with pytest.raises(ts.InvalidRequest, match=r"d\.t has none"):
        widgets.LogAndLake(plain)
    with pytest.raises(ts.InvalidRequest, match="reader int"):
        view_of(logs.visits(tmp_path), reader=7)


def test_an_empty_log(tmp_path: Path) -> None:
    view = view_of(logs.visits(tmp_path, commits=0))
    assert "no rows yet" in view.to_svg()
    assert "no snapshot yet" in str(view)


def test_the_axis_never_goes_back_and_shows_every_file() -> None:
    spans = [(1000, 1_001_000), *((1_001_000 + n, 1_001_001 + n) for n in range(20))]
    scale = axis(start=1000, end=1_001_020, spans=spans, left=100, right=700)
    assert list(scale.places) == sorted(scale.places)
    assert scale.x(1_001_020) == pytest.approx(700)
    assert scale.x(1_001_020) - scale.x(1_001_000) >= 20 * LEAST - 0.1
    many = axis(start=0, end=10_000, spans=[(n, n + 1) for n in range(10_000)], left=0, right=600)
    assert len(many.groups) <= 48
    assert (many.groups[0].begin, many.groups[-1].end) == (0, 10_000)
    torn = axis(start=0, end=1 << 33, spans=[(0, 5), (1 << 32, (1 << 32) + 5)], left=0, right=600)
    assert torn.gaps == ((5, 1 << 32),)


def test_every_width_and_the_page(tmp_path: Path) -> None:
    view = view_of(logs.visits(tmp_path))
    for width in (240, 324, 660, 900, 1440):
        assert not re.search(r'"(?:nan|inf|-\d+e)', view.to_svg(width=width))
    assert "lwViews.renderLog" in view.to_html(tmp_path / "log.html").read_text()


def test_what_ends_a_stream_is_shown(tmp_path: Path) -> None:
    def broken() -> Iterator[Change]:
        yield from table.stream(follow=False, normalize=False)
        raise OSError("the line is cut")

    table = logs.visits(tmp_path, buckets=1)
    view = widgets.LogAndLake(table, reader=broken(), follow=0)
    end = time.monotonic() + 240
    while "the line is cut" not in view.frame["svg"] and time.monotonic() < end:
        time.sleep(0.02)
    assert "OSError: the line is cut" in view.frame["svg"]
    assert [step.kind for step in view.model.reader.taken] == ["state"]
