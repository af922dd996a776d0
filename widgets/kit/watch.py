"""A view that follows its source: it looks again every so often, in a thread of its own.

Invariants: at most one thread follows; it ends with `unwatch`, with `close`, or after its limit. A view that
is watched is read by that thread and by its caller: what `look` calls holds the view's own lock.
"""

import threading
from typing import Self

from widgets.kit.view import View

WATCH_SECONDS, LEAST_SECONDS = 24 * 3600.0, 0.1


class WatchingView(View):
    """A view with `watch` and `unwatch`. Subclasses say in `look` what a look does; by default `refresh`."""

    _stop_watch: threading.Event | None = None

    def look(self) -> None:
        """Look at the source once."""
        self.refresh()

    @property
    def watching(self) -> bool:
        """Whether the view follows its source."""
        return self._stop_watch is not None and not self._stop_watch.is_set()

    def watch(self, seconds: float = 1.0, *, limit_seconds: float = WATCH_SECONDS) -> Self:
        """Look again every `seconds`, until `unwatch` or for `limit_seconds`."""
        self.unwatch()
        stop = self._stop_watch = threading.Event()
        arguments = (stop, max(float(seconds), LEAST_SECONDS), limit_seconds)
        name = f"watch-{type(self).__name__}"
        threading.Thread(target=self._watch, args=arguments, name=name, daemon=True).start()
        return self

    def _watch(self, stop: threading.Event, seconds: float, limit_seconds: float) -> None:
        remaining = limit_seconds
        while remaining > 0 and not stop.wait(seconds):
            remaining -= seconds
            self.look()
        stop.set()

    def unwatch(self) -> Self:
        """Stop following."""
        if self._stop_watch is not None:
            self._stop_watch.set()
        self._stop_watch = None
        return self

    def close(self) -> None:
        """Stop following and leave the page."""
        self.unwatch()
        super().close()
