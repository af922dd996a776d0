"""A value of the data on one line of a terminal: without control characters and marks that reorder text."""

from __future__ import annotations

import re

MAX_SHOWN = 160
"""Characters of a value that are shown."""
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")


def one_line(text: str) -> str:
    """The text on one line, cut to `MAX_SHOWN` characters. Tabs and line ends are spaces, other unsafe
    characters are U+FFFD."""
    shown = _UNSAFE.sub(lambda match: " " if match.group(0) in "\t\n\r" else "\ufffd", text)
    return shown if len(shown) <= MAX_SHOWN else f"{shown[: MAX_SHOWN - 1]}…"
