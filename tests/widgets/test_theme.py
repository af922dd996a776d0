"""Tokens, contrast, colours of levels, and texts of style sheets."""

import re

import pytest

from tablestore.insight.cards import html
from widgets.kit import assets
from widgets.kit import theme as theme


def test_both_themes_have_the_same_tokens():
    assert list(theme.LIGHT) == list(theme.DARK)


def test_cards_of_the_engine_have_the_same_colours():
    for cards, tokens in ((html.LIGHT, theme.LIGHT), (html.DARK, theme.DARK)):
        assert cards.items() <= tokens.items()


def test_every_token_but_fills_of_levels_has_a_colour_of_the_system():
    forced = theme.css().partition("forced-colors:active")[2]
    assert {name for name in theme.LIGHT if f"--lw-{name}:" not in forced} == set(theme.STOPS)
    assert all(f"--lw-{name}:CanvasText" in forced for name in theme.ON_NAMES)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_tokens_are_readable_on_their_ground(name):
    tokens = theme.TOKENS[name]
    for token in ("ink", "ink2", "ink3", "append", "compact", "overwrite", "analyze", "ok"):
        assert theme.contrast(tokens[token], tokens["bg"]) >= 4.5, token
    for tint in ("compact", "warn", "err"):
        assert theme.contrast(tokens[tint], tokens[f"{tint}-tint"]) >= 4.5, tint
    for mark in ("edge", "line2", "focus"):
        assert theme.contrast(tokens[mark], tokens["bg"]) >= 3, mark


@pytest.mark.parametrize("num_levels", [2, 3, 6, 7, 10])
@pytest.mark.parametrize("name", ["light", "dark"])
def test_levels_settle_away_from_the_background_and_their_text_is_readable(num_levels, name):
    fills = [theme.level_hex(level, num_levels, name) for level in range(num_levels)]
    ratios = [theme.contrast(fill, theme.TOKENS[name]["bg"]) for fill in fills]
    assert ratios == sorted(ratios)
    for level, fill in enumerate(fills):
        text = theme.resolve(f'<a fill="{theme.level_text(level, num_levels)}"/>', name)
        least = 4.5 if fill in theme.TOKENS[name].values() else 4.3  # the best black or white can do midway
        assert theme.contrast(text.split(chr(34))[1], fill) >= least, (level, fill)


def test_the_ends_are_the_tokens_whatever_the_number_of_levels():
    for num_levels in (2, 5, 9):
        assert theme.level_hex(0, num_levels, "light") == theme.LIGHT["l0"]
        assert theme.level_hex(num_levels - 1, num_levels, "light") == theme.LIGHT["l5"]


def test_resolve_replaces_tokens_and_mixes_but_leaves_text_alone():
    svg = (
        '<a fill="var(--lw-ink)" stroke="color-mix(in oklab,var(--lw-l1),var(--lw-l0) 50%)">var(--lw-ink)</a>'
    )
    resolved = theme.resolve(svg, "light")
    assert 'fill="#1f2328"' in resolved
    assert "color-mix" not in resolved
    assert ">var(--lw-ink)<" in resolved


def test_mixing_is_exact_at_its_ends():
    assert theme.mix("#2a76b8", "#174a80", 0) == "#2a76b8"
    assert theme.mix("#2a76b8", "#174a80", 1) == "#174a80"


def test_texts_of_style_sheets_come_whole():
    sheets = [path.relative_to(assets.HERE).as_posix() for path in assets.HERE.glob("*/*.css")]
    texts = {
        (name, text) for name in sheets for text in re.findall(r'"[^"]*"', (assets.HERE / name).read_text())
    }
    assert ("game/view.css", '"Moves appear here, each with its reason."') in texts
    assert [(name, text) for name, text in texts if text not in assets.style(name)] == []
