"""The rules of the panel as SVG: each with its state and the engine's own sum, in the order it tried them.

Invariants: rules never reorder; the one that fires is tinted; a rule that goes from run to run shows each
comparison with its verdict. Pure. Part of the panel's figure.
"""

import re

from widgets.controls.model import STATES, BucketPick, SettingsTrial
from widgets.kit import format as fmt
from widgets.kit.svg import code, fit, group, num, rect, text, text_width, wrap
from widgets.kit.theme import var

MAX_LINES = 6  # comparisons of one rule; the others are a number
INDENT = 22
_COUNTED = re.compile(r"(^|; )((only )?\d+ of|all) \d+ runs?$")
_UNITS = re.compile(r"(\d) (%|[KMGT]?i?B)(?![a-z])")  # a unit stays with its number
_VERDICTS = ("take", "stop", "leave")


def rules_block(pick: BucketPick, x: float, y: float, width: float, *, runs: int) -> tuple[str, float]:
    """Every rule below `y`, and where the block ends; `runs`: how many the pick takes."""
    parts = []
    for trial in _in_place(pick.trials):
        body, tall = _rule(trial, x, y, width, runs=runs)
        if trial.state == "fired":
            parts.append(rect(x - 6, y, width + 12, tall, rx=4, fill=var("compact-tint")))
            parts.append(rect(x - 6, y, 3, tall, fill=var("compact")))
        parts.append(body)
        y += tall + 2
    return "".join(parts), y


def _in_place(trials: tuple[SettingsTrial, ...]) -> tuple[SettingsTrial, ...]:
    """Rules in the order they were tried; those of levels, which are tried by score, by level."""

    def level(trial: SettingsTrial) -> int:
        name, _, number = trial.rule.partition(" ")
        return int(number) if name == "level" and number.isdigit() else len(trials)

    return tuple(sorted(trials, key=level)) if any(level(t) < len(trials) for t in trials) else trials


def _rule(trial: SettingsTrial, x: float, y: float, width: float, *, runs: int) -> tuple[str, float]:
    """Glyph, name, state, how much of the limit is reached, and the engine's words below."""
    fired, off = trial.state == "fired", trial.state == "off"
    label, weight = _state(trial, runs), 600 if fired else 400
    colour = "compact" if fired else "ink2"
    room = width - INDENT - text_width(label, size=11, weight=weight) - 8
    parts = [
        text(x + 6, y + 18, STATES[trial.state], fill=colour, weight=600, text_anchor="middle"),
        text(x + INDENT, y + 18, fit(trial.rule.capitalize(), room, weight=600), fill="ink", weight=600),
        text(x + width, y + 18, label, size=11, fill=colour, weight=weight, text_anchor="end"),
    ]
    at = y + 22
    if trial.filled is not None and not off:
        parts.append(_bar(trial.filled, x + INDENT, at + 3, width - INDENT, fired=fired))
        at += 9
    lines = trial.lines if trial.state in ("fired", "no") else ()
    wide = width - INDENT
    if not off and (words := _beyond(lines, trial.text)):
        sums = trial.state != "not reached"
        for row in wrap(_shown(trial.state, words), wide, size=11, monospace=sums, lines=3 if sums else 2):
            at += 15
            parts.append((code if sums else text)(x + INDENT, at - 3, row, size=11))
    for row in _shortened(_aligned(lines)):
        for part in _comparison(row, x + INDENT, wide):
            at += 15
            parts.append(group(part, transform=f"translate(0 {num(at - 3)})"))
    return "".join(parts), at - y + 6


def _shown(state: str, words: str) -> str:
    """The engine's sum; of a rule that was not reached only what it would have taken."""
    if state == "not reached" and (alone := words.find("alone it would take")) >= 0:
        words = words[alone:]
    return _UNITS.sub("\\1\u00a0\\2", words)


def _state(trial: SettingsTrial, runs: int) -> str:
    """`fires: 5 runs`, `does not fire`, `not reached`, `off`."""
    if trial.state == "fired":
        return f"fires: {fmt.plural(runs, 'run')}" if runs else "fires"
    return "does not fire" if trial.state == "no" else trial.state


def _beyond(lines: tuple[str, ...], words: str) -> str:
    """What a sum says that its comparisons do not: all but `; 4 of 7 runs, <the last comparison>`."""
    if not lines or len(lines) > MAX_LINES:
        return words
    words = words.replace(f", {lines[-1]}", "", 1)
    return _COUNTED.sub("", words)


def _bar(filled: float, x: float, y: float, width: float, *, fired: bool) -> str:
    """How much of a limit is reached."""
    track = rect(x, y, width, 4, rx=2, fill=var("line"))
    done = max(min(filled, 1.0) * width, 2 if filled else 0)
    return track + rect(x, y, done, 4, rx=2, fill=var("compact" if fired else "ink2"))


def _aligned(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Comparisons with their numbers below each other; other words as they are."""
    rows = [row.split(" ") for row in lines]
    if len({len(row) for row in rows}) != 1 or any(row[1] != "×" for row in rows):
        return lines
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return tuple(
        " ".join([*(cell.rjust(room) for cell, room in zip(row[:-1], wide, strict=False)), row[-1]])
        for row in rows
    )


def _shortened(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The first comparisons and the last one; of candidates that which is taken."""
    if len(lines) > 1 and lines[0].startswith("take "):
        return (lines[0], f"… {len(lines) - 1} more")
    if len(lines) <= MAX_LINES:
        return lines
    left = len(lines) - MAX_LINES + 1
    return (*lines[: MAX_LINES - 2], f"… {left} more", lines[-1])


def _comparison(row: str, x: float, width: float) -> list[str]:
    """One comparison as the engine wrote it, a line each; a verdict at its end goes to the right edge."""
    sum_, _, verdict = row.rpartition(" ")
    if verdict not in _VERDICTS:
        lines = wrap(row, width, size=11, monospace=True, lines=2)
        return [code(x, 0, line, fill="ink") for line in lines]
    colour = "compact" if verdict == "take" else "ink"
    room = width - text_width(verdict, size=11, weight=600) - 6
    shown = code(x, 0, fit(sum_, room, size=11, monospace=True), fill="ink")
    return [shown + text(x + width, 0, verdict, size=11, fill=colour, weight=600, text_anchor="end")]
