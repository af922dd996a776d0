"""Completion: what may stand at the cursor of a text that is being typed.

Words of statements come from the forms, options and settings from their tables, names of tables and columns
from what a session has (`KnownNames`). Used by the shell and by the notebook's `%%sql`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from tablestore.core.errors import TablestoreError
from tablestore.core.options.table_options import TableOptions
from tablestore.insight.inspect.system import NAMES as SYSTEM_TABLES
from tablestore.sql.dialect.tokenizer import begun
from tablestore.sql.form import Form
from tablestore.sql.forms import FORMS
from tablestore.sql.query.functions import FUNCTIONS
from tablestore.sql.session import Session
from tablestore.sql.settings import SETTINGS
from tablestore.sql.statements.call import PROCEDURES
from tablestore.sql.statements.describe import described
from tablestore.sql.text import Name, name_text

_QUERY_WORDS = tuple(
    "SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET AS ASC DESC NULLS FIRST LAST WITH UNION "
    "ALL EXCEPT INTERSECT JOIN INNER LEFT RIGHT FULL OUTER CROSS ON USING AND OR NOT IN IS NULL BETWEEN LIKE "
    "EXISTS CASE WHEN THEN ELSE END CAST INTERVAL DATE TIMESTAMP TRUE FALSE OVER PARTITION ROWS VALUES FOR "
    "VERSION OF SYSTEM_TIME".split()
)
_TABLE_FOLLOWS = frozenset(
    "FROM JOIN INTO OVERWRITE UPDATE TABLE DESCRIBE DESC EXTENDED USING EXISTS PARTITIONS TBLPROPERTIES "
    "VIEW LIKE".split()
)
_CLAUSES = frozenset(
    "SELECT FROM WHERE GROUP ORDER HAVING LIMIT ON SET VALUES USING BY INTO JOIN WHEN".split()
)
_READS = ("queries", "writing")  # families in whose statements expressions stand
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


@dataclass(frozen=True, slots=True)
class CompletionCandidate:
    """What may stand there: `kind` is word, catalog, database, table, column, function, procedure, argument,
    option, setting or value; `note` says more of it, in a few words."""

    text: str
    kind: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """Candidates for the text from `start` to the cursor, the best first."""

    start: int
    candidates: tuple[CompletionCandidate, ...] = ()


def complete(text: str, at: int, names: KnownNames) -> Completion:
    """What may stand at the cursor, which is behind `at` characters."""
    tokens, opened, start = begun(text[:at])
    if opened in ("/*", "--"):
        return Completion(at)
    fragment = text[start + 1 : at] if opened else ""
    start += bool(opened)
    if not opened and tokens and tokens[-1].end == at - 1 and _is_word(tokens[-1].text):
        start, fragment = tokens[-1].start, tokens[-1].text
        tokens = tokens[:-1]
    elif not opened and tokens and tokens[-1].end == at - 1 and tokens[-1].token_type is TokenType.NUMBER:
        return Completion(at)
    if opened == "'":
        return Completion(start, tuple(_matching(_in_text(tokens), fragment, raw=False)))
    candidates = _CursorPlace(tokens, _rest(text, at), names).candidates(fragment)
    return Completion(start, tuple(_matching(candidates, fragment, raw=bool(opened))))


def _is_word(text: str) -> bool:
    return all(c.isalnum() or c in "_$" for c in text) and not text[:1].isdecimal()


def _rest(text: str, at: int) -> list[Token]:
    """Tokens behind the cursor, of the same statement."""
    return begun(text[at:].partition(";")[0])[0]


def _matching(
    candidates: Iterable[CompletionCandidate], fragment: str, *, raw: bool
) -> Iterator[CompletionCandidate]:
    """Those that begin with the fragment, each once; words in the case of what is typed. `raw`: names as they
    are, as they stand within quotes already, and nothing else."""
    lower = fragment.islower()
    seen = set()
    for candidate in candidates:
        name = candidate.kind in ("catalog", "database", "table", "column")
        if (raw and not name) or not candidate.text.casefold().startswith(fragment.casefold()):
            continue
        text = candidate.text.lower() if lower and candidate.kind in ("word", "function") else candidate.text
        if name and not raw and not _is_plain(text):
            text = name_text(text)
        if text not in seen:
            seen.add(text)
            yield CompletionCandidate(text, candidate.kind, candidate.note)


def _is_plain(name: str) -> bool:
    """Whether a name needs no quotes."""
    return _is_word(name) and name.isascii() and name.upper() not in _reserved()


@cache
def _reserved() -> frozenset[str]:
    """Words that are no names where a name is expected."""
    return frozenset({*_QUERY_WORDS, "TABLE", "SET", "INTO"} - {"DATE", "FIRST", "LAST", "VERSION"})


# ------------------------------------------------------------------------------------------ within 'text'


def _in_text(tokens: list[Token]) -> list[CompletionCandidate]:
    """Keys of options and settings, and their values."""
    if not tokens:
        return []
    words = [token.text.upper() for token in tokens]
    of_session = words[0] in ("SET", "RESET")
    if words[-1] == "=" and len(tokens) > 1:
        return _values(tokens[-2].text, of_session=of_session)
    if of_session:
        return (
            [CompletionCandidate(setting.name, "setting", setting.text) for setting in SETTINGS.values()]
            if len(words) == 1
            else []
        )
    opening = _open_parenthesis(tokens)
    if opening and words[opening - 1] in ("WITH", "SET", "RESET", "OPTIONS", "TBLPROPERTIES"):
        return _options() if words[1:2] != ["CATALOG"] else []
    return []


def _open_parenthesis(tokens: list[Token]) -> int:
    """Where the innermost parenthesis stands that is open at the end; 0 for none."""
    depth = 0
    for i in range(len(tokens) - 1, 0, -1):
        if tokens[i].token_type is TokenType.R_PAREN:
            depth += 1
        elif tokens[i].token_type is TokenType.L_PAREN:
            if depth == 0:
                return i
            depth -= 1
    return 0


def _options() -> list[CompletionCandidate]:
    return [CompletionCandidate(f.metadata["key"], "option", f.metadata["meaning"]) for f in _fields()]


def _values(key: str, *, of_session: bool) -> list[CompletionCandidate]:
    """What an option or a setting may be, where it is one of a few words."""
    if of_session:
        return [CompletionCandidate(v, "value") for v in SETTINGS[key].values] if key in SETTINGS else []
    for f in _fields():
        if f.metadata["key"] == key and isinstance(f.default, Enum):
            return [CompletionCandidate(str(member.value), "value") for member in type(f.default)]
        if f.metadata["key"] == key and isinstance(f.default, bool):
            return [CompletionCandidate("true", "value"), CompletionCandidate("false", "value")]
    return []


@cache
def _fields() -> tuple:  # type: ignore[type-arg]  # of dataclasses.Field
    return tuple(sorted(fields(TableOptions), key=lambda f: str(f.metadata["key"])))


# -------------------------------------------------------------------------------------- names and words


class _CursorPlace:
    """A place in a statement: the tokens before and behind it."""

    def __init__(self, before: list[Token], behind: list[Token], names: KnownNames) -> None:
        self._names, self._all = names, [*before, *behind]
        self._qualifier: list[str] = []
        before = list(before)
        while len(before) > 1 and before[-1].token_type is TokenType.DOT and _may_be_name(before[-2]):
            self._qualifier.insert(0, before[-2].text)
            before = before[:-2]
        self._before = before
        self._words = [t.text.upper() if t.token_type is not TokenType.STRING else "" for t in before]

    def candidates(self, fragment: str) -> Iterator[CompletionCandidate]:
        """What fits, the best first; not yet by how it begins."""
        words = self._words
        last = words[-1] if words else ""
        if not words:
            yield from _first_words(())
        elif words[0] == "CALL":
            yield from self._of_call()
        elif last == "CATALOG" or (words[:2] == ["SHOW", "DATABASES"] and last in ("FROM", "IN")):
            yield from _all(self._names.catalogs(), "catalog")
        elif self._wants_database():
            yield from self._databases()
            yield from self._statement_words()
        elif self._wants_table():
            yield from self._tables(fragment)
            if last not in ("FROM", "JOIN", "USING", ","):  # where only a name can follow
                yield from self._statement_words()
        elif self._qualifier:
            yield from self._columns(self._qualifier)
        else:
            yield from self._expression()
            yield from self._statement_words()

    def _of_call(self) -> Iterator[CompletionCandidate]:
        opening = _open_parenthesis(self._before)
        if not opening:
            if not self._qualifier:
                yield CompletionCandidate("sys.", "procedure")
            for called in PROCEDURES.values() if self._qualifier[-1:] == ["sys"] else ():
                yield CompletionCandidate(f"{called.name}(", "procedure", called.text)
        elif self._words[-1] in ("(", ",") and (procedure := PROCEDURES.get(self._before[opening - 1].text)):
            given = {t.text for t in self._before[opening:]}
            for argument in procedure.arguments:
                if argument.name not in given:
                    note = "" if argument.required else "may be left out"
                    yield CompletionCandidate(f"{argument.name} => ", "argument", note)

    def _wants_database(self) -> bool:
        words = self._words
        last = words[-1]
        of_show = words[0] == "SHOW" and words[1:2] in (["TABLES"], ["VIEWS"]) and last in ("FROM", "IN")
        return of_show or last == "USE" or (last == "DATABASE" and words[0] != "CREATE")

    def _databases(self) -> Iterator[CompletionCandidate]:
        catalog = self._qualifier[-1] if self._qualifier else None
        yield from _all(self._names.databases(catalog), "database")
        if catalog is None:
            yield from _all(self._names.catalogs(), "catalog")

    def _wants_table(self) -> bool:
        words, last = self._words, self._words[-1]
        if words[0] == "CREATE" and last in ("TABLE", "EXISTS", "VIEW"):
            return False
        if last == "LIKE":
            return words[0] == "CREATE"
        if last == "EXISTS":
            return words[0] in ("DROP", "ALTER")
        if last == ",":
            clauses = (w for w in reversed(words[_open_parenthesis(self._before) :]) if w in _CLAUSES)
            return next(clauses, "") == "FROM"
        return last in _TABLE_FOLLOWS and not (last == "DESC" and len(words) > 1)

    def _tables(self, fragment: str) -> Iterator[CompletionCandidate]:
        base = fragment.rpartition("$")[0] if "$" in fragment else ""
        if base:
            yield from (
                CompletionCandidate(f"{base}${name}", "table", "system table") for name in SYSTEM_TABLES
            )
        elif len(self._qualifier) > 1:
            yield from _all(self._names.tables(self._qualifier[1], self._qualifier[0]), "table")
        elif self._qualifier:
            yield from _all(self._names.tables(self._qualifier[0]), "table")
            yield from _all(self._names.databases(self._qualifier[0]), "database")
        else:
            yield from _all(self._names.tables(), "table")
            yield from self._databases()

    def _columns(self, qualifier: list[str]) -> Iterator[CompletionCandidate]:
        """Of the table with this name or alias."""
        for table, alias in self._mentioned():
            if qualifier == [alias] or qualifier == list(table[-len(qualifier) :]):
                yield from self._columns_of(table)

    def _columns_of(self, table: tuple[str, ...]) -> Iterator[CompletionCandidate]:
        yield from (CompletionCandidate(name, "column", kind) for name, kind in self._names.columns(table))

    def _expression(self) -> Iterator[CompletionCandidate]:
        mentioned = list(self._mentioned())
        for table, _ in mentioned:
            yield from self._columns_of(table)
        for table, alias in mentioned if len(mentioned) > 1 else ():
            yield CompletionCandidate(alias or table[-1], "table")
        if any(form.family in _READS for form in _forms_of(self._words)):
            for function in FUNCTIONS.values():
                call = "(" if "(" in function.syntax else ""
                yield CompletionCandidate(
                    function.name + call, "function", f"{function.syntax}: {function.text}"
                )

    def _mentioned(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Tables that the statement names, each with its alias."""
        tokens = self._all
        from_here = False  # a comma goes on with a list of tables
        for i, token in enumerate(tokens):
            word = token.text.upper() if token.token_type not in (TokenType.STRING, *_NAMES[1:]) else ""
            if word in _CLAUSES:
                from_here = word == "FROM"
            if word not in _TABLE_FOLLOWS and not (word == "," and from_here):
                continue
            parts, end = _name_at(tokens, i + 1)
            if parts:
                yield tuple(parts), _alias_at(tokens, end)

    def _statement_words(self) -> Iterator[CompletionCandidate]:
        if self._qualifier:
            return
        yield from _first_words(tuple(self._words))
        forms = _forms_of(self._words)
        for form in forms:
            yield from (CompletionCandidate(word, "word") for word in _words_of(form.syntax))
        if any("query" in form.syntax or form.family in _READS for form in forms):
            yield from (CompletionCandidate(word, "word") for word in _QUERY_WORDS)


def _all(names: Iterable[str], kind: str) -> Iterator[CompletionCandidate]:
    return (CompletionCandidate(name, kind) for name in names)


def _first_words(words: tuple[str, ...]) -> Iterator[CompletionCandidate]:
    """The word that comes next in the words with which a statement begins."""
    for form in FORMS:
        parts = tuple(form.words.split())
        if form.family == "refused":
            continue
        if parts[: len(words)] == words and len(parts) > len(words):
            yield CompletionCandidate(
                parts[len(words)], "word", form.text if len(parts) == len(words) + 1 else ""
            )


def _forms_of(words: Sequence[str]) -> list[Form]:
    """The forms that a statement which begins so can be."""
    forms = [form for form in FORMS if list(words[: len(form.words.split())]) == form.words.split()]
    longest = max((len(form.words.split()) for form in forms), default=0)
    return [form for form in forms if len(form.words.split()) == longest]


@cache
def _words_of(syntax: str) -> tuple[str, ...]:
    """The words in capitals of a syntax, each once."""
    plain = "".join(c if c.isalnum() or c == "_" else " " for c in syntax)
    return tuple(dict.fromkeys(w for w in plain.split() if w.isupper() and len(w) > 1))


def _may_be_name(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or _is_word(token.text)


def _name_at(tokens: list[Token], at: int) -> tuple[list[str], int]:
    """The parts of the name that begins there, and where it ends."""
    parts: list[str] = []
    while at < len(tokens) and _is_no_word(tokens[at]):
        parts.append(tokens[at].text)
        if at + 1 >= len(tokens) or tokens[at + 1].token_type is not TokenType.DOT:
            return parts, at + 1
        at += 2
    return parts, at


def _is_no_word(token: Token) -> bool:
    """Whether the token is a name, not a word of the language."""
    return token.token_type in _NAMES and (
        token.token_type is TokenType.IDENTIFIER or token.text.upper() not in _reserved()
    )


def _alias_at(tokens: list[Token], at: int) -> str:
    if at < len(tokens) and tokens[at].text.upper() == "AS":
        at += 1
    return tokens[at].text if at < len(tokens) and _is_no_word(tokens[at]) else ""


class KnownNames:
    """Stored names of a session. What cannot be found out is nothing: completion never raises."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[Any, Sequence[Any]] = {}

    def forget(self) -> None:
        """Ask again: a statement may have made or dropped something."""
        self._kept.clear()

    def catalogs(self) -> Sequence[str]:
        """Names of catalogs."""
        return sorted(self._session.catalogs)

    def databases(self, catalog: str | None = None) -> Sequence[str]:
        """Databases of a catalog, of the current one if None."""
        return self._once(("databases", catalog), lambda: self._session.lake(catalog).databases())

    def tables(self, database: str | None = None, catalog: str | None = None) -> Sequence[str]:
        """Tables and views of a database, of the current one if None."""
        session = self._session
        place = (catalog or session.catalog or "", database or session.database)
        lake = session.catalogs.get(place[0])
        stored = self._once(
            ("tables", *place), lambda: [*lake.tables(place[1]), *lake.views(place[1])] if lake else ()
        )
        temporary = [key[2] for key in (*session.temporary, *session.views) if key[:2] == place]
        return sorted({*stored, *temporary})

    def columns(self, table: tuple[str, ...]) -> Sequence[tuple[str, str]]:
        """Columns of a table and their types."""
        return self._once(("columns", table), lambda: self._described(table))

    def _described(self, table: tuple[str, ...]) -> list[tuple[str, str]]:
        rows = described(self._session, Name(table))
        return [(str(n), str(t)) for n, t in zip(rows["name"], rows["type"], strict=True)]

    def _once(self, key: Any, find: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        if key not in self._kept:
            try:
                self._kept[key] = find()
            except (TablestoreError, OSError):
                self._kept[key] = ()
        return self._kept[key]
