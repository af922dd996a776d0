"""What the doctor said, as rows of words: the engine's own, none of ours.

Pure. Called by `widget` with `inspect.doctor()`'s diagnosis.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

MAX_FINDINGS = 30


class FindingLine(Protocol):
    """One finding, in the words of the engine."""

    kind: str
    severity: str
    where: str
    what: str
    remedy: str
    numbers: str
    mends: bool
    asks: str


class Looked(Protocol):
    """One rule that was tried."""

    rule: str
    text: str
    findings: int


class Diagnosed(Protocol):
    """What `inspect.doctor()` gives."""

    snapshot: int | None
    summary: str
    text: str
    readers: bool
    findings: Iterable[FindingLine]
    tried: Iterable[Looked]


@dataclass(frozen=True, slots=True)
class Row:
    """One finding in words."""

    severity: str
    kind: str
    where: str
    what: str
    numbers: str
    remedy: str
    mends: bool
    asks: str = ""


@dataclass(frozen=True, slots=True)
class FindingsModel:
    """Findings, worst first; what the other rules looked at, or what is known of the other `readers`."""

    table: str
    snapshot: int | None
    summary: str
    rows: tuple[Row, ...]
    more: int
    looked: tuple[tuple[str, str], ...]
    readers: bool = False


def findings_model(diagnosis: Diagnosed, *, table: str) -> FindingsModel:
    """The diagnosis in rows, at most `MOST`."""
    findings = tuple(diagnosis.findings)
    names = ("severity", "kind", "where", "what", "numbers", "remedy", "mends", "asks")
    rows = tuple(Row(*(getattr(f, name) for name in names)) for f in findings[:MAX_FINDINGS])
    looked = tuple((t.rule, t.text) for t in diagnosis.tried if not t.findings)
    return FindingsModel(
        table,
        diagnosis.snapshot,
        diagnosis.summary,
        rows,
        len(findings) - len(rows),
        looked,
        diagnosis.readers,
    )
