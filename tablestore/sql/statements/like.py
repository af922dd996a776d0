"""LIKE behind SHOW: which names are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.sql.dialect.parser import Parser
from tablestore.sql.result import Result


@dataclass(frozen=True, slots=True)
class NamePattern:
    """`[NOT] {LIKE | ILIKE} 'pattern'`: % is any text, _ any character, \\ takes their meaning away; without
    a pattern all names match."""

    pattern: str | None = None
    negated: bool = False
    caseless: bool = False

    @staticmethod
    def parse(p: Parser) -> NamePattern:
        negated = p.accept("NOT")
        caseless = p.accept("ILIKE")
        if not caseless and not p.accept("LIKE"):
            if negated:
                p.fail("LIKE is expected")
            return NamePattern()
        return NamePattern(p.string("a pattern in single quotes"), negated, caseless)

    def chosen(self, names: Iterable[str]) -> list[str]:
        """The names that match, in their order."""
        texts = pa.array(list(names), pa.string())
        if self.pattern is None:
            return list(map(str, texts))
        matched = pc.match_like(texts, self.pattern, ignore_case=self.caseless)
        return list(map(str, texts.filter(pc.invert(matched) if self.negated else matched)))


def listed(column: str, names: Iterable[str]) -> Result:
    """Names as rows of one column."""
    return Result(pa.table({column: pa.array(list(names), pa.string())}))
