"""The further views of the workbench: opened on demand, each with why it is not offered for some sources.

Called by `widget`. A tool's view is built when it is first opened and linked to the timeline and the levels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tablestore as ts
from widgets.changelog.widget import ChangelogView
from widgets.explorer.widget import FileExplorer
from widgets.findings.widget import Findings
from widgets.kit.source import option_map
from widgets.kit.view import View
from widgets.merge.widget import MergeView
from widgets.play.widget import CompactionPlay
from widgets.pruning.widget import PruningExplainer
from widgets.what_if.widget import WhatIf

STRATEGY = "tablestore.compaction.strategy"


@dataclass(frozen=True, slots=True)
class Tool:
    """A view that can be opened: its name, its title, what makes it, why it is not offered."""

    name: str
    title: str
    build: Callable[[Any, str], View]
    refused: Callable[[object], str]


def _needs_table(source: object) -> str:
    return "" if isinstance(source, ts.Table) else "needs a table"


def _needs_key(source: object) -> str:
    if not isinstance(source, ts.Table):
        return _needs_table(source)
    return "" if source.primary_key else "needs a primary key"


def _merge(source: Any, opened: str) -> View:
    partition, _, bucket = opened.rpartition("/")
    return MergeView(source, partition=partition or None, bucket=int(bucket) if bucket else None)


def _what_if(source: Any, opened: str) -> View:
    """The table's history under the other strategy."""
    options = option_map(source)
    other = {STRATEGY: "universal" if options.get(STRATEGY) == "leveled" else "leveled"}
    return WhatIf(source, other, opened=opened)


def _play(source: Any, opened: str) -> View:
    partition, _, bucket = opened.rpartition("/")
    return CompactionPlay(source, partition=partition or None, bucket=int(bucket) if bucket else None)


def _needs_compactions(source: object) -> str:
    return "" if hasattr(getattr(source, "inspect", None), "compactions") else "needs compactions"


TOOLS: tuple[Tool, ...] = (
    Tool("play", "Play", _play, _needs_compactions),
    Tool("files", "Files", lambda source, _opened: FileExplorer(source), _needs_table),
    Tool("merge", "Merge", _merge, _needs_key),
    Tool("changelog", "Changelog", lambda source, _opened: ChangelogView(source), _needs_key),
    Tool("pruning", "Pruning", lambda source, _opened: PruningExplainer(source), _needs_table),
    Tool("what_if", "What if", _what_if, _needs_key),
    Tool("findings", "Doctor", lambda source, _opened: Findings(source), _needs_table),
    Tool("readers", "Readers", lambda source, _opened: Findings(source, readers=True), _needs_table),
)
