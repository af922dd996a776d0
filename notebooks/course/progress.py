"""What a learner has answered, kept over restarts: one small file a notebook, in the user's state folder.

Invariants: the file holds answers as they were clicked and how many tries they took, never what is right:
that is judged anew when a task is posed again, so another seed or an edited file solves nothing. It is
replaced in one step, so a kill leaves the old or the new one. Where it cannot be written nothing is kept and
nothing fails. Called by the lesson; `$XDG_STATE_HOME` or `~/.local/state` says where.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = "tablestore-course"
LARGEST = 200_000
"""Bytes of a file that is read; a lesson's answers take a few hundred."""


@dataclass(slots=True)
class Entry:
    """One task: the last answer (None after it was taken back) and how many there were."""

    value: Any = None
    tries: int = 0


@dataclass(slots=True)
class Progress:
    """The answers of one lesson. Without a name nothing is kept."""

    lesson: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    kept: bool = True
    """Whether the last attempt to write went through."""

    @property
    def path(self) -> Path | None:
        """The file, or None for a lesson without a name."""
        if not self.lesson:
            return None
        return folder() / f"{re.sub(r'[^a-z0-9]+', '-', self.lesson.lower()).strip('-')}.json"

    def load(self) -> Progress:
        """Read what is there; a file that is none of ours counts as empty."""
        path = self.path
        if path is None:
            return self
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            if path.stat().st_size <= LARGEST:
                stored = json.loads(path.read_text(encoding="utf-8"))
                self.entries = {
                    str(name): Entry(each.get("value"), int(each.get("tries", 0)))
                    for name, each in stored["tasks"].items()
                }
        return self

    def note(self, task: str, value: Any) -> None:
        """One more answer."""
        entry = self.entries.setdefault(task, Entry())
        entry.value, entry.tries = value, entry.tries + 1
        self._save()

    def clear(self) -> None:
        """Forget all answers and remove the file."""
        self.entries.clear()
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _save(self) -> None:
        path = self.path
        if path is None:
            return
        tasks = {name: {"value": each.value, "tries": each.tries} for name, each in self.entries.items()}
        text = json.dumps({"lesson": self.lesson, "tasks": tasks}, ensure_ascii=False, indent=1)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, new_file = tempfile.mkstemp(
                prefix=f".{path.stem}-", dir=path.parent
            )  # only its user reads it
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(new_file, path)
            except BaseException:
                os.unlink(new_file)
                raise
            self.kept = True
        except OSError:
            self.kept = False


def folder() -> Path:
    """Where answers are kept."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state else Path.home() / ".local" / "state") / FOLDER
