"""The scenes of a compaction as SVG: the four captions, the sentence of the scene, the levels, and under them
what the sentence is about: rules, runs, rows, or sums.

Invariants: all scenes of a model have one height and the levels stand at one place, so nothing jumps; the
levels and the rows are those of `LsmLevels` and `MergeView`. Pure: model → `Figure`.
"""

from dataclasses import replace

import numpy as np

from widgets.kit import format as fmt
from widgets.kit.svg import Figure, code, fit, group, line, num, rect, tag, text, text_width, wrap
from widgets.kit.theme import level_fill, var
from widgets.levels.figure import levels_figure
from widgets.levels.model import CompactionPlan, LsmModel, Running
from widgets.merge.figure import merge_figure
from widgets.play.model import (
    CAPTIONS,
    MERGES,
    RESULT,
    RULE,
    TAKES,
    PlayModel,
    facts,
)

MARGIN, HEAD, ROW = 16, 34, 18
SENTENCES, RULES, RUNS = 3, 16, 9
"""The most lines of a sentence, of rules, of runs."""


def play_figure(model: PlayModel, *, at: int, width: float) -> Figure:
    """Scene `at` of a compaction."""
    if not model.scenes:
        return _nothing(model, width)
    scene = min(max(at, 0), len(model.scenes) - 1)
    caption, _ = model.scenes[scene]
    says = model.says(scene)
    top = HEAD + _lines(model, width) * ROW + 10
    levels = _levels(model, scene, width)
    below = _below(model, scene, width)
    under = top + levels.height + 14
    body = [_captions(model, caption, width), _sentence(says, width)]
    body.append(group(levels.body, transform=f"translate(0 {num(top)})"))
    body.append(line(MARGIN, under - 6, width - MARGIN, under - 6))
    body.append(group(below.body, transform=f"translate(0 {num(under)})"))
    tall = max(_below(model, other, width).height for other in _firsts(model))
    meta: dict[str, object] = {
        "scenes": [caption for caption, _ in model.scenes],
        "says": [f"{CAPTIONS[model.scenes[n][0]]}. {model.says(n)}" for n in range(len(model.scenes))],
    }
    label = f"{CAPTIONS[caption]}: {says}"
    return Figure(width, under + tall + 6, "".join(body), label, meta)


def _lines(model: PlayModel, width: float) -> int:
    """The lines of the longest sentence."""
    says = (model.says(n) for n in range(len(model.scenes)))
    return max(len(wrap(words, width - 2 * MARGIN, size=13, lines=SENTENCES)) for words in says)


def _firsts(model: PlayModel) -> list[int]:
    """A scene of each caption: those of one caption are equally high."""
    return [n for n, (caption, at) in enumerate(model.scenes) if at == 0 or caption != MERGES]


def _nothing(model: PlayModel, width: float) -> Figure:
    words = "No compaction yet."
    body = text(MARGIN, 40, words, fill="ink", weight=600)
    body += text(MARGIN, 58, "Step, or let the table compact; then it plays here.")
    return Figure(width, 80, body, words, {"scenes": [], "says": []})


def _captions(model: PlayModel, current: int, width: float) -> str:
    """The four captions as one line of chips; the current one is ink."""
    shown = sorted({caption for caption, _ in model.scenes})
    room, parts, x = (width - 2 * MARGIN) / len(shown), [], float(MARGIN)
    for n, caption in enumerate(shown, start=1):
        on = caption == current
        label = fit(CAPTIONS[caption], room - 40, size=12, weight=600)
        parts.append(rect(x, 26, room - 8, 2, fill=var("ink" if on else "line2")))
        number = text(x, 18, n, size=12, fill="ink" if on else "ink3", weight=600)
        words = text(x + 16, 18, label, size=12, fill="ink" if on else "ink2", weight=600 if on else 400)
        target = rect(x, 0, room - 8, 30, fill="transparent")
        parts.append(tag("g", target, number, words, class_="caption", data_caption=caption))
        x += room
    return "".join(parts)


def _sentence(says: str, width: float) -> str:
    rows = wrap(says, width - 2 * MARGIN, size=13, lines=SENTENCES)
    return "".join(text(MARGIN, HEAD + 14 + n * ROW, row, size=13, fill="ink") for n, row in enumerate(rows))


def levels_of(model: PlayModel, scene: int) -> LsmModel | None:
    """The levels of a scene: plain, ringed, with a frontier, or as they are afterwards."""
    caption, at = model.scenes[scene]
    before = model.before
    if caption == RESULT or before is None:
        return model.after
    if caption == RULE:
        return _unplanned(before)
    if caption == TAKES:
        return before
    share, expected = model.stops[at], int(model.record["bytes_written"])
    running = Running(share, _written(model, share), expected)
    return replace(before, plan=replace(before.plan, running=running))


def _unplanned(model: LsmModel) -> LsmModel:
    """The levels without any ring."""
    columns = replace(model.columns, planned=np.zeros_like(model.columns.planned))
    lanes = tuple(replace(lane, columns=columns) for lane in model.lanes)
    return replace(model, plan=CompactionPlan(), columns=columns, lanes=lanes)


def _written(model: PlayModel, share: float) -> int:
    """About how much of the output lies left of the frontier: its files by their key ranges."""
    before, after = model.before, model.after
    if before is None or after is None or not before.columns.planned.any():
        return 0
    taken, files = before.columns, after.columns
    low, high = taken.lo[taken.planned].min(), taken.hi[taken.planned].max()
    x = low + share * (high - low)
    fresh = (files.level == int(model.record["output_level"])) & (files.lo >= low) & (files.hi <= high)
    wide = (files.hi - files.lo)[fresh].clip(1e-9)
    part = ((x - files.lo[fresh]) / wide).clip(0, 1)
    return min(int((files.bytes[fresh] * part).sum()), int(model.record["bytes_written"]))


def _levels(model: PlayModel, scene: int, width: float) -> Figure:
    levels = levels_of(model, scene)
    assert levels is not None, "a compaction has levels around it"
    return levels_figure(levels, width=width)


def _below(model: PlayModel, scene: int, width: float) -> Figure:
    caption, at = model.scenes[scene]
    if caption == RULE:
        return _rules(model, width)
    if caption == TAKES:
        return _runs(model, width)
    if caption == MERGES:
        return _rows(model, at, width)
    return _sums(model, width)


def _rules(model: PlayModel, width: float) -> Figure:
    """The engine's own words, the rule that fired tinted."""
    lines = model.explanation[1:] or model.explanation
    shown = lines if len(lines) <= RULES else (*lines[: RULES - 1], f"… {len(lines) - RULES + 1} more")
    parts, y = [], 0.0
    for words in shown:
        fired = words.strip().startswith("✓")
        if fired:
            parts.append(rect(MARGIN - 6, y, width - 2 * MARGIN + 12, ROW, rx=4, fill=var("compact-tint")))
        indent = len(words) - len(words.lstrip())
        x = MARGIN + 7 * max(indent - 2, 0)
        label = fit(words.strip(), width - MARGIN - x, size=11, monospace=True)
        parts.append(code(x, y + 13, label, fill="compact" if fired else "ink2"))
        y += ROW
    return Figure(width, y, "".join(parts))


def _runs(model: PlayModel, width: float) -> Figure:
    """The runs it takes, a line each, newest first."""
    levels = model.before.num_levels if model.before is not None else 6
    parts, y = [], 0.0
    for n, run in enumerate(model.taken):
        if n == RUNS and len(model.taken) > RUNS + 1:
            parts.append(text(MARGIN + 24, y + 13, f"… {len(model.taken) - RUNS} more", size=12))
            y += ROW
            break
        parts.append(
            rect(MARGIN, y + 2, 16, 12, rx=2, fill=level_fill(run.level, levels), stroke=var("edge"))
        )
        parts.append(text(MARGIN + 24, y + 13, fit(run.name, 120), fill="ink", weight=600))
        rest = f"{fmt.bytes_text(run.bytes)} · {run.rows:,} rows · {fmt.plural(run.files, 'file')}"
        parts.append(text(MARGIN + 152, y + 13, rest))
        y += ROW
    return Figure(width, y, "".join(parts))


def _rows(model: PlayModel, at: int, width: float) -> Figure:
    """Real rows merging: those left of the frontier are done."""
    if model.rows is None:
        return Figure(width, ROW, text(MARGIN, 13, fit(f"No rows to show: {model.no_rows}.", width - 32)))
    return merge_figure(model.rows, cursor=at, mode="keys", columns=(), width=width)


def _sums(model: PlayModel, width: float) -> Figure:
    """What is different, before and after."""
    parts, y = [], 0.0
    middle, right = min(MARGIN + 240.0, width * 0.45), min(MARGIN + 400.0, width * 0.7)
    for what, old, new in facts(model):
        arrow = (
            text(middle + text_width(old) + 10, y + 13, "→", fill="ink3") if what != "read, written" else ""
        )
        parts += [text(MARGIN, y + 13, fit(what, middle - MARGIN - 8)), text(middle, y + 13, old), arrow]
        parts.append(text(right, y + 13, fit(new, width - right - MARGIN), fill="ink", weight=600))
        y += ROW + 2
    return Figure(width, y, "".join(parts))
