"""Changes as SVG: a row a key and a column a snapshot; chips say kind and value, pairs stand −U over +U.

Invariants: the sign is always written; what a row was before is dashed, what it is after is filled; rows and
columns have one size, so nothing moves from snapshot to snapshot; COMPACT without changes of its own is
hatched. Pure: model → `Figure`. Called by the widget and by the static export.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from widgets.changelog.model import ChangeCommit, ChangelogModel, KeyChange, KeyRow
from widgets.kit import format as fmt
from widgets.kit.svg import Figure, code, fit, group, hatch, legend, line, num, rect, tag, text, text_width
from widgets.kit.theme import var

MARGIN, GUTTER = 16, 84
COLUMN, CHIP, TALL = 128, 112, 22
HEAD, PAIR, LEGEND = 36, 54, 30
KEY_ROWS, PER_CELL = 8, 2
FILLED = {"+I": "ins", "+U": "append"}
DASHED = {"−U": "append", "−D": "dele"}
GLYPHS = {"APPEND": "append", "COMPACT": "compact", "OVERWRITE": "overwrite", "ANALYZE": "analyze"}


@dataclass(frozen=True, slots=True)
class ChangeWindow:
    """Which commits and keys are drawn."""

    first: int
    commits: tuple[ChangeCommit, ...]
    keys: tuple[KeyRow, ...]
    key_from: int
    matching: int


def window_of(
    model: ChangelogModel,
    *,
    snapshot: int | None,
    text_wanted: str,
    kinds: Sequence[str],
    page: int,
    width: float,
) -> ChangeWindow:
    """The commits around `snapshot` and the page of keys: pages of commits do not slide while one steps."""
    room = max(int((width - 2 * MARGIN - GUTTER) // COLUMN), 1)
    count = len(model.commits)
    at = model.position(snapshot)
    first = max(min(at - at % room if count > room else 0, count - room), 0)
    matching = model.matching(text_wanted, kinds)
    start = min(max(page, 0) * KEY_ROWS, max((len(matching) - 1) // KEY_ROWS * KEY_ROWS, 0))
    return ChangeWindow(
        first, model.commits[first : first + room], matching[start : start + KEY_ROWS], start, len(matching)
    )


def changelog_figure(
    model: ChangelogModel, window: ChangeWindow, *, snapshot: int | None, column: str, width: float
) -> Figure:
    """The changes of the window; the commit of `snapshot` has a ring."""
    if not model.commits:
        return _empty(width)
    rows = min(max(len(model.keys), 1), KEY_ROWS)
    step = min((width - 2 * MARGIN - GUTTER) / max(len(window.commits), 1), COLUMN + 24)
    bottom = HEAD + rows * PAIR
    body = [hatch(), text(MARGIN, 23, fit(", ".join(model.key_names), GUTTER - 6))]
    for at, commit in enumerate(window.commits):
        x = MARGIN + GUTTER + at * step
        body.append(_commit(commit, x, step, bottom, now=commit.id == snapshot))
    end = MARGIN + GUTTER + len(window.commits) * step
    for row in range(rows):
        y = HEAD + row * PAIR
        body.append(line(MARGIN, y, end, y))
        if row < len(window.keys):
            key = window.keys[row]
            body.append(group(_key_row(key, window.commits, y, step, column), class_="row", data_key=key.key))
    body.append(line(MARGIN, bottom, end, bottom))
    if not window.keys:
        label = "No key has such a change." if model.changes else "These snapshots changed no row."
        body.append(text(MARGIN + GUTTER, HEAD + 24, label, fill="ink", weight=600))
    ring = next((i for i, c in enumerate(window.commits) if c.id == snapshot), None)
    if ring is not None:
        x = MARGIN + GUTTER + ring * step - 6
        frame = {"fill": "none", "stroke": var("ink"), "stroke_width": "2", "rx": 5, "class_": "ring"}
        body.append(rect(x, 3, step - 4, bottom - 1, **frame))
    body.append(group(_legend(width, snapshot), transform=f"translate(0 {num(bottom + 4)})"))
    meta: dict[str, object] = {
        "ids": [commit.id for commit in model.commits],
        "cards": cards(window),
        "says": _says(model, snapshot),
    }
    return Figure(width, bottom + LEGEND, "".join(body), _label(model), meta)


def _label(model: ChangelogModel) -> str:
    count = fmt.plural(model.changes, "change")
    return f"Changelog, producer {model.producer}: {count} of {fmt.plural(model.all_keys, 'key')}"


def _says(model: ChangelogModel, snapshot: int | None) -> str:
    commit = next((c for c in model.commits if c.id == snapshot), None)
    return "" if commit is None else f"#{commit.id} {commit.kind}: {fmt.plural(commit.changes, 'change')}"


def _empty(width: float) -> Figure:
    body = text(MARGIN, 40, "No snapshots here.", fill="ink", weight=600)
    body += text(MARGIN, 58, "The first commit appears here after refresh().")
    return Figure(width, 96, body, "Changelog: no snapshots", {"ids": [], "cards": {}, "says": ""})


def glyph(kind: str, x: float, y: float) -> str:
    """The sign of a commit kind: ● ◆ ■ ○, as in the timeline."""
    fill = var(GLYPHS.get(kind, "append"))
    if kind == "COMPACT":
        points = f"{num(x)},{num(y - 6)} {num(x + 6)},{num(y)} {num(x)},{num(y + 6)} {num(x - 6)},{num(y)}"
        return tag("polygon", points=points, fill=fill)
    if kind == "OVERWRITE":
        return rect(x - 4.5, y - 4.5, 9, 9, fill=fill)
    if kind == "ANALYZE":
        return tag("circle", cx=x, cy=y, r=4.0, fill=var("bg"), stroke=fill, stroke_width="1.75")
    return tag("circle", cx=x, cy=y, r=5.0, fill=fill)


def _commit(commit: ChangeCommit, x: float, step: float, bottom: float, *, now: bool) -> str:
    """The head of a column, and a hatch where a compaction wrote no changes."""
    parts = [glyph(commit.kind, x + 8, 19)]
    weight, fill = (600, "ink") if now else (400, "ink2")
    parts.append(text(x + 20, 23, fmt.snapshot_id(commit.id), size=13, fill=fill, weight=weight))
    if commit.kind == "COMPACT" and not commit.changes:
        parts.append(rect(x, HEAD + 1, step - 16, bottom - HEAD - 2, fill="url(#lw-ghost)"))
    spoken = f"{commit.kind} {commit.id}, {fmt.plural(commit.changes, 'change')}"
    hit = rect(x - 6, 3, step - 4, HEAD - 5, fill="transparent")
    return "".join(parts) + group(
        hit, class_="commit", data_snapshot=str(commit.id), role="columnheader", aria_label=spoken
    )


def _key_row(row: KeyRow, commits: Sequence[ChangeCommit], y: float, step: float, column: str) -> str:
    key = fit(fmt.key(row.key), GUTTER - 8, size=13, weight=600)
    parts = [text(MARGIN, y + 19, key, size=13, fill="ink", weight=600)]
    for at, commit in enumerate(commits):
        changes = row.cells.get(commit.id, ())
        if not changes:
            continue
        x = MARGIN + GUTTER + at * step
        wide = min(step - 16, COLUMN)
        inner = [chip(change, column, x, y + 4 + 24 * n, wide) for n, change in enumerate(changes[:PER_CELL])]
        if len(changes) > PER_CELL:
            inner.append(_more(len(changes) - PER_CELL, x + wide, y + 50))
        spoken = ", ".join(f"{c.kind} {c.values.get(column) or 'null'}" for c in changes)
        parts.append(
            group(
                *inner,
                class_="cell",
                data_cell=f"{row.key}|{commit.id}",
                data_snapshot=str(commit.id),
                role="gridcell",
                aria_label=f"key {row.key}, snapshot {commit.id}: {spoken}",
            )
        )
    return "".join(parts)


def _more(count: int, right: float, y: float) -> str:
    label = f"+{count} more"
    wide = text_width(label, size=11) + 8
    patch = rect(right - wide, y - 12, wide, 15, rx=4, fill=var("bg"))
    return patch + text(right - 4, y, label, size=11, text_anchor="end")


def chip(change: KeyChange, column: str, x: float, y: float, wide: float, *, note: str = "") -> str:
    """A change: its sign in the code font, the value; dashed and, for −D, struck if it is what was."""
    value = change.values.get(column, "") if column else ""
    label = "null" if value is None else value
    noted = text_width(note, size=11, monospace=True) + 6 if note else 0
    shown = fit(label, wide - 38 - noted)
    if change.kind in FILLED:
        body = rect(x, y, wide, TALL, rx=4, fill=var(FILLED[change.kind]), class_="box")
        ink, sign = "bg", "bg"
    else:
        hue = var(DASHED[change.kind])
        ring = {"stroke": hue, "stroke_dasharray": "4 3", "stroke_width": "1.75", "class_": "box"}
        body = rect(x + 1, y + 1, wide - 2, TALL - 2, rx=4, fill=var("bg"), **ring)
        ink, sign = "ink", DASHED[change.kind]
    body += code(x + 8, y + 15, change.kind, size=12, fill=sign, font_weight=600)
    struck = "line-through" if change.kind == "−D" else None
    body += text(x + 32, y + 15, shown, fill=ink, text_decoration=struck)
    body += code(x + wide - 7, y + 15, note, fill=ink, text_anchor="end") if note else ""
    return group(body, class_="chip", data_kind=change.kind)


def _legend(width: float, snapshot: int | None) -> str:
    ring = {"fill": "none", "stroke": var("append"), "stroke_dasharray": "4 3", "stroke_width": "1.75"}
    ink = {"fill": "none", "stroke": var("ink"), "stroke_width": "2"}
    entries = [
        (rect(0, 3, 24, 14, rx=4, fill=var("append")), "row after the change"),
        (rect(1, 4, 22, 12, rx=4, **ring), "row before it, or gone"),
        (rect(0, 3, 24, 14, rx=4, fill="url(#lw-ghost)", stroke=var("line")), "COMPACT without a change"),
    ]
    if snapshot is not None:
        entries.append((rect(1, 3, 22, 14, rx=4, **ink), f"selected {fmt.snapshot_id(snapshot)}"))
    marks = [(26.0, swatch, label) for swatch, label in entries]
    return legend(marks, (MARGIN, 18), width - MARGIN, top=14, gap=20)[0]


def cards(window: ChangeWindow) -> dict[str, list[list[str]]]:
    """All changes of a key in a snapshot with all their columns, for the hover card."""
    shown = {commit.id for commit in window.commits}
    by_row: dict[str, list[list[str]]] = {}
    for row in window.keys:
        for snapshot, changes in row.cells.items():
            if snapshot not in shown:
                continue
            rows = [[f"key {fmt.key(row.key)}", fmt.snapshot_id(snapshot)]]
            for change in changes[:4]:
                values = [f"{n} {'null' if v is None else v}" for n, v in list(change.values.items())[:6]]
                rows.append([change.kind, ", ".join(values)])
            if len(changes) > 4:
                rows.append(["", f"and {len(changes) - 4} more"])
            by_row[f"{row.key}|{snapshot}"] = rows
    return by_row
