"""The buckets of the chosen table as lanes: what the lake has, the split of the chosen round, where the log
ends.

Invariants: all lanes have one scale, in offsets from where the round began; what the lake had before is a
stub of fixed width. What is in the lake and readable is solid, in the lake and hidden pale, read and not
committed striped, to be read an outline. Three marks a bucket: tiered points down from above, readable up
from below, the log ends at a line. Pure. Called by `figure`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from widgets.kit import format as fmt
from widgets.kit.svg import fit, fit_place, legend, line, num, path, rect, tag, text, text_width
from widgets.kit.theme import var
from widgets.tiering.model import (
    SplitLane,
    TieringModel,
    outcome_text,
    round_title,
    share_read,
    shown_lanes,
    splits_text,
)

MARGIN, PITCH, BAR, STUB, MOST = 16, 32, 12, 40, 12
FIGURES, FIGURE, SPLIT = 820, 82, 126
STRIPES = "lw-stripes"


@dataclass(frozen=True, slots=True)
class _Scale:
    """Offsets of a lane to x; each lane begins at an offset of its own."""

    left: float
    right: float
    window: int

    def x(self, lane: SplitLane, offset: int) -> float:
        share = min(max((offset - lane.begin) / self.window, 0.0), 1.0)
        return self.left + STUB + 2 + share * (self.right - self.left - STUB - 2)


def lanes_section(model: TieringModel, y: float, width: float) -> tuple[str, float, list[list[Any]]]:
    """The section from `y` on, where it ends, its spots."""
    if model.table is None:
        return "", y, []
    shown = shown_lanes(model.lanes, MOST)
    wide = width >= FIGURES
    names = max((text_width(lane.name) for lane in shown), default=0.0) + 16
    left = MARGIN + min(max(names, 70.0), 0.2 * width)
    figures = ["log ends", "tiered", "readable"] if wide else []
    right = width - MARGIN - (FIGURE * len(figures) if wide else 84) - (SPLIT if width >= 640 else 0)
    window = max((lane.end - lane.begin for lane in shown), default=1) or 1
    scale = _Scale(left, right, window)
    parts, top = [_stripes(), _head(model, y, width)], y + 62
    parts.append(_legend(model, y + 47, MARGIN, right))
    x = right
    for name in figures or ["rows behind"]:
        x += FIGURE if wide else 84
        parts.append(text(x, y + 47, name, size=11, text_anchor="end"))
    if width >= 640:
        parts.append(text(width - MARGIN, y + 47, "split, rows", size=11, text_anchor="end"))
    spots = list[list[Any]]()
    for lane in shown:
        parts += [_lane(model, lane, scale, top), _numbers(lane, scale.right, top, width)]
        parts.append(text(MARGIN, top + 19, fit_place(lane.name, left - MARGIN - 10), fill="ink"))
        spots.append([left, top, right - left, PITCH - 2, *_card(lane), None, None])
        top += PITCH
    if not shown:
        parts.append(text(MARGIN, top + 10, "No round has said yet which buckets there are.", fill="ink3"))
        top += 24
    if len(model.lanes) > len(shown):
        most = max(lane.lag_rows for lane in model.lanes if lane not in shown)
        words = (
            f"… {fmt.plural(len(model.lanes) - len(shown), 'more bucket')}, each {most:,} rows behind at most"
        )
        parts.append(text(MARGIN, top + 14, words, fill="ink3"))
        top += 24
    return "".join(parts), top + 6, spots


def _head(model: TieringModel, y: float, width: float) -> str:
    """The table, its round, how the round stands."""
    assert model.table is not None, "it is the lanes' own"
    tiering_round = model.round
    title = fit(f"Buckets of {model.table.table}", 0.5 * width, size=13, weight=600)
    x = MARGIN + text_width(title, size=13, weight=600) + 10
    words = (
        f"{round_title(tiering_round)}: {outcome_text(tiering_round)}; {splits_text(tiering_round)}"
        if tiering_round
        else "no round yet"
    )
    if tiering_round is not None and tiering_round.bytes:
        words += f", {fmt.bytes_text(tiering_round.bytes)}"
    if tiering_round is not None and tiering_round.ended is not None and tiering_round.rows:
        words += f" in {fmt.seconds_text(tiering_round.ended - tiering_round.started)}"
    failed = tiering_round is not None and tiering_round.outcome in ("failed", "dropped")
    return text(MARGIN, y + 26, title, size=13, fill="ink", weight=600) + text(
        x, y + 26, fit(words, width - MARGIN - x), fill="err" if failed else "ink2"
    )


def _legend(model: TieringModel, y: float, x: float, right: float) -> str:
    """What fills and marks mean, as many as fit; hidden rows only where there are some."""
    places = [(lane.marks.readable, lane.marks.tiered) for lane in model.lanes if lane.marks is not None]
    hidden = any(seen is not None and tiered is not None and seen < tiered for seen, tiered in places)
    items = [
        ("tiered", "tiered"),
        ("readable", "readable"),
        ("end", "log ends"),
        ("solid", "in the lake"),
        *([("pale", "hidden until a compaction")] if hidden else []),
        *(
            [("round", "of this round")]
            if model.round is not None and model.round.is_committed
            else [("read", "read"), ("open", "to be read")]
        ),
    ]
    entries = [(10.0, _sample(sign), word) for sign, word in items]
    return legend(entries, (x, y), right, top=4, share=0.94, gap=12)[0]


def _sample(sign: str) -> str:
    if sign in ("tiered", "readable"):
        return _mark(6, 0, sign)
    if sign == "end":
        return line(6, -7, 6, 7, stroke="ink", stroke_width=2)
    if sign == "round":
        return path(["M0 4h12"], stroke=var("append"), stroke_width="2")
    fill = {"solid": var("append"), "pale": var("append"), "read": f"url(#{STRIPES})"}.get(sign, var("bg"))
    opacity = "0.35" if sign == "pale" else None
    stroke = None if sign in ("solid", "pale") else var("edge")
    return rect(0.5, -5.5, 11, 11, fill=fill, fill_opacity=opacity, stroke=stroke, class_="box")


def _mark(x: float, y: float, kind: str) -> str:
    """▼ of what is tiered, a hollow ▲ of what is readable."""
    if kind == "tiered":
        return path([f"M{num(x)} {num(y + 3)}l-4.5-7h9z"], fill=var("ink"), class_="mark")
    return path(
        [f"M{num(x)} {num(y - 3)}l4.5 7h-9z"],
        fill=var("bg"),
        stroke=var("ink"),
        stroke_width="1.25",
        class_="mark",
    )


def _lane(model: TieringModel, lane: SplitLane, scale: _Scale, y: float) -> str:
    """One bucket: stub, what the lake has, the split, what comes behind, the marks."""
    top, marks, split = y + 9, lane.marks, lane.split
    end = scale.x(lane, lane.end)
    parts = [line(scale.left + STUB + 2, top + BAR / 2, scale.right, top + BAR / 2)]
    if marks is not None and marks.tiered is not None and lane.begin > marks.start:
        steps = f"M{num(scale.left)} {top}h{STUB}l-4 3 4 3-4 3 4 3h-{STUB}z"
        parts.append(path([steps], fill=var("append"), class_="box"))
    behind = max(split.stop if split is not None else lane.begin, lane.tiered, lane.begin)
    parts.append(_box(scale.x(lane, behind), end, top, fill=var("bg"), stroke=var("line2"), dash="2 3"))
    if marks is not None and marks.tiered is not None:
        readable = marks.tiered if marks.readable is None else min(marks.readable, marks.tiered)
        tiered, seen = scale.x(lane, marks.tiered), scale.x(lane, readable)
        parts.append(_box(scale.x(lane, lane.begin), seen, top, fill=var("append")))
        parts.append(_box(seen, tiered, top, fill=var("append"), opacity="0.35"))
    if split is not None:
        parts.append(_split(model, lane, scale, top))
    parts.append(line(end, top - 5, end, top + BAR + 5, stroke="ink", stroke_width=2, class_="mark"))
    if marks is not None and marks.tiered is not None:
        parts.append(_mark(scale.x(lane, marks.tiered), top - 5, "tiered"))
        if marks.readable is not None:
            parts.append(_mark(scale.x(lane, marks.readable), top + BAR + 5, "readable"))
    return "".join(parts)


def _split(model: TieringModel, lane: SplitLane, scale: _Scale, top: float) -> str:
    """What the round reads of a bucket: the snapshot of its keys in the stub's place, the log to scale."""
    split, parts = lane.split, list[str]()
    assert split is not None, "a lane with one"
    committed = model.round is not None and model.round.is_committed
    stroke = var("err") if split.reason else var("edge")
    stripes = f"url(#{STRIPES})"
    if split.snapshot_id is not None:
        done = split.ended is not None or (split.offset or 0) > split.start
        full = STUB if done else STUB / 2 if split.rows else 0.0
        fill = var("append") if committed else stripes
        parts.append(_box(scale.left, scale.left + STUB, top, fill=var("bg"), stroke=stroke))
        parts.append(_box(scale.left, scale.left + full, top, fill=fill, stroke=stroke))
    begin, stop = scale.x(lane, split.start), scale.x(lane, split.stop)
    if stop - begin >= 1:
        read = begin + (stop - begin) * share_read(split)
        if not committed:
            parts.append(_box(begin, stop, top, fill=var("bg"), stroke=stroke))
            parts.append(_box(begin, read, top, fill=stripes, stroke=stroke))
        else:
            parts.append(
                path(
                    [f"M{num(begin)} {num(top + BAR + 3)}H{num(stop - 0.5)}"],
                    stroke=var("append"),
                    stroke_width="2",
                )
            )
    return "".join(parts)


def _box(
    begin: float,
    end: float,
    top: float,
    *,
    fill: str,
    stroke: str | None = None,
    opacity: str | None = None,
    dash: str | None = None,
) -> str:
    """A box between two places; nothing where they are one."""
    if end - begin < 0.5:
        return ""
    inset = 0.5 if stroke else 0.0
    return rect(
        begin + inset,
        top + inset,
        max(end - begin - 2 * inset, 0.5),
        BAR - 2 * inset,
        fill=fill,
        stroke=stroke,
        stroke_dasharray=dash,
        fill_opacity=opacity,
        class_="box",
    )


def _numbers(lane: SplitLane, x: float, y: float, width: float) -> str:
    """The three offsets, or how far the lake is behind; then what the split has read."""
    marks, parts = lane.marks, list[str]()
    end: dict[str, Any] = {"text_anchor": "end"}
    if width >= FIGURES:
        values = (None, None, None) if marks is None else (marks.end, marks.tiered, marks.readable)
        for value in values:
            x += FIGURE
            shown = fmt.count(value) if (value or 0) < 1_000_000_000 else fmt.short_count(value)
            parts.append(text(x, y + 19, shown, fill="ink", **end))
    else:
        x += 84
        parts.append(
            text(x, y + 19, fmt.count(lane.lag_rows), fill="ink" if lane.lag_rows else "ink3", **end)
        )
    if width >= 640:
        words, colour = _split_words(lane)
        parts.append(
            text(width - MARGIN, y + 19, fit(words, SPLIT - 10, size=11), size=11, fill=colour, **end)
        )
    return "".join(parts)


def _split_words(lane: SplitLane) -> tuple[str, str]:
    """`log, 62 % read`, `snapshot #4, 1,200 rows`, `log, 0.4 s`."""
    split = lane.split
    if split is None:
        return "nothing to read" if not lane.lag_rows else "", "ink3"
    kind = "log" if split.snapshot_id is None else f"snapshot {fmt.snapshot_id(split.snapshot_id)}"
    if split.reason:
        return f"✕ {kind}", "err"
    if split.ended is not None:
        rows = fmt.short_count(split.rows)
        return (
            f"{kind}, {rows} {'row' if split.rows == 1 else 'rows'}" if kind == "log" else f"{kind}, {rows}",
            "ink2",
        )
    if split.started is None:
        return f"{kind}, waits", "ink3"
    if split.snapshot_id is not None:
        return f"{kind}, {fmt.short_count(split.rows)}", "ink"
    return f"{kind}, {fmt.percent(share_read(split), 1)} read", "ink"


def _card(lane: SplitLane) -> tuple[str, list[list[str]]]:
    """Heading and facts of a bucket."""
    marks, split, facts = lane.marks, lane.split, list[list[str]]()
    if marks is not None:
        facts += [
            ["log", f"{fmt.count(marks.start)} … {fmt.count(marks.end)}"],
            ["tiered up to", fmt.count(marks.tiered)],
            ["readable up to", fmt.count(marks.readable)],
            ["behind", fmt.plural(marks.lag_rows, "row")],
        ]
    if split is not None:
        what = f"{split.kind} split, offsets {split.start:,} … {split.stop:,}"
        facts.append(["reads", what])
        facts.append(["read", f"{fmt.plural(split.rows, 'row')}, {fmt.bytes_text(split.bytes)}"])
        if split.started is not None:
            facts.append(
                ["took", fmt.seconds_text(split.seconds) if split.ended is not None else "under way"]
            )
        if split.reason:
            facts.append(["failed", split.reason])
    return fmt.value(lane.name) or "", [[k, fmt.value(v) or ""] for k, v in facts]


def _stripes() -> str:
    """The fill of what is read and not committed."""
    stripe = tag("path", d="M0 0V4", stroke=var("append"), stroke_width="4")
    return tag(
        "defs",
        tag(
            "pattern",
            stripe,
            id=STRIPES,
            width=4,
            height=4,
            patternUnits="userSpaceOnUse",
            patternTransform="rotate(45)",
        ),
    )
