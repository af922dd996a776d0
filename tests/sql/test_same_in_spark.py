"""Which calls pass to Spark: those that mean there what they mean here."""

from __future__ import annotations

import pytest

from tablestore.sql.dialect.parser import read_expression
from tablestore.sql.query.spark_functions import is_same
from tablestore.sql.query.type_inference import note_type


@pytest.mark.parametrize(
    ("call", "same"),
    [
        ("UPPER(s)", True),
        ("SUBSTR(s, 2, 3)", True),
        ("SUBSTR(s, -2)", False),
        ("SUBSTR(s, 1, n)", False),
        ("LPAD(s, 3, '*')", True),
        ("LPAD(s, n, '*')", False),
        ("LPAD(s, 3, '')", False),
        ("LTRIM(s)", True),
        ("LTRIM(s, 'x')", False),
        ("REPLACE(s, 'a', '')", True),
        ("REPLACE(s, '', 'a')", False),
        ("INSTR(s, 'a')", True),
        ("INSTR(s, 'a', -1)", False),
        ("LOCATE('a', s, 2)", True),
        ("DATE_FORMAT(CAST(t AS TIMESTAMP), 'yyyy-MM-dd')", True),
        ("DATE_FORMAT('2024-01-01 00:00:00', 'yyyy-MM-dd')", False),
        ("LN(n)", True),
        ("GREATEST(a, b)", True),
        ("ROUND(n, -1)", True),
        ("ROUND(n, m)", False),
        ("DATE_FORMAT(t, 'YYYY')", False),
        ("DATE_FORMAT(t, p)", False),
        ("ASCII(s)", False),
        ("SPLIT_INDEX(s, ',', 1)", False),
    ],
)
def test_a_call_passes_if_it_means_the_same(call: str, same: bool) -> None:
    tree = note_type(read_expression(call))
    assert is_same(tree.name.upper(), tree.expressions) is same
