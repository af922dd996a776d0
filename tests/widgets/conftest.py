"""Fixtures of browser tests: a page, held to its word after the test; and views that several files show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import tablestore as ts
import widgets
from tests.browsing import Page
from tests.widgets import hostile
from widgets.kit.view import View

if TYPE_CHECKING:
    from playwright import sync_api as playwright


@pytest.fixture
def page(browser: playwright.Browser) -> Iterator[Page]:
    """A fresh page; after the test it must have asked for nothing and complained of nothing."""
    context = browser.new_context(viewport={"width": 1080, "height": 900}, reduced_motion="reduce")
    page = Page(context.new_page())
    yield page
    context.close()
    page.check()


@pytest.fixture(scope="session")
def hostile_table(tmp_path_factory: pytest.TempPathFactory) -> ts.Table:
    return hostile.table_at(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def hostile_views(hostile_table: ts.Table) -> dict[str, View]:
    """Every view of a table of markup, and a workbench with all its tools, drawn; tests only look at them."""
    views = hostile.views_of(hostile_table)
    bench = widgets.Workbench(hostile_table)
    for name, _, refused in bench.tools:
        if not refused:
            bench.show(name)
    for view in views.values():
        if hasattr(view, "wait"):
            view.wait(240)
    return views | {"bench": bench}
