"""Is the table right? An independent computation over the generated rows, the invariants, and the summary
to the cent.

Nothing here uses what the pipeline computed: expected rows come from the generator, the table's rows from a
plain scan.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from datasets import verify as independent
from notebooks.demo.pipeline import Run, ShowProgress


@dataclass(frozen=True, slots=True)
class Verification:
    """What was compared; `problems` is empty if all agrees."""

    problems: tuple[str, ...]
    rows: int
    columns: int
    groups: int
    seconds: float

    @property
    def verified(self) -> bool:
        return not self.problems


def verify(run: Run, show: ShowProgress) -> Verification:
    """Compare both tables with what must be in them, and check their invariants."""
    began = time.monotonic()
    total = 2 * run.snapshot_rows
    progress = _Counted(show, total)
    expected = independent.fingerprint(progress(independent.expected(run.source, year_month=True)))
    stored = independent.fingerprint(progress(run.lineitem.scan().to_batches()))
    show("verification", total, total, "invariants")
    problems = [
        *_rows_differ(expected, stored),
        *_groups_differ(expected["q1"], run.summary.scan().to_arrow()),
        *(f"{t.name}: {v}" for t in (run.lineitem, run.summary) for v in t.check()),
    ]
    return Verification(
        tuple(problems), stored["rows"], len(stored["columns"]), len(expected["q1"]), time.monotonic() - began
    )


class _Counted:
    """Batches on their way, counted."""

    def __init__(self, show: ShowProgress, total: int) -> None:
        self._show, self._total, self._rows = show, total, 0

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            self._rows += batch.num_rows
            self._show("verification", min(self._rows, self._total), self._total, "")


def _rows_differ(expected: dict[str, Any], rows: dict[str, Any]) -> Iterator[str]:
    if expected["rows"] != rows["rows"]:
        yield f"{rows['rows']:,} rows, expected {expected['rows']:,}"
    for name, column in expected["columns"].items():
        if rows["columns"].get(name) != column:
            yield f"column {name}: {rows['columns'].get(name)}, expected {column}"
    if expected["q1"] != rows["q1"]:
        yield "the groups of Q1 over the table's rows differ"


def _groups_differ(expected: list[dict[str, str]], kept: pa.Table) -> Iterator[str]:
    """The summary that the stream kept, against Q1 computed from the generated rows."""
    names = list(expected[0]) if expected else []
    rows = kept.select(names).sort_by([("l_returnflag", "ascending"), ("l_linestatus", "ascending")])
    groups = [{k: str(v) for k, v in row.items()} for row in rows.to_pylist()]
    for want, have in zip(expected, groups, strict=False):
        for name in names:
            if want[name] != have[name]:
                group = f"({want['l_returnflag']}, {want['l_linestatus']})"
                yield f"summary {group}: {name} is {have[name]}, expected {want[name]}"
    if len(expected) != len(groups):
        yield f"summary: {len(groups)} groups, expected {len(expected)}"
