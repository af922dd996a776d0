"""how soon a widget shows 10, 1,000 and 10,000 files or snapshots, and a change of them, in a real JupyterLab

Each widget is a cell of a notebook in headless Chromium. First picture: from running the cell to its marks
in the page. Change: from setting a trait in the kernel to the redrawn marks, the kernel's way there
included; of the cockpit its refresh, and as `step` a key on its timeline until the last of its panels has
followed. State: the bytes of one such widget's model; ours refers to the code of all views, which crosses
once a kernel. The peer is a plotly FigureWidget of the same boxes or bars, in a notebook of its own. Pages
that play come last: how soon one is seen, and how soon Python in it drives the views.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from notebooks.bench.parts import playable, report
from notebooks.bench.parts.widget_cells import CASES, IN_PAGE, OURS, PEER, SETUP, Case
from tests import browsing
from tests.lab.jupyter import Lab, LabServer, Notebook
from tests.suite import counterparts
from widgets.playground.pyodide import NoPyodide

HEADER = ("things", "widget", "first s", "change s", "least–most", "state", "first", "change", "bytes")
LIMIT = 180.0


@dataclass(frozen=True, slots=True)
class Timing:
    """What one widget took at one size: seconds, and bytes of its state."""

    first: float
    changes: tuple[float, ...]
    state: int

    @property
    def change(self) -> float:
        return statistics.median(self.changes)


Found = dict[tuple[str, int, str], Timing]


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    if absent := _absent():
        print(f"bench widgets: {absent}", file=sys.stderr)
        return 2
    called = report.command("widgets", arguments)
    print(f"{called}\n{report.machine()}; medians of {chosen.changes} changes\n")
    if chosen.widgets:
        with _laboratory() as lab:
            timings = measure(lab, chosen.sizes, chosen.changes, chosen.widgets, peer=not chosen.without_peer)
        print(show(timings))
        print("\n" + NOTES)
    if chosen.pages:
        print("\n" + _pages(chosen.pages, chosen.turns))
    return 0


def _pages(names: Sequence[str], turns: int) -> str:
    """The pages that play, a line each."""
    try:
        with tempfile.TemporaryDirectory(prefix="bench-pages-") as folder:
            pages = playable.measure(Path(folder), names, turns)
    except NoPyodide as absent:
        return f"pages that play: {absent}"
    finally:
        browsing.close()
    return report.text(playable.HEADER, list(playable.lines(pages, report.spread)))


def _absent() -> str:
    """What is missing of a browser, and how to get it; empty if it is there."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is missing: ./workbench pip install -r .ci/browser.lock"
    if not counterparts.CHROMIUM.exists():
        return f"no Chromium at {counterparts.CHROMIUM}: install one, or set WORKBENCH_CHROMIUM to its path"
    return ""


NOTES = """\
first, change, bytes on the right: how many times what ours takes; more than 1 is slower or larger than ours.
The first widget of a kernel also brings the code of all views; it is shown before anything is measured."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./workbench bench widgets", description=__doc__.partition("\n")[0])
    sizes = "how many files or snapshots (default 10,1000,10000)"
    parser.add_argument("--sizes", type=_numbers, default=(10, 1000, 10_000), help=sizes)
    parser.add_argument("--changes", type=int, default=5, help="changes of each widget (default 5)")
    cases = [case.name for case in CASES]
    parser.add_argument(
        "--widgets", type=_names, default=cases, help=f"by commas, of {', '.join(cases)}; '' for none"
    )
    pages = f"pages that play, by commas, of {', '.join(playable.NAMES)} (default all; '' for none)"
    parser.add_argument("--pages", type=_page_names, default=playable.NAMES, help=pages)
    parser.add_argument("--turns", type=int, default=3, help="how often each page is opened (default 3)")
    parser.add_argument("--without-peer", action="store_true", help="leave the plotly FigureWidget out")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _page_names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := set(names) - set(playable.NAMES):
        raise argparse.ArgumentTypeError(f"no page {sorted(unknown)}; there are {', '.join(playable.NAMES)}")
    return names


def _names(text: str) -> list[str]:
    names, cases = [name for name in text.split(",") if name], {case.name for case in CASES}
    if unknown := set(names) - cases:
        raise argparse.ArgumentTypeError(f"no widget {sorted(unknown)}; there are {', '.join(sorted(cases))}")
    return names


def measure(lab: Lab, sizes: Sequence[int], changes: int, names: Sequence[str], *, peer: bool) -> Found:
    """Every chosen widget at every size, and its peer; a notebook a case."""
    timings: Found = {}
    for case in (case for case in CASES if case.name in names):
        for size in (size for size in sizes if size <= case.max_size):
            for who in (OURS, PEER) if peer and case.peer else (OURS,):
                timing = timings[case.name, size, who] = _one(lab, case, size, who, changes)
                line = (
                    f"{case.name}, {size:,}, {who}: first {timing.first:.2f} s, change {timing.change:.2f} s"
                )
                print(line, file=sys.stderr, flush=True)
    return timings


@contextmanager
def _laboratory() -> Iterator[Lab]:
    """JupyterLab in a page, ended whatever happens."""
    with tempfile.TemporaryDirectory(prefix="bench-widgets-") as folder:
        server = LabServer(Path(folder))
        try:
            lab = Lab(server, browsing.browser())
            browsing.before_close(lab.close)
            yield lab
        finally:
            browsing.close()
            server.stop()


def _one(lab: Lab, case: Case, size: int, who: str, changes: int) -> Timing:
    widget, changed = (case.made, case.changed) if who == OURS else (case.peer, case.peer_changed)
    setup = f"ROOT = {str(lab.server.root)!r}\nsize = {size}\n{SETUP}\n{case.data}"
    warm = case.warm if who == OURS else "import plotly.graph_objects as go; go.FigureWidget()"
    notebook = lab.open([setup, warm, widget])
    try:
        lab.page.evaluate(IN_PAGE + ";0")
        first = _again(lab, notebook, 2, ".lw[data-ver]" if who == OURS else ".plotly .main-svg")
        key = case.key if who == OURS else ""
        seconds = tuple(_change(lab, notebook, changed.format(at=at), key) for at in range(changes))
        state = int(notebook.kernel("state_of(view)"))
        notebook.check()
    finally:
        lab.close_notebooks()
    return Timing(first, seconds, state)


def _again(lab: Lab, notebook: Notebook, cell: int, marks: str) -> float:
    """Seconds from running one cell anew to its marks in the page."""
    call = "(path, cell, marks) => lwBench.run(path, cell, marks)"
    return float(lab.js(call, notebook.path, cell, marks, seconds=LIMIT, what="the first picture")) / 1000


def _change(lab: Lab, notebook: Notebook, statement: str, key: str) -> float:
    """Seconds from a statement in the kernel until it is done, or from a key, and the page has changed."""
    call = "(path, code, key) => lwBench.change(path, code, key)"
    return float(lab.js(call, notebook.path, statement, key, seconds=LIMIT, what="a change")) / 1000


def show(results: Found) -> str:
    """A line a widget, size and contender."""
    lines = []
    for (name, size, who), timing in results.items():
        ours = results[name, size, OURS]
        ratios = ["", "", ""]
        if who != OURS:
            pairs = ((timing.first, ours.first), (timing.change, ours.change), (timing.state, ours.state))
            ratios = [report.ratio(float(peer), float(own)) for peer, own in pairs]
        label = name if who == OURS else f"  {who}"
        spread = report.spread(timing.changes)
        figures = (f"{timing.first:.2f}", f"{timing.change:.2f}", spread, f"{timing.state / 1000:,.1f} kB")
        lines.append((f"{size:,}", label, *figures, *ratios))
    return report.text(HEADER, lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
