"""Type text and JSON → DataType (FORMAT.md 2.5), as in schema files and from users.

    type   = base [NOT NULL | NULL] { (ARRAY | MULTISET) [NOT NULL | NULL] }         old suffix forms
    base   = KEYWORD [ "(" n [ "," n ] ")" ] [ (WITH LOCAL | WITHOUT) TIME ZONE ]
           | ARRAY < type > | MULTISET < type > | MAP < type , type > | VECTOR < type , n >
           | ROW ( "<" | "(" ) name [:] type [ [COMMENT] 'text' ] , … ( ">" | ")" )

Schema files have nested types as JSON objects; SQL shows the forms with angle brackets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from tablestore.core.errors import InvalidRequest
from tablestore.format.types.data_type import LENGTHS, MAX_LENGTH, DataField, DataType, nested

PLAIN = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "VARIANT", "BLOB")
_ALIASES = {"INTEGER": "INT", "NUMERIC": "DECIMAL", "DEC": "DECIMAL"}
_ALIASES |= {"STRUCT": "ROW", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT"}
_ALIASES |= {"TIMESTAMP_NTZ": "TIMESTAMP"}
_TIMES = {"TIME": 0, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}
_SPELLED = ("GEOMETRY", "GEOGRAPHY")
_DEEPEST = 100
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`|'(?:[^']|'')*'|\d+|[^\W\d]\w*)|([<>(),:]))")


def parse_type(text: Any, *, alone: Mapping[str, str] | None = None) -> DataType:
    """The type of a schema file's `type` value or of a user's text; raises InvalidRequest for others.

    Spark's names of types are known, too. `alone`: what a word without parentheses means instead, as in
    statements, where a bare VARCHAR has any length.
    """
    if isinstance(text, Mapping):
        return _from_object(text, _DEEPEST)
    return _TypeParser(str(text), alone or {}).whole()


def parse_field(item: Mapping[str, Any], position: int) -> DataField:
    """The field of a schema file's object; without an id it gets its position."""
    return _field(item, position, _DEEPEST)


def _field(item: Mapping[str, Any], position: int, depth: int) -> DataField:
    t = item["type"]
    return DataField(
        int(item.get("id", position)),
        str(item["name"]),
        _from_object(t, depth) if isinstance(t, Mapping) else parse_type(t),
        item.get("description"),
        item.get("defaultValue"),
    )


def _from_object(body: Mapping[str, Any], depth: int) -> DataType:
    if depth == 0:
        raise InvalidRequest(f"a type nested deeper than {_DEEPEST} levels")
    root, _, null = str(body.get("type", "")).upper().strip().partition(" ")

    def child(name: str) -> DataType:
        inner = body[name]
        return _from_object(inner, depth - 1) if isinstance(inner, Mapping) else parse_type(inner)

    nullable = null.strip() != "NOT NULL"
    try:
        if root == "ROW":
            fields = tuple(_field(item, i, depth - 1) for i, item in enumerate(body["fields"]))
            return _row(fields, nullable)
        if root == "MAP":
            return nested(root, child("key"), child("value"), nullable=nullable)
        if root in ("ARRAY", "MULTISET"):
            return nested(root, child("element"), nullable=nullable)
        if root == "VECTOR":
            return nested(root, child("element"), nullable=nullable, precision=int(body["length"]))
    except (KeyError, TypeError, AttributeError) as e:
        raise InvalidRequest(f"{root} type without {e}") from None
    raise InvalidRequest(f"{dict(body)!r} is not a Paimon type")


def _row(fields: tuple[DataField, ...], nullable: bool) -> DataType:
    names = [f.name for f in fields]
    repeated = next((n for n in names if names.count(n) > 1), None)
    if repeated is not None:
        raise InvalidRequest(f"a ROW has two fields {repeated!r}")
    return DataType("ROW", nullable, children=fields)


def ranged(t: DataType, low: int, high: int) -> DataType:
    """`t` if its precision and scale are within the type's limits."""
    if not low <= t.precision <= high or t.scale > t.precision:
        raise InvalidRequest(f"{t} is not a type: precision must be {low}..{high}, scale up to the precision")
    return t


def sized(root: str, n: int) -> DataType:
    """CHAR, VARCHAR, BINARY or VARBINARY of length n."""
    return ranged(DataType(root, precision=n), 1, MAX_LENGTH)


class _TypeParser:
    """One pass over the tokens of a type's text. Not thread-safe."""

    def __init__(self, text: str, alone: Mapping[str, str]) -> None:
        self.alone = alone  # other meanings of words without parameters
        self.text, self.at, self.tokens = text, 0, list[str]()
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._wrong()
            self.tokens.append(match[1] or match[2])
            position = match.end()

    def whole(self) -> DataType:
        t = self._type(_DEEPEST)
        if self.at < len(self.tokens):
            raise self._wrong()
        return t

    def _wrong(self, root: str = "") -> InvalidRequest:
        names = (*PLAIN, *LENGTHS, *_TIMES, *_ALIASES, "STRING", "BYTES", "DECIMAL", "ARRAY", "MAP", "ROW")
        near = get_close_matches(root, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return InvalidRequest(f"{self.text!r} is not a Paimon type{hint}")

    def _next(self) -> str:
        if self.at >= len(self.tokens):
            raise self._wrong()
        self.at += 1
        return self.tokens[self.at - 1]

    def _skip(self, *words: str) -> bool:
        """Step over these tokens if they come next."""
        tokens = [w.upper() for w in self.tokens[self.at : self.at + len(words)]]
        if tokens != list(words):
            return False
        self.at += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._skip(word):
            raise self._wrong()

    def _number(self) -> int:
        token = self._next()
        if not token.isdigit() or len(token) > 10:
            raise self._wrong()
        return int(token)

    def _type(self, depth: int) -> DataType:
        if depth == 0:
            raise InvalidRequest(f"{self.text[:80]!r}…: a type nested deeper than {_DEEPEST} levels")
        t = self._nullability(self._base(depth))
        for _ in range(_DEEPEST):
            root = next((r for r in ("ARRAY", "MULTISET") if self._skip(r)), None)
            if root is None:
                return t
            t = self._nullability(nested(root, t))
        raise InvalidRequest(f"{self.text[:80]!r}…: a type nested deeper than {_DEEPEST} levels")

    def _nullability(self, t: DataType) -> DataType:
        if self._skip("NOT", "NULL"):
            return t.not_null()
        self._skip("NULL")
        return t

    def _base(self, depth: int) -> DataType:
        word = self._next().upper()
        if self.tokens[self.at : self.at + 1] != ["("]:
            word = self.alone.get(word, word)
        root = _ALIASES.get(word, word)
        if root in PLAIN:
            if root == "DOUBLE":
                self._skip("PRECISION")
            return DataType(root)
        if root in ("STRING", "BYTES"):
            return DataType("VARCHAR" if root == "STRING" else "VARBINARY", precision=MAX_LENGTH)
        if root in LENGTHS:
            p, _ = self._parameters()
            return sized(root, 1 if p is None else p)
        if root == "DECIMAL":
            p, s = self._parameters()
            return ranged(DataType(root, precision=10 if p is None else p, scale=s or 0), 1, 38)
        if root in _TIMES:
            return self._time(root)
        if root in _SPELLED:
            return self._as_spelled(root)
        return self._bracketed(root, depth)

    def _parameters(self) -> tuple[int | None, int | None]:
        if not self._skip("("):
            return None, None
        first, second = self._number(), self._number() if self._skip(",") else None
        self._expect(")")
        return first, second

    def _time(self, root: str) -> DataType:
        p, _ = self._parameters()
        if not self._skip("WITHOUT", "TIME", "ZONE") and root == "TIMESTAMP":
            root = "TIMESTAMP_LTZ" if self._skip("WITH", "LOCAL", "TIME", "ZONE") else root
        return ranged(DataType(root, precision=_TIMES[root] if p is None else p), 0, 9)

    def _as_spelled(self, root: str) -> DataType:
        """GEOMETRY or GEOGRAPHY with the text in their parentheses."""
        start = self.text.upper().index(root)
        end = self.text.find(")", start) + 1 if "(" in self.text[start:] else start + len(root)
        while self.at < len(self.tokens) and not self._skip(")"):
            if self.tokens[self.at].upper() in ("NOT", "NULL"):
                break
            self.at += 1
        return DataType(root, spelled=self.text[start:end])

    def _bracketed(self, root: str, depth: int) -> DataType:
        if root == "ROW":
            close = ">" if self._skip("<") else ")"
            if close == ")":
                self._expect("(")
            return self._fields(close, depth)
        if root not in ("ARRAY", "MULTISET", "MAP", "VECTOR"):
            raise self._wrong(root)
        self._expect("<")
        types = [self._type(depth - 1)]
        length = 0
        if root != "ARRAY" and root != "MULTISET":
            self._expect(",")
            if root == "MAP":
                types.append(self._type(depth - 1))
            else:
                length = self._number()
        self._expect(">")
        return nested(root, *types, precision=length)

    def _fields(self, close: str, depth: int) -> DataType:
        fields: list[DataField] = []
        while not self._skip(close):
            if fields:
                self._expect(",")
            name = self._next()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            elif not (name[0].isalpha() or name[0] == "_"):
                raise self._wrong()
            self._skip(":")
            f = DataField(len(fields), name, self._type(depth - 1))
            said = self._skip("COMMENT")
            if self.at < len(self.tokens) and self.tokens[self.at].startswith("'"):
                f = replace(f, description=self._next()[1:-1].replace("''", "'"))
            elif said:
                raise self._wrong()
            fields.append(f)
        return _row(tuple(fields), True)
