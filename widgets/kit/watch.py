"""Following a source: looking at it again every so often, in a thread of its own.

Invariants: at most one thread follows; it ends with `stop`, with `close`, or after its limit. A view that
is watched is read by that thread and by its caller: what `look` calls holds the view's own lock.
"""

import threading
from collections.abc import Callable
from typing import Self

from widgets.kit.view import View

WATCH_SECONDS, LEAST_SECONDS = 24 * 3600.0, 0.1


class Watch:
    """Calls `look` every so often in a daemon thread. Safe: callers are the notebook's thread and `look`."""

    def __init__(self, look: Callable[[], None], name: str) -> None:
        self._look, self._name = look, name
        self._stop: threading.Event | None = None

    @property
    def running(self) -> bool:
        """Whether it looks."""
        return self._stop is not None and not self._stop.is_set()

    def start(self, seconds: float, *, limit_seconds: float = WATCH_SECONDS) -> None:
        """Look every `seconds`, until `stop` or for `limit_seconds`."""
        self.stop()
        stop = self._stop = threading.Event()
        arguments = (stop, max(float(seconds), LEAST_SECONDS), limit_seconds)
        threading.Thread(target=self._run, args=arguments, name=self._name, daemon=True).start()

    def _run(self, stop: threading.Event, seconds: float, limit_seconds: float) -> None:
        remaining = limit_seconds
        try:
            while remaining > 0 and not stop.wait(seconds):
                remaining -= seconds
                self._look()
        finally:
            stop.set()

    def stop(self) -> None:
        """Look no more; the look that goes on ends by itself."""
        if self._stop is not None:
            self._stop.set()
        self._stop = None


class WatchingView(View):
    """A view with `watch` and `unwatch`. Subclasses say in `look` what a look does; by default `refresh`."""

    _watcher: Watch | None = None

    def look(self) -> None:
        """Look at the source once."""
        self.refresh()

    @property
    def watching(self) -> bool:
        """Whether the view follows its source."""
        return self._watcher is not None and self._watcher.running

    def watch(self, seconds: float = 1.0, *, limit_seconds: float = WATCH_SECONDS) -> Self:
        """Look again every `seconds`, until `unwatch` or for `limit_seconds`."""
        self._watcher = self._watcher or Watch(lambda: self.look(), f"watch-{type(self).__name__}")
        self._watcher.start(seconds, limit_seconds=limit_seconds)
        return self

    def unwatch(self) -> Self:
        """Stop following."""
        if self._watcher is not None:
            self._watcher.stop()
        return self

    def close(self) -> None:
        """Stop following and leave the page."""
        self.unwatch()
        super().close()
