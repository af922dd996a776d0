"""The small cases of the merge engines on our tables: one commit a record, a full compaction at the end."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import CannotMerge, InvalidRequest
from tests import text_cases
from tests.lsm.merge.merge_cases import FILE, Case, tables_of, text_of


def played(case: Case, path: Path) -> list[str]:
    """Of each line what is seen after each of its commits, and after a full compaction."""
    table = case.create(path)
    seen: list[list[str]] = [[] for _ in case.lines]
    for records in case.steps:
        if records is None:
            table.compact(full=True)
            continue
        rows, kinds = case.rows(table, records), [kind for _, kind, _ in records]
        try:
            table.write(rows.append_column("kind", [kinds]), row_kind_column="kind")
            actual = read(table, len(seen))
        except InvalidRequest:
            actual = ["refused"] * len(seen)
        for key, _, _ in records:
            seen[key].append(actual[key])
    if "error" in actual:
        with pytest.raises(CannotMerge):
            table.compact(full=True)
    else:
        table.compact(full=True)
    assert table.check() == []
    last = read(table, len(seen))
    return [f"{' | '.join(steps)} => {end}" for steps, end in zip(seen, last, strict=True)]


def read(table: ts.Table, keys: int) -> list[str]:
    try:
        rows = {row["k"]: row for row in ts.open(table.location).scan().to_arrow().to_pylist()}
    except CannotMerge:
        return ["error"] * keys
    return [text_of(rows.get(key)) for key in range(keys)]


def test_cases_of_the_merge_engines(tmp_path: Path, *, rewrite: bool) -> None:
    warehouses = (tmp_path / str(number) for number in count())

    def outcome(lines: list[str]) -> str:
        answers: dict[str, str] = {}
        for case in tables_of(lines):
            answers |= zip(case.texts, played(case, next(warehouses)), strict=True)
        return "\n".join(answers[line] for line in lines if line.startswith(">"))

    text_cases.check(FILE, outcome, rewrite=rewrite)
