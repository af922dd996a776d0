"""The game as SVG: four budgets, the result, the race of scores, memory and disk, the tree and what is next.

Invariants: every part keeps its place from the first tick to the last; the trees, which grow, are the last,
so that a screen shows result and scores without scrolling; a budget is a bar with a mark at what may be used,
in words, too, and with ✕ and red beyond it; the player is bold, the ghosts are thin; several buckets share
the scale of their runs. Pure: model → `Figure`. Called by the widget and by the export.
"""

from collections.abc import Sequence

from widgets.game.model import BUDGETS, GameModel, Meter, Player, Tree
from widgets.game.rules import POINTS
from widgets.kit import format as fmt
from widgets.kit.svg import Figure, fit, group, line, num, path, rect, stack, text, text_width, wrap
from widgets.kit.theme import var
from widgets.levels.figure import levels_figure
from widgets.levels.layout import lay_out

MARGIN, GAP = 16.0, 20.0
WIDE = 1.5  # budgets that a bar is long
RACE, BOARD, BOARD_ROW = 112.0, 468.0, 20.0
LOWEST = 250  # of the scale of scores


def game_figure(model: GameModel, *, width: float) -> Figure:
    """The whole game at one tick."""
    parts = [_task(model, width), _meters(model, width), _verdict(model, width)]
    if width >= 860:
        race, board = _race(model, width - BOARD), _board(model, BOARD)
        beside = race.body + group(board.body, transform=f"translate({num(width - BOARD)} 0)")
        parts.append(Figure(width, max(race.height, board.height), beside))
    else:
        parts += [_race(model, width), _board(model, width)]
    whole = stack([*parts, _gauges(model, width), trees_figure(model, width)])
    stage = model.stage
    meta: dict[str, object] = {"tick": model.tick, "ticks": stage.ticks, "over": model.over}
    label = f"Stage {stage.number}, {stage.name}: {model.verdict}"
    return Figure(width, whole.height, whole.body, label, meta)


def _task(model: GameModel, width: float) -> Figure:
    """What the stage is about."""
    rows = wrap(model.stage.says, width - 2 * MARGIN, size=13, lines=4)
    body = "".join(text(MARGIN, 20 + 18 * at, row, size=13, fill="ink") for at, row in enumerate(rows))
    return Figure(width, max(28 if width >= 700 else 46, 10 + 18 * len(rows)), body)


def _meters(model: GameModel, width: float) -> Figure:
    """The four budgets beside each other, or in two rows."""
    many = 4 if width >= 620 else 2
    wide = (width - 2 * MARGIN - (many - 1) * GAP) / many
    body = ""
    for at, meter in enumerate(model.meters):
        row, column = divmod(at, many)
        body += group(
            _meter(meter, wide),
            transform=f"translate({num(MARGIN + column * (wide + GAP))} {num(8 + 50 * row)})",
        )
    return Figure(width, 8 + 50 * (4 // many), body)


def _meter(meter: Meter, wide: float) -> str:
    over, near = meter.share > 1, meter.share > 0.8
    colour = "err" if over else "warn" if near else "ink2"
    mark = "✕ " if over else "▲ " if near else ""
    name = meter.name.capitalize()
    body = text(0, 14, name, size=13, fill="ink", weight=600)
    after = text_width(name, size=13, weight=600) + 8
    used = f"{mark}{meter.used}"
    of = f"of {meter.of}"
    room = wide - text_width(used, weight=600) - text_width(of, size=11) - 10
    if room >= after + text_width(BUDGETS[meter.name], size=11):
        body += text(after, 14, BUDGETS[meter.name], size=11)
    body += text(wide - text_width(of, size=11) - 6, 14, used, fill=colour, weight=600, text_anchor="end")
    body += text(wide, 14, of, size=11, text_anchor="end")
    limit = wide / WIDE
    body += rect(0, 22, wide, 10, rx=2, fill=var("line"))
    body += rect(0, 22, min(meter.share, WIDE) * limit, 10, rx=2, fill=var(colour))
    return body + line(limit, 18, limit, 36, stroke="ink", stroke_width=2)


def _gauges(model: GameModel, width: float) -> Figure:
    """Orders in memory, the disk, and what a step would do."""
    stage, wide = model.stage, min(180.0, (width - 2 * MARGIN - GAP) / 2)
    share = min(model.waiting / stage.buffer, 1.0)
    body = text(MARGIN, 12, fit(f"memory: {model.waiting:,} of {stage.buffer:,}", wide, size=11), size=11)
    body += rect(MARGIN, 18, wide, 10, rx=2, fill=var("line"))
    body += rect(MARGIN, 18, share * wide, 10, rx=2, fill=var("append"))
    x = MARGIN + wide + GAP
    busy = (
        f"disk: busy for {model.busy:.1f} ticks" if model.busy else f"disk: idle, {model.disk:g} MiB a tick"
    )
    body += text(x, 12, fit(busy, wide, size=11), size=11)
    body += rect(x, 18, wide, 10, rx=2, fill=var("line"))
    body += rect(x, 18, min(model.busy / 10, 1.0) * wide, 10, rx=2, fill=var("compact"))
    x += wide + GAP
    beside = width - x - MARGIN >= 200
    left, top, room = (x, 12.0, width - x - MARGIN) if beside else (MARGIN, 46.0, width - 2 * MARGIN)
    due = any(tree.due for tree in model.trees)
    words = wrap(model.next_words, room, size=11, lines=2)
    for at, row in enumerate(words):
        body += text(left, top + 15 * at, row, size=11, fill="compact" if due else "ink2")
    return Figure(width, 40.0 if beside else 70.0, body)


def _race(model: GameModel, width: float) -> Figure:
    """The score of the player and of both ghosts, tick by tick."""
    left, right, top, bottom = MARGIN + 36, width - MARGIN - 92, 30.0, RACE - 20
    most, ticks = 4 * POINTS, model.stage.ticks

    def x(tick: float) -> float:
        return left + tick / ticks * (right - left)

    def y(score: float) -> float:
        return bottom - (max(score, LOWEST) - LOWEST) / (most - LOWEST) * (bottom - top)

    body = line(0, 0.5, width, 0.5) + text(MARGIN, 20, "Score", size=13, fill="ink", weight=600)
    for score in (LOWEST, most // 2, most):
        at = round(y(score)) + 0.5
        body += line(left, at, right, at) + text(left - 8, at + 4, score, size=11, text_anchor="end")
    for tick in range(0, ticks + 1, 15):
        body += text(x(tick), bottom + 15, tick, size=11, text_anchor="middle")
    for spell in model.stage.spells:
        body += rect(x(spell.start), top, x(spell.stop) - x(spell.start), bottom - top, fill=var("sel-tint"))
        body += text(
            x(spell.start) + 4, bottom - 5, fit(spell.says, right - x(spell.start), size=11), size=11
        )
    styles = (("ink", "2.5", None), ("ink3", "1", None), ("ink3", "1", "4 3"))
    ends: list[tuple[float, Player, str]] = []
    for player, (ink, stroke, dash) in reversed(list(zip(model.players, styles, strict=True))):
        points = [(0.0, most), *((reading.tick, reading.score) for reading in player.readings)]
        steps = [
            f"{'L' if at else 'M'}{num(x(tick))} {num(y(score))}" for at, (tick, score) in enumerate(points)
        ]
        body += path(steps, fill="none", stroke=var(ink), stroke_width=stroke, stroke_dasharray=dash)
        ends.append((y(points[-1][1]), player, ink))
    body += line(x(model.tick), top, x(model.tick), bottom, stroke="ink")
    for at, player, ink in _apart(ends):
        words = f"{player.name} {player.score}"
        body += text(right + 8, at + 4, words, size=11, fill=ink, weight=600 if ink == "ink" else 400)
    return Figure(width, RACE, body)


def _apart(ends: Sequence[tuple[float, Player, str]]) -> list[tuple[float, Player, str]]:
    """Labels in their order, 13 px from each other at least."""
    placed: list[tuple[float, Player, str]] = []
    for at, player, ink in sorted(ends, key=lambda end: end[0]):
        placed.append((max(at, placed[-1][0] + 13) if placed else at, player, ink))
    return placed


def _board(model: GameModel, width: float) -> Figure:
    """A row a player: score, what is used of each budget, and how it ends."""
    step = min(70.0, (width - 200) / 4)
    columns = [MARGIN, MARGIN + 72.0, *(MARGIN + 122.0 + at * step for at in range(5))]
    body = line(0, 0.5, width, 0.5)
    for x, name in zip(columns, ("", "score", *BUDGETS), strict=False):
        body += text(x, 20, name, size=11)
    for row, player in enumerate(model.players):
        y = 20 + BOARD_ROW * (row + 1)
        bold = 600 if not row else 400
        body += text(columns[0], y, player.name, fill="ink", weight=bold)
        body += text(columns[1], y, player.score, fill="ink", weight=bold)
        for x, share in zip(columns[2:], player.shares.values(), strict=False):
            ink = "err" if share > 1 else "ink2"
            body += text(x, y, f"{'✕ ' if share > 1 else ''}{100 * share:.0f} %", fill=ink)
        words = ("lost" if player.over else "won") if model.over else ""
        body += text(columns[-1], y, words, fill="ink", weight=bold)
    return Figure(width, 30 + BOARD_ROW * len(model.players), body)


def _verdict(model: GameModel, width: float) -> Figure:
    """How it stands, with a mark at the end of the stage."""
    ink, mark = ("ok", "✓ ") if model.won else ("err", "✕ ") if model.over else ("ink", "")
    rows = wrap(mark + model.verdict, width - 2 * MARGIN, size=13, lines=2)
    body = line(0, 0.5, width, 0.5)
    for at, row in enumerate(rows):
        body += text(MARGIN, 22 + 18 * at, row, size=13, fill=ink, weight=600)
    return Figure(width, 34 if width >= 700 else 52, body)


HEAD = 28.0
CAPTION = 20.0
HINT = "Orders come into memory; Flush writes a run."
SIDE_BY_SIDE = 860
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
    columns = {2: 2 if width >= SIDE_BY_SIDE else 1, 4: 2}.get(many, 4 if width >= 640 else 2)
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
