"""`cdc --plan`: which tables of a source would be captured, and into what; nothing is written to the lake."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from rich.console import Console

from tablestore.cdc.capture.opening import rules_of, source_address
from tablestore.cdc.capture.preview import PreviewTable, preview
from tablestore.cdc.capture.rules import CaptureRules

REFUSED = 2


def print_plan(url: str, wanted: Mapping[str, Any], out: Console) -> int:
    """Print what a capture with these arguments of `lake.ingest` would do; 0, or 2 where it would be refused.
    Only the source is asked."""
    rules = {name: value for name, value in wanted.items() if name in signature(CaptureRules.of).parameters}
    source = {name: value for name, value in wanted.items() if name not in {*rules, "follow"}}
    address = source_address(url, rules.pop("tables", ()), source)
    made = rules_of(address, rules)
    with tempfile.TemporaryDirectory(prefix="tablestore-cdc-plan-") as folder:
        found = preview(address.open(made, checkpoint=folder, follow=False), made)
    for line in plan_lines(found):
        out.print(line, markup=False, soft_wrap=True)
    refused = [one for one in found if one.refused]
    captured = len(found) - sum(bool(one.reason) for one in found)
    out.print(f"{captured} of {len(found)} tables of {address.title}; nothing was written", soft_wrap=True)
    return REFUSED if refused else 0


def plan_lines(found: Sequence[PreviewTable]) -> list[str]:
    """A block for each table of the lake, then the tables that are left out."""
    lines: list[str] = []
    captured = [one for one in found if one.columns is not None]
    for target in dict.fromkeys(one.target for one in captured):
        tables = [one for one in captured if one.target == target]
        columns = tables[0].columns
        assert columns is not None, "a table that is captured has columns"
        lines.append(f"{target}  from {', '.join(map(_counted, tables))}")
        key = f"primary key ({', '.join(columns.primary_key)})"
        lines.append(
            "  "
            + key
            + (f", partitioned by ({', '.join(columns.partition_by)})" * bool(columns.partition_by))
        )
        names = {c.name for one in tables if one.shape is not None for c in one.shape.columns}
        spelled = {
            c.name: c.spelled
            for one in tables
            if one.shape is not None
            for c in one.shape.columns
            if c.spelled
        }
        wide = max(len(c.name) for c in columns.columns)
        for column in columns.columns:
            source = spelled.get(column.name, "") if column.name in names else column.comment or "metadata"
            lines.append(f"  {column.name:<{wide}}  {column.type!s:<24}  {source}".rstrip())
        lines += [f"  WARNING  {one.source}: {one.warning}" for one in tables if one.warning]
        lines.append("")
    for one in found:
        if one.columns is None:
            lines.append(f"{'REFUSED' if one.refused else 'left out'}  {one.source}: {one.reason}")
    return lines


def _counted(one: PreviewTable) -> str:
    return str(one.source) + ("" if one.rows is None else f" (about {one.rows:,} rows)")
