"""Words of a statement as MariaDB and MySQL cut it, and what the clauses of an ALTER TABLE do to columns and
rows.

Words are names, strings, comments. Executable comments (/*! … */, /*M! … */) count as if they were executed,
whatever their version. A clause is harmless only if it is known to be: `reason` says which one may change or
remove rows, or is not known. What a change of a column's type does to its values is not decided here, but by
its definitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

WORD, NAME, STRING, SIGN = "word", "name", "string", "sign"
_PLAIN = r"[0-9A-Za-z_$\u0080-\U0010ffff]+"
_SPACE = r"[ \t\r\n\f\v\0]+|--(?=[\s\0]|\Z)[^\n]*|\#[^\n]*|/\*(?!M?!).*?\*/|/\*M?!\d{0,6}|\*/"


def _pattern(string: str, quoted: str) -> re.Pattern[str]:
    parts = (
        f"(?P<space>{_SPACE})",
        "(?P<name>`(?:[^`]|``)*`)",
        f"(?P<string>{string})",
        f"(?P<quoted>{quoted})",
        f"(?P<word>{_PLAIN})",
        "(?P<sign>.)",
    )
    return re.compile("|".join(parts), re.DOTALL)


_ESCAPES = _pattern(r"'(?:[^'\\]|\\.|'')*'", r'"(?:[^"\\]|\\.|"")*"')
_NO_ESCAPES = _pattern("'(?:[^']|'')*'", '"(?:[^"]|"")*"')


class UnknownStatement(ValueError):
    """The statement is none that this reader knows."""


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A part of a statement. Of names and strings `text` is what they say, of other tokens what is written;
    a text in double quotes is a STRING, and a name where only names can stand (ANSI_QUOTES)."""

    kind: str
    text: str
    double: bool = False

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words, which are in capitals, without quotes."""
        return self.kind == WORD and self.text.upper() in words


def tokens(text: str, *, backslashes: bool = True) -> list[SqlToken]:
    """The tokens of a statement; `backslashes` escape in strings (not so with NO_BACKSLASH_ESCAPES). Raises
    UnknownStatement where a quote or a comment has no end."""
    cut: list[SqlToken] = []
    for match in (_ESCAPES if backslashes else _NO_ESCAPES).finditer(text):
        part, kind = match[0], match.lastgroup
        if kind == "name":
            cut.append(SqlToken(NAME, part[1:-1].replace("``", "`")))
        elif kind in ("string", "quoted"):
            said = part[1:-1].replace(2 * part[0], part[0])
            said = re.sub(r"\\(.)", r"\1", said, flags=re.DOTALL) if backslashes else said
            cut.append(SqlToken(STRING, said, double=part[0] == '"'))
        elif kind == "word":
            cut.append(SqlToken(WORD, part))
        elif kind == "sign":
            if part in "'\"`" or (part == "*" and cut and cut[-1].text == "/"):
                raise UnknownStatement("a quote or comment without an end")
            cut.append(SqlToken(SIGN, part))
    return cut


@dataclass
class TokenCursor:
    """Reads tokens one after the other."""

    tokens: Sequence[SqlToken]
    at: int = field(default=0)

    @property
    def rest(self) -> Sequence[SqlToken]:
        return self.tokens[self.at :]

    def peek(self, further: int = 0) -> SqlToken:
        """The next token; an empty sign at the end."""
        place = self.at + further
        return self.tokens[place] if place < len(self.tokens) else SqlToken(SIGN, "")

    def sees(self, *words: str) -> bool:
        """Whether these words are next."""
        return all(self.peek(i).is_word(word) for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Pass over these words if they are next."""
        seen = self.sees(*words)
        self.at += len(words) * seen
        return seen

    def accept_one(self, *words: str) -> bool:
        """Pass over any one of these words if it is next."""
        return any(self.accept(word) for word in words)

    def sign(self, sign: str) -> bool:
        """Pass over a sign if it is next."""
        seen = self.peek().kind == SIGN and self.peek().text == sign
        self.at += seen
        return seen

    def name(self) -> str:
        """The next token as a name; raises UnknownStatement where none can be."""
        token = self.peek()
        if token.kind not in (WORD, NAME) and not token.double:
            raise UnknownStatement(f"{token.text!r} where a name is")
        self.at += 1
        return token.text

    def qualified(self, database: str) -> tuple[str, str]:
        """The next name of a table, with its database."""
        first = self.name()
        return (first, self.name()) if self.sign(".") else (database, first)

    def listed(self) -> list[Sequence[SqlToken]]:
        """What stands in the brackets that begin here, by its commas; nothing without brackets."""
        if not self.sign("("):
            return []
        begin, depth = self.at, 1
        while depth:
            token = self.peek()
            if self.at >= len(self.tokens):
                raise UnknownStatement("a bracket without an end")
            depth += token.kind == SIGN and {"(": 1, ")": -1}.get(token.text, 0)
            self.at += 1
        return list(by_commas(self.tokens[begin : self.at - 1]))


def by_commas(tokens: Sequence[SqlToken]) -> Iterator[Sequence[SqlToken]]:
    """The parts between commas that are in no brackets."""
    begin = depth = 0
    for i, token in enumerate(tokens):
        if token.kind == SIGN:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if token.text == "," and not depth:
                yield tokens[begin:i]
                begin = i + 1
    yield tokens[begin:]


_INDEXES = ("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK", "PRIMARY")
_KEEPING = ("ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REORGANIZE", "COALESCE")
"""What is done to partitions without a change of rows."""
_ENGINES = {"innodb", "aria", "myisam", "rocksdb"}
"""Engines that keep all rows they are given."""
_OPTIONS = """AUTO_INCREMENT AVG_ROW_LENGTH CHARSET CHECKSUM COLLATE COMMENT COMPRESSION DELAY_KEY_WRITE
ENCRYPTED ENCRYPTION ENCRYPTION_KEY_ID KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS PACK_KEYS PAGE_CHECKSUM
PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL PASSWORD ROW_FORMAT STATS_AUTO_RECALC STATS_PERSISTENT
STATS_SAMPLE_PAGES TABLESPACE TABLE_CHECKSUM TRANSACTIONAL ALGORITHM LOCK""".split()


@dataclass(frozen=True, slots=True)
class Added:
    """A column that is added; `filled`: rows that are there may get values."""

    name: str
    filled: bool


@dataclass(frozen=True, slots=True)
class Modified:
    """A column that gets another definition, by its new name: the first word of its type in small letters,
    what stands in brackets after it, and `made`: the values come from the server (generated, numbered)."""

    name: str
    type: str
    members: tuple[str, ...]
    made: bool


@dataclass
class Clauses:
    """What one ALTER TABLE does; all names in it are as they were before. Names as they are written."""

    renamed: list[tuple[str, str]] = field(default_factory=list)
    added: list[Added] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    modified: list[Modified] = field(default_factory=list)
    converted: bool = False
    reason: str = ""
    new_name: tuple[str, str] | None = None
    emptied: tuple[str, str] | None = None  # a table whose rows become a partition of this one
    exchanged: tuple[str, str] | None = None  # a table that gets rows of a partition of this one
    only_renames: bool = False

    @property
    def gone(self) -> list[str]:
        """Names that no longer mean the column that they meant."""
        return [*self.dropped, *(old for old, _ in self.renamed)]


def read_clauses(tokens: Sequence[SqlToken], database: str) -> Clauses:
    """The clauses that follow the name of the table; raises UnknownStatement for what is none."""
    clauses = Clauses()
    cursor = TokenCursor(tokens)
    if _of_partitions(cursor):
        return clauses  # it stands alone, and its commas part names
    parts = list(by_commas(tokens))
    for part in parts:
        _read(TokenCursor(_without_partitioning(part)), clauses, database)
    clauses.only_renames = clauses.new_name is not None and len(parts) == 1
    return clauses


def _of_partitions(cursor: TokenCursor) -> bool:
    return any(cursor.sees(word, "PARTITION") for word in (*_KEEPING, "ADD"))


def _without_partitioning(part: Sequence[SqlToken]) -> Sequence[SqlToken]:
    """PARTITION BY … may follow the last clause without a comma."""
    for i in range(len(part) - 1):
        if part[i].is_word("PARTITION") and part[i + 1].is_word("BY"):
            return part[:i]
    return part


def _read(cursor: TokenCursor, clauses: Clauses, database: str) -> None:
    if not cursor.rest:
        return
    if cursor.accept("ADD"):
        _add(cursor, clauses)
    elif cursor.accept("DROP"):
        _drop(cursor, clauses)
    elif cursor.accept("MODIFY"):
        _column(cursor)
        _modify(cursor.name(), cursor, clauses)
    elif cursor.accept("CHANGE"):
        _column(cursor)
        old, new = cursor.name(), cursor.name()
        clauses.renamed += [(old, new)] if old != new else []
        _modify(new, cursor, clauses)
    elif cursor.accept("RENAME"):
        _rename(cursor, clauses, database)
    elif cursor.accept("CONVERT", "TO"):
        clauses.converted = True
    elif cursor.sees("EXCHANGE", "PARTITION") or cursor.sees("CONVERT"):
        _swap_partition(cursor, clauses, database)
    elif not _harmless(cursor):
        clauses.reason = clauses.reason or f"{_said(cursor.tokens)} may change rows"


def _column(cursor: TokenCursor) -> None:
    cursor.accept("COLUMN")
    if not cursor.accept("IF", "NOT", "EXISTS"):
        cursor.accept("IF", "EXISTS")


def _add(cursor: TokenCursor, clauses: Clauses) -> None:
    if _index_follows(cursor):
        return
    if cursor.sees("SYSTEM", "VERSIONING") or cursor.sees("PERIOD", "FOR"):
        clauses.reason = f"ADD {_said(cursor.rest)} may change rows"
        return
    _column(cursor)
    inner = cursor.listed()
    for part in inner or [cursor.rest]:
        each = TokenCursor(part)
        if inner and _index_follows(each):
            continue
        name = each.name()
        clauses.added.append(Added(name, _is_filled(each.rest)))


def _index_follows(cursor: TokenCursor) -> bool:
    vector = cursor.sees("VECTOR") and cursor.peek(1).is_word("INDEX", "KEY")
    return cursor.peek().is_word(*_INDEXES) or vector


def _is_filled(definition: Sequence[SqlToken]) -> bool:
    """Whether rows that are there get something else than NULL in such a column, or may."""
    for i, token in enumerate(definition):
        after = definition[i + 1] if i + 1 < len(definition) else SqlToken(SIGN, "")
        if token.is_word("AS", "GENERATED", "AUTO_INCREMENT", "SERIAL"):
            return True
        if token.is_word("DEFAULT") and not after.is_word("NULL"):
            return True
        if token.is_word("NOT") and after.is_word("NULL"):
            return True
    return not definition


def _drop(cursor: TokenCursor, clauses: Clauses) -> None:
    if _index_follows(cursor):
        return
    alone = cursor.sees("SYSTEM", "VERSIONING") or cursor.sees("PERIOD", "FOR")
    if alone or cursor.sees("PARTITION"):
        clauses.reason = f"DROP {_said(cursor.rest)} may remove rows"
        return
    _column(cursor)
    clauses.dropped.append(cursor.name())
    cursor.accept_one("RESTRICT", "CASCADE")
    if cursor.rest:
        raise UnknownStatement(_said(cursor.rest))


def _modify(name: str, cursor: TokenCursor, clauses: Clauses) -> None:
    kind = cursor.name().lower()
    inner = cursor.listed()
    plain = all(len(part) == 1 and part[0].kind in (STRING, WORD) for part in inner)
    members = tuple(part[0].text for part in inner) if plain else ("?",) * len(inner)
    generated = any(token.is_word("AS", "GENERATED", "AUTO_INCREMENT", "SERIAL") for token in cursor.rest)
    clauses.modified.append(Modified(name, kind, members, generated or kind == "serial"))


def _rename(cursor: TokenCursor, clauses: Clauses, database: str) -> None:
    if cursor.accept("COLUMN"):
        cursor.accept("IF", "EXISTS")
        old = cursor.name()
        if not cursor.accept("TO"):
            raise UnknownStatement(_said(cursor.rest))
        clauses.renamed.append((old, cursor.name()))
    elif not cursor.accept_one("INDEX", "KEY"):
        _ = cursor.accept_one("TO", "AS") or cursor.sign("=")
        clauses.new_name = cursor.qualified(database)
        if cursor.rest:
            raise UnknownStatement(_said(cursor.rest))


def _swap_partition(cursor: TokenCursor, clauses: Clauses, database: str) -> None:
    """EXCHANGE PARTITION p WITH TABLE x, CONVERT PARTITION p TO TABLE x, CONVERT TABLE x TO PARTITION p."""
    clauses.reason = f"{_said(cursor.rest)} moves rows between tables"
    if cursor.accept("CONVERT", "TABLE"):
        clauses.emptied = cursor.qualified(database)
        return
    while not cursor.accept("TABLE"):
        if not cursor.rest:
            raise UnknownStatement(clauses.reason)
        cursor.at += 1
    clauses.exchanged = cursor.qualified(database)


def _harmless(cursor: TokenCursor) -> bool:
    first = cursor.peek()
    if first.is_word("FORCE", "NOWAIT", "WAIT"):
        return True
    if first.is_word("ENABLE", "DISABLE"):
        return cursor.peek(1).is_word("KEYS")
    if first.is_word("WITH", "WITHOUT"):
        return cursor.peek(1).is_word("VALIDATION")
    if first.is_word("ORDER"):
        return cursor.peek(1).is_word("BY")
    if cursor.sees("REMOVE", "PARTITIONING"):
        return True
    if first.is_word("ALTER"):
        words = ("DEFAULT", "INDEX", "KEY", "CONSTRAINT", "CHECK", "VISIBLE", "INVISIBLE")
        return any(token.is_word(*words) for token in cursor.rest)
    return _options(cursor)


def _options(cursor: TokenCursor) -> bool:
    """Whether all that follows are options of the table which keep its rows as they are."""
    while cursor.rest:
        cursor.accept("DEFAULT")
        engine = cursor.accept_one("ENGINE", "TYPE")
        words = (
            engine
            or cursor.accept("CHARACTER", "SET")
            or cursor.accept("DATA", "DIRECTORY")
            or cursor.accept("INDEX", "DIRECTORY")
            or cursor.accept_one(*_OPTIONS)
        )
        if not words:
            return False
        cursor.sign("=")
        value = cursor.peek()
        if value.kind not in (WORD, NAME, STRING) or (engine and value.text.lower() not in _ENGINES):
            return False
        cursor.at += 1
        cursor.sign(",")
    return True


def _said(tokens: Sequence[SqlToken]) -> str:
    return " ".join(token.text for token in tokens)[:80]
