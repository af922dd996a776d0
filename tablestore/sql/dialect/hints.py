"""Hints: `/*+ OPTIONS('key' = 'value', …) */` behind a table's name, as the options of one use."""

from __future__ import annotations

from collections.abc import Sequence

from tablestore.core.errors import Unsupported
from tablestore.sql.dialect.parser import Parser, reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.form import Form, Statement


def options_of(hints: Sequence[str]) -> dict[str, str]:
    """The options that hints give; `hints` are texts between `/*+` and `*/`. Raises SqlProblem for what is no
    hint, Unsupported for hints other than OPTIONS."""
    found: dict[str, str] = {}
    for hint in hints:
        for piece in pieces(hint):
            read = reader((_FORM,)).read(piece)
            if not isinstance(read, _Options):
                word = piece.tokens[0].text
                raise Unsupported(f"hint {word}", "OPTIONS('key' = 'value') is the one there is")
            found.update(read.options)
    return found


class _Options(Statement):
    """What a hint says."""

    def __init__(self, p: Parser) -> None:
        self.options = p.options()
        p.finish()


_FORM = Form("OPTIONS", "OPTIONS ('key' = 'value', …)", "Options of one use of a table.", "hints", _Options)
