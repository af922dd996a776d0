"""Every public verb says what its parameters mean and shows a call; each example runs, on a lake of its own.

The lake has two tables. `orders`: order_id (primary key), customer, amount, status; snapshot 1, tagged "v1",
has orders 1 to 3, snapshot 2, tagged "v2", changes order 2. `events`: day (its partitions), n; two rows.
"""

from __future__ import annotations

import doctest
import inspect
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.insight.inspect.inspect import Inspect
from tablestore.table.log_view import LogView
from tablestore.table.lookup_join.join import LookupJoin
from tablestore.table.refs import Branches, Consumers, Tags
from tablestore.table.writer import EngineWriter, Writer

MADE_OF_A_TABLE = (Inspect, Tags, Branches, Consumers, LogView, Writer, EngineWriter, LookupJoin)
CLASSES = (ts.Lake, ts.Table, ts.Scan, *MADE_OF_A_TABLE)
FUNCTIONS = [n for n in ts.__all__ if inspect.isfunction(getattr(ts, n)) and n != n.upper()]
EASY = {"self", "progress", "io", "env"}  # the same everywhere; file systems and clocks are for tests


def verbs() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of the public classes, and the functions of `ts`, by name."""
    for kind in CLASSES:
        for name in dir(kind):
            actual = inspect.getattr_static(kind, name)
            if not name.startswith("_") and inspect.isfunction(actual):
                yield f"{kind.__name__}.{name}", actual
    for name in FUNCTIONS:
        yield f"ts.{name}", getattr(ts, name)


VERBS = dict(verbs())


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake that each example gets a copy of."""
    path = tmp_path_factory.mktemp("examples") / "lake"
    lake = ts.connect(path)
    columns = {"order_id": ts.BIGINT, "customer": ts.STRING, "amount": ts.DOUBLE, "status": ts.STRING}
    orders = lake.create_table("shop.orders", schema=columns, primary_key=["order_id"])
    created = zip((1, 2, 3), ("ann", "bob", "ann"), (10.0, 20.0, 5.0), ("new", "new", "paid"), strict=True)
    orders.write([dict(zip(columns, row, strict=True)) for row in created])
    orders.tags.create("v1")
    orders.write([{"order_id": 2, "customer": "bob", "amount": 25.0, "status": "paid"}])
    orders.tags.create("v2")
    events = lake.create_table("shop.events", schema={"day": ts.STRING, "n": ts.INT}, partition_by=["day"])
    events.write([{"day": "2026-01-01", "n": 1}, {"day": "2026-01-02", "n": 3}])
    return path


@pytest.mark.parametrize("name", VERBS)
def test_the_example_of_a_verb_gives_what_it_says(
    name: str, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(template, tmp_path / "lake")
    monkeypatch.chdir(tmp_path)
    lake = ts.connect("lake")
    tables = {"orders": lake.table("shop.orders"), "events": lake.table("shop.events")}
    names: dict[str, Any] = {"ts": ts, "pa": pa, "col": ts.col, "lake": lake, **tables}
    module = inspect.getmodule(inspect.unwrap(VERBS[name]))
    assert isinstance(module, ModuleType)
    examples = doctest.DocTestParser().get_doctest(
        VERBS[name].__doc__ or "", names, name, module.__file__, None
    )
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(examples, out=output.append)
    assert runner.failures == 0, "".join(output)
    for table in tables.values():
        if table.store.schemas.ids():  # no example dropped it
            assert ts.open(table.location).check() == []


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_shows_a_call_and_explains_its_parameters(name: str) -> None:
    text = inspect.cleandoc(VERBS[name].__doc__ or "")
    prose, example, _ = text.partition(">>> ")
    assert example, "has no example"
    named = set(inspect.signature(VERBS[name]).parameters) - EASY
    assert not [n for n in sorted(named) if f"`{n}" not in prose], "parameters that its text does not name"


def test_the_list_of_verbs_is_complete() -> None:
    assert {
        "Table.write",
        "Scan.head",
        "Lake.create_table",
        "Inspect.levels",
        "ts.connect",
        "Tags.create",
    } <= set(VERBS)
    assert len(VERBS) > 120
