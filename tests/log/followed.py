"""What a stream has given so far, as the state that its changes describe."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tablestore.read.changes.change import Change


@dataclass
class Followed:
    """Takes the steps of a stream. `keys`: how many first columns are the key, 0 for none: then rows are
    counted. With a key each change must fit the state before it, unless changes come `raw`, as they were
    written."""

    keys: int
    raw: bool = False
    cursor: str | None = None
    states: dict[Any, Any] = field(default_factory=dict)
    counts: Counter[Any] = field(default_factory=Counter)
    sources: list[str] = field(default_factory=list)

    @property
    def rows(self) -> Counter[Any]:
        """All rows of the state, each with how often it is there."""
        return self.counts + Counter((*key, *values) for key, values in self.states.items())

    def take(self, step: Change) -> None:
        """Apply a step."""
        self.sources.append("full" if step.full else step.source)
        for row in step.to_arrow().to_pylist():
            kind, *values = row.values()
            if self.keys:
                self._change(kind, tuple(values[: self.keys]), tuple(values[self.keys :]))
            else:
                self.counts[tuple(values)] += -1 if kind in ("-U", "-D") else 1
        self.cursor = step.cursor

    def _change(self, kind: str, key: Any, values: Any) -> None:
        if self.raw and kind in ("-U", "-D"):
            self.states.pop(key, None)
        elif kind in ("-U", "-D"):
            assert self.states.pop(key, None) == values, (kind, key, values)
        else:
            assert self.raw or key not in self.states, (kind, key, values)
            self.states[key] = values
