"""How a command is called, through which door, and what it answers. Standard library only.

A test compares the exit codes with the table in `notebooks/guide/supervision.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True, slots=True)
class Door:
    """The name of the program, as helps and remedies write it, and where its lake is by default."""

    program: str = "tablestore"
    warehouse: str = "lake"


class ExitCode(IntEnum):
    """What a command answers to who started it. `remedy` says what a supervisor does then: it starts again
    what ended by `FAILED`, and nothing else."""

    remedy: str

    def __new__(cls, value: int, remedy: str) -> ExitCode:
        code = int.__new__(cls, value)
        code._value_ = value
        code.remedy = remedy
        return code

    DONE = 0, "nothing"
    WRONG = 1, "look: something differs, is broken, or a statement failed"
    REFUSED = 2, "mend the call, or what the message names: another start ends the same"
    FAILED = 3, "start it again: it goes on from the last commit"
    PAUSED = 4, "decide: a capture has left tables behind that it could not follow"
    GROWS = 5, "look: a soak is right, but a figure grows"
    UNKNOWN = 127, "there is no such command or program"
    INTERRUPTED = 130, "nothing: it was stopped by Ctrl-C or SIGTERM"
