"""Every public view says what its parameters mean and shows a call; each example runs, without a browser.

An example has a table of its own, `orders`: order_id (primary key), customer, amount, status; snapshot 1 has
orders 1 to 3, snapshot 2 changes order 2.
"""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
import widgets


def calls() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Name, what is called and its docstring: public views, other ways to make them, and functions."""
    for name in widgets.__all__:
        public = getattr(widgets, name)
        if inspect.isfunction(public):
            yield name, public, public.__doc__ or ""
            continue
        yield name, public.__init__, vars(public).get("__doc__") or ""
        for other, member in vars(public).items():
            if isinstance(member, classmethod) and not other.startswith("_"):
                yield f"{name}.{other}", getattr(public, other), member.__doc__ or ""


CALLS = {name: (call, text) for name, call, text in calls()}


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ts.Table:
    monkeypatch.chdir(tmp_path)
    columns = {"order_id": ts.BIGINT, "customer": ts.STRING, "amount": ts.DOUBLE, "status": ts.STRING}
    orders = ts.connect("lake").create_table("shop.orders", schema=columns, primary_key=["order_id"])
    created = zip((1, 2, 3), ("ann", "bob", "ann"), (10.0, 20.0, 5.0), ("new", "new", "paid"), strict=True)
    orders.write([dict(zip(columns, row, strict=True)) for row in created])
    orders.write([{"order_id": 2, "customer": "bob", "amount": 25.0, "status": "paid"}])
    return orders


@pytest.mark.parametrize("name", CALLS)
def test_the_example_of_a_view_gives_what_it_says(name: str, orders: ts.Table) -> None:
    names = {"ts": ts, "widgets": widgets, "orders": orders}
    example = doctest.DocTestParser().get_doctest(CALLS[name][1], names, name, None, None)
    lines: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(example, out=lines.append)
    assert runner.failures == 0, "".join(lines)
    assert orders.check() == []


@pytest.mark.parametrize("name", CALLS)
def test_a_view_shows_a_call_and_explains_its_parameters(name: str) -> None:
    call, text = CALLS[name]
    prose, example, _ = text.partition(">>> ")
    assert example, "has no example"
    parameters = inspect.signature(call).parameters.values()
    named = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD} - {"self"}
    assert not [each for each in sorted(named) if f"`{each}" not in prose], (
        "parameters its text does not name"
    )


def test_every_public_name_of_widgets_is_looked_at() -> None:
    assert set(widgets.__all__) < set(CALLS)
    assert {"MergeView.of", "MergeView.of_events", "ChangelogView.producers"} < set(CALLS)
