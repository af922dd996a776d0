"""What notebook 19 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import widgets


def a_sensible_player_wins(game: Any, seed: Any) -> None:
    """A sensible player wins, and the same moves give the same game."""
    assert game.model.won, game.model.verdict
    again = widgets.ShopGame(1, seed=seed, moves=game.moves, ticks=game.tick)
    assert again.data() == game.data(), "the same seed and moves give the same game"
