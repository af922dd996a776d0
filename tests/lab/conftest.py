"""`lab`: a real JupyterLab in a real browser, one server for all tests of the folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests import browsing
from tests.lab.jupyter import LIGHT, VIEWPORT, Lab, LabServer

if TYPE_CHECKING:
    from playwright import sync_api as playwright


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """The server; ended with its kernels whatever happens."""
    started = LabServer(tmp_path_factory.mktemp("jupyter"))
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def pages() -> list[Lab]:
    """The page that the next test goes on with, if it is still good."""
    return []


@pytest.fixture
def lab(server: LabServer, browser: playwright.Browser, pages: list[Lab]) -> Iterator[Lab]:
    """JupyterLab in a page. Its notebooks are closed after the test; a page that cannot do so is given up."""
    if not (pages and pages[-1].browser is browser):
        pages[:] = [Lab(server, browser)]
        browsing.before_close(pages[-1].close)
    shown = pages.pop()
    try:
        yield shown
    finally:
        shown.close_notebooks()
        shown.theme(LIGHT)
        shown.page.set_viewport_size(VIEWPORT)
        pages.append(shown)
