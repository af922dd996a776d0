"""`docs --playground DIR`: the lessons on files, merging and compaction with pages that play, as files.

Invariants: nothing in the folder refers outside it; a page that plays makes its views by the recipe that
recorded its first picture. Called by `docs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from notebooks.cli.pages import Outcome, styled_page
from widgets.playground import folder

LESSONS = ("02", "03", "04", "05")
_TRIGGER, _STRATEGY = "num-sorted-run.compaction-trigger", "tablestore.compaction.strategy"


@dataclass(frozen=True, slots=True)
class PlayPage:
    """One page that plays: its file's name, its title, what to try, the lesson it belongs to, its recipe."""

    name: str
    title: str
    tries: str
    lesson: str
    recipe: dict[str, Any] = field(default_factory=dict)


PAGES = (
    PlayPage(
        "runs",
        "Rows, files, runs",
        "Flush, and count the runs that a reader has to ask. Then step: which runs are left, at which level?",
        "02",
        {"kind": "tree", "workload": {"kind": "sequential", "rows": 2_000, "updates": 0.3}, "story": [3]},
    ),
    PlayPage(
        "merge",
        "Merging",
        "Step through the keys, then choose another merge engine: which rows win now?",
        "03",
        {
            "kind": "merge",
            "title": "orders",
            "primary_key": ["id"],
            "columns": ["status", "paid"],
            "engine": "deduplicate",
            "options": {"aggregation": {"fields.paid.aggregate-function": "sum"}},
            "runs": [
                [{"id": 2, "status": "sent", "paid": 10}, {"id": 5, "status": None, "paid": 7}],
                [{"id": 1, "status": "paid", "paid": 30}, {"id": 2, "status": "paid", "paid": None}],
                [
                    {"id": 1, "status": "new", "paid": 0},
                    {"id": 2, "status": "new", "paid": 20},
                    {"id": 5, "status": "new", "paid": 3},
                ],
            ],
        },
    ),
    PlayPage(
        "universal",
        "Universal compaction",
        "Flush until a rule fires; read its sum before you step. Then change the trigger: what fires now?",
        "04",
        {
            "kind": "tree",
            "workload": {"kind": "uniform", "rows": 2_000},
            "options": {_TRIGGER: "5"},
            "story": [5],
        },
    ),
    PlayPage(
        "leveled",
        "Leveled compaction",
        "Flush and step, and watch the levels fill. Then switch to universal: what is due now?",
        "05",
        {
            "kind": "tree",
            "workload": {"kind": "uniform", "rows": 2_000},
            "options": {
                _STRATEGY: "leveled",
                "target-file-size": "128 kb",
                "tablestore.compaction.leveled.max-bytes-for-level-base": "512 kb",
            },
            "story": [4, "compact", 3],
        },
    ),
    PlayPage(
        "trade_off",
        "The trade-off map",
        "Choose a setting, then another workload: which setting is cheap to read, which is cheap to write?",
        "05",
        {
            "kind": "trade_off",
            "workload": {"kind": "zipf", "rows": 1_000},
            "flushes": 24,
            "samples": 40,
            "triggers": [2, 5, 8],
            "ratios": [1],
            "multipliers": [4, 10],
        },
    ),
    PlayPage(
        "game",
        "Keep the shop fast",
        "Orders come tick by tick: flush and step so that reads, writes, space and stalls stay in budget.",
        "",
        {"kind": "game", "stage": 1, "seed": 7},
    ),
)


def write_playing(target: Path) -> list[Path]:
    """Write the pages that play, and what all of them share; their paths. Raises NoPyodide."""
    target.mkdir(parents=True, exist_ok=True)
    texts = folder.shared_scripts()
    for page in PAGES:
        intro = f'<p class="lw-sub"><a href="index.html">Playground</a> · {escape(page.tries)}</p>'
        texts[f"{page.name}.html"] = folder.play_page(page.title, page.recipe, intro=intro)
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8")
    return [target / name for name in texts]


def index_of(outcomes: Iterable[Outcome]) -> str:
    """The first page: what plays, and the lessons that were run."""
    lessons = {outcome.name[:2]: outcome for outcome in outcomes}
    rows = [_row(page, lessons.get(page.lesson)) for page in PAGES]
    table = f"<table><tr><th>play</th><th>what to try</th><th>lesson</th></tr>{''.join(rows)}</table>"
    note = (
        "The engine's own rules run in these pages: nothing is installed, no kernel runs, the network is not "
        "used. Each page shows a recorded picture at once and plays some seconds later. Open this file from "
        "a disk, or serve the folder: <code>python -m http.server</code>."
    )
    body = f'<h1>Playground</h1><p class="quiet">{note}</p>{table}'
    return styled_page("Playground", body)


def _row(page: PlayPage, lesson: Outcome | None) -> str:
    link = f'<a href="{escape(lesson.name)}.html">{escape(lesson.title)}</a>' if lesson else ""
    return (
        f'<tr><td><a href="{page.name}.html"><b>{escape(page.title)}</b></a></td>'
        f"<td>{escape(page.tries)}</td><td>{link}</td></tr>"
    )
