"""Names, texts and options as SQL writes them: what SHOW CREATE gives, so that it runs again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def name_text(name: str) -> str:
    """A name in back-quotes."""
    return "`" + name.replace("`", "``") + "`"


def full_name_text(parts: Iterable[str]) -> str:
    """Names with dots between them."""
    return ".".join(name_text(part) for part in parts)


def literal_text(text: str) -> str:
    """A text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def names_text(names: Iterable[str]) -> str:
    """`(a, b)`."""
    return f"({', '.join(name_text(name) for name in names)})"


def options_text(options: Mapping[str, str]) -> str:
    """`('key' = 'value', …)`, one a line, sorted."""
    pairs = [f"  {literal_text(k)} = {literal_text(v)}" for k, v in sorted(options.items())]
    return "(\n" + ",\n".join(pairs) + "\n)"
