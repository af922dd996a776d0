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
    ("held", "coming", "both", "guessed"),
    [
        ("BIGINT", "DOUBLE", "DOUBLE", "DOUBLE"),
        ("BIGINT", "STRING", "STRING", "BIGINT"),
        ("STRING", "BIGINT", "STRING", "STRING"),
        ("DATE", "INT", "STRING", "DATE"),
    ],
)
def test_types_without_a_common_one_become_text_and_guessed_ones_stay(
    held: str, coming: str, both: str, guessed: str
):
    before, columns = shape(("a", held)), (ShapeColumn("a", parse_type(coming)),)
    assert str(grown(before, columns).columns[0].type) == both
    assert str(grown(before, columns, inferred=True).columns[0].type) == guessed


def test_a_shape_keeps_its_columns_and_takes_new_ones():
    held = shape(("id", "INT NOT NULL"), ("a", "INT NOT NULL"), ("b", "STRING NOT NULL"))
    actual = tuple(
        ShapeColumn(n, parse_type(t))
        for n, t in (("id", "INT NOT NULL"), ("a", "BIGINT"), ("c", "DATE NOT NULL"))
    )
    types = {c.name: str(c.type) for c in grown(held, actual).columns}
    assert types == {"id": "INT NOT NULL", "a": "BIGINT", "b": "STRING", "c": "DATE"}
    assert grown(grown(held, actual), actual) == grown(held, actual)


def test_a_shape_in_a_file_is_the_same_and_stays_when_it_comes_again(tmp_path: Path):
    files, stored = ShapeFiles(str(tmp_path)), shape(("id", "INT NOT NULL"), ("t", "TIMESTAMP(3)"))
    assert of_json(json.loads(json.dumps(to_json(stored)))) == stored
    digest = files.put(stored)
    assert files.put(stored) == digest
    assert files.get(digest) == stored
    assert files.get("0" * 32) is None
