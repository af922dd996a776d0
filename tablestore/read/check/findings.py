"""What `check` gives: violations of invariants, and notes that are none."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant: its number ("I4"), the file or place, what is wrong there."""

    invariant: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.where}: {self.text}"


@dataclass
class Findings:
    """Collected during one check; each said once."""

    violations: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def violate(self, invariant: str, where: str, text: str) -> None:
        """Add a violation."""
        found = Violation(invariant, where, text)
        if found not in self.violations:
            self.violations.append(found)

    def note(self, text: str) -> None:
        """Add a note."""
        if text not in self.notes:
            self.notes.append(text)
