"""Text of tasks with `code`, **bold** and *italics*, and with paragraphs: as segments and as plain text.

Pure. Called by the figures and the widgets of tasks, and by the course's cards.
"""

import re

from widgets.kit import svg

Segment = tuple[str, str]
"""(style, text); the style is "", "code", "bold" or "italic"."""
_MARKED = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*"
    r"|(?<![*\w])\*(?P<italic>[^*\s]|[^*\s][^*]*[^*\s])\*(?![*\w])"
)


def paragraphs(text: str) -> list[str]:
    """Paragraphs of a text that may be indented as in a cell."""
    blocks = re.split(r"\n\s*\n", str(text).strip())
    return [" ".join(block.split()) for block in blocks if block.strip()]


def segments(text: object) -> list[Segment]:
    """A line of text cut where its style changes; nothing of it is markup any more."""
    line, segments_read, at = svg.plain(text), [], 0
    for match in _MARKED.finditer(line):
        if match.start() > at:
            segments_read.append(("", line[at : match.start()]))
        style = str(match.lastgroup)
        segments_read.append((style, match[style]))
        at = match.end()
    return [*segments_read, ("", line[at:])] if at < len(line) else segments_read


def bare(text: object) -> str:
    """The same text for a terminal: bold and italics without their marks, code with them."""
    return "".join(f"`{part}`" if style == "code" else part for style, part in segments(text))
