"""What `bench widgets` runs in its notebooks: for each widget its data, itself, a change, and the peer's own.

Texts are cells: `data` makes `size` things, `made` ends in the widget `view`, `changed` is a statement with
`{at}`, the number of the change; of a cockpit `key` may be pressed on its timeline instead. A peer draws
the same boxes or bars with plotly. `IN_PAGE` holds the two stopwatches that run in the browser.
"""

from __future__ import annotations

from dataclasses import dataclass

OURS, PEER = "widgets", "plotly"

SETUP = """
import json
from pathlib import Path
import numpy as np
import pyarrow as pa
import tablestore as ts
import widgets
from ipywidgets.widgets.widget import _remove_buffers
from tests.widgets import frames

def state_of(view):
    state, _, buffers = _remove_buffers(view.get_state())
    return len(json.dumps(state, default=str)) + sum(len(memoryview(b).tobytes()) for b in buffers)

def table_of(size):
    # `size` files, a partition each, in one commit; made once in a run
    lake = ts.connect(ROOT)
    if f"bench.files_{size}" in lake:
        return lake.table(f"bench.files_{size}")
    table = lake.create_table(
        f"bench.files_{size}", schema={"k": ts.BIGINT, "p": ts.INT, "v": ts.STRING}, primary_key=["k", "p"],
        partition_by=["p"], options={"bucket": 1, "write-only": True})
    keys = np.arange(2 * size)
    table.write(pa.table({"k": keys, "p": (keys % size).astype(np.int32), "v": ["x"] * len(keys)}))
    return table

def history_of(size):
    # the same table, then twenty commits of a row each; made once in a run
    table = table_of(size)
    for at in range(20 - table.inspect.snapshot_count() + 1):
        table.write({"k": [at], "p": [at % size], "v": ["y"]})
    return table
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
  async change(path, code, key) {
    const p = lwLab.panel(path), k = p.sessionContext.session.kernel;
    let last = 0;
    const seen = new MutationObserver(() => { last = performance.now(); });
    seen.observe(p.content.node, { childList: true, subtree: true, attributes: true, characterData: true });
    const began = performance.now();
    const slider = p.content.node.querySelector(".lw-timeline [role=slider]");
    if (key) slider.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    else await k.requestExecute({ code, silent: true, store_history: false }).done;
    const done = performance.now();
    const quiet = () => performance.now() - Math.max(last, began) > 400 && k.status === "idle";
    while (!quiet()) await new Promise((go) => setTimeout(go, 50));
    seen.disconnect();
    return Math.max(last, key ? began : done) - began;
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
    max_size: int = 10_000
    key: str = ""
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
_SNAPSHOTS = """
def snapshots_of(size):
    commits = frames.commits(size)
    waves = np.sin(np.arange(size) / 9)
    compacts = np.array([kind == "COMPACT" for kind in commits["commit_kind"].to_pylist()])
    return pa.table({"snapshot_id": commits["snapshot_id"], "commit_kind": commits["commit_kind"],
        "commit_time": commits["commit_time"], "compactions": compacts.astype(np.int64),
        "write_amplification": 2 + waves / 2, "runs": (5 + 3 * waves).astype(np.int64),
        "space_amplification": 1.4 + waves / 5})
snapshots = snapshots_of(size)
"""
_RUNS = """
def runs_of(size):
    return [pa.table({"k": np.arange(at, size + at), "v": [f"run {at}"] * size}) for at in range(3)]
runs = runs_of(size)
"""
_WORKLOAD = """
from tablestore.insight.simulator import Workload
workload = Workload("uniform", rows=500, keys=5_000)
other = {"num-sorted-run.compaction-trigger": 8}
"""

CASES = (
    Case(
        "cockpit",
        "table = history_of(size)",
        "widgets.Workbench(table_of(3))",
        "view = widgets.Workbench(table)\nview",
        "view.refresh()",
    ),
    Case(
        "step",
        "table = history_of(size)",
        "widgets.Workbench(table_of(3))",
        "view = widgets.Workbench(table).wait()\nview",
        "",
        key="ArrowLeft",
    ),
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
    Case(
        "amplification",
        _SNAPSHOTS,
        "widgets.AmplificationChart(snapshots_of(10))",
        "view = widgets.AmplificationChart(snapshots)\nview",
        "view.snapshot = 1 + (size // 7 * ({at} + 1) + {at}) % size",
    ),
    Case(
        "explorer",
        "table = table_of(size)",
        "widgets.FileExplorer(table_of(3))",
        "view = widgets.FileExplorer(table)\nview",
        "view.search = 'p=1' if {at} % 2 else 'p=2'",
    ),
    Case(
        "pruning",
        "table = table_of(size)",
        "widgets.PruningExplainer(table_of(3), where='p < 1')",
        "view = widgets.PruningExplainer(table, where='p < 5')\nview",
        "view.where = 'p < ' + str({at} + 6)",
    ),
    Case(
        "controls",
        "table = table_of(size)",
        "widgets.CompactionControls(table_of(3))",
        "view = widgets.CompactionControls(table)\nview",
        "view.full = not view.full",
    ),
    Case(
        "ingest",
        "",
        "widgets.IngestProgress('orders', total=10, chunks=1)",
        "view = widgets.IngestProgress('orders', total=size * 100, chunks=size)\nview",
        "view.update(rows=100 * ({at} + 1))",
    ),
    Case(
        "changelog",
        "table = table_of(size)",
        "widgets.ChangelogView(table_of(3))",
        "view = widgets.ChangelogView(table)\nview",
        "view.page = ({at} + 1) % 2",
    ),
    Case(
        "merge",
        _RUNS,
        "widgets.MergeView.of(runs_of(3), primary_key='k')",
        "view = widgets.MergeView.of(runs, primary_key='k')\nview",
        "view.cursor = ({at} + 1) % 3",
    ),
    Case(
        "what_if",
        _WORKLOAD,
        "widgets.WhatIf(workload, other, flushes=3)",
        "view = widgets.WhatIf(workload, other, flushes=size)\nview",
        "view.index = (size // 7 * ({at} + 1) + {at}) % size",
        max_size=1000,
    ),
)
