"""What a statement of the binlog does to tables, and whether it changed stored values without row images.

    effects("RENAME TABLE a TO b, c TO a", "shop")     two renames, which are carried out in order

What cannot be read but may concern a table is `UNKNOWN` for every name in it, never passed over. Online
schema changes (gh-ost, pt-online-schema-change, LHM, Facebook's), whose last step is a RENAME that lets a
copy take the table's place, are one ALTER of that table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.mysql.columns import SourceColumn, SourceTable
from tablestore.cdc.mysql.sql_tokens import (
    SIGN,
    WORD,
    Added,
    Clauses,
    Modified,
    SqlToken,
    TokenCursor,
    UnknownStatement,
    read_clauses,
    tokens,
)

ALTER, RENAME, TRUNCATE, DROP, DROP_DATABASE, CREATE, UNKNOWN = (
    "alter",
    "rename",  # to `new_name`
    "truncate",
    "drop",
    "drop database",  # the table's name is empty
    "create",  # its rows, if it has any, are in the log
    "unknown",  # it may have done anything to the table, if there is one of this name
)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement does to one table, by the names in it; `lowercase` of `effects` says how they are
    written. It may have done nothing (IF EXISTS, IF NOT EXISTS), if `conditional`. `replaces`: a table that
    was there is dropped before. `reason`: why rows may have changed whatever the definitions are; `clauses`
    are those of each ALTER, oldest first; `copied`: its rows are the same ones, copied."""

    kind: str
    table: SourceName
    new_name: SourceName | None = None
    conditional: bool = False
    replaces: bool = False
    reason: str = ""
    clauses: tuple[Clauses, ...] = field(default=(), repr=False)
    copied: bool = False

    @property
    def removes_rows(self) -> bool:
        """Whether rows may be gone without images: more is not known than `reason` says."""
        return bool(self.reason) and not self.copied

    def then(self, later: Effect) -> Effect:
        """Two ALTERs of one table as one."""
        assert {self.kind, later.kind} <= {ALTER, UNKNOWN}
        kind = ALTER if self.kind == later.kind == ALTER else UNKNOWN
        reason = self.reason or later.reason
        both = [effect.copied for effect in (self, later) if effect.reason]
        clauses = (*self.clauses, *later.clauses)
        return replace(later, kind=kind, reason=reason, clauses=clauses, copied=bool(both) and all(both))

    def concerns(self, database: str, table: str) -> bool:
        """Whether it alters, empties, renames, drops or replaces the table; creating it does not count."""
        name = SourceName(database, table)
        if self.kind == DROP_DATABASE or not self.table.table:
            return self.table.database == database
        return name in (self.table, self.new_name) and (self.kind != CREATE or self.replaces)


def effects(text: str, database: str, *, lowercase: bool = False) -> list[Effect]:
    """What the statement, which ran in `database`, does to tables, in order; nothing for one that does
    nothing to any. `lowercase`: the server keeps names in small letters (lower_case_table_names = 1)."""
    database = database.lower() if lowercase else database
    both_ways = _by_either_mode(text, database)
    return [_lowered(effect) for effect in both_ways] if lowercase else both_ways


def alters(text: str, database: str, *, owner: str, table: str) -> bool:
    """Whether the statement, which ran in `database`, alters, empties, renames or drops `owner`.`table`."""
    return any(effect.concerns(owner, table) for effect in effects(text, database))


def touches(text: str, database: str, *, table: SourceTable) -> bool:
    """Whether the statement, which ran in `database`, alters, empties, renames or drops the table, or, where
    others than its columns are ignored, those columns, its key or its rows."""
    mine = [effect for effect in effects(text, database) if effect.concerns(table.database, table.name)]
    if not mine or not table.others_ignored:
        return bool(mine)
    if any(effect.kind != ALTER or effect.reason for effect in mine):
        return True
    if any(token.text.upper() == "PRIMARY" for token in tokens(text, backslashes=True)):
        return True
    names = {column.name.lower() for column in table.columns}
    for clauses in (clauses for effect in mine for clauses in effect.clauses):
        touched = [*clauses.gone, *(m.name for m in clauses.modified)]
        if clauses.converted or names & {name.lower() for name in touched}:
            return True
    return False


def _lowered(effect: Effect) -> Effect:
    names = (effect.table, effect.new_name)
    table, new = (SourceName(n.database.lower(), n.table.lower()) if n else None for n in names)
    assert table is not None
    return replace(effect, table=table, new_name=new)


def _by_either_mode(text: str, database: str) -> list[Effect]:
    """Whether a backslash escapes depends on the session: where that makes a difference it is not known what
    was done."""
    readings = []
    for backslashes in (True, False) if "\\" in text else (True,):
        try:
            readings.append(_effects(tokens(text, backslashes=backslashes), database))
        except UnknownStatement:
            continue
    if not readings or any(reading != readings[0] for reading in readings):
        return list(_unknown(text, database))
    return readings[0]


def _unknown(text: str, database: str) -> Iterator[Effect]:
    """Every name, and every pair of names, may be that of a table."""
    names = [a.replace("``", "`") or b or c for a, b, c in _ANY_NAME.findall(text)]
    pairs = [*((database, name) for name in names), *pairwise(names)]
    for owner, name in dict.fromkeys(pairs):
        yield Effect(UNKNOWN, SourceName(owner, name), reason=f"{text[:80]!r} is not understood")


_ANY_NAME = re.compile(r'`((?:[^`]|``)+)`|"([^"]+)"|([0-9A-Za-z_$\u0080-\U0010ffff]+)')
_NO_TABLE = """ANALYZE BEGIN BINLOG CACHE CALL CHANGE CHECK COMMIT DELETE DESC DESCRIBE DO END EXPLAIN FLUSH
GRANT HELP INSERT INSTALL KILL LOAD LOCK OPTIMIZE PURGE RELEASE REPLACE RESET REVOKE ROLLBACK SAVEPOINT SELECT
SET SHOW SHUTDOWN START STOP UNINSTALL UNLOCK UPDATE USE VALUES WITH XA""".split()
"""First words of statements that do not change what a table is: rows are in the log as images."""
_OTHER_OBJECTS = """AGGREGATE ALGORITHM DATABASE DEFINER EVENT FULLTEXT FUNCTION INDEX INSTANCE LOGFILE
OFFLINE ONLINE PACKAGE PREPARE PROCEDURE RESOURCE ROLE SCHEMA SEQUENCE SERVER SPATIAL SQL TABLESPACE TRIGGER
UNDO UNIQUE USER VECTOR VIEW""".split()
"""What CREATE, ALTER and DROP may name instead of a table."""


def _effects(tokens: list[SqlToken], database: str) -> list[Effect]:
    cursor = TokenCursor(tokens)
    if cursor.accept("SET", "STATEMENT"):
        while cursor.rest and not cursor.accept("FOR"):
            cursor.at += 1
    while cursor.sign("(") or cursor.sign(";"):
        pass
    word = cursor.peek().text.upper()
    if not cursor.rest or word in _NO_TABLE:
        return []
    cursor.at += 1
    read = {"ALTER": _alter, "CREATE": _create, "DROP": _drop, "RENAME": _rename, "TRUNCATE": _truncate}
    if word not in read or tokens[cursor.at - 1].kind != WORD:
        raise UnknownStatement(word)
    return read[word](cursor, database)


def _other_object(cursor: TokenCursor) -> list[Effect]:
    if not cursor.peek().is_word(*_OTHER_OBJECTS):
        raise UnknownStatement(cursor.peek().text)
    return []


def _table(cursor: TokenCursor, database: str) -> SourceName:
    return SourceName(*cursor.qualified(database))


def _wait(cursor: TokenCursor) -> None:
    """WAIT n, NOWAIT."""
    if cursor.accept("WAIT"):
        cursor.at += 1
    else:
        cursor.accept("NOWAIT")


def _ended(cursor: TokenCursor) -> None:
    while cursor.sign(";"):
        pass
    if cursor.rest:
        raise UnknownStatement(cursor.peek().text)


def _alter(cursor: TokenCursor, database: str) -> list[Effect]:
    ignore = False
    begin = cursor.at
    while cursor.peek().is_word("ONLINE", "OFFLINE", "IGNORE"):
        ignore |= cursor.sees("IGNORE")
        cursor.at += 1
    if not cursor.accept("TABLE"):
        cursor.at = begin
        if any(token.is_word("UPGRADE") for token in cursor.rest):
            raise UnknownStatement("a database gets another name")
        return _other_object(cursor)
    conditional = cursor.accept("IF", "EXISTS")
    table = _table(cursor, database)
    _wait(cursor)
    rest = list(cursor.rest)
    while rest and rest[-1] == SqlToken(SIGN, ";"):
        rest.pop()
    clauses = read_clauses(rest, database)
    reason = "IGNORE may change and remove rows" if ignore else clauses.reason
    effects_of = [Effect(ALTER, table, conditional=conditional, reason=reason, clauses=(clauses,))]
    if clauses.new_name is not None:
        renamed = Effect(RENAME, table, SourceName(*clauses.new_name), conditional)
        effects_of = [renamed] if clauses.only_renames else [*effects_of, renamed]
    if clauses.emptied is not None:
        effects_of.append(Effect(DROP, SourceName(*clauses.emptied)))
    if clauses.exchanged is not None:
        effects_of.append(Effect(UNKNOWN, SourceName(*clauses.exchanged), reason=reason))
    return effects_of


def _create(cursor: TokenCursor, database: str) -> list[Effect]:
    replaces = cursor.accept("OR", "REPLACE")
    if cursor.accept("TEMPORARY"):
        return []
    if replaces and cursor.accept_one("DATABASE", "SCHEMA"):
        return [Effect(DROP_DATABASE, SourceName(cursor.name(), ""))]
    if not cursor.accept("TABLE"):
        return _other_object(cursor)
    conditional = cursor.accept("IF", "NOT", "EXISTS")
    table = _table(cursor, database)
    return [Effect(CREATE, table, conditional=conditional, replaces=replaces)]


def _drop(cursor: TokenCursor, database: str) -> list[Effect]:
    if cursor.accept("TEMPORARY"):
        return []
    if cursor.accept_one("DATABASE", "SCHEMA"):
        conditional = cursor.accept("IF", "EXISTS")
        return [Effect(DROP_DATABASE, SourceName(cursor.name(), ""), conditional=conditional)]
    if cursor.accept("INDEX"):
        cursor.accept("IF", "EXISTS")
        if cursor.name().upper() == "PRIMARY" and cursor.accept("ON"):
            return [Effect(ALTER, _table(cursor, database), clauses=(Clauses(),))]
        return []
    if not cursor.accept_one("TABLE", "TABLES"):
        return _other_object(cursor)
    conditional = cursor.accept("IF", "EXISTS")
    dropped = [_table(cursor, database)]
    while cursor.sign(","):
        dropped.append(_table(cursor, database))
    _wait(cursor)
    cursor.accept_one("RESTRICT", "CASCADE")
    _ended(cursor)
    return [Effect(DROP, table, conditional=conditional) for table in dropped]


def _truncate(cursor: TokenCursor, database: str) -> list[Effect]:
    cursor.accept("TABLE")
    table = _table(cursor, database)
    _wait(cursor)
    _ended(cursor)
    return [Effect(TRUNCATE, table)]


def _rename(cursor: TokenCursor, database: str) -> list[Effect]:
    if cursor.accept("USER"):
        return []
    if not cursor.accept_one("TABLE", "TABLES"):
        raise UnknownStatement(cursor.peek().text)
    conditional = cursor.accept("IF", "EXISTS")
    pairs = []
    while True:
        old = _table(cursor, database)
        _wait(cursor)
        if not cursor.accept("TO"):
            raise UnknownStatement(cursor.peek().text)
        pairs.append((old, _table(cursor, database)))
        if not cursor.sign(","):
            break
    _ended(cursor)
    return list(_renamed(pairs, conditional))


def _renamed(pairs: list[tuple[SourceName, SourceName]], conditional: bool) -> Iterator[Effect]:
    """Renames in order; a copy that takes the place of its table is an ALTER of it."""
    i = 0
    while i < len(pairs):
        (old, away), (copy, new) = pairs[i], pairs[i + 1] if i + 1 < len(pairs) else pairs[i]
        if old == new and away != new and is_shadow(away, of=old) and is_shadow(copy, of=old):
            reason = f"rows were copied by way of {copy.table!r}"
            yield Effect(ALTER, old, None, conditional, reason=reason, clauses=(Clauses(),), copied=True)
            yield Effect(UNKNOWN, away, reason=reason)
            yield Effect(UNKNOWN, copy, reason=reason)
            i += 2
        else:
            yield Effect(RENAME, old, away, conditional)
            i += 1


_SHADOWS = (
    re.compile(r"_(?P<of>.+?)(?:_\d{8,})?_(?:gho|ghc|del)", re.DOTALL),  # gh-ost
    re.compile(r"_+(?P<of>.+)_(?:new|old)(?:_\d{8,})?", re.DOTALL),  # pt-online-schema-change, Spirit
    re.compile(r"lhm[an]_(?:[\d_]+_)?(?P<of>.+)", re.DOTALL),  # Large Hadron Migrator
    re.compile(r"__osc_(?:new|old)_(?P<of>.+)", re.DOTALL),  # Facebook's
)
_LONGEST_NAME = 64


def is_shadow(name: SourceName, *, of: SourceName) -> bool:
    """Whether a tool for online schema changes gives this name to what it makes beside a table."""
    if name.database != of.database:
        return False
    for pattern in _SHADOWS:
        match = pattern.fullmatch(name.table)
        if match and (of.table == match["of"] or _is_cut(name.table, match["of"], of.table)):
            return True
    return False


def _is_cut(shadow: str, part: str, whole: str) -> bool:
    """Whether a name was cut since the longest that there can be is 64 characters."""
    return len(shadow) >= _LONGEST_NAME - 1 and whole.startswith(part)


def renamed_columns(effect: Effect, old: SourceTable, new: SourceTable) -> dict[str, str]:
    """The new names of columns by their old ones, as the two definitions spell them."""
    pairs = ((_origin(effect, column.name, old), column) for column in new.columns)
    return {
        before.name: after.name
        for before, after in pairs
        if isinstance(before, SourceColumn) and before.name != after.name
    }


def needs_read_again(effect: Effect, old: SourceTable, new: SourceTable) -> str:
    """Why rows that are there may have other values than before without images of them in the log; empty if
    they have the same. `new` is the table as it is after the effect, `old` as it was before."""
    if effect.kind == UNKNOWN:
        return effect.reason or "it is not known what the statement does"
    if effect.kind != ALTER:
        return ""
    if effect.reason:
        return effect.reason
    if sum(bool(clauses.converted or clauses.modified) for clauses in effect.clauses) > 1:
        return "values were converted more than once"
    renamed = renamed_columns(effect, old, new)
    if {renamed.get(name, name) for name in old.primary_key} != set(new.primary_key):
        return "the primary key is another one"
    modified = {m.name.lower(): m for clauses in effect.clauses for m in clauses.modified}
    generated = any(column.generated for column in (*old.columns, *new.columns))
    for column in new.columns:
        before = _origin(effect, column.name, old)
        if isinstance(before, Added):
            if before.filled or not column.nullable:
                return f"column {column.name!r} is added, with values"
        elif before is None:
            return f"it is not known where the values of column {column.name!r} come from"
        else:
            change = _conversion(before, column, modified.get(column.name.lower()), generated)
            if change:
                return f"column {column.name!r} {change}"
    return ""


def _origin(effect: Effect, name: str, old: SourceTable) -> SourceColumn | Added | None:
    """What a column was before: a column, or nothing since it was added; None if that is not known."""
    columns: Mapping[str, SourceColumn] = {column.name.lower(): column for column in old.columns}
    name = name.lower()
    gone = {n.lower() for clauses in effect.clauses for n in clauses.gone}
    for clauses in reversed(effect.clauses):
        renamed = {new.lower(): before.lower() for before, new in clauses.renamed}
        if name in renamed:
            name = renamed[name]
            continue
        added = next((a for a in clauses.added if a.name.lower() == name), None)
        if added is not None:  # IF NOT EXISTS leaves one alone that was there
            there = columns.get(name)
            return added if there is None else there if name not in gone else None
        if name in {n.lower() for n in clauses.gone}:
            return None
    return columns.get(name)


_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = ("varchar", "tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_UTF8 = {"utf8", "utf8mb3"}
_WORDS = {"uuid", "inet4", "inet6"}
"""Types that the log cannot tell from bytes."""


def _conversion(old: SourceColumn, new: SourceColumn, modified: Modified | None, generated: bool) -> str:
    """How the values of a column may have changed with its type; empty if they are the same."""
    into = f"is converted from {_shown(old)} to {_shown(new)}"
    if old.nullable and not new.nullable:
        return "is NOT NULL now"
    if modified is not None:
        if modified.made and not (old.numbered and modified.type in _INTEGERS):
            return "gets values from the server"
        words = {old.kind, modified.type} & _WORDS
        if words and len({old.kind, modified.type}) > 1:
            return f"is converted from {_shown(old)} to {modified.type.upper()}"
        if old.kind in ("float", "double") and (modified.members or modified.type != old.spelled.lower()):
            return into  # digits that the log does not tell
        if old.kind == "tinyint" and _is_boolean(old) != _is_boolean(modified):
            return "is a truth value no more, or is one now"
    if not _keeps(old, new, modified):
        return into
    same = (old.kind, old.size, old.scale, old.charset, old.unsigned) == (
        *(new.kind, new.size, new.scale, new.charset),
        new.unsigned,
    )
    if not same and generated:
        return f"{into}, and generated columns may depend on it"
    return ""


def _keeps(old: SourceColumn, new: SourceColumn, modified: Modified | None) -> bool:
    """Whether each value of the old type is the same in the new one."""
    kind, size, scale = old.kind, old.size, old.scale
    if new.unsigned and not old.unsigned:
        return False
    if kind in _INTEGERS and new.kind in _INTEGERS:
        wider = _INTEGERS.index(new.kind) - _INTEGERS.index(kind)
        return wider > 0 or (wider == 0 and old.unsigned == new.unsigned)
    if not (old.charset == new.charset or (old.charset in _UTF8 and new.charset in {"utf8mb4", *_UTF8})):
        return False
    for family in (_TEXTS, _BLOBS):
        if kind in family and new.kind in family:
            longer = family.index(new.kind) - family.index(kind)
            if kind == family[0] and longer:
                return longer > 1  # the smallest is 255 bytes long
            return longer > 0 or (longer == 0 and (kind != family[0] or new.size >= size))
    if kind != new.kind:
        return False
    if kind == "char":
        return new.size >= size
    if kind == "decimal":
        return new.scale == scale and new.size >= size and (new.size <= 38 or size > 38)
    if kind in ("datetime", "timestamp"):
        return new.size >= size
    if kind in ("time", "binary", "bit"):
        return new.size == size
    if kind in ("enum", "set"):
        before = _members(old)
        after = _members(new) if modified is None else modified.members
        return "?" not in after and tuple(after[: len(before)]) == before
    return True


def _members(column: SourceColumn) -> tuple[str, ...]:
    return tuple(part[0].text for part in TokenCursor(tokens(column.spelled)[1:]).listed() if part)


def _is_boolean(column: SourceColumn | Modified) -> bool:
    if isinstance(column, SourceColumn):
        return column.spelled.lower().startswith("tinyint(1)")
    return column.type in ("bool", "boolean") or column.members == ("1",)


def _shown(column: SourceColumn) -> str:
    charset = f" {column.charset}" if column.charset else ""
    return f"{column.spelled}{charset}"
