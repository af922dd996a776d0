"""The boxes of a merge: one value, an output that is gone, what the outlines mean, the words of its cards.

A value counts: filled by its level. It lost: dashed and struck. NULL: faint. Taken back: dashed red. Pure.
Called by the figure.
"""

from widgets.kit import format as fmt
from widgets.kit.svg import LegendEntry, code, fit, group, legend, path, rect, text, text_width
from widgets.kit.theme import level_fill, level_text, var
from widgets.merge.model import KeyStep, MergeModel, RunInput

MARGIN, BOX = 16, 24
STRUCK = ("superseded", "ignored")


def box(
    x: float,
    y: float,
    wide: float,
    value: str | None,
    part: str,
    *,
    level: int,
    levels: int,
    number: str = "",
    bold: bool = False,
) -> str:
    """One value: filled by its level if it counts, dashed and struck if not, faint if it is NULL."""
    if value is None:
        frame = rect(x + 0.5, y + 0.5, wide - 1, BOX - 1, rx=3, fill=var("bg"), stroke=var("line"))
        return frame + text(x + 9, y + 16, "null", fill="ink3")
    struck = part in STRUCK
    mark = {"added": "Σ", "taken back": "−Σ", "included": "incl."}.get(part, number)
    mark_wide = text_width(mark, size=11, monospace=True) + 8 if mark else 0
    if mark and part not in ("added", "taken back") and wide - mark_wide < 44:
        mark, mark_wide = "", 0
    shown = fit(value, wide - 16 - mark_wide, weight=600 if bold else 400)
    ink = "ink3" if struck or part == "included" else level_text(level, levels)
    if struck or part == "included":
        ring = {"stroke": var("line2"), "stroke_dasharray": "3 2"}
        body = rect(x + 0.5, y + 0.5, wide - 1, BOX - 1, rx=3, fill=var("bg"), **ring)
    elif part == "taken back":
        ring = {"stroke": var("dele"), "stroke_dasharray": "4 3", "stroke_width": "1.5"}
        body = rect(x + 0.5, y + 0.5, wide - 1, BOX - 1, rx=3, fill=var("bg"), **ring)
        ink = "dele"
    else:
        fill = level_fill(level, levels)
        body = rect(x + 0.5, y + 0.5, wide - 1, BOX - 1, rx=3, fill=fill, stroke=var("edge"), class_="box")
    phrase = text(
        x + 9, y + 16, shown, fill="", weight=600 if bold else 400,
        text_decoration="line-through" if struck else None,
    )  # fmt: skip
    phrase += code(x + wide - 7, y + 16, mark, fill="", text_anchor="end") if mark else ""
    return body + group(phrase, fill=var(ink) if "(" not in ink else ink)


def gone_box(x: float, y: float, wide: float, fate: str) -> str:
    """`dropped` or `refused`, in a dashed frame; a shorter word where there is no room."""
    if text_width(fate, weight=600) > wide - 8:
        fate = {"dropped": "gone", "refused": "✕"}.get(fate, fate)
    hue = "err" if fate in ("refused", "✕") else "dele"
    ring = {"stroke": var(hue), "stroke_dasharray": "4 3", "stroke_width": "1.75"}
    body = rect(x + 1, y + 1, wide - 2, BOX - 2, rx=3, fill=var("bg"), **ring)
    return body + text(
        x + wide / 2, y + 16, fit(fate, wide - 8, weight=600), fill=hue, weight=600, text_anchor="middle"
    )


def outlines(model: MergeModel, width: float, *, columns: bool, numbered: bool) -> str:
    """What the outlines mean."""
    words = [("kept", "kept"), ("superseded", "superseded")]
    if model.computes or columns:
        words += [("null", "null")]
    if model.computes:
        words += [("added", "Σ counts in the result"), ("taken back", "taken back")]
    entries: list[LegendEntry] = [(28.0, _swatch(part), phrase) for part, phrase in words]
    if not columns:
        ring = {"fill": "none", "stroke": var("ink"), "stroke_width": "2"}
        entries.append((28.0, rect(1, 3, 24, 14, rx=4, **ring), "current key"))
    note = "right: the run it is from" if columns else "small number: sequence" if numbered else ""
    return legend([*entries, (-6.0, "", note)], (MARGIN, 13), width - MARGIN, top=13, gap=16)[0]


def _swatch(part: str) -> str:
    if part == "kept":
        return rect(0.5, 3.5, 25, 13, rx=3, fill=level_fill(3, 6), stroke=var("edge"))
    if part == "added":
        box = rect(0.5, 3.5, 25, 13, rx=3, fill=level_fill(0, 6), stroke=var("edge"))
        return box + code(13, 14, "Σ", fill="ink", text_anchor="middle")
    if part == "null":
        return rect(0.5, 3.5, 25, 13, rx=3, fill=var("bg"), stroke=var("line"))
    hue, dash = ("dele", "4 3") if part == "taken back" else ("line2", "3 2")
    box = rect(0.5, 3.5, 25, 13, rx=3, fill=var("bg"), stroke=var(hue), stroke_dasharray=dash)
    strike = path(["M5 10h16"], stroke=var("ink3"), fill="none")
    return box + (strike if part == "superseded" else "")


def spoken_input(model: MergeModel, step: KeyStep, entry: RunInput, column: str, *, done: bool) -> str:
    """A row of a run; with `done` also what became of it."""
    run = next((r.name for r in model.runs if r.number == entry.run), "")
    value = entry.values.get(column) if column else "row"
    part = f", {entry.parts.get(column, entry.part)}" if done else ""
    kind = f"{entry.kind}, " if entry.kind != "+I" else ""
    return f"key {step.key}, {run}, {kind}{column} {value or 'null'}, sequence {entry.sequence}{part}"


def spoken_output(step: KeyStep, column: str) -> str:
    """What the key became."""
    return step.fate if not step.there else step.values.get(column) or "null"


def cards(model: MergeModel, *, cursor: int, columns: tuple[str, ...]) -> dict[str, list[list[str]]]:
    """What the hover card says: of each input by `step|run`, of each output by `step|out`, of columns of the
    current key by `step|…|column`."""
    rows_of: dict[str, list[list[str]]] = {}
    for at, step in enumerate(model.steps):
        for run, entry in step.inputs.items():
            name = next((r.name for r in model.runs if r.number == run), "")
            rows = [
                [f"key {fmt.key(step.key)}", name],
                ["kind", entry.kind],
                ["sequence", str(entry.sequence)],
            ]
            rows += [[c, "null" if v is None else v] for c, v in list(entry.values.items())[:8]]
            rows_of[f"{at}|{run}"] = rows + ([["became", entry.part]] if at <= cursor else [])
        if at <= cursor:
            rows = [[f"key {fmt.key(step.key)}", step.fate]]
            rows += [[c, "null" if v is None else v] for c, v in list(step.values.items())[:8] if step.there]
            rows_of[f"{at}|out"] = rows
    return rows_of


def column_cards(model: MergeModel, *, cursor: int, columns: tuple[str, ...]) -> dict[str, list[list[str]]]:
    """The same for the columns of the current key: value, what it was to the result, and why."""
    at = max(cursor, 0)
    step, rows_of = model.steps[at], {}
    for column in columns:
        for run, entry in step.inputs.items():
            name = next((r.name for r in model.runs if r.number == run), "")
            rows = [[column, name], ["value", entry.values.get(column) or "null"]]
            rows += [["became", entry.parts.get(column, entry.part)]] if cursor >= 0 else []
            rows_of[f"{at}|{run}|{column}"] = rows
        origin = step.origins.get(column)
        if cursor >= 0 and origin is not None:
            rows_of[f"{at}|out|{column}"] = [[column, step.values.get(column) or "null"], ["why", origin.why]]
    return rows_of
