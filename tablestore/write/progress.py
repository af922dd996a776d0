"""Progress of what takes longer than a moment: told to the caller step by step, else to the log.

`tell(step, done, total, note)` hears of each piece of work, and of the parts of a large one; `text_bar()`
makes one that draws a line on a terminal. Whether or not anybody listens, a log line appears every two
seconds. Used by compaction and expiry.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from tablestore.core.env import Env
from tablestore.core.errors import InvalidRequest

log = logging.getLogger(__name__)
Tell = Callable[[str, float, float, str], None]
_EVERY_SECONDS = 2.0
_WIDTH = 24
_PARTS, _LEAST_PART = 200, 1 << 18  # of the whole so many are told at most, and none of less


class Progress:
    """Adds up the work of one step. `total` in the same unit, 0 where it is not known. Any thread: `tell` is
    called by the one that did the work, one at a time."""

    def __init__(self, env: Env, step: str, total: float, tell: Tell | None) -> None:
        if tell is not None and not callable(tell):
            raise InvalidRequest(f"tell {tell!r} must be a function such as ts.text_bar()")
        self._env, self._step, self._total, self._tell = env, step, total, tell
        self._done, self._shown, self._said = 0.0, 0.0, env.monotonic()
        self.lock = threading.RLock()
        if tell is not None and total:
            tell(step, 0, total, "")

    def add(self, amount: float, note: str) -> None:
        """So much more is done; `note` says what."""
        with self.lock:
            self._done += amount
            self._shown = self._done
            if self._tell is not None:
                self._tell(self._step, self._done, self._total, note)
            now = self._env.monotonic()
            if now - self._said >= _EVERY_SECONDS:
                self._said = now
                log.info("%s: %.0f %%, %s", self._step, 100 * self._done / max(self._total, 1), note)

    def add_some(self, amount: float, note: str) -> None:
        """So much more of a piece is done, which is told if it shows; that all is done, by its end only."""
        with self.lock:
            done = self._done + amount
            if done - self._shown >= max(self._total / _PARTS, _LEAST_PART) and done < self._total:
                self.add(amount, note)
            else:
                self._done += amount

    def part(self, note: str) -> Part:
        """What counts a piece of work while it is under way."""
        return Part(self, note)

    def end(self) -> None:
        """All of it is done, as far as that was not said."""
        if self._tell is not None and self._done < self._total:
            self._tell(self._step, self._total, self._total, "")


class Part:
    """A piece of work, or several after each other, told while it goes on: call it with every bit, `end` each
    with what it was in all."""

    def __init__(self, whole: Progress, note: str) -> None:
        self._whole, self._note, self._ahead = whole, note, 0.0

    def __call__(self, amount: float) -> None:
        """So much more is done."""
        with self._whole.lock:
            self._ahead += amount
            self._whole.add_some(amount, self._note)

    def end(self, amount: float) -> None:
        """A piece is done, and was so much; the next one may have begun."""
        with self._whole.lock:
            rest, self._ahead = max(0.0, amount - self._ahead), max(0.0, self._ahead - amount)
            self._whole.add(rest, self._note)


def text_bar(stream: TextIO | None = None) -> Tell:
    """A `tell` that draws one line: `compaction [######      ]  50 %  dt=1/bucket-3`."""
    out = sys.stderr if stream is None else stream
    shown = ""

    def tell(step: str, done: float, total: float, note: str) -> None:
        nonlocal shown
        share = min(done / total, 1.0) if total else 0.0
        bar = "#" * round(share * _WIDTH)
        line = f"{step} [{bar:{_WIDTH}}] {share:4.0%}  {note}"
        out.write(f"\r{line:{len(shown)}}")
        shown = line
        if total and done >= total:
            out.write("\n")
            shown = ""
        out.flush()

    return tell
