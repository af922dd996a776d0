"""The cards of scans and their plans: which files are read of how many, and of a scan a few of its rows.

A scan's card plans it (manifests alone) and reads `ROWS` rows of `COLUMNS` columns; with a condition of
splits of `MOST_BYTES` together at most, for `MOST_SECONDS`. Beside the rows stand the columns at a glance,
from the statistics of `MOST_STATISTICS` files at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import pyarrow as pa

from tablestore.core.quantities import many, size
from tablestore.format.types.arrow_types import is_number
from tablestore.insight.cards import html
from tablestore.insight.cards.html import TextCell
from tablestore.insight.explain.explanation import Explanation, column_facts
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.plan import Plan

ROWS, COLUMNS, MOST_BYTES, MOST_SECONDS = 5, 12, 32 << 20, 1.0
MOST_FILES = 20_000  # whose bytes are added up
MOST_STATISTICS = 500  # files whose statistics are put together
_SPLITS = 8


class ScanRead(Protocol):
    """A scan: what is asked of it here."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the result."""
        ...

    @property
    def limit(self) -> int | None:
        """The most rows."""
        ...

    def plan(self, *, complete: bool = False) -> Plan:
        """What is read."""
        ...


def card(scan: ScanRead) -> str:
    """The card of a scan."""
    plan = scan.plan()
    rows, why = _preview(scan, plan)
    heads = [(f.name, is_number(f.type)) for f in rows.schema]
    lines = [
        [_value(column[i], number) for column, (_, number) in zip(rows.columns, heads, strict=True)]
        for i in range(rows.num_rows)
    ]
    hidden = len(scan.names) - rows.num_columns if lines else 0
    note = f"{why} · {many(hidden, 'column')} not shown" if hidden > 0 else why
    names = scan.names[:COLUMNS]
    return html.card(
        _name(plan.store.paths.root),
        f"scan · {_where(plan)}",
        chip=("plain", reads(plan)),
        body=[html.rows(heads, lines) if lines else "", html.line(note, "ink3"), _columns(plan, names)],
    )


def _columns(plan: Plan, names: Sequence[str]) -> str:
    """The columns at a glance, from the metadata of the files that are read; nothing where there are none."""
    files = sum(len(split.files) for split in plan.splits)
    if not 0 < files <= MOST_STATISTICS:
        return ""
    facts = column_facts(plan, names).to_pylist()
    heads = [("column", False), ("type", False), ("NULLs", True), ("distinct", True), ("from", False)]
    lines = [
        [
            TextCell(fact["column"]),
            TextCell(fact["type"], colour="ink2"),
            TextCell("–" if fact["nulls"] is None else f"{fact['nulls']:,}", True),
            TextCell(_distinct(fact), True),
            TextCell(_text("min", fact["min"])),
            TextCell("", markup=_bars(fact["spread"])),
            TextCell(_text("max", fact["max"])),
        ]
        for fact in facts
    ]
    said = f"columns of {many(facts[0]['rows'], 'stored row')}, by the files' statistics; ≈ is the spread"
    return html.rows([*heads, ("≈", False), ("to", False)], lines) + html.line(said, "ink3")


def _distinct(column: dict[str, Any]) -> str:
    """What was counted, else the most that there can be."""
    if column["distinct"] is not None:
        return f"≈ {column['distinct']:,}"
    return f"≤ {column['distinct_most']:,}"


def _bars(spread: list[float] | None) -> str:
    """A small histogram, with the rows of its parts as words for who does not see it."""
    most = max(spread or [0.0])
    if spread is None or most <= 0:
        return ""
    bars = "".join(
        f'<rect x="{5 * at}" y="{16 - max(1.0, 16 * n / most):.1f}" width="4" '
        f'height="{max(1.0, 16 * n / most):.1f}" fill="{html.ink("append")}"/>'
        for at, n in enumerate(spread)
        if n > 0
    )
    said = ", ".join(f"{n:,.0f}" for n in spread)
    size = f'viewBox="0 0 {5 * len(spread)} 16" width="{5 * len(spread)}" height="16"'
    return f'<svg {size} role="img" aria-label="about {said} rows from part to part">{bars}</svg>'


def _name(root: str) -> str:
    """`shop.orders` of `…/shop.db/orders`."""
    head, _, name = root.rpartition("/")
    database = head.rpartition("/")[2]
    return f"{database.removesuffix('.db')}.{name}" if database.endswith(".db") else name


def reads(plan: Plan) -> str:
    """`reads 12 of 168 files, 88.0 MiB`."""
    files = sum(len(s.files) for s in plan.splits)
    there = max(files, sum(_live_files(p) for p in plan.branches))
    held = f", {size(sum(s.size for s in plan.splits))}" if files <= MOST_FILES else ""
    return f"reads {files:,} of {many(there, 'file')}{held}"


def _live_files(plan: Plan) -> int:
    """Live files of the snapshot of a plan, from its manifest lists."""
    if plan.snapshot is None:
        return 0
    manifests = plan.store.manifests.manifests(plan.snapshot)
    return sum(m.num_added - m.num_deleted for m in manifests)


def _where(plan: Plan) -> str:
    at = "no snapshot" if plan.snapshot is None else f"snapshot {plan.snapshot.id}"
    return f"{at}, {'every row' if plan.where is None else f'where {plan.where!r}'}"


def _preview(scan: ScanRead, plan: Plan) -> tuple[pa.Table, str]:
    """Some rows, and how they were come by."""
    names = scan.names[:COLUMNS]
    wanted = ROWS if scan.limit is None else min(ROWS, scan.limit)
    batches, left, skipped = list[pa.RecordBatch](), wanted, False
    for split in _affordable(plan):
        if split is None:
            skipped = True
            break
        for batch in islice(split.read(plan.store, names, plan.where), 1 if plan.where is None else None):
            batches.append(batch.slice(0, left))
            left -= batches[-1].num_rows
            if left <= 0:
                break
        if left <= 0:
            break
    if not batches:
        empty = "its first splits were not read for a preview: they are large" if skipped else "no rows"
        return pa.table({}), empty
    rows = pa.Table.from_batches(batches)
    return rows, f"first {many(rows.num_rows, 'row')}"


def _affordable(plan: Plan) -> Iterator[DataSplit | None]:
    """The splits that a preview may read, in order; None where there are more."""
    env = plan.store.env
    started, held = env.monotonic(), 0
    for split in plan.splits:
        held += split.size
        over = held > MOST_BYTES and plan.where is not None
        if over or env.monotonic() - started > MOST_SECONDS:
            yield None
            return
        yield split


def plan_card(plan: Plan) -> str:
    """The card of a plan: its splits."""
    heads = [("split", False), ("files", True), ("bytes", True), ("rows stored", True), ("read", False)]
    lines = [
        [
            TextCell(
                "/".join(t for t in (plan.store.partition_text(s.partition), f"bucket-{s.bucket}") if t)
            ),
            TextCell(f"{len(s.files):,}", True),
            TextCell(size(s.size), True),
            TextCell(f"{s.rows:,}", True),
            TextCell("as the files are" if s.raw else "merged", colour="ink2"),
        ]
        for s in plan.splits[:_SPLITS]
    ]
    more = len(plan.splits) - len(lines)
    return html.card(
        "Plan",
        _where(plan),
        chip=("plain", reads(plan)),
        body=[html.rows(heads, lines) if lines else ""],
        note=many(more, "more split") if more > 0 else "",
    )


def explanation_card(explanation: Explanation) -> str:
    """The card of an explanation: files and bytes left after each rule, then its text."""
    steps = explanation.steps().to_pylist()
    names = explanation.steps().column_names
    heads = [(name.replace("_", " "), name not in ("rule", "step", "reason")) for name in names]
    lines = [
        [
            TextCell(_text(name, row[name]), number, wraps=name == "reason")
            for name, (_, number) in zip(names, heads, strict=True)
        ]
        for row in steps
    ]
    return html.card(
        "Scan explained",
        _where(explanation.plan),
        chip=("plain", reads(explanation.plan)),
        body=[
            html.rows(heads, lines) if lines else "",
            html.folded("file by file", html.words(repr(explanation))),
        ],
    )


def _text(name: str, value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) and "bytes" in name:
        return size(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _value(value: pa.Scalar, number: bool) -> TextCell:
    if not value.is_valid:
        return TextCell("null", number, "ink3")
    plain = value.as_py()
    return TextCell(f"0x{plain.hex()}" if isinstance(plain, bytes) else str(plain), number)
