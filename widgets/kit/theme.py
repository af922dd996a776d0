"""Design tokens of the workbench, light and dark, and the colour of a level.

Invariants: figures name colours only as `var(--lw-<token>)`; a standalone SVG resolves them with `resolve`, a
live page with the variables of `css()`. Level 0 is the token `l0`, the oldest level `l5`, those between are
mixed in OKLab. Called by every figure and by the static export.
"""

import re
from functools import lru_cache
from typing import Literal

Theme = Literal["light", "dark"]

LIGHT: dict[str, str] = {
    "bg": "#ffffff",
    "panel": "#f6f7f9",
    "raise": "#ffffff",
    "sel-tint": "#eef1f4",
    "line": "#e2e5e9",
    "line2": "#848c96",
    "ink3": "#67707a",
    "ink2": "#57606a",
    "ink": "#1f2328",
    "l0": "#e3effb",
    "l1": "#c3def6",
    "l2": "#98c6ee",
    "l3": "#64a5de",
    "l4": "#2a76b8",
    "l5": "#174a80",
    "edge": "#3b7fbd",
    "append": "#2470b3",
    "compact": "#b04e03",
    "compact-tint": "#fdeee0",
    "overwrite": "#5c1a70",
    "analyze": "#67707a",
    "ins": "#0b7a5e",
    "dele": "#8f1237",
    "ok": "#0b7a5e",
    "warn": "#8a5a00",
    "warn-tint": "#fff5d9",
    "err": "#b3261e",
    "err-tint": "#fdeceb",
    "focus": "#1976d2",
}
DARK: dict[str, str] = {
    "bg": "#111111",
    "panel": "#1a1c1f",
    "raise": "#24272b",
    "sel-tint": "#24272b",
    "line": "#31353b",
    "line2": "#777f89",
    "ink3": "#8f98a3",
    "ink2": "#a9b1bb",
    "ink": "#e8ebef",
    "l0": "#15273a",
    "l1": "#193955",
    "l2": "#205078",
    "l3": "#2f6ea6",
    "l4": "#5b9fd6",
    "l5": "#a6d0f4",
    "edge": "#5b9fd6",
    "append": "#6fb0ea",
    "compact": "#f2994a",
    "compact-tint": "#36230f",
    "overwrite": "#f0d0fa",
    "analyze": "#98a1ac",
    "ins": "#7fe3c0",
    "dele": "#ee6488",
    "ok": "#45c09a",
    "warn": "#f0c24b",
    "warn-tint": "#2e2610",
    "err": "#ff8a80",
    "err-tint": "#361b1a",
    "focus": "#64b5f6",
}
TOKENS: dict[Theme, dict[str, str]] = {"light": LIGHT, "dark": DARK}
STOPS = ("l0", "l1", "l2", "l3", "l4", "l5")
UI_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
CODE_FONT = "ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"

# Text on a level fill: i = ink, w = white, b = near black; "on-iw" is ink in light and white in dark.
_ON = {"i": None, "w": "#ffffff", "b": "#111111"}
ON_NAMES = tuple(f"on-{light}{dark}" for light in "iwb" for dark in "iwb")

_SYSTEM = {  # pictures where the reader's system chooses the colours: HTML follows it by itself
    "Canvas": "bg panel raise sel-tint compact-tint warn-tint err-tint",
    "CanvasText": "ink ink2 ink3 line2 edge append compact overwrite analyze ins dele ok warn err",
    "color-mix(in srgb,CanvasText 30%,Canvas)": "line",
    "Highlight": "focus",
}
_VAR = re.compile(r'(?<==")(?:var\(--lw-[a-z0-9-]+\)|color-mix\(in oklab,[^"]*?%\))(?=")')
_NAME = re.compile(r"--lw-([a-z0-9-]+)")
_SHARE = re.compile(r" (\d+)%\)$")


def var(token: str) -> str:
    """The CSS reference of a token."""
    return f"var(--lw-{token})"


def level_fill(level: int, num_levels: int) -> str:
    """The fill of `level` as a CSS colour that follows the theme."""
    low, share = _position(level, num_levels)
    if share == 0:
        return var(STOPS[low])
    return f"color-mix(in oklab,{var(STOPS[low + 1])},{var(STOPS[low])} {100 - round(share * 100)}%)"


def level_text(level: int, num_levels: int) -> str:
    """The text colour with the higher contrast on `level_fill`, in each theme."""
    return var(_on_name(level, num_levels))


@lru_cache(maxsize=256)
def _on_name(level: int, num_levels: int) -> str:
    light = _best(level_hex(level, num_levels, "light"), "light", "iwb")
    return f"on-{light}{_best(level_hex(level, num_levels, 'dark'), 'dark', 'iwb')}"


def _best(fill: str, theme: Theme, choices: str) -> str:
    """The first choice that reads well (4.5), else the one with the highest contrast."""
    ratios = [(contrast(_ON[c] or TOKENS[theme]["ink"], fill), c) for c in choices]
    good = [c for ratio, c in ratios if ratio >= 4.5]
    return good[0] if good else max(ratios)[1]


def level_hex(level: int, num_levels: int, theme: Theme) -> str:
    """The fill of `level` as a hexadecimal colour of one theme."""
    low, share = _position(level, num_levels)
    tokens = TOKENS[theme]
    return tokens[STOPS[low]] if share == 0 else mix(tokens[STOPS[low]], tokens[STOPS[low + 1]], share)


def _position(level: int, num_levels: int) -> tuple[int, float]:
    """The stop below `level` and the share of the way to the next one."""
    place = min(max(level, 0), num_levels - 1) * (len(STOPS) - 1) / max(num_levels - 1, 1)
    low = min(int(place), len(STOPS) - 1)
    return low, round(place - low, 2)


def resolve(svg: str, theme: Theme) -> str:
    """`svg` with every colour variable replaced by its value, for readers that know no variables.

    Only whole attribute values match; text from data is escaped and cannot hold a quotation mark.
    """
    return _VAR.sub(lambda match: _value(match.group(0), theme), svg)


@lru_cache(maxsize=512)
def _value(reference: str, theme: Theme) -> str:
    names = _NAME.findall(reference)
    colours = [_token(name, theme) for name in names]
    if len(colours) == 1:
        return colours[0]
    share = _SHARE.search(reference)
    return mix(colours[0], colours[1], int(share.group(1)) / 100 if share else 0.5)


def _token(name: str, theme: Theme) -> str:
    if name.startswith("on-"):
        return _ON[name[3 if theme == "light" else 4]] or TOKENS[theme]["ink"]
    return TOKENS[theme][name]


def css() -> str:
    """The variables on `.lw`: light, or dark by JupyterLab's theme or, outside it, by the system's; in
    pictures with forced colours those of the system."""
    light, dark = _declarations("light"), _declarations("dark")
    forced = {name: colour for colour, names in _SYSTEM.items() for name in names.split()}
    forced |= dict.fromkeys(ON_NAMES, "CanvasText")  # fills of levels are Canvas then
    system = "".join(f"--lw-{name}:{colour};" for name, colour in forced.items())
    return (
        f".lw{{{light}--lw-ui:var(--jp-ui-font-family,{UI_FONT});--lw-code:var(--jp-code-font-family,{CODE_FONT})}}"
        f'body[data-jp-theme-light="false"] .lw{{{dark}}}'
        f"@media (prefers-color-scheme:dark){{body:not([data-jp-theme-light]) .lw{{{dark}}}}}"
        f"@media (forced-colors:active){{:root body .lw svg{{{system}}}}}"
    )


def _declarations(theme: Theme) -> str:
    names = [*LIGHT, *ON_NAMES]
    pairs = [f"--lw-{name}:{_token(name, theme)};" for name in names if name != "bg"]
    return f"--lw-bg:var(--jp-layout-color0,{TOKENS[theme]['bg']});color-scheme:{theme};" + "".join(pairs)


def contrast(a: str, b: str) -> float:
    """WCAG 2 contrast ratio of two hexadecimal colours."""
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(colour: str) -> tuple[float, float, float]:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return red, green, blue


def mix(a: str, b: str, share: float) -> str:
    """The colour `share` of the way from `a` to `b` in OKLab."""
    first, two = _oklab(a), _oklab(b)
    return _from_oklab(*(x + (y - x) * share for x, y in zip(first, two, strict=True)))


def _oklab(colour: str) -> tuple[float, float, float]:
    r, g, b = _linear(colour)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    medium = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def _from_oklab(lightness: float, a: float, b: float) -> str:
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    encoded = (
        12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in (max(0.0, c) for c in linear)
    )
    return "#" + "".join(f"{min(255, round(c * 255)):02x}" for c in encoded)
