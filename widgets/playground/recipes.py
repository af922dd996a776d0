"""What a playable page shows, as plain values: the same call makes its views in a kernel and in a browser.

    {"kind": "game", "stage": 2, "seed": 7}
    {"kind": "tree", "workload": {"kind": "zipf", "rows": 2000}, "options": {…}, "story": [5, "compact"], "seed": 7}
    {"kind": "trade_off", "workload": {"kind": "zipf", "rows": 1000}, "flushes": 40}
    {"kind": "merge", "runs": [[{"k": 1, "v": 2}], …], "engine": "deduplicate", "primary_key": ["k"]}

The kernel makes them to record the first picture, the browser to go on from there. A story is what
`notebooks.course.tree` takes: so many flushes, or one compaction. Called by `folder` and by `kernel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tablestore as ts
from widgets.kit.view import View

Recipe = Mapping[str, Any]


def views_of(recipe: Recipe) -> list[View]:
    """The views of a page in their order. Raises InvalidRequest for a kind that is none."""
    kinds = {"game": _game, "tree": _tree, "trade_off": _trade_off, "merge": _merge}
    kind = recipe.get("kind")
    if kind not in kinds:
        raise ts.InvalidRequest(f"a page of kind {kind!r} is none of {', '.join(kinds)}")
    return kinds[str(kind)]({name: value for name, value in recipe.items() if name != "kind"})


def _game(settings: dict[str, Any]) -> list[View]:
    from widgets.game.widget import ShopGame

    return [ShopGame(**settings)]


def _tree(settings: dict[str, Any]) -> list[View]:
    from widgets.controls.widget import CompactionControls
    from widgets.levels.widget import LsmLevels

    tree = ts.simulator(
        settings["workload"], settings.get("options"), seed=settings.get("seed", 7), write_only=True
    )
    for act in settings.get("story", ()):
        for _ in range(act if isinstance(act, int) else 0):
            tree.flush()
        if act == "compact":
            tree.compact()
    levels, controls = LsmLevels(tree), CompactionControls(tree)
    return [levels.link(controls), controls]


def _trade_off(settings: dict[str, Any]) -> list[View]:
    from widgets.trade_off.widget import TradeOff

    return [TradeOff(**settings).wait()]


def _merge(settings: dict[str, Any]) -> list[View]:
    from widgets.merge.widget import MergeView

    return [MergeView.of(**settings)]
