"""The trees of the game as SVG: one bucket large, several as small multiples, with what is at work in each.

Invariants: several buckets share the scale of their runs and are as high together as one, unless that is too
little for them. Pure: model → `Figure`. Called by the figure of the game.
"""

from widgets.game.model import GameModel
from widgets.game.trees import Tree
from widgets.kit import format as fmt
from widgets.kit.svg import Figure, fit, group, line, num, stack, text, text_width
from widgets.levels.figure import levels_figure
from widgets.levels.layout import lay_out

MARGIN, HEAD = 16.0, 28.0
CAPTION = 20.0
HINT = "Orders come into memory; Flush writes a run."
WIDE = 860
"""From here on two buckets stand beside each other with all their labels."""


def trees_figure(model: GameModel, width: float) -> Figure:
    """Every bucket's levels under a heading."""
    first = _bucket(model.trees[0], width, large=True, largest=_largest(model.trees[:1]))
    many = len(model.trees)
    words = f"trigger {model.trigger} · {model.strategy}"
    words += f" · {many} buckets" if many > 1 else ""
    head = line(0, 0.5, width, 0.5) + text(MARGIN, 22, fit(words, width - 2 * MARGIN), fill="ink", weight=600)
    several = _several(model, width) if many > 1 else first
    drawn = Figure(width, max(first.height, several.height), several.body)
    return stack([Figure(width, HEAD, head), drawn])


def _largest(trees: tuple[Tree, ...]) -> int:
    return max((lane.bytes for tree in trees for lane in tree.levels.lanes), default=1) or 1


def _several(model: GameModel, width: float) -> Figure:
    """The buckets in rows and columns."""
    many = len(model.trees)
    columns = {2: 2 if width >= WIDE else 1, 4: 2}.get(many, 4 if width >= 640 else 2)
    wide, large = width / columns, many == 2 and columns == 2
    largest, body, y = _largest(model.trees), "", 0.0
    for start in range(0, many, columns):
        row = [
            _bucket(tree, wide, large=large, largest=largest) for tree in model.trees[start : start + columns]
        ]
        for at, drawn in enumerate(row):
            body += group(drawn.body, transform=f"translate({num(at * wide)} {num(y)})")
        y += max(drawn.height for drawn in row) + 6
    return Figure(width, y - 6, body)


def _bucket(tree: Tree, width: float, *, large: bool, largest: int) -> Figure:
    """One bucket with its caption."""
    levels = tree.levels
    layout = None if large else lay_out(levels, width=width, thin=True)
    drawn = levels_figure(levels, width=width, layout=layout, beside=largest, hint=HINT if large else "")
    name = f"bucket {levels.bucket}"
    body = text(MARGIN, 14, name, size=11, fill="ink", weight=600)
    x = MARGIN + text_width(name, size=11, weight=600) + 8
    state = f"at work {fmt.percent(tree.running.share, 1)}" if tree.running else "due" if tree.due else ""
    words = f"{fmt.plural(levels.runs, 'run')} · {fmt.bytes_text(levels.bytes)}"
    room = width - x - MARGIN - (text_width(state, size=11) + 8 if state else 0)
    body += text(x, 14, fit(words, room, size=11), size=11)
    if state:
        body += text(width - MARGIN, 14, state, size=11, fill="compact", weight=600, text_anchor="end")
    return stack([Figure(width, CAPTION, body), drawn])
