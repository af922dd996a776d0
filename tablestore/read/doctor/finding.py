"""What the doctor says: findings with their evidence and the call that mends them, and what was looked at.

A `Diagnosis` is never silent: each rule that was tried leaves a line with its numbers, also when nothing is
wrong. Immutable values; made by `read.doctor.diagnose`, shown by `inspect.doctor()`.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from tablestore.lsm import quantities

Severity = Literal["risk", "slow", "waste", "note"]
SEVERITIES: tuple[Severity, ...] = ("risk", "slow", "waste", "note")
Number = int | float | str
_SCHEMA = pa.schema(
    {
        "kind": pa.string(),
        "severity": pa.string(),
        "where": pa.string(),
        "what": pa.string(),
        "evidence": pa.string(),
        "remedy": pa.string(),
        "mends": pa.bool_(),
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `severity`: risk (rows may be lost, wrong or late), slow, waste (bytes kept),
    note. `remedy` is a Python call on `table` (and `ts`); with `mends` it takes the finding away, else it
    shows what to decide first. `evidence` holds the numbers; keys that end in `bytes` count bytes.
    """

    kind: str
    severity: Severity
    where: str
    what: str
    remedy: str
    evidence: Mapping[str, Number] = field(default_factory=dict)
    mends: bool = True

    @property
    def numbers(self) -> str:
        """The evidence in words: `runs 9, trigger 5, bytes 1.20 MiB`."""
        return ", ".join(f"{k.replace('_', ' ')} {_shown(k, v)}" for k, v in self.evidence.items())

    @property
    def text(self) -> str:
        """Three lines: what is wrong where, the numbers, the call."""
        where = f"{self.where}: " if self.where else ""
        lines = [f"{self.severity} · {self.kind} · {where}{self.what}"]
        lines += [f"    {self.numbers}"] if self.evidence else []
        return "\n".join([*lines, f"    {'mend' if self.mends else 'look'}: {self.remedy}"])

    def __repr__(self) -> str:
        return f"Finding({self.text})"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one rule gives: a line on what it looked at, and its findings."""

    text: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Tried:
    """One rule that was tried: what it looked at, in numbers, and how many findings it gave."""

    rule: str
    text: str
    findings: int = 0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything the doctor has to say of one snapshot. True when something was found; iterates over it."""

    table: str
    snapshot: int | None
    findings: tuple[Finding, ...]
    tried: tuple[Tried, ...]

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the findings, in order."""
        return tuple(f.kind for f in self.findings)

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def summary(self) -> str:
        """`3 findings: 1 risk, 2 slow` or `sound`."""
        if self.sound:
            return "sound"
        counts = ((s, sum(f.severity == s for f in self.findings)) for s in SEVERITIES)
        many = "1 finding" if len(self) == 1 else f"{len(self)} findings"
        return f"{many}: {', '.join(f'{n} {s}' for s, n in counts if n)}"

    @property
    def text(self) -> str:
        """All of it: findings first, then what each rule looked at."""
        at = "without a snapshot" if self.snapshot is None else f"at snapshot {self.snapshot}"
        lines = [f"{self.table} {at}: {self.summary}", *(f.text for f in self.findings)]
        lines.append("sound: looked at" if self.findings else "looked at")
        lines += [f"  {t.rule}: {t.text}" for t in self.tried if not t.findings]
        return "\n".join(lines)

    def to_arrow(self) -> pa.Table:
        """One row a finding, worst first; `evidence` as JSON."""
        rows = [
            (f.kind, f.severity, f.where, f.what, json.dumps(dict(f.evidence)), f.remedy, f.mends)
            for f in self.findings
        ]
        columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
        return pa.table(arrays, schema=_SCHEMA)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """The same for a notebook; whatever the table's names hold is text."""
        rows = "".join(_row(f) for f in self.findings)
        head = "".join(f"<th>{h}</th>" for h in ("", "where", "what", "numbers", "call"))
        found = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        items = "".join(
            f"<li><b>{html.escape(t.rule)}</b>: {html.escape(t.text)}</li>"
            for t in self.tried
            if not t.findings
        )
        title = html.escape(f"{self.table}: {self.summary}")
        return f"<p><b>{title}</b></p>{found}<details><summary>looked at</summary><ul>{items}</ul></details>"


def _row(f: Finding) -> str:
    cells = (f"{f.severity}: {f.kind}", f.where, f.what, f.numbers)
    shown = "".join(f"<td>{html.escape(c)}</td>" for c in cells)
    return f"<tr>{shown}<td><code>{html.escape(f.remedy)}</code></td></tr>"


def _shown(key: str, value: Number) -> str:
    if isinstance(value, str):
        return value
    if key.endswith("bytes"):
        return quantities.size(int(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
