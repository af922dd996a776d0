"""Progress of long work: reported to a callback step by step, and to the log every two seconds.

The callback is called as `progress(step, done, total, note)` after each piece of work and each part of a
large one; `text_bar()` makes one that draws a line on a terminal. Used by compaction and expiry.
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
ProgressCallback = Callable[[str, float, float, str], None]
_EVERY_SECONDS = 2.0
_WIDTH = 24
_PARTS, _MIN_PART = 200, 1 << 18  # at most so many reports of the whole, none of less


class Progress:
    """How much of one step's work is done, reported as it grows. `total` is in the same unit, 0 if it is not
    known. Safe to share between threads: the one that did the work calls `progress`, one at a time."""

    def __init__(self, env: Env, step: str, total: float, progress: ProgressCallback | None) -> None:
        if progress is not None and not callable(progress):
            raise InvalidRequest(f"progress {progress!r} must be a function such as ts.text_bar()")
        self._env, self._step, self._total, self._callback = env, step, total, progress
        self._done, self._shown, self._logged_at = 0.0, 0.0, env.monotonic()
        self.lock = threading.RLock()
        if progress is not None and total:
            progress(step, 0, total, "")

    def add(self, amount: float, note: str) -> None:
        """Report that another `amount` is done; `note` says what."""
        with self.lock:
            self._done += amount
            self._shown = self._done
            if self._callback is not None:
                self._callback(self._step, self._done, self._total, note)
            now = self._env.monotonic()
            if now - self._logged_at >= _EVERY_SECONDS:
                self._logged_at = now
                log.info("%s: %.0f %%, %s", self._step, 100 * self._done / max(self._total, 1), note)

    def add_some(self, amount: float, note: str) -> None:
        """Count work of a piece, reported once it is large enough to be seen. Only `end` reports that all is
        done."""
        with self.lock:
            done = self._done + amount
            if done - self._shown >= max(self._total / _PARTS, _MIN_PART) and done < self._total:
                self.add(amount, note)
            else:
                self._done += amount

    def part(self, note: str) -> Part:
        """A counter of one piece of work while it goes on."""
        return Part(self, note)

    def end(self) -> None:
        """Report that all of it is done, unless that was reported."""
        if self._callback is not None and self._done < self._total:
            self._callback(self._step, self._total, self._total, "")


class Part:
    """Reports pieces of work while they are done, one after another: call it with every amount done, and
    `end` with the whole amount of the piece."""

    def __init__(self, whole: Progress, note: str) -> None:
        self._whole, self._note, self._reported = whole, note, 0.0

    def __call__(self, amount: float) -> None:
        """Count an amount of the piece."""
        with self._whole.lock:
            self._reported += amount
            self._whole.add_some(amount, self._note)

    def end(self, amount: float) -> None:
        """End a piece, of which this is the whole amount; the next one may have begun."""
        with self._whole.lock:
            rest, self._reported = max(0.0, amount - self._reported), max(0.0, self._reported - amount)
            self._whole.add(rest, self._note)


def text_bar(stream: TextIO | None = None) -> ProgressCallback:
    """A progress callback that draws one line, `compaction [######      ]  50 %  dt=1/bucket-3`, to `stream`
    (None: standard error).

    >>> import io
    >>> line = io.StringIO()
    >>> _ = orders.compact(full=True, progress=ts.text_bar(line))
    >>> line.getvalue().count("compaction") > 0
    True
    """
    out = sys.stderr if stream is None else stream
    shown = ""

    def progress(step: str, done: float, total: float, note: str) -> None:
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

    return progress
