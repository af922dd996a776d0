"""How soon pages that play are seen and play, from a server of static files on this machine.

First picture: from going to the page until its recorded views stand in it. Playable: until Python drives
them, in a browser that knows nothing of the page, and again when it has it in its cache. All are by the
page's own clock. The processor's seconds are those of the browser's processes on the first visit, so that a
busy machine does not make a page slow. Used by `bench widgets`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import numpy as np
import psutil

import tablestore as ts
import widgets
from notebooks.cli.playground import PAGES, write_playing
from tests import browsing

HEADER = ("page", "bytes", "first s", "playable s", "least–most", "again s", "processor s")
OWN = "a table"
SHARED = ("python.js", "engine.js")
NAMES = (*(page.name for page in PAGES), OWN)
LIMIT_MS = 300_000


@dataclass(frozen=True, slots=True)
class Played:
    """One page: its bytes with what it shares, and seconds of each turn."""

    weight: int
    first: tuple[float, ...]
    playable: tuple[float, ...]
    again: tuple[float, ...]
    processor: tuple[float, ...]


def measure(folder: Path, names: Sequence[str], turns: int) -> dict[str, Played]:
    """The chosen pages, each opened `turns` times."""
    write_playing(folder)
    if OWN in names:
        _table(folder).to_html(folder / f"{OWN}.html", play=True)
    with _served(folder) as address:
        return {name: _page(folder, address, name, turns) for name in names}


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing is written of what was asked for."""


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """The address of a server of the folder's files, on a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _table(folder: Path) -> widgets.Workbench:
    """A table of eight commits into one bucket."""
    table = ts.connect(folder / "lake").create_table(
        "bench.orders",
        schema={"k": ts.BIGINT, "v": ts.BIGINT},
        primary_key=["k"],
        options={"bucket": 1, "write-only": True},
    )
    for turn in range(8):
        keys = np.arange(turn, 20_000, 4 + turn)
        table.write({"k": keys, "v": keys * 3})
    return widgets.Workbench(table.refresh().with_options({"write-only": False}))


def _page(folder: Path, address: str, name: str, turns: int) -> Played:
    parts = (f"{name}.html",) if name == OWN else (*SHARED, f"{name}.html")
    seen = [_opened(f"{address}/{quote(name)}.html") for _ in range(turns)]
    weight = sum((folder / part).stat().st_size for part in parts)
    return Played(weight, *(tuple(column) for column in zip(*seen, strict=True)))


def _opened(address: str) -> tuple[float, float, float, float]:
    """Seconds to the first picture, until it plays, until it plays again, and of the processor."""
    context = browsing.browser().new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.add_init_script(_WATCH)
    try:
        began = _processor()
        playable = _playable(page, address)
        taken = sum(seconds - began.get(pid, 0.0) for pid, seconds in _processor().items())
        first = float(page.evaluate("lwFirst")) / 1000
        page.goto("about:blank")
        return first, playable, _playable(page, address), taken
    finally:
        context.close()


def _playable(page: Any, address: str) -> float:
    """Go to the page; the seconds until it plays. Raises RuntimeError if it does not."""
    page.goto(address, wait_until="commit")
    page.locator("#lw-play[data-state=ready], #lw-play[data-state=failed]").wait_for()
    if page.get_attribute("#lw-play", "data-state") == "failed":
        raise RuntimeError(f"{address}: {page.inner_text('#lw-play')}")
    return float(page.get_attribute("#lw-play", "data-seconds") or 0)


_WATCH = """
window.lwFirst = 0;
new MutationObserver((_, watch) => {
  if (!document.querySelector(".lw-pic svg")) return;
  watch.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.lwFirst = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""


def _processor() -> dict[int, float]:
    """Seconds that each process below this one, the browser's among them, has taken."""
    return {each.pid: _seconds(each) for each in psutil.Process().children(recursive=True)}


def _seconds(process: psutil.Process) -> float:
    try:
        times: Any = process.cpu_times()
    except psutil.Error:  # it has ended
        return 0.0
    return float(times.user + times.system)


def lines(pages: dict[str, Played], spread: Any) -> Iterator[tuple[str, ...]]:
    """A line a page."""
    for name, page in pages.items():
        first, playable, again, taken = (
            f"{statistics.median(some):.2f}"
            for some in (page.first, page.playable, page.again, page.processor)
        )
        yield name, f"{page.weight / 1e6:.1f} MB", first, playable, spread(page.playable), again, taken
