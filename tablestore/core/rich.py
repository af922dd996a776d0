"""Cards: HTML by which an object shows itself in a notebook, made by a layer above that of the object.

A class has `_repr_html_` and asks here by the name of its card; `tablestore/__init__` says who makes them
(`provide`). Whoever looks at an object never gets an error for it: where the maker is not installed, or what
the object describes cannot be read, there is no card and the notebook shows the plain text. Safe to share.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)
_makers: list[Callable[..., str | None]] = []


def provide(maker: Callable[..., str | None]) -> None:
    """Name the function that makes cards, in place of the one before it; its first argument is the kind."""
    _makers[:] = [maker]


def card(kind: str, *what: Any) -> str | None:
    """The HTML of a card, None where there is none. `what` are the values that cards of this `kind` take."""
    if not _makers:
        return None
    try:
        return _makers[0](kind, *what)
    except Exception as e:
        log.debug("no card of a %s: %r", kind, e)
        return None
