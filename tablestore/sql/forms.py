"""All kinds of statements, the grammar that the parser, help, completion and the reference share; and how a
text becomes a statement by it.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tablestore.sql.dialect.parser import read
from tablestore.sql.dialect.tokenizer import StatementText
from tablestore.sql.form import Form, Statement
from tablestore.sql.problems import SqlProblem, near, placing, start_of
from tablestore.sql.statements import (
    alter_table,
    call,
    catalogs,
    changing,
    create_table,
    databases,
    describe,
    explain,
    insert,
    jobs,
    merge,
    queries,
    refused,
    settings,
    show,
    views,
)

FORMS: tuple[Form, ...] = (
    *queries.FORMS,
    *explain.FORMS,
    *insert.FORMS,
    *jobs.FORMS,
    *changing.FORMS,
    *merge.FORMS,
    *call.FORMS,
    *catalogs.FORMS,
    *databases.FORMS,
    *create_table.FORMS,
    *alter_table.FORMS,
    *describe.FORMS,
    *show.FORMS,
    *views.FORMS,
    *refused.FORMS,
    *settings.FORMS,
)
_BUILT = {form.node: form for form in FORMS if form.node is not None}


def first_words() -> list[str]:
    """The words with which statements begin, sorted."""
    return sorted({form.words.split()[0] for form in FORMS})


def statement_of(piece: StatementText) -> Statement:
    """The statement of a piece of a script. Raises SqlProblem, Unsupported."""
    word = piece.tokens[0].text
    words = first_words()
    if word.upper() not in words and word != "(":
        problem = f"{word[:30]!r} begins no statement{near(word, words) or ': ' + ', '.join(words) + ' do'}"
        raise SqlProblem(problem, piece.text, piece.start)
    _require_form(piece)
    tree = read(piece, FORMS)
    if not isinstance(tree, exp.Expression):
        return tree
    return built(tree, piece)


def _require_form(piece: StatementText) -> None:
    """Raise SqlProblem at the first word with which no form goes on, where all forms that begin so read
    themselves: CREATE TABEL, SHOW TABLE."""
    said = [(word, t) for t in piece.tokens[:8] for word in _words(t)]
    forms = [form for form in FORMS if form.words.split()[0] == said[0][0]]
    if not forms or any(form.parse is None for form in forms):
        return
    left, depth = [form.words.split() for form in forms], 0
    while all(len(words) > depth for words in left):
        expected = sorted({words[depth] for words in left})
        word, token = said[depth] if depth < len(said) else ("", None)
        if word not in expected:
            at = piece.tokens[-1].end + 1 if token is None else token.start
            here = "the statement ends" if token is None else f"{token.text[:30]!r} is not expected here"
            which = near(word, expected) or f"; expected: {', '.join(expected)}"
            raise SqlProblem(f"{here}{which}", piece.text, at)
        left, depth = [words for words in left if words[depth] == word], depth + 1


def _words(token: Token) -> list[str]:
    """The words of a token in capitals; quoted ones are none of a form."""
    quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return [""] if quoted else token.text.upper().split()


def built(tree: exp.Expression, piece: StatementText) -> Statement:
    """The statement of a tree that sqlglot has read."""
    form: Form | None = next((_BUILT[kind] for kind in type(tree).__mro__ if kind in _BUILT), None)
    if form is None or form.build is None:
        raise SqlProblem("this is no statement", piece.text, piece.start)
    with placing(piece.text, start_of(tree, piece.start)):
        return form.build(tree, piece.text)
