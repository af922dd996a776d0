"""A place where rounds wait, so that a person or a test may do something at that very moment: a kill, mostly.

While the file has the name of a phase, rounds that come to this phase wait before its work: `committing`, all
is read and nothing is in the lake; `registering`, the lake has the rows and the cluster does not know. They
go on when the file is gone or names the other one, and when they are given up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest
from tablestore.io.paths import location
from tablestore.io.routed import file_io_for
from tablestore.tiering.report import HoldPhase, Phase

log = logging.getLogger(__name__)
_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class RoundHold:
    """The file that says where rounds wait; without a `file` they never do. Safe to share between threads."""

    file: str | None = None
    env: Env = SYSTEM

    def wait(self, table_path: str, phase: Phase, given_up: Callable[[], bool]) -> None:
        """Wait before the work of a phase, if the file says so. Raises InvalidRequest where it names none."""
        waited = False
        while self._phase() == phase and not given_up():
            if not waited:
                log.warning("%s: waits before %s, as %s says", table_path, phase, self.file)
                waited = True
            self.env.sleep(_SECONDS)

    def _phase(self) -> str:
        """What the file says; nothing where there is none, or nothing in it yet."""
        if self.file is None:
            return ""
        place = location(self.file)
        try:
            word = file_io_for(place).read(place).decode(errors="replace").strip()
        except FileNotFoundError:
            return ""
        if word and word not in get_args(HoldPhase):
            phases = " or ".join(get_args(HoldPhase))
            raise InvalidRequest(f"{self.file} says {word[:40]!r}: rounds can wait before {phases}")
        return word
