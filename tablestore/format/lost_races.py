"""LostRaces: how often others were first with the snapshot that a commit wanted to make (FORMAT.md 7.3).

Kept in the properties of the snapshot that it made in the end. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RETRIES, MILLIS = "tablestore.commit.retries", "tablestore.commit.retry-ms"


@dataclass(frozen=True, slots=True)
class LostRaces:
    """`retries` tries again, and the `millis` from the first try to the one that succeeded."""

    retries: int = 0
    millis: int = 0

    @classmethod
    def of(cls, properties: Mapping[str, str] | None) -> LostRaces:
        """Those of a snapshot by its properties; none where it does not say so."""
        values = properties or {}
        return cls(*(int(v) if (v := values.get(name, "0")).isdigit() else 0 for name in (RETRIES, MILLIS)))

    def as_properties(self) -> dict[str, str]:
        """The properties of a snapshot; none where nobody was first."""
        return {RETRIES: str(self.retries), MILLIS: str(self.millis)} if self.retries else {}
