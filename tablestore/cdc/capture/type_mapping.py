"""TypeMapping: the types of columns in the lake, by rules that have Paimon's names; and the type that holds
the values of two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tablestore.cdc.capture import names
from tablestore.cdc.capture.source import ShapeColumn
from tablestore.core.errors import NotFound
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import BIGINT, BOOLEAN, BYTES, STRING
from tablestore.format.types.data_type import DataType

TYPE_MAPPINGS = {
    "tinyint1-to-bool": "TINYINT(1) becomes BOOLEAN, true where it is not 0",
    "tinyint1-not-bool": "TINYINT(1) becomes TINYINT; so it does without",
    "to-nullable": "NOT NULL is left out, but for columns of the key",
    "to-string": "every type becomes STRING",
    "char-to-string": "CHAR(n) and VARCHAR(n) become STRING",
    "longtext-to-bytes": "LONGTEXT becomes BYTES",
    "bigint-unsigned-to-bigint": "BIGINT UNSIGNED becomes BIGINT; larger values are bad rows",
    "decimal-no-change": "decimals stay as they are; so they do without",
}
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}


@dataclass(frozen=True, slots=True)
class TypeMapping:
    """The rules that apply, of `TYPE_MAPPINGS`."""

    modes: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, written: str | Iterable[str]) -> TypeMapping:
        """Rules as written: several with commas, or a list; `_` counts as `-`. Raises NotFound with the
        nearest."""
        given = names.words(written, "type mappings")
        modes = [word.lower().replace("_", "-") for word in given if word]
        for mode in modes:
            if mode not in TYPE_MAPPINGS:
                raise NotFound.among("type mapping", mode, TYPE_MAPPINGS)
        return cls(frozenset(modes))

    def of(self, column: ShapeColumn) -> DataType:
        """The type of the column in the lake; one of the key is made NOT NULL by its table."""
        found = self._of(column)
        nullable = column.type.nullable or "to-nullable" in self.modes
        return found.as_nullable() if nullable else found.not_null()

    def _of(self, column: ShapeColumn) -> DataType:
        spelled, modes = column.spelled.lower(), self.modes
        if "to-string" in modes:
            return STRING
        if spelled == "tinyint(1)" and "tinyint1-to-bool" in modes:
            return BOOLEAN
        if spelled.startswith("bigint") and "unsigned" in spelled and "bigint-unsigned-to-bigint" in modes:
            return BIGINT
        if spelled == "longtext" and "longtext-to-bytes" in modes:
            return BYTES
        if column.type.is_string and "char-to-string" in modes:
            return STRING
        return column.type


def common(one: DataType, other: DataType) -> DataType | None:
    """The narrowest type that holds the values of both (BIGINT as DOUBLE may lose digits), nullable where one
    of them is; None without any."""
    found = _common(one, other)
    if found is None:
        return None
    return found.as_nullable() if one.nullable or other.nullable else found.not_null()


def _common(one: DataType, other: DataType) -> DataType | None:
    roots = {one.root, other.root}
    if one.as_nullable() == other.as_nullable():
        return one
    if roots <= set(_DIGITS):
        return max(one, other, key=lambda t: _DIGITS[t.root])
    if roots <= {*_DIGITS, "DECIMAL"}:
        return _decimal(one, other)
    if roots <= set(casts.NUMBERS):
        return DataType("DOUBLE")
    if roots <= set(casts.TEXTS) or roots <= {"BINARY", "VARBINARY"}:
        longer = max(one.precision, other.precision)
        varying = "VARCHAR" if one.is_string else "VARBINARY"
        return DataType(one.root if len(roots) == 1 else varying, precision=longer)
    if len(roots) == 1 and one.root in (*casts.TIMES, "TIME"):
        return max(one, other, key=lambda t: t.precision)
    return None


def _decimal(one: DataType, other: DataType) -> DataType | None:
    whole = max(_DIGITS.get(t.root, t.precision - t.scale) for t in (one, other))
    scale = max(t.scale for t in (one, other))
    return DataType("DECIMAL", precision=whole + scale, scale=scale) if whole + scale <= 38 else None
