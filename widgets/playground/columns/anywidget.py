"""AnyWidget where a page stands in for the notebook: traits that are synchronised, messages, and no comm.

`OPENED` has every widget by the id under which the page knows it; `changed` and `sent` are what the page
is to be told, and whoever drives it (`widgets.playground.kernel`) empties them.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import traitlets

OPENED: dict[str, AnyWidget] = {}
_numbers = count(1)


class WidgetTrait(traitlets.Any):
    """Another widget."""


class AnyWidget(traitlets.HasTraits):
    """A widget as the page knows it: its id, its synchronised traits, its messages."""

    layout = traitlets.Any()

    def __init__(self, **kwargs: Any) -> None:
        self.model_id = self.comm = f"w{next(_numbers)}"
        self.changed: set[str] = set()
        self._handlers: list[Any] = []
        OPENED[self.model_id] = self
        super().__init__(**kwargs)
        self.observe(lambda change: self.changed.add(change["name"]), self.synced)

    @property
    def synced(self) -> list[str]:
        """Names of the traits that the page has, too."""
        return sorted(self.trait_names(sync=True))

    def on_msg(self, handler: Any) -> None:
        """Call `handler(widget, content, buffers)` for messages of the page."""
        self._handlers.append(handler)

    def receive(self, content: Any) -> None:
        """A message of the page."""
        for handler in self._handlers:
            handler(self, content, [])

    def close(self) -> None:
        """Leave the page."""
        OPENED.pop(self.model_id, None)
        self.comm = None
