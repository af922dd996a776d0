"""How soon pages that play are seen and play, each in a browser that knows nothing of it, from a disk.

First picture: from going to the page until its recorded views stand in it. Playable: until Python drives
them. Both are by the page's own clock. The processor's seconds are those of the browser's processes, so that
a busy machine does not make a page slow. Used by `bench widgets`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import tablestore as ts
import widgets
from notebooks.cli.playground import PAGES, write_playing
from tests import browsing

HEADER = ("page", "bytes", "first s", "playable s", "least–most", "processor s")
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
    processor: tuple[float, ...]


def measure(folder: Path, names: Sequence[str], turns: int) -> dict[str, Played]:
    """The chosen pages, each opened `turns` times."""
    write_playing(folder)
    if OWN in names:
        _table(folder).to_html(folder / f"{OWN}.html", play=True)
    return {name: _page(folder, name, turns) for name in names}


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


def _page(folder: Path, name: str, turns: int) -> Played:
    parts = (f"{name}.html",) if name == OWN else (*SHARED, f"{name}.html")
    seen = [_opened((folder / f"{name}.html").as_uri()) for _ in range(turns)]
    weight = sum((folder / part).stat().st_size for part in parts)
    return Played(weight, *(tuple(column) for column in zip(*seen, strict=True)))


def _opened(address: str) -> tuple[float, float, float]:
    """Seconds to the first picture, until it plays, and of the processor."""
    context = browsing.browser().new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.add_init_script(_WATCH)
    try:
        began = _processor()
        page.goto(address, wait_until="commit")
        page.locator("#lw-play[data-state=ready], #lw-play[data-state=failed]").wait_for()
        if page.get_attribute("#lw-play", "data-state") == "failed":
            raise RuntimeError(f"{address}: {page.inner_text('#lw-play')}")
        playable = float(page.get_attribute("#lw-play", "data-seconds") or 0)
        taken = sum(seconds - began.get(pid, 0.0) for pid, seconds in _processor().items())
        return float(page.evaluate("lwFirst")) / 1000, playable, taken
    finally:
        context.close()


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


def lines(found: dict[str, Played], spread: Any) -> Iterator[tuple[str, ...]]:
    """A line a page."""
    for name, page in found.items():
        middle = (f"{statistics.median(some):.2f}" for some in (page.first, page.playable))
        taken = f"{statistics.median(page.processor):.2f}"
        yield name, f"{page.weight / 1e6:.1f} MB", *middle, spread(page.playable), taken
