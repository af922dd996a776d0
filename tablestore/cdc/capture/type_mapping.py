"""TypeMapping: the types of columns in the lake, by rules that have Paimon's names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tablestore.cdc.capture import names
from tablestore.cdc.capture.source import ShapeColumn
from tablestore.core.errors import NotFound
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
        mapped = self._of(column)
        nullable = column.type.nullable or "to-nullable" in self.modes
        return mapped.as_nullable() if nullable else mapped.not_null()

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
