"""A progress bar in the output of a notebook's cell, from the second second of a query on.

IPython is not imported: the shell is given. One display that is updated; it is empty when the query is done.
"""

from __future__ import annotations

from typing import Any

from tablestore.core.env import SYSTEM

_QUIET_SECONDS, _PAUSE_SECONDS = 1.0, 0.25


class CellProgress:
    """The bar of one cell; nothing is shown where no notebook is at the other end."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell if getattr(shell, "kernel", None) is not None else None
        self._began = self._drawn = SYSTEM.monotonic()
        self._display, self._shown = "", False

    def show(self, percent: float) -> None:
        """Draw it, if it is time for it; `percent` is -1 where it is not known."""
        now = SYSTEM.monotonic()
        if self._shell is None or now - self._began < _QUIET_SECONDS or now - self._drawn < _PAUSE_SECONDS:
            return
        self._drawn, self._shown, passed = now, True, f"{now - self._began:.0f} s"
        known = 0 <= percent <= 100
        value, share = (f' value="{percent:.0f}"', f"{percent:.0f} % · ") if known else ("", "")
        bar = f'<progress max="100"{value} style="vertical-align:middle"></progress> {share}{passed}'
        self._publish({"text/plain": f"{share}{passed}", "text/html": bar})

    def clear(self) -> None:
        """Wipe it away; the next query begins."""
        if self._shown:
            self._publish({"text/plain": "", "text/html": ""})
        self._shown = False
        self._began = SYSTEM.monotonic()

    def _publish(self, data: dict[str, str]) -> None:
        again, self._display = bool(self._display), self._display or SYSTEM.uuid()
        assert self._shell is not None, "shown or cleared after it was shown"
        self._shell.display_pub.publish(data, transient={"display_id": self._display}, update=again)
