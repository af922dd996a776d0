"""What the hover card and a screen reader say of the boxes of a merge. Pure. Called by the figure."""

from widgets.kit import format as fmt
from widgets.merge.model import Input, MergeModel, Step


def spoken_input(model: MergeModel, step: Step, entry: Input, column: str, *, done: bool) -> str:
    """A row of a run; with `done` also what became of it."""
    run = next((r.name for r in model.runs if r.number == entry.run), "")
    value = entry.values.get(column) if column else "row"
    part = f", {entry.parts.get(column, entry.part)}" if done else ""
    kind = f"{entry.kind}, " if entry.kind != "+I" else ""
    return f"key {step.key}, {run}, {kind}{column} {value or 'null'}, sequence {entry.sequence}{part}"


def spoken_output(step: Step, column: str) -> str:
    """What the key became."""
    return step.fate if not step.there else step.values.get(column) or "null"


def cards(model: MergeModel, *, cursor: int, columns: tuple[str, ...]) -> dict[str, list[list[str]]]:
    """What the hover card says: of each input by `step|run`, of each output by `step|out`, of columns of the
    current key by `step|…|column`."""
    found: dict[str, list[list[str]]] = {}
    for at, step in enumerate(model.steps):
        for run, entry in step.inputs.items():
            name = next((r.name for r in model.runs if r.number == run), "")
            rows = [
                [f"key {fmt.key(step.key)}", name],
                ["kind", entry.kind],
                ["sequence", str(entry.sequence)],
            ]
            rows += [[c, "null" if v is None else v] for c, v in list(entry.values.items())[:8]]
            found[f"{at}|{run}"] = rows + ([["became", entry.part]] if at <= cursor else [])
        if at <= cursor:
            rows = [[f"key {fmt.key(step.key)}", step.fate]]
            rows += [[c, "null" if v is None else v] for c, v in list(step.values.items())[:8] if step.there]
            found[f"{at}|out"] = rows
    return found


def column_cards(model: MergeModel, *, cursor: int, columns: tuple[str, ...]) -> dict[str, list[list[str]]]:
    """The same for the columns of the current key: value, what it was to the result, and why."""
    at = max(cursor, 0)
    step, found = model.steps[at], {}
    for column in columns:
        for run, entry in step.inputs.items():
            name = next((r.name for r in model.runs if r.number == run), "")
            rows = [[column, name], ["value", entry.values.get(column) or "null"]]
            rows += [["became", entry.parts.get(column, entry.part)]] if cursor >= 0 else []
            found[f"{at}|{run}|{column}"] = rows
        origin = step.origins.get(column)
        if cursor >= 0 and origin is not None:
            found[f"{at}|out|{column}"] = [[column, step.values.get(column) or "null"], ["why", origin.why]]
    return found
