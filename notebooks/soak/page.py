"""A soak as text and as one page: what was compared, what was done to it, what grew. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

import pyarrow as pa

import widgets
from notebooks.soak.figures import LEAST, Figures
from notebooks.soak.run import Outcome
from notebooks.soak.services import CACHED_ENTRIES
from notebooks.soak.verdicts import FLAT, GROWS, Verdict

_LINES_OF_A_CHART = 4
_STYLE = """body { margin: 24px auto; max-width: 1064px; padding: 0 16px; background: #ffffff; color: #1f2328;
  font: 400 14px/21px system-ui, sans-serif; }
h1 { font-size: 22px; } h2 { font-size: 16px; margin-top: 28px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: 3px 16px 3px 0; text-align: right; border-bottom: 1px solid #e2e5e9; font-weight: 400; }
td:first-child, td:nth-child(2), th:first-child, th:nth-child(2) { text-align: left; }
th { color: #57606a; } .grows, .wrong { color: #b3261e; font-weight: 600; } .quiet { color: #57606a; }"""
_RULE = (
    "The first fifth is left out. The slope is the median of those between all pairs of samples. What it "
    "adds up to is growth where it exceeds a twentieth of the median, twice the scatter about the line, and "
    "what means nothing in its unit. The cache of manifests, which a process fills as it commits, is a tenth "
    f"of the usual here ({CACHED_ENTRIES:,} entries): full within the first fifth. What grows then is no "
    "cache of manifests. Reports (2,000) and decoded rows (65,536) fill too, by some MB an hour."
)


def head_lines(title: str, outcome: Outcome) -> list[str]:
    """What was compared, and what was wrong."""
    kinds = Counter(fault.kind for fault in outcome.faults)
    done = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items())) or "none"
    lines = [title, f"faults: {done}", *outcome.notes]
    lines += [f"{'compared' if outcome.problems else 'equal'}: {line}" for line in outcome.compared]
    return lines


def as_text(title: str, outcome: Outcome, verdicts: Sequence[Verdict]) -> str:
    """The whole report, a line for each thing."""
    lines = head_lines(title, outcome)
    lines += [f"WRONG: {problem}" for problem in outcome.problems]
    lines += [str(verdict) for verdict in verdicts]
    return "\n".join(lines)


def as_page(title: str, outcome: Outcome, figures: Figures, verdicts: Sequence[Verdict]) -> str:
    """The same with charts over time; one file that refers to nothing outside."""
    head, *others = head_lines(title, outcome)
    parts = [f"<h1>{escape(head)}</h1>", *(f"<p>{escape(line)}</p>" for line in others)]
    parts += [f'<p class="wrong">{escape(problem)}</p>' for problem in outcome.problems]
    parts += ["<h2>Flat or not</h2>", f'<p class="quiet">{escape(_RULE)}</p>', _table(verdicts)]
    script = True
    for kind, (unit, _) in LEAST.items():
        for rows in _groups(figures.rows(kind)):
            chart = widgets.plot(rows, x="seconds", y=rows.column_names[1:], kind="lines")
            chart.update_layout(title={"text": f"{kind}, {unit}", "subtitle": {"text": ""}}, height=320)
            chart.update_layout(showlegend=True)
            for fault in outcome.faults:
                chart.add_vline(x=fault.at, line_width=1, line_dash="dot", line_color="#b0b7bf")
            parts.append(chart.to_html(full_html=False, include_plotlyjs=script))
            script = False
    parts += ["<h2>Faults</h2>", *(f"<div>{escape(str(fault))}</div>" for fault in outcome.faults)]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(head)}</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _groups(rows: pa.Table) -> list[pa.Table]:
    """At most four lines for each chart."""
    names = rows.column_names[1:]
    cuts = range(0, len(names), _LINES_OF_A_CHART)
    return [rows.select(["seconds", *names[cut : cut + _LINES_OF_A_CHART]]) for cut in cuts]


def _table(verdicts: Sequence[Verdict]) -> str:
    titles = ("figure", "verdict", "median", "growth", "within", "bound", "scatter", "samples")
    rows = ["".join(f"<th>{title}</th>" for title in titles)]
    for each in verdicts:
        numbers = [f"{each.samples:,}"]
        if each.word in (FLAT, GROWS):
            numbers = [
                f"{each.median:,.1f} {each.unit}",
                f"{each.growth:+,.2f}",
                f"{each.seconds:,.0f} s",
                f"{each.bound:,.2f}",
                f"{each.scatter:,.2f}",
                *numbers,
            ]
        else:
            numbers = [*[""] * 5, *numbers]
        cells = "".join(f"<td>{number}</td>" for number in numbers)
        word = f'<td class="{escape(each.word)}">{escape(each.word)}</td>'
        rows.append(f"<td>{escape(each.name)}</td>{word}{cells}")
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
