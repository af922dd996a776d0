"""The door through which a command is called: the installed program, or a checkout's script."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Door:
    """The name of the program, as helps and remedies write it, and where its lake is by default."""

    program: str = "tablestore"
    warehouse: str = "lake"
