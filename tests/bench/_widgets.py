"""What `bench widgets` runs in its notebooks: for each widget its data, itself, a change, and the peer's own.

Texts are cells: `data` makes `size` things, `made` ends in the widget `view`, `changed` is a statement with
`{at}`, the number of the change. A peer draws the same boxes or bars with plotly. `IN_PAGE` holds the two
stopwatches that run in the browser.
"""

from __future__ import annotations

from dataclasses import dataclass

OURS, PEER = "widgets", "plotly"

SETUP = """
import json
import widgets
from ipywidgets.widgets.widget import _remove_buffers
from tests.widgets import frames

def state_of(view):
    state, _, buffers = _remove_buffers(view.get_state())
    return len(json.dumps(state, default=str)) + sum(len(memoryview(b).tobytes()) for b in buffers)
"""

IN_PAGE = """
window.lwBench = {
  async run(path, at, marks) {
    const p = lwLab.panel(path), cell = p.content.widgets[at];
    cell.outputArea.model.clear();
    while (cell.node.querySelector(marks)) await new Promise((go) => requestAnimationFrame(go));
    p.content.activeCellIndex = at;
    const began = performance.now();
    jupyterapp.commands.execute("notebook:run-cell");
    while (!cell.node.querySelector(marks)) await new Promise((go) => requestAnimationFrame(go));
    await new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
    const took = performance.now() - began;
    const k = p.sessionContext.session.kernel;
    do await new Promise((go) => setTimeout(go, 100)); while (k.status !== "idle");
    return took;
  },
  async change(path, code) {
    const p = lwLab.panel(path), k = p.sessionContext.session.kernel;
    let last = 0;
    const seen = new MutationObserver(() => { last = performance.now(); });
    seen.observe(p.content.node, { childList: true, subtree: true, attributes: true, characterData: true });
    const began = performance.now();
    await k.requestExecute({ code, silent: true, store_history: false }).done;
    const quiet = () => performance.now() - Math.max(last, began) > 400;
    while (!quiet()) await new Promise((go) => setTimeout(go, 50));
    seen.disconnect();
    return last ? last - began : 0;
  },
};
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One widget with what it is measured on."""

    name: str
    data: str
    warm: str
    made: str
    changed: str
    marks: str = ".lw-pic > svg"
    peer: str = ""
    peer_changed: str = ""


_FILES = """
def files_of(odd):
    kept = range(size) if not odd else [n for n in range(size) if n % 10]
    step = frames.KEYS / max(size - 3, 1)
    def one(n):
        if n < 3:
            return frames.file(0, 10_000 * (n + 1), 1_400_000, mib=8, name=f"new-{n}", minute=n)
        low, high = int((n - 3) * step), int((n - 2) * step) - 1
        return frames.file(4 + n % 10 // 9, low, high, mib=1 + n % 7, name=f"data-{n}")
    return frames.files([one(n) for n in kept])
states = [files_of(False), files_of(True)]
"""
_BOXES = """
import plotly.graph_objects as go
def boxes(files):
    low, high = (files[name].to_numpy() for name in ("min_key_pos", "max_key_pos"))
    return {"base": low, "x": high - low, "y": [f"L{level}" for level in files["level"].to_pylist()],
            "customdata": files["file_name"].to_pylist()}
view = go.FigureWidget(go.Bar(orientation="h", width=0.8, **boxes(states[0])))
view
"""
_BARS = """
import plotly.graph_objects as go
data = commits.select(["snapshot_id", "rows_added", "bytes_added"]).to_pydict()
view = go.FigureWidget([go.Bar(x=data["snapshot_id"], y=data["rows_added"]),
                        go.Bar(x=data["snapshot_id"], y=data["bytes_added"])])
view
"""

CASES = (
    Case(
        "levels",
        _FILES,
        "widgets.LsmLevels(frames.sample_files())",
        "view = widgets.LsmLevels(states[0], levels_at=lambda at: states[(at or 0) % 2], snapshot=0)\nview",
        "view.snapshot = {at} + 1",
        peer=_BOXES,
        peer_changed="view.data[0].update(boxes(states[({at} + 1) % 2]))",
    ),
    Case(
        "timeline",
        "commits = frames.commits(size)",
        "widgets.SnapshotTimeline(frames.commits(10))",
        "view = widgets.SnapshotTimeline(commits)\nview",
        "view.index = (size // 7 * ({at} + 1) + {at}) % size",
        peer=_BARS,
        peer_changed="view.data[0].selectedpoints = [(size // 7 * ({at} + 1) + {at}) % size]",
    ),
)
