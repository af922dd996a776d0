"""Links between views while threads change both sides at once, and while one of them is closed."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import traitlets

import tablestore as ts
import widgets
from tests.widgets import frames
from widgets.kit.svg import Figure
from widgets.kit.view import View

WAIT = 60.0


@pytest.fixture
def orders(tmp_path: Path) -> ts.Table:
    """A table of three commits."""
    table = ts.connect(tmp_path).create_table("shop.orders", schema={"k": ts.INT}, primary_key=["k"])
    for number in range(3):
        table.write(pa.table({"k": pa.array([number, number + 1], pa.int32())}))
    return table


class Page(View):
    """A view that draws nothing: only its shared traits matter here."""

    opened = traitlets.Unicode("").tag(sync=True)

    def figure(self, *, width: float) -> Figure:
        return Figure(width, 10, "", "nothing")

    def words(self, *, width: float) -> dict[str, Any]:
        return {"title": "nothing", "subtitle": ""}


def aside(act: Callable[[], object]) -> None:
    """Do it in a thread of its own, and wait until it is done there."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert raised == []


def ring(count: int) -> list[Page]:
    """Linked views: the first with all, and each with the next, as in a cockpit."""
    views = [Page() for _ in range(count)]
    for i, view in enumerate(views[1:], 1):
        views[0].link(view)
        views[i - 1].link(view)
    return views


def once_at(view: View, name: str, value: object, act: Callable[[], object]) -> list[object]:
    """When the view has taken that value for the first time, another thread acts before anything goes on."""
    done: list[object] = []

    def seen(change: Any) -> None:
        if change.new == value and not done:
            done.append(value)
            aside(act)

    view.observe(seen, name)
    return done


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("taker", [0, 1, -1])
@pytest.mark.parametrize("other", [0, 1, -1])
def test_two_threads_that_change_linked_views_at_once_leave_one_value(
    count: int, taker: int, other: int
) -> None:
    views = ring(count)

    def move() -> None:
        views[other].snapshot = 2

    moved = once_at(views[taker], "snapshot", 1, move)
    views[0].snapshot = 1
    assert moved == [1]
    assert [view.snapshot for view in views] == [2] * count
    views[-1].snapshot = 3
    assert [view.snapshot for view in views] == [3] * count


def test_a_view_that_takes_another_value_is_followed_and_two_that_disagree_end() -> None:
    first, second = ring(2)

    def even(change: Any) -> None:
        second.snapshot = change.new - change.new % 2

    second.observe(even, "snapshot")
    first.snapshot = 7
    assert (first.snapshot, second.snapshot) == (6, 6)

    def odd(change: Any) -> None:
        first.snapshot = change.new | 1

    first.observe(odd, "snapshot")
    second.snapshot = 20
    assert first.snapshot == 21
    assert second.snapshot == 20


def test_a_view_that_refuses_says_so_and_the_others_have_the_value() -> None:
    views = ring(3)

    def refuses(_change: Any) -> None:
        raise traitlets.TraitError("no")

    views[1].observe(refuses, "snapshot")
    with pytest.raises(traitlets.TraitError, match="no"):
        views[0].snapshot = 4
    assert [view.snapshot for view in views] == [4, 4, 4]
    views[1].unobserve(refuses, "snapshot")
    views[2].snapshot = 5
    assert [view.snapshot for view in views] == [5, 5, 5]


def test_a_group_that_was_interrupted_still_follows() -> None:
    first, second = ring(2)

    def interrupted(_change: Any) -> None:
        raise KeyboardInterrupt

    second.observe(interrupted, "snapshot")
    with pytest.raises(KeyboardInterrupt):
        first.snapshot = 1
    second.unobserve(interrupted, "snapshot")
    first.snapshot = 2
    assert second.snapshot == 2


def test_a_view_that_is_closed_while_its_group_moves_is_left_alone_afterwards() -> None:
    first, second, third = ring(3)
    closed = once_at(second, "snapshot", 1, second.close)
    first.snapshot = 1
    assert closed == [1]
    assert second.linked == ()
    first.snapshot = 2
    assert (first.snapshot, second.snapshot, third.snapshot) == (2, 1, 2)
    second.snapshot = 9
    assert (first.snapshot, third.snapshot) == (2, 2)


def test_a_view_that_is_closed_while_it_is_linked_stays_alone() -> None:
    first, second = Page(), Page()
    first.snapshot = 1
    closed = once_at(second, "snapshot", 1, second.close)
    first.link(second)
    assert closed == [1]
    first.snapshot = 2
    assert (first.linked, second.linked, second.snapshot) == ((), (), 1)


def test_a_timeline_that_is_read_in_the_background_goes_where_it_was_sent_meanwhile(
    orders: ts.Table,
) -> None:
    timeline, chart = widgets.SnapshotTimeline(orders), widgets.AmplificationChart(orders).wait(WAIT)
    timeline.link(chart)
    first, last = int(timeline.model.ids[0]), int(timeline.model.ids[-1])
    timeline.index = 0
    sender = threading.Thread(target=lambda: setattr(timeline, "index", 1), daemon=True)

    def send(_change: Any) -> None:
        if not sender.ident:
            sender.start()
            sender.join(0.2)  # it waits for the reading, or has been ignored by now

    timeline.observe(send, "spoken")
    aside(lambda: setattr(timeline, "index", len(timeline.model) - 1))
    sender.join(WAIT)
    assert timeline.index == 1
    assert timeline.snapshot == chart.snapshot == int(timeline.model.ids[1])
    assert first < timeline.snapshot < last


def test_a_move_while_a_timeline_settles_is_followed_by_both(orders: ts.Table) -> None:
    timeline, chart = widgets.SnapshotTimeline(orders), widgets.AmplificationChart(orders).wait(WAIT)
    timeline.link(chart)
    first, second, last = (int(each) for each in timeline.model.ids)
    timeline.index = 0
    assert chart.snapshot == first

    def move() -> None:
        chart.snapshot = second

    moved = once_at(chart, "snapshot", last, move)
    timeline.index = 2
    assert moved == [last]
    assert (timeline.snapshot, chart.snapshot) == (second, second)
    assert (timeline.index, chart.index) == (1, 1)


def test_a_cockpit_that_is_closed_while_it_reads_keeps_no_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("widgets.workbench.widget.MANY", 1)
    settings = {"primary_key": ["k"], "options": {"bucket": 2}}
    table = ts.connect(tmp_path).create_table("shop.orders", schema={"k": ts.INT}, **settings)
    bench = widgets.Workbench(table.write(pa.table({"k": pa.array(range(9), pa.int32())})) and table)
    built: list[View] = []
    health = widgets.TableHealth

    def slow(*arguments: Any, **settings: Any) -> View:
        built.append(health(*arguments, **settings))
        aside(bench.close)
        return built[0]

    monkeypatch.setattr("widgets.workbench.widget.TableHealth", slow)
    bench.wait(WAIT)
    (late,) = built
    assert "health" not in bench.parts
    assert late.comm is None
    assert (late.linked, bench.timeline.linked) == ((), ())


def test_the_cockpit_opens_the_bucket_of_its_levels_until_it_is_closed() -> None:
    bench = widgets.Workbench(frames.FakeTable())
    bench.opened = ""
    bench.levels.opened = "/0"
    assert bench.opened == "/0"
    bench.opened = "/1"
    assert bench.levels.opened == "/1"
    bench.close()
    bench.levels.opened = "/0"
    assert bench.opened == "/1"
