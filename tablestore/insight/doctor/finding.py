"""Findings of the doctor with their evidence and the calls that mend them, and what was looked at.

A `Diagnosis` has a line with numbers for each rule, also when nothing is wrong. A call names a verb of
`Table` with plain values, so no text is evaluated to carry it out, and the text that is shown says the same.
Immutable values; made by `insight.doctor.diagnose`, shown by `inspect.doctor()`, carried out by `Table.mend`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any, Literal

import pyarrow as pa

from tablestore.core import quantities, rich
from tablestore.core.quantities import many
from tablestore.format.result_tables import result_schema, table_of
from tablestore.insight.doctor.facts import Facts, Limits

_NAMED = 8  # buckets that a call names one by one


def where(facts: Facts, places: Sequence[int]) -> str:
    """The first place and how many more there are."""
    more = len(places) - 1
    return facts.name(places[0]) + (f" and {many(more, 'more bucket')}" if more else "")


def compact_call(facts: Facts, places: Sequence[int], **mode: bool) -> tuple[MendingCall, ...]:
    """`table.compact(full=True, partition='dt=1', bucket=3)`: no wider than the places, if they are few.
    `mode` is full=True, until_quiet=True or nothing."""
    named: dict[str, Any] = dict(mode)
    partitions = {facts.places.partition[p] for p in places}
    if len(partitions) == 1 and facts.schema.partition_keys:
        named["partition"] = facts.store.partition_text(partitions.pop())
        partitions = {b""}
    buckets = sorted(int(facts.places.bucket[p]) for p in places)
    if len(partitions) == 1 and facts.options.bucket != 1 and facts.keyed:
        if len(buckets) == 1:
            named["bucket"] = buckets[0]
        elif len(buckets) <= _NAMED and len(buckets) < len(facts.places):
            named["bucket"] = buckets
    return (MendingCall("compact", keywords=named),)


def set_call(**options: object) -> tuple[MendingCall, ...]:
    """`table.alter(ts.set_options({'write-only': 'false'}))`; names with `_` for `-`."""
    return (MendingCall("set_options", ({k.replace("_", "-"): str(v) for k, v in options.items()},)),)


def size(n: int) -> str:
    """Bytes in words."""
    return quantities.size(int(n))


Severity = Literal["risk", "slow", "waste", "note"]
SEVERITIES: tuple[Severity, ...] = ("risk", "slow", "waste", "note")
Evidence = Mapping[str, int | float | str]  # numbers, and names, by what they are
_WIDTH = 100
_SCHEMA = result_schema(
    "kind string, severity string, where string, what string, evidence string, remedy string, "
    "mends bool, asks string"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    `severity` is risk (rows may be lost, wrong or late), slow, waste (bytes are kept) or note. With `mends`
    the `calls` remove the finding, else they show what to decide first. `asks` says what the calls give up,
    so that somebody has to decide; it is empty where nothing is. `evidence` has the numbers by name; names
    that end in `bytes` count bytes.
    """

    kind: str
    severity: Severity
    where: str
    what: str
    calls: tuple[MendingCall, ...]
    evidence: Evidence = field(default_factory=dict)
    mends: bool = True
    asks: str = ""

    @property
    def remedy(self) -> str:
        """The calls as Python over `table` (and `ts`); `table.mend(finding)` carries them out."""
        return python(self.calls)

    @property
    def numbers(self) -> str:
        """The evidence in words: `runs 9, trigger 5, bytes 1.20 MiB`."""
        return ", ".join(f"{k.replace('_', ' ')} {_shown(k, v)}" for k, v in self.evidence.items())

    @property
    def text(self) -> str:
        """What is wrong and where, the numbers, the call on one line, and what it gives up."""
        where = f"{self.where}: " if self.where else ""
        lines = _lines(f"{self.severity} · {self.kind} · {where}{self.what}", "    ")
        lines += _lines(f"    {self.numbers}", "    ") if self.evidence else []
        lines.append(f"    {'mend' if self.mends else 'look'}: {self.remedy}")
        lines += _lines(f"    decide: {self.asks}", " " * 12) if self.asks else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Finding({self.text})"


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """What one rule gives: a line on what it looked at, and its findings."""

    text: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule that was tried: what it looked at, in numbers, and how many findings it gave."""

    rule: str
    text: str
    findings: int = 0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings on one snapshot, what each rule looked at, and the limits; with `readers` they are about
    other readers of the table. Iterates over the findings; it is true when there are any."""

    table: str
    snapshot: int | None
    findings: tuple[Finding, ...]
    tried: tuple[RuleResult, ...]
    limits: Limits = Limits()
    listing: bool = False
    readers: bool = False

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
        """`3 findings: 1 risk, 2 slow` or `sound`; of readers, who are not proved right, `no finding`."""
        if self.sound:
            return "no finding" if self.readers else "sound"
        counts = ((s, sum(f.severity == s for f in self.findings)) for s in SEVERITIES)
        many = "1 finding" if len(self) == 1 else f"{len(self)} findings"
        return f"{many}: {', '.join(f'{n} {s}' for s, n in counts if n)}"

    @property
    def text(self) -> str:
        """Findings first, then what each rule looked at."""
        at = "without a snapshot" if self.snapshot is None else f"at snapshot {self.snapshot}"
        lines = [f"{self.table} {at}: {self.summary}", *(f.text for f in self.findings)]
        lines.append("no finding" if self.readers else "sound: looked at" if self.findings else "looked at")
        for t in self.tried:
            lines += [] if t.findings else _lines(f"  {t.rule}: {t.text}", "    ")
        return "\n".join(lines)

    def to_arrow(self) -> pa.Table:
        """One row a finding, worst first; `evidence` as JSON."""
        rows = [
            (f.kind, f.severity, f.where, f.what, json.dumps(dict(f.evidence)), f.remedy, f.mends, f.asks)
            for f in self.findings
        ]
        return table_of(_SCHEMA, rows)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str | None:
        return rich.card("diagnosis", self)


def _lines(text: str, indent: str) -> list[str]:
    """The text in lines that fit a terminal; a long name stays whole."""
    return wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _shown(key: str, value: int | float | str) -> str:
    if isinstance(value, str):
        return value
    if key.endswith("bytes"):
        return quantities.size(int(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


Verb = Literal[
    "compact",
    "set_options",
    "reset_options",
    "rescale",
    "expire_snapshots",
    "compact_manifests",
    "remove_orphans",
    "consumers.delete",
    "tags.delete",
    "log.repair",
    "look",
]
_ALTERS: tuple[Verb, ...] = ("set_options", "reset_options")


@dataclass(frozen=True, slots=True)
class MendingCall:
    """`table.<verb>(*arguments, **keywords)`, with `options` for this use only. The argument of "look" is
    Python that shows what to decide by."""

    verb: Verb
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def alters(self) -> bool:
        """Whether it changes the schema, so that later calls need the altered table."""
        return self.verb in _ALTERS

    @property
    def step(self) -> str:
        """What is called on the table: `compact(full=True)`, `alter(ts.set_options({…}))`."""
        values = [repr(v) for v in self.arguments] + [f"{k}={v!r}" for k, v in self.keywords.items()]
        call = f"{self.verb}({', '.join(values)})"
        if self.alters:
            return f"alter(ts.{call})"
        return f"with_options({dict(self.options)!r}).{call}" if self.options else call


def python(calls: Sequence[MendingCall]) -> str:
    """The calls as one Python expression over `table` and `ts`."""
    if calls[0].verb == "look":
        return str(calls[0].arguments[0])
    if all(c.alters for c in calls[:-1]):
        return ".".join(["table", *(c.step for c in calls)])
    return f"({', '.join(f'table.{c.step}' for c in calls)})"


def look(text: str) -> MendingCall:
    """A call that changes nothing: Python that shows what to decide by."""
    return MendingCall("look", (text,))
