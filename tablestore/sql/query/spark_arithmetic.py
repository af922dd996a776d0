"""SparkArithmetic: arithmetic as SQL of Spark."""

from __future__ import annotations

from tablestore.format.types.data_type import MAX_LENGTH, DataType
from tablestore.sql.query.arithmetic import Arithmetic, Operand
from tablestore.sql.query.numeric_types import BITS, FLOATS, MOST_DIGITS, NUMBERS, WHOLE, digits
from tablestore.sql.query.spark_times import seconds_text, spark_time_cast

_NAMES = {"VARCHAR": "STRING", "CHAR": "STRING", "VARBINARY": "BINARY", "TIMESTAMP": "TIMESTAMP_NTZ"}
_NAMES |= {"TIMESTAMP_LTZ": "TIMESTAMP"}
_TRIED = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}
_ZERO = "raise_error('Division by zero')"


class SparkArithmetic(Arithmetic):
    """How Spark says arithmetic: its decimals have the digits of Flink's, its overflow is an error."""

    sums_in_128_bits = False

    def type_name(self, t: DataType) -> str:
        return f"DECIMAL({t.precision}, {t.scale})" if t.root == "DECIMAL" else _NAMES.get(t.root, t.root)

    def rounded(self, name: str, o: Operand, places: list[str], result: DataType) -> str:
        return f"CAST(round({', '.join([o.text, *places])}) AS {self.type_name(result)})"

    def wrapped(self, text: str, t: DataType) -> str:
        half, mask = 1 << (BITS[t.root] - 1), (1 << BITS[t.root]) - 1
        if t.root == "BIGINT":
            return _wrapped_decimal(text, t)
        return f"CAST((((CAST({text} AS BIGINT) & {mask}L) + {half}L) & {mask}L) - {half}L AS {t.root})"

    def mean(self, total: Operand, count: Operand, result: DataType, *, short: bool) -> str:
        if result.root in WHOLE:
            return f"CAST({total.text} DIV {count.text} AS {result.root})"
        left = f"CAST({total.text} AS {self.type_name(total.type)})"
        return f"CAST({left} / CAST({count.text} AS DECIMAL(19, 0)) AS {self.type_name(result)})"

    def _remainder(self, left: str, right: str, kind: str) -> str:
        """Of floating point; by 0 it is NaN, in Spark an error."""
        return f"IF({right} = 0, {left} * CAST('NaN' AS {kind}), try_mod({left}, {right}))"

    def _wide(self, t: DataType) -> str:
        return "DECIMAL(38, 0)" if t.root == "BIGINT" else "BIGINT"

    def _whole_quotient(self, left: str, right: str) -> str:
        return f"({left} DIV {right})"

    def _decimal(self, operator: str, a: Operand, b: Operand, result: DataType) -> str:
        left, right = _as_decimal(a), _as_decimal(b)
        if result.precision < MOST_DIGITS:
            found = f"({left} {operator} {right})"
        else:  # it may not fit: NULL
            found = f"{_TRIED[operator]}({left}, {right})"
            if operator in "/%" and not b.constant:
                found = f"IF({left} IS NOT NULL AND {right} = 0, {_ZERO}, {found})"
        return f"CAST({found} AS {self.type_name(result)})"


def _wrapped_decimal(text: str, t: DataType) -> str:
    """A whole number of up to 38 digits in the bits of the type."""
    half = 1 << (BITS[t.root] - 1)
    return f"CAST(pmod(CAST({text} AS DECIMAL(38, 0)) + {half}, {2 * half}) - {half} AS {t.root})"


def _cut_to_whole(value: str, source: DataType, target: DataType, numbers: Arithmetic) -> str:
    """A number with a fraction as a whole one, as Java has it: NaN is 0, a FLOAT or DOUBLE ends with INT or
    BIGINT, then the highest bits go."""
    if source.root == "DECIMAL":
        return _wrapped_decimal(f"IF({value} < 0, ceil({value}), floor({value}))", target)
    kind = target.root if target.root == "BIGINT" else "INT"
    least, most = -(1 << (BITS[kind] - 1)), (1 << (BITS[kind] - 1)) - 1
    cases = (
        f"WHEN isnan({value}) THEN 0 WHEN {value} >= {most} THEN {most} WHEN {value} <= {least} THEN {least}"
    )
    found = f"CAST(CASE {cases} ELSE CAST({value} AS {kind}) END AS {kind})"
    return found if kind == target.root else numbers.wrapped(found, target)


def _as_decimal(o: Operand) -> str:
    p, s = digits(o.type)
    return f"CAST({o.text} AS DECIMAL({p}, {s}))"


def spark_cast(value: str, source: DataType, target: DataType, numbers: Arithmetic) -> str | None:
    """A CAST that Spark does otherwise: whole numbers wrap, a decimal that does not fit is NULL, texts are
    those of Flink and as long as their type, times have the digits of their type."""
    a, b = source.root, target.root
    if a in WHOLE and b in WHOLE and BITS[b] < BITS[a]:
        return numbers.wrapped(value, target)
    if b in WHOLE and a in (*FLOATS, "DECIMAL"):
        return _cut_to_whole(value, source, target, numbers)
    if b == "DECIMAL" and a in (*WHOLE, "DECIMAL") and source.nullable:
        return f"try_cast({value} AS {numbers.type_name(target)})"
    if b == "BOOLEAN" and a in NUMBERS:
        return f"({value} <> 0)"
    if b in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return spark_time_cast(value, source, target)
    if b not in ("CHAR", "VARCHAR") or source.is_nested:
        return None
    text = f"CAST({value} AS STRING)"
    if source.is_binary:
        return f"validate_utf8({text})"
    if a == "BOOLEAN":
        text = f"upper({text})"
    elif a == "TIME":
        text = f"left({text}, 8)"
    elif a in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        text = seconds_text(value, source.precision)
    if b == "CHAR":
        return f"rpad({text}, {target.precision}, ' ')"
    return text if target.precision == MAX_LENGTH else f"left({text}, {target.precision})"
