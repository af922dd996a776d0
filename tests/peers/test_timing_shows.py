"""The exceptions of I12 in Java Paimon: the same rows differ there too, by when they met."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.test_timing_shows import CASES, FULL, Case, create, rows_of, seen
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.sample(3)
def test_it_shows_in_java_when_rows_met(java: JavaPaimon, tmp_path: Path, case: Case) -> None:
    for number, (steps, wanted) in enumerate(case.ways):
        table = create(case, tmp_path / str(number))
        for identifier, step in enumerate(steps):
            if step == FULL:
                java.compact(table.location, identifier=identifier)
            else:
                kinds, rows = rows_of(case, step)
                java.write(table.location, rows, kinds=kinds, identifier=identifier, write_only=True)
        actual = [tuple(row[1:]) for row in java.rows(table.location)]
        assert actual == ([] if wanted is None else [wanted])
        assert seen(table) == wanted
