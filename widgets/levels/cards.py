"""What hover and selection show of a file: every fact as text, formatted here so that the page need not.

Pure. Called by the levels widget.
"""

from collections.abc import Sequence

from widgets.kit import format as fmt
from widgets.levels.model import FileBox, LsmModel

Card = dict[str, str | int | float | bool]


def cards(model: LsmModel, files: Sequence[tuple[int, FileBox]]) -> list[Card]:
    """The facts of each file that is drawn as a box, with the position of its lane."""
    return [_card(model, at, file) for at, file in files]


def _card(model: LsmModel, at: int, file: FileBox) -> Card:
    lane = model.lanes[at]
    found: Card = {
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
    return found | ({"next": "input of the next compaction"} if file.name in model.plan.inputs else {})


def _masked(file: FileBox) -> str:
    if file.masked is None:
        return fmt.ABSENT
    return f"{file.masked:,} rows ({fmt.percent(file.masked, file.rows)})"
