"""SVG text by plain functions: escaping, elements, text that fits, and the two ways a figure leaves Python.

A `Figure` is the inside of an SVG document and its size. `live` wraps it for a page that defines the colour
variables, `standalone` for an image file. Everything from data passes through `esc`; no figure writes
markup from data. Pure. Called by every figure.

Not a charting library: levels, sections and merge steps are no chart of its kinds, a figure must be the same
in a page without Python and in a file, and the page loads no script of megabytes.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from widgets.kit.theme import CODE_FONT, UI_FONT, Theme, resolve, var

# Control characters are not allowed in XML; direction marks could reorder the text around them.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
# Widths in em are those of the widest of the usual interface fonts: labels that fit there fit everywhere.
BREAKS = "/.,(=:_"
"""Signs after which a long word is broken."""
LegendEntry = tuple[float, str, str]
"""Width of a mark, the mark, and its words."""
_NARROW, _WIDE = frozenset("iljI.,:;'|!·"), frozenset("mwMW@%≈→…—")


@dataclass(frozen=True, slots=True)
class Figure:
    """The inside of an SVG document."""

    width: float
    height: float
    body: str
    label: str = ""
    meta: dict[str, Any] = field(default_factory=dict)


def plain(text: object) -> str:
    """One line of text without control characters or direction marks."""
    return _UNSAFE.sub(lambda match: " " if match.group(0) in "\t\n\r" else "\ufffd", str(text))


def esc(text: object) -> str:
    """Any value as text that is safe inside an element and inside an attribute."""
    return plain(text).translate(_ESCAPES)


def num(value: float) -> str:
    """A coordinate with at most one decimal."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def tag(name: str, *children: str, **attributes: object) -> str:
    """An element. `children` are markup; attribute values are escaped; None leaves an attribute out."""
    parts = []
    for key, value in attributes.items():
        if value is None:
            continue
        shown = num(value) if isinstance(value, float) else esc(value)
        parts.append(f' {key.strip("_").replace("_", "-")}="{shown}"')
    inner = "".join(children)
    return f"<{name}{''.join(parts)}>{inner}</{name}>" if inner else f"<{name}{''.join(parts)}/>"


def group(*children: str, **attributes: object) -> str:
    """A `g` element."""
    return tag("g", *children, **attributes)


def rect(x: float, y: float, width: float, height: float, **attributes: object) -> str:
    """A rectangle."""
    return tag(
        "rect", x=float(x), y=float(y), width=float(max(width, 0)), height=float(max(height, 0)), **attributes
    )


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = "line", **attributes: object) -> str:
    """A straight line in the colour of a token."""
    return tag(
        "line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), stroke=var(stroke), **attributes
    )


def path(steps: Iterable[str], **attributes: object) -> str:
    """A path from its commands."""
    return tag("path", d="".join(steps), **attributes)


def text(
    x: float,
    y: float,
    content: object,
    *,
    size: int = 12,
    fill: str = "ink2",
    weight: int = 400,
    **attributes: object,
) -> str:
    """A line of text; `fill` is a token, a whole CSS colour, or empty for that of the group around it; y is
    the base line; no text, no element."""
    if content == "":
        return ""
    plain_attributes = {
        "x": float(x),
        "y": float(y),
        "font_size": size if size != 12 else None,
        "fill": None if not fill else fill if "(" in fill else var(fill),
        "font_weight": weight if weight != 400 else None,
    }
    return tag("text", esc(content), **(plain_attributes | attributes))


def code(
    x: float, y: float, content: object, *, size: int = 11, fill: str = "ink2", **attributes: Any
) -> str:
    """A line of text in the code font."""
    return text(x, y, content, size=size, fill=fill, class_="code", **attributes)


def text_width(content: str, *, size: int = 12, weight: int = 400, monospace: bool = False) -> float:
    """An upper estimate of the width of `content` in pixels."""
    if monospace:
        return len(content) * 0.61 * size
    em = sum(
        0.36 if c in _NARROW else 0.98 if c in _WIDE else 0.34 if c == " " else _letter(c) for c in content
    )
    return em * size * (1.1 if weight >= 500 else 1.0)


def _letter(character: str) -> float:
    if character.isdigit():
        return 0.64
    if character.isupper():
        return 0.70
    return 0.62 if ord(character) < 0x2E80 else 1.0


def fit(content: object, width: float, *, size: int = 12, weight: int = 400, monospace: bool = False) -> str:
    """`content` cut to `width` with an ellipsis at its end."""
    limit = int(max(width, 0) / (0.34 * size)) + 2  # no letter is narrower, so the rest cannot show
    string = str(content)
    whole = plain(string[: limit + 1])
    if len(string) <= limit and text_width(whole, size=size, weight=weight, monospace=monospace) <= width:
        return whole
    cut = whole[:limit]
    while cut and text_width(cut + "…", size=size, weight=weight, monospace=monospace) > width:
        cut = cut[:-1]
    return cut.rstrip() + "…"


def fit_place(place: str, width: float, *, size: int = 12, weight: int = 400) -> str:
    """`region=north · bucket 3` cut to `width` in its partition, so that the bucket stays."""
    at = place.rfind(" · bucket")
    bucket = plain(place[max(at, 0) :])
    room = width - text_width(bucket, size=size, weight=weight)
    if at < 0 or room <= 0:
        return fit(place, width, size=size, weight=weight)
    return fit(place[:at], room, size=size, weight=weight) + bucket


def wrap(
    content: object, width: float, *, size: int = 12, monospace: bool = False, lines: int = 3
) -> list[str]:
    """`content` broken at spaces into at most `lines` lines; the last one ends in an ellipsis if cut. A word
    that is wider than a line, such as a path or a call, is broken after one of its signs."""

    def fits(row: str) -> bool:
        return text_width(row, size=size, monospace=monospace) <= width

    done: list[str] = []
    current, rest = "", plain(content)
    while rest:
        word, _, after = rest.partition(" ")
        longer = f"{current} {word}" if current else word
        if fits(longer):
            current, rest = longer, after
        elif len(done) == lines - 1:
            current = f"{current} {rest}" if current else rest
            break
        elif current:
            done.append(current)
            current = ""
        else:
            at = next((i for i in range(len(word) - 1, 0, -1) if word[i - 1] in BREAKS and fits(word[:i])), 0)
            done.append(word[: at or len(word)])
            rest = rest[at or len(word) + 1 :]
    return [fit(row, width, size=size, monospace=monospace) for row in [*done, current] if row]


def legend(
    entries: Iterable[LegendEntry],
    start: tuple[float, float],
    right: float,
    *,
    top: float = 11,
    gap: float = 14,
    share: float = 1.0,
    rows: int = 1,
    left: float | None = None,
    pitch: float = 20,
    classes: Sequence[str] = (),
) -> tuple[str, float, float]:
    """Marks with their words in a row from `start`, whose y is the base line, and where the last one ends.

    What does not fit goes on in a row `pitch` below, from `left` on; where that would be more than `rows`, it
    is left out. A mark's own origin is `top` above the base line; words take a `share` of their estimate.
    `classes` are those of the first words.
    """
    (x, y), parts = start, list[str]()
    left = x if left is None else left
    for at, (wide, mark, words) in enumerate(entries):
        needed = wide + 6 + text_width(words, size=11) * share
        if x + needed > right and (rows == 1 or x != left):
            if rows == 1:
                break
            x, y, rows = left, y + pitch, rows - 1
        parts.append(group(mark, transform=f"translate({num(x)} {num(y - top)})"))
        own = classes[at] if at < len(classes) else None
        parts.append(text(x + wide + 6, y, words, size=11, class_=own))
        x += needed + gap
    return "".join(parts), x, y


def labels(
    places: Iterable[tuple[float, str]],
    y: float,
    ends: tuple[float, float],
    *,
    gap: float = 8,
    middle: bool = True,
) -> str:
    """Words along an axis, around their places and between the `ends` (`middle` False: from their places on).
    Those are left out that would come closer than `gap` to the one before."""
    parts, end = list[str](), -1e9
    for place, words in places:
        wide = text_width(words, size=11)
        x = min(max(place - wide / 2, ends[0]), ends[1] - wide) if middle else place
        if words and x > end + gap:
            parts.append(text(x, y, words, size=11))
            end = x + wide
    return "".join(parts)


def hatch() -> str:
    """The two hatches: `lw-minus` for deletes (45°), `lw-ghost` for what is gone or skipped (−45°)."""
    minus = tag("path", d="M0 0V5", stroke=var("edge"), stroke_width="3")
    ghost = tag("path", d="M0 0V6", stroke=var("line"), stroke_width="2")
    fixed = {"patternUnits": "userSpaceOnUse"}
    return tag(
        "defs",
        tag("pattern", minus, id="lw-minus", width=5, height=5, patternTransform="rotate(45)", **fixed),
        tag("pattern", ghost, id="lw-ghost", width=6, height=6, patternTransform="rotate(-45)", **fixed),
    )


def live(figure: Figure) -> str:
    """The SVG element for a page of ours: colours follow the page's theme; it grows by 5 % at most."""
    style = f'style="max-width:{round(figure.width * 1.05)}px"'
    size = f'width="{num(figure.width)}" height="{num(figure.height)}" {style}'
    box = f"0 0 {num(figure.width)} {num(figure.height)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" font-size="12" {size} viewBox="{box}">{figure.body}</svg>'
    )


def standalone(figure: Figure, *, theme: Theme = "light") -> str:
    """A whole SVG document with an opaque background; nothing in it refers outside."""
    style = (
        f"text{{font-family:{UI_FONT};font-variant-numeric:tabular-nums;white-space:pre}}"
        f".code,.code text{{font-family:{CODE_FONT}}}"
    )
    ground = rect(0, 0, figure.width, figure.height, fill=var("bg"))
    inner = f"<title>{esc(figure.label)}</title><style>{style}</style>{ground}{figure.body}"
    size = f'width="{num(figure.width)}" height="{num(figure.height)}"'
    box = f"0 0 {num(figure.width)} {num(figure.height)}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" font-size="12" {size} viewBox="{box}">'
    return resolve(f"{head}{inner}</svg>", theme)


def stack(figures: Iterable[Figure], *, gap: float = 0) -> Figure:
    """Figures below each other, as one."""
    placed, y, width, labels = [], 0.0, 0.0, []
    for figure in figures:
        placed.append(group(figure.body, transform=f"translate(0 {num(y)})"))
        y += figure.height + gap
        width = max(width, figure.width)
        labels.append(figure.label)
    return Figure(width, max(y - gap, 0), "".join(placed), ". ".join(label for label in labels if label))
