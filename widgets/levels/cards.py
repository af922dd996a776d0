"""What hover and selection show of a file, and of the bucket where none is selected: every fact as text,
formatted here so that the page need not.

Pure. Called by the levels widget.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from widgets.kit import format as fmt
from widgets.levels.model import FileBox, LsmModel

Card = dict[str, str | int | float | bool]


def cards(model: LsmModel, files: Sequence[tuple[int, FileBox]]) -> list[Card]:
    """The facts of each file that is drawn as a box, with the position of its lane."""
    return [_card(model, at, file) for at, file in files]


def bucket_facts(model: LsmModel) -> dict[str, object]:
    """What is said of the whole bucket as long as no file is selected; empty if it has none."""
    columns = model.columns
    if not model.count:
        return {}
    deletes, masked = int(columns.deletes.sum()), int(columns.masked[columns.masked > 0].sum())
    low, high = columns.table["min_key"], columns.table["max_key"]
    ends = low[int(np.argmin(columns.lo))].as_py(), high[int(np.argmax(columns.hi))].as_py()
    first, last = (pc.min_max(columns.table[name]).as_py() for name in ("min_sequence", "max_sequence"))
    facts = [["runs", fmt.count(model.runs)]] if model.keyed else []
    facts += [["files", fmt.count(model.count)], ["size", fmt.bytes_text(model.bytes)]]
    facts += [["rows", fmt.count(model.rows)]]
    facts += [["keys", fmt.key_range(*ends)]] if model.keyed else []
    facts += [["deletes", f"{fmt.count(deletes)} ({fmt.percent(deletes, model.rows)})" if deletes else "0"]]
    facts += [
        ["masked", f"{fmt.count(masked)} rows ({fmt.percent(masked, model.rows)})" if masked else fmt.ABSENT]
    ]
    facts += [["sequence", f"{first['min'] or 0:,} … {last['max'] or 0:,}"]]
    return {"name": model.place, "facts": facts}


def _card(model: LsmModel, at: int, file: FileBox) -> Card:
    lane = model.lanes[at]
    card: Card = {
        "name": file.name,
        "short": fmt.file_name(file.name),
        "level": file.level,
        "lane": at,
        "run": lane.note if lane.level == 0 else f"L{lane.level}",
        "bytes": fmt.bytes_text(file.bytes),
        "rows": f"{file.rows:,}",
        "keys": fmt.ABSENT if file.min_key is None else fmt.key_range(file.min_key, file.max_key),
        "from": " ".join(part for part in (file.origin, file.source) if part),
        "sequence": f"{file.min_sequence:,} … {file.max_sequence:,}",
        "deletes": f"{file.deletes:,} ({fmt.percent(file.deletes, file.rows)})" if file.deletes else "0",
        "masked": _masked(file),
        "lo": round(file.lo, 6),
        "hi": round(file.hi, 6),
    }
    return card | ({"next": "input of the next compaction"} if file.name in model.plan.inputs else {})


def _masked(file: FileBox) -> str:
    if file.masked is None:
        return fmt.ABSENT
    return f"{file.masked:,} rows ({fmt.percent(file.masked, file.rows)})"
