"""Fixtures of the browser tests: a fresh page, held to its word after the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browsing import Page

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
