"""Shapes that grow with what messages say, and are kept in files."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tablestore.cdc.capture.shapes import ShapeFiles, common_type, grown, of_json, to_json
from tablestore.cdc.capture.source import ShapeColumn
from tablestore.format.types.type_text import parse_type
from tests.cdc.capture.fakes import shape

TYPES = "TINYINT INT BIGINT FLOAT DOUBLE BOOLEAN DATE STRING BYTES".split()
TYPES += ["DECIMAL(10, 2)", "DECIMAL(38, 10)", "VARCHAR(5)", "CHAR(3)", "TIMESTAMP(3)", "TIMESTAMP(6)"]


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        ("INT", "BIGINT", "BIGINT"),
        ("BIGINT", "DECIMAL(20, 0)", "DECIMAL(20, 0)"),
        ("DECIMAL(10, 2)", "DECIMAL(8, 4)", "DECIMAL(12, 4)"),
        ("DECIMAL(38, 0)", "DECIMAL(38, 10)", "STRING"),
        ("INT", "DOUBLE", "DOUBLE"),
        ("VARCHAR(5)", "CHAR(9)", "VARCHAR(9)"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6)"),
        ("BOOLEAN", "INT", "STRING"),
    ],
)
def test_two_types_have_the_narrowest_that_holds_both(a: str, b: str, both: str):
    assert str(common_type(parse_type(a), parse_type(b))) == both
    assert str(common_type(parse_type(b), parse_type(a))) == both


def test_types_do_not_depend_on_the_order_in_which_they_come_unless_they_end_as_text():
    for three in itertools.combinations(map(parse_type, TYPES), 3):
        found = {str(common_type(common_type(a, b), c)) for a, b, c in itertools.permutations(three)}
        top = {"STRING"}  # two that only a text holds
        assert len(found - top) <= 1, three


def test_guessed_types_only_become_double():
    whole, fraction, text = map(parse_type, ("BIGINT", "DOUBLE", "STRING"))
    assert common_type(whole, fraction, inferred=True) == fraction
    assert common_type(whole, text, inferred=True) == whole
    assert common_type(text, whole, inferred=True) == text


def test_a_shape_keeps_its_columns_and_takes_new_ones():
    known = shape(("id", "INT NOT NULL"), ("a", "INT NOT NULL"), ("b", "STRING NOT NULL"))
    found = tuple(
        ShapeColumn(n, parse_type(t))
        for n, t in (("id", "INT NOT NULL"), ("a", "BIGINT"), ("c", "DATE NOT NULL"))
    )
    types = {c.name: str(c.type) for c in grown(known, found).columns}
    assert types == {"id": "INT NOT NULL", "a": "BIGINT", "b": "STRING", "c": "DATE"}
    assert grown(grown(known, found), found) == grown(known, found)


def test_a_shape_in_a_file_is_the_same_and_stays_when_it_comes_again(tmp_path: Path):
    files, one = ShapeFiles(str(tmp_path)), shape(("id", "INT NOT NULL"), ("t", "TIMESTAMP(3)"))
    assert of_json(json.loads(json.dumps(to_json(one)))) == one
    digest = files.put(one)
    assert files.put(one) == digest
    assert files.get(digest) == one
    assert files.get("0" * 32) is None
