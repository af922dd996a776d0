"""`cdc --plan`: which tables of a source would be captured, and into what; nothing is written to the lake."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from rich.console import Console

from tablestore.cdc.capture.preview import PreviewTable, preview
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.opening import rules_of, source_address
from tablestore.cli.exit_codes import ExitCode


def print_plan(url: str, wanted: Mapping[str, Any], out: Console) -> int:
    """Print what a capture with these arguments of `lake.ingest` would do; 0, or 2 where it would be refused.
    Only the source is asked."""
    rules = {name: value for name, value in wanted.items() if name in signature(CaptureRules.of).parameters}
    source = {name: value for name, value in wanted.items() if name not in {*rules, "follow"}}
    address = source_address(url, rules.pop("tables", ()), source)
    capture_rules = rules_of(address, rules)
    with tempfile.TemporaryDirectory(prefix="tablestore-cdc-plan-") as folder:
        previews = preview(address.open(capture_rules, checkpoint=folder, follow=False), capture_rules)
    for line in plan_lines(previews):
        out.print(line, markup=False, soft_wrap=True)
    refused = [each for each in previews if each.refused]
    captured = len(previews) - sum(bool(each.reason) for each in previews)
    out.print(f"{captured} of {len(previews)} tables of {address.title}; nothing was written", soft_wrap=True)
    return ExitCode.REFUSED if refused else ExitCode.DONE


def plan_lines(previews: Sequence[PreviewTable]) -> list[str]:
    """A block for each table of the lake, then the tables that are left out."""
    lines: list[str] = []
    captured = [each for each in previews if each.columns is not None]
    for target in dict.fromkeys(each.target for each in captured):
        tables = [each for each in captured if each.target == target]
        columns = tables[0].columns
        assert columns is not None, "a table that is captured has columns"
        lines.append(f"{target}  from {', '.join(map(_counted, tables))}")
        key = f"primary key ({', '.join(columns.primary_key)})"
        lines.append(
            "  "
            + key
            + (f", partitioned by ({', '.join(columns.partition_by)})" * bool(columns.partition_by))
        )
        names = {c.name for each in tables if each.shape is not None for c in each.shape.columns}
        spelled = {
            c.name: c.spelled
            for each in tables
            if each.shape is not None
            for c in each.shape.columns
            if c.spelled
        }
        wide = max(len(c.name) for c in columns.columns)
        for column in columns.columns:
            source = spelled.get(column.name, "") if column.name in names else column.comment or "metadata"
            lines.append(f"  {column.name:<{wide}}  {column.type!s:<24}  {source}".rstrip())
        lines += [f"  WARNING  {each.source}: {each.warning}" for each in tables if each.warning]
        lines.append("")
    for each in previews:
        if each.columns is None:
            lines.append(f"{'REFUSED' if each.refused else 'left out'}  {each.source}: {each.reason}")
    return lines


def _counted(table: PreviewTable) -> str:
    return str(table.source) + ("" if table.rows is None else f" (about {table.rows:,} rows)")
