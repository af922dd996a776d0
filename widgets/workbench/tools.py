"""The further views of the workbench: opened on demand, each with why it is not offered for some sources.

Called by `widget`. A tool's view is built when it is first opened and linked to the timeline and the levels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tablestore as ts
from widgets._view import View
from widgets.findings.widget import Findings
from widgets.merge.widget import MergeView
from widgets.pruning.widget import PruningExplainer


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
    return _needs_table(source) or ("" if source.primary_key else "needs a primary key")  # type: ignore[attr-defined]


def _merge(source: Any, opened: str) -> View:
    partition, _, bucket = opened.rpartition("/")
    return MergeView(source, partition=partition or None, bucket=int(bucket) if bucket else None)


TOOLS: tuple[Tool, ...] = (
    Tool("merge", "Merge", _merge, _needs_key),
    Tool("pruning", "Pruning", lambda source, _opened: PruningExplainer(source), _needs_table),
    Tool("findings", "Doctor", lambda source, _opened: Findings(source), _needs_table),
)
