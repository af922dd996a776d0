"""Four changelog producers over one input as SVG: what each writes of a key, what it costs, and whether a sum
that a consumer keeps of it is right.

Invariants: the columns have one height, whatever each writes; the sum's verdict is written and signed. Pure:
model → `Figure`. Called by the widget and by the static export.
"""

from widgets.changelog.figure import MARGIN, chip
from widgets.changelog.model import SUMS, Producer, ProducersModel
from widgets.kit import format as fmt
from widgets.kit.svg import Figure, fit, line, text, wrap

GAP, CHIPS, PITCH = 24, 6, 26
HEAD, COST = 46, 104


def producers_figure(model: ProducersModel, *, key: str, column: str, width: float) -> Figure:
    """All producers: four columns, or two rows of two where there is no room."""
    across = 4 if width >= 860 else 2
    wide = (width - 2 * MARGIN - (across - 1) * GAP) / across
    longest = max((len(producer.of_key(key)) for producer in model.producers), default=0)
    rows = max(-(-min(max(longest, 1), CHIPS) // _per_row(wide)), 1)
    tall = HEAD + 12 + rows * PITCH + COST
    parts = []
    for at, producer in enumerate(model.producers):
        x = MARGIN + (at % across) * (wide + GAP)
        y = (at // across) * tall + 4
        parts.append(_producer(producer, key, column, x, y, wide, y + HEAD + 12 + rows * PITCH))
    down = -(-len(model.producers) // across)
    caption = "; ".join(f"{p.name} {_verdict(p)}" for p in model.producers)
    label = f"Key {key} through the changelog producers: {caption}"
    meta: dict[str, object] = {"keys": list(model.keys[:60]), "key": key, "says": label}
    return Figure(width, down * tall + 4, "".join(parts), label, meta)


def _per_row(wide: float) -> int:
    return 2 if wide >= 220 else 1


def _producer(
    producer: Producer, key: str, column: str, x: float, y: float, wide: float, under: float
) -> str:
    """Name, what it does, the changes of the key; under them what they cost and what they are good for."""
    parts = [text(x, y + 16, producer.name, size=13, fill="ink", weight=600)]
    parts.append(text(x, y + 33, fit(producer.says, wide, size=11), size=11))
    parts.append(line(x, y + HEAD - 4, x + wide, y + HEAD - 4, stroke="line2"))
    if producer.error:
        rows = wrap(producer.error, wide, size=11, lines=5)
        parts.append(text(x, y + HEAD + 20, "✕ refused", fill="err", weight=600))
        parts += [text(x, y + HEAD + 38 + 15 * n, row, size=11) for n, row in enumerate(rows)]
        return "".join(parts)
    changes = producer.of_key(key)
    per_row = _per_row(wide)
    each = (wide - (per_row - 1) * 8) / per_row
    for n, change in enumerate(changes[:CHIPS]):
        left = x + (n % per_row) * (each + 8)
        top = y + HEAD + 8 + (n // per_row) * PITCH
        parts.append(chip(change, column, left, top, each, note=fmt.snapshot_id(change.snapshot)))
    if not changes:
        parts.append(text(x, y + HEAD + 23, "no change of this key yet", fill="ink3"))
    parts += _cost(producer, x, under, wide, more=len(changes) - CHIPS)
    return "".join(parts)


def _cost(producer: Producer, x: float, y: float, wide: float, *, more: int) -> list[str]:
    """Rows, files and bytes in all; when the first came; the consumer's sum."""
    rows = fmt.plural(producer.rows, "row")
    if producer.files:
        cost = f"{rows} · {fmt.plural(producer.files, 'file')} · {fmt.bytes_text(producer.bytes)}"
    else:
        cost = f"{rows} · no changelog files"
    if producer.first is None:
        when = f"no changes in {fmt.plural(producer.snapshots, 'snapshot')}"
    else:
        when = f"changes at #{producer.first} … #{producer.last} of {producer.snapshots}"
        when = (
            f"changes at #{producer.first} of {producer.snapshots}"
            if producer.first == producer.last
            else when
        )
    extra = f" · {more} more of this key" if more > 0 else ""
    parts = [text(x, y + 20, fit(cost, wide)), text(x, y + 37, fit(when + extra, wide))]
    total = producer.total
    if total is None:
        return parts
    hue, sign = {"right": "ok", "late": "warn"}.get(total.state, "err"), SUMS[total.state]
    caption = fit(f"{sign} sum of {total.column} = {total.kept}", wide, weight=600)
    parts.append(text(x, y + 59, caption, fill=hue, weight=600))
    why = wrap(total.why, wide, size=11, lines=2)
    return parts + [text(x, y + 75 + 14 * n, row, size=11) for n, row in enumerate(why)]


def _verdict(producer: Producer) -> str:
    if producer.error:
        return "refused"
    if producer.total is None:
        return fmt.plural(producer.rows, "row")
    return f"sum {producer.total.state}"
