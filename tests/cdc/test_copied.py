"""The text format of PostgreSQL's COPY, by values that have every special character."""

from __future__ import annotations

import random

from tablestore.cdc.postgres.copy_rows import CopiedRows, cut

ESCAPED = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
CHARACTERS = ("\\", "N", "n", "\b", "\f", "\n", "\r", "\t", "\v", "\x01", "ä", "€", "x")


def line(values: list[str | None]) -> bytes:
    """As the server writes a row."""
    texts = ["\\N" if v is None else "".join(ESCAPED.get(c, c) for c in v) for v in values]
    return "\t".join(texts).encode() + b"\n"


def drawn(r: random.Random) -> str | None:
    return None if r.random() < 0.2 else "".join(r.choices(CHARACTERS, k=r.randint(0, 6)))


def values(lines: list[bytes], columns: int) -> list[list[str | None]]:
    slices = cut(CopiedRows.of(lines), columns)
    texts = [
        [None if v is None else v.decode() for v in slices.binary(c).to_pylist()] for c in range(columns)
    ]
    return [list(row) for row in zip(*texts, strict=True)] if columns else [[]] * slices.rows


def test_values_are_those_that_were_copied(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        r = random.Random(seed)
        for columns in (1, 2, 5):
            rows = [[drawn(r) for _ in range(columns)] for _ in range(200)]
            assert values([line(row) for row in rows], columns) == rows


def test_a_text_that_looks_like_null_is_a_text() -> None:
    assert values([line([None, "\\N"]), line(["\\", "N"])], 2) == [[None, "\\N"], ["\\", "N"]]


def test_rows_without_columns_are_counted() -> None:
    assert cut(CopiedRows.of([b"\n", b"\n"]), 0).rows == 2
