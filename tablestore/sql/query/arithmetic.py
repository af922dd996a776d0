"""Arithmetic as an engine's SQL with the results of Flink SQL: whole numbers wrap, decimals are exact and
NULL where they do not fit, numbers of floating point divided by 0 are infinite, others an error.

`Arithmetic` is what the two engines have in common; each has a class of its own for how it says things.
Operands are SQL texts with their types.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tablestore.core.errors import InvalidRequest
from tablestore.format.types.data_type import DataType
from tablestore.sql.query.numeric_types import FLOATS, WHOLE, arithmetic


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression as SQL; `wide` is the same not yet wrapped, `constant` the number that a literal is,
    `steady` that it is computed row by row, of no aggregate and no query."""

    text: str
    type: DataType
    steady: bool = True
    wide: str = ""
    constant: float | None = None


class Arithmetic(ABC):
    """How one engine says arithmetic of numbers. `sums_in_128_bits` that its SUM of BIGINTs has that room."""

    sums_in_128_bits: bool

    def computed(self, operator: str, a: Operand, b: Operand) -> Operand:
        """`a operator b` of two numbers. Raises InvalidRequest for a literal divided by 0."""
        result = arithmetic(operator, a.type, b.type)
        assert result is not None
        steady = a.steady and b.steady
        if a.type.root in WHOLE and b.type.root in WHOLE:
            text, wide = self._whole(operator, a, b, result)
            return Operand(text, result, steady, wide)
        if result.root in FLOATS:
            return Operand(self._floating(operator, a, b, result), result, steady)
        return Operand(self._decimal(operator, a, b, result), result, steady)

    def negated(self, o: Operand) -> str:
        """−a; of the least whole number it is that number."""
        if o.type.root in WHOLE:
            return self.wrapped(f"(-CAST({o.text} AS {self._wide(o.type)}))", o.type)
        return f"(-{o.text})"

    def absolute(self, o: Operand) -> str:
        """ABS; of the least whole number it is that number."""
        if o.type.root in WHOLE:
            return self.wrapped(f"abs(CAST({o.text} AS {self._wide(o.type)}))", o.type)
        return f"abs({o.text})"

    @abstractmethod
    def rounded(self, name: str, o: Operand, places: list[str], result: DataType) -> str:
        """ROUND or TRUNCATE to so many places, none for 0; a half of the number as shown goes away from 0."""

    @abstractmethod
    def type_name(self, t: DataType) -> str:
        """The type as the engine writes it."""

    @abstractmethod
    def wrapped(self, text: str, t: DataType) -> str:
        """A whole number of more bits, in those of the type: the highest ones go."""

    @abstractmethod
    def mean(self, total: Operand, count: Operand, result: DataType, *, short: bool) -> str:
        """A sum by its count, cut for whole numbers, rounded half up for decimals; `short` that the sum is
        far from 38 digits."""

    def _remainder(self, left: str, right: str, kind: str) -> str:
        """What is left of a division of floating point of this type; by 0 it is NaN."""
        return f"({left} % {right})"

    @abstractmethod
    def _wide(self, t: DataType) -> str:
        """A type that holds every sum and product of two whole numbers of the type."""

    @abstractmethod
    def _decimal(self, operator: str, a: Operand, b: Operand, result: DataType) -> str: ...

    @abstractmethod
    def _whole_quotient(self, left: str, right: str) -> str: ...

    def _whole(self, operator: str, a: Operand, b: Operand, result: DataType) -> tuple[str, str]:
        kind = self._wide(result)
        if operator == "%":  # as long as its divisor; the dividend may be longer
            return f"CAST({a.text} % {b.text} AS {self.type_name(result)})", ""
        chained = operator in "+-" and a.wide and a.type.root == result.root
        left, right = a.wide if chained else f"CAST({a.text} AS {kind})", f"CAST({b.text} AS {kind})"
        if operator == "/":
            return self.wrapped(self._whole_quotient(left, right), result), ""
        result_text = f"({left} {operator} {right})"
        return self.wrapped(result_text, result), result_text if operator in "+-" else ""

    def _floating(self, operator: str, a: Operand, b: Operand, result: DataType) -> str:
        kind = self.type_name(result)
        left, right = (o.text if o.type.root == result.root else f"CAST({o.text} AS {kind})" for o in (a, b))
        quotient = self._remainder(left, right, kind) if operator == "%" else f"({left} {operator} {right})"
        if operator == "/" and not b.constant:
            if b.constant is not None and a.constant is not None:
                raise InvalidRequest("Division by zero")
            quotient = (
                f"(CASE WHEN {right} = 0 THEN {left} * CAST('inf' AS {kind}) ELSE {left} / {right} END)"
            )
        return quotient if result.root == "DOUBLE" else f"CAST({quotient} AS {kind})"
