"""Text → statements that can be carried out."""

from __future__ import annotations

from sqlglot import exp

from tablestore.core.errors import TablestoreError
from tablestore.sql.dialect.parser import read
from tablestore.sql.dialect.tokenizer import Piece
from tablestore.sql.form import Form, Statement
from tablestore.sql.forms import FORMS, first_words
from tablestore.sql.problems import SqlProblem, near, placed, start_of

_BUILT = {form.node: form for form in FORMS if form.node is not None}


def statement_of(piece: Piece) -> Statement:
    """The statement of a piece of a script. Raises SqlProblem, Unsupported."""
    word = piece.tokens[0].text
    known = first_words()
    if word.upper() not in known and word != "(":
        problem = f"{word[:30]!r} begins no statement{near(word, known) or ': ' + ', '.join(known) + ' do'}"
        raise SqlProblem(problem, piece.text, piece.start)
    found = read(piece, FORMS)
    if not isinstance(found, exp.Expression):
        return found
    return built(found, piece)


def built(tree: exp.Expression, piece: Piece) -> Statement:
    """The statement of a tree that sqlglot has read."""
    form: Form | None = next((_BUILT[kind] for kind in type(tree).__mro__ if kind in _BUILT), None)
    if form is None or form.build is None:
        raise SqlProblem("this is no statement", piece.text, piece.start)
    try:
        return form.build(tree, piece.text)
    except TablestoreError as e:
        placed(e, piece.text, start_of(tree, piece.start))
        raise
