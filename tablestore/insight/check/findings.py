"""Findings of a check: violations of invariants, and notes, which are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tablestore.core import rich

CHANGES, STATISTICS = "changes of ", "statistics of "
FILE_INDEXES, HASH_INDEXES = "file indexes of ", "hash indexes of "
CHECKSUMS = "checksums of "
BESIDE = (CHANGES, STATISTICS, FILE_INDEXES, HASH_INDEXES, CHECKSUMS)
"""Before the name of a holder ("snapshot-7"): what its rows do not need."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant: its number ("I4"), the file or place, what is wrong there."""

    invariant: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.where}: {self.text}"


class Violations(list[Violation]):
    """The violations that a check found: a list, empty for a sound table. IPython shows it in words, a
    notebook as a card."""

    @property
    def text(self) -> str:
        """A line for each, or that there are none."""
        return "\n".join(map(str, self)) or "sound: every invariant holds"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text)

    def _repr_html_(self) -> str | None:
        return rich.card("violations", self)


@dataclass
class CheckFindings:
    """The violations and notes of one check, each once.

    `holders` of a violation are the files ("snapshot-7", "tag-v1") that need what is broken; without any it
    is the table's. What only expired snapshots needed is no violation: see `without`. `files`: hashes of the
    paths that were read, of which the `unsummed` have no checksum.
    """

    holders: dict[Violation, frozenset[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    files: set[int] = field(default_factory=set)
    unsummed: set[int] = field(default_factory=set)
    calls: int = 0  # of `violate`
    _about: Iterable[str] = ()

    @property
    def violations(self) -> Violations:
        """The violations in the order in which they were found."""
        return Violations(self.holders)

    @contextmanager
    def about(self, holders: Iterable[str]) -> Iterator[None]:
        """Attribute what is found inside to these holders; they are iterated only where something is."""
        before, self._about = self._about, holders
        try:
            yield
        finally:
            self._about = before

    @contextmanager
    def beside(self, what: str) -> Iterator[None]:
        """Attribute what is found inside to what the holders have beside their rows; `what` is one of
        `BESIDE`."""
        with self.about([f"{what}{holder}" for holder in self._about]):
            yield

    def violate(self, invariant: str, where: str, text: str) -> None:
        """Add a violation."""
        self.calls += 1
        violation, holders = Violation(invariant, where, text), frozenset(self._about)
        shared = self.holders.get(violation, holders)
        self.holders[violation] = shared | holders if shared and holders else frozenset()

    def looked_at(self, path: str, *, checksum: bool) -> None:
        """Count a file that was read, with a checksum that holds or without any."""
        self.files.add(hash(path))
        if not checksum:
            self.unsummed.add(hash(path))

    def note_unsummed(self) -> None:
        """Say how many files have no checksum, if some do."""
        if self.unsummed:
            text = f"{len(self.unsummed):,} of {len(self.files):,} files have no checksum"
            self.note(f"{text}: what is damaged there shows only where it breaks a rule")

    def note(self, text: str) -> None:
        """Add a note."""
        if text not in self.notes:
            self.notes.append(text)

    def without(self, is_gone: Callable[[str], bool]) -> None:
        """Drop the violations whose holders are all gone by now."""
        gone = {h: is_gone(h) for h in set().union(*self.holders.values())}
        self.holders = {
            v: holders
            for v, holders in self.holders.items()
            if not holders or not all(gone[h] for h in holders)
        }
