"""The small cases of the merge engines on our tables: one commit a record, a full compaction at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.errors import CannotMerge, InvalidRequest
from tests.lsm.merge_cases import FILE, Case, cases, rewritten, text_of


def played(case: Case, path: Path) -> str:
    """What is seen after each commit and after a full compaction."""
    table, seen = case.create(path), []
    for record in case.records:
        if record is None:
            table.compact(full=True)
            continue
        kind, values = record
        rows = case.rows(table, values)
        try:
            table.write(rows.append_column("kind", [[kind]]), row_kind_column="kind")
        except InvalidRequest:
            seen.append("refused")
            continue
        seen.append(read(table))
    if "error" in seen[-1:]:
        with pytest.raises(CannotMerge):
            table.compact(full=True)
    else:
        table.compact(full=True)
    assert table.check() == []
    return f"{' | '.join(seen)} => {read(table)}"


def read(table: ts.Table) -> str:
    try:
        found = ts.open(table.location).scan().to_arrow().to_pylist()
    except CannotMerge:
        return "error"
    return text_of(found[0] if found else None)


def test_cases_of_the_merge_engines(tmp_path: Path, *, rewrite: bool) -> None:
    answers = [(case, played(case, tmp_path / str(case.number))) for case in cases()]
    if rewrite:
        FILE.write_text(rewritten([found for _, found in answers]), encoding="utf-8")
        pytest.skip("written")
    for case, found in answers:
        assert found == case.wanted, f"{case.engine} {case.columns} {case.options}: {case.text}"
