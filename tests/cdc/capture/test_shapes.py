"""Shapes that grow with what messages say, and are kept in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tablestore.cdc.capture.shapes import ShapeFiles, grown, of_json, to_json
from tablestore.cdc.capture.source import ShapeColumn
from tablestore.format.types.type_text import parse_type
from tests.cdc.capture.fakes import shape


@pytest.mark.parametrize(
    ("known", "found", "both", "guessed"),
    [
        ("BIGINT", "DOUBLE", "DOUBLE", "DOUBLE"),
        ("BIGINT", "STRING", "STRING", "BIGINT"),
        ("STRING", "BIGINT", "STRING", "STRING"),
        ("DATE", "INT", "STRING", "DATE"),
    ],
)
def test_types_without_a_common_one_become_text_and_guessed_ones_stay(
    known: str, found: str, both: str, guessed: str
):
    one, columns = shape(("a", known)), (ShapeColumn("a", parse_type(found)),)
    assert str(grown(one, columns).columns[0].type) == both
    assert str(grown(one, columns, inferred=True).columns[0].type) == guessed


def test_a_shape_keeps_its_columns_and_takes_new_ones():
    known = shape(("id", "INT NOT NULL"), ("a", "INT NOT NULL"), ("b", "STRING NOT NULL"))
    actual = tuple(
        ShapeColumn(n, parse_type(t))
        for n, t in (("id", "INT NOT NULL"), ("a", "BIGINT"), ("c", "DATE NOT NULL"))
    )
    types = {c.name: str(c.type) for c in grown(known, actual).columns}
    assert types == {"id": "INT NOT NULL", "a": "BIGINT", "b": "STRING", "c": "DATE"}
    assert grown(grown(known, actual), actual) == grown(known, actual)


def test_a_shape_in_a_file_is_the_same_and_stays_when_it_comes_again(tmp_path: Path):
    files, one = ShapeFiles(str(tmp_path)), shape(("id", "INT NOT NULL"), ("t", "TIMESTAMP(3)"))
    assert of_json(json.loads(json.dumps(to_json(one)))) == one
    digest = files.put(one)
    assert files.put(one) == digest
    assert files.get(digest) == one
    assert files.get("0" * 32) is None
