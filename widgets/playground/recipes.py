"""What a playable page shows, as plain values: the same call makes its views in a kernel and in a browser.

    {"kind": "game", "stage": 2, "seed": 7}
    {"kind": "tree", "workload": {"kind": "zipf", "rows": 2000}, "options": {…}, "story": [5, "compact"]}
    {"kind": "tree", "workload": {…}, "options": {…}, "start": [{"level": 5, …}, …], "title": "orders"}
    {"kind": "trade_off", "workload": {"kind": "zipf", "rows": 1000}, "flushes": 40}
    {"kind": "lesson", "title": "02 Rows, files, runs", "views": [{"task": {…}}, …]}
    {"kind": "merge", "runs": [[{"k": 1, "v": 2}], …], "engine": "deduplicate", "primary_key": ["k"]}

The kernel makes them to record the first picture, the browser to go on from there. A story is so many
flushes, or "compact" for the next compaction; `start` are the files of a table's bucket. Called by `folder`
and by `kernel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tablestore as ts
from widgets.amplification.widget import AmplificationChart
from widgets.controls.widget import CompactionControls
from widgets.game.widget import ShopGame
from widgets.kit.view import View
from widgets.levels.widget import LsmLevels
from widgets.merge.widget import MergeView
from widgets.playground.lesson import lesson_views
from widgets.trade_off.widget import TradeOff

Recipe = Mapping[str, Any]
EXAMPLES: tuple[Recipe, ...] = (
    {"kind": "game", "stage": 1, "seed": 7},
    {"kind": "tree", "workload": {"kind": "uniform", "rows": 50}, "story": [1], "start": []},
    {"kind": "trade_off", "workload": {"kind": "zipf", "rows": 50}, "flushes": 2, "samples": 2},
    {"kind": "lesson", "title": "A lesson", "views": [{"score": True}]},
    {"kind": "merge", "runs": [[{"k": 1, "v": 2}]], "engine": "deduplicate", "primary_key": ["k"]},
)
"""A small one of each kind: what they import is compiled for a page."""


def views_of(recipe: Recipe) -> list[View]:
    """The views of a page in their order. Raises InvalidRequest for a kind that is none."""
    kind = str(recipe.get("kind"))
    settings = {name: value for name, value in recipe.items() if name != "kind"}
    match kind:
        case "game":
            return [ShopGame(**settings)]
        case "tree":
            return _tree(settings)
        case "trade_off":
            return [TradeOff(**settings).wait()]
        case "merge":
            return [MergeView.of(**settings)]
        case "lesson":
            return lesson_views(**settings)
    raise ts.InvalidRequest(f"a page of kind {kind!r} is none of game, tree, trade_off, merge, lesson")


def _tree(settings: dict[str, Any]) -> list[View]:
    """The levels of a simulated bucket, and what is compacted next."""
    tree: Any = ts.simulator(
        settings["workload"],
        settings.get("options"),
        seed=settings.get("seed", 7),
        write_only=True,
        start=settings.get("start"),
    )
    tree.name = settings.get("title") or tree.name
    for act in settings.get("story", ()):
        for _ in range(act if isinstance(act, int) else 0):
            tree.flush()
        if act == "compact":
            tree.compact()
    levels, controls = LsmLevels(tree), CompactionControls(tree)
    views: list[View] = [levels, controls]
    if "start" in settings:
        views.append(AmplificationChart(tree))
    for view in views[1:]:
        levels.link(view)
    return views
