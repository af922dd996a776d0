"""A headless Chromium for tests: one for all browser tests in a row, closed before the next other test.

Playwright's engine keeps an event loop running in the thread it was started in; a test that runs a loop of
its own cannot live beside it, so `close_before` ends it in time. Nothing outside this machine resolves in
the browser. Called by tests/conftest.py (`browser`) and by the fixtures of tests/widgets and tests/lab.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.suite import counterparts

if TYPE_CHECKING:
    from playwright import sync_api as playwright

FLAGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-domain-reliability",
    "--dns-prefetch-disable",
    "--disable-features=OptimizationHints,MediaRouter,Translate,AutofillServerCommunication,"
    "CertificateTransparencyComponentUpdater",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]
needs_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(
        bool(counterparts.missing("Chromium")), reason=f"needs Chromium: {counterparts.missing('Chromium')}"
    ),
]
_open: list[Callable[[], None]] = []
_browsers: list[playwright.Browser] = []


def browser() -> playwright.Browser:
    """The one browser, started when it is first asked for."""
    if not _browsers:
        from playwright import sync_api

        engine = sync_api.sync_playwright().start()
        _open.append(engine.stop)
        started = engine.chromium.launch(
            executable_path=str(counterparts.CHROMIUM), args=FLAGS, timeout=180_000
        )
        _open.append(started.close)
        _browsers.append(started)
    return _browsers[0]


def before_close(action: Callable[[], None]) -> None:
    """Do `action` before the browser is ended."""
    _open.append(action)


def close() -> None:
    """End the browser and its engine, if they run."""
    _browsers.clear()
    while _open:
        _open.pop()()


def close_before(following: pytest.Item | None) -> None:
    """End the browser unless the next test wants it."""
    if following is None or "browser" not in getattr(following, "fixturenames", ()):
        close()


class Page:
    """A page of a file and everything it asked for or complained about."""

    def __init__(self, page: playwright.Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(120_000)
        page.on(
            "console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path) -> Page:
        """Load a file and wait until its views stand."""
        self.page.goto(path.as_uri())
        self.page.locator("body[data-ready=true]").wait_for()
        return self

    def text(self, selector: str) -> str:
        """The text of the first match."""
        return self.page.locator(selector).first.text_content() or ""

    def check(self) -> None:
        """Nothing but the file itself and inline data was asked for, and nobody complained."""
        assert [url for url in self.requests if not url.startswith(("file:", "data:"))] == []
        assert len([url for url in self.requests if url.startswith("file:")]) == 1
        assert self.complaints == []
