"""A row-wise step keeps updates whole, or says delete and insert where only one of their rows is there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tablestore.format import rowkind
from tablestore.sql.streaming.row_step import whole_updates

KINDS = {"+I": rowkind.INSERT, "-U": rowkind.UPDATE_BEFORE, "+U": rowkind.UPDATE_AFTER, "-D": rowkind.DELETE}


@pytest.mark.parametrize(
    ("given", "selected", "expected"),
    [
        ("-U +U", [0, 1], "-U +U"),
        ("-U +U", [0], "-D"),
        ("-U +U", [1], "+I"),
        ("+I -U", [0, 1], "+I -D"),
        ("-U +I", [0, 1], "-D +I"),
        ("+U -D", [0, 1], "+U -D"),
        ("-U -U +U", [0, 1, 2], "-D -U +U"),
        ("-U +U -U +U", [0, 3], "-D +I"),
        ("-U +U", [0, 0, 1, 1], "-U -U +U +U"),
    ],
)
def test_kinds_of_what_is_selected(given: str, selected: list[int], expected: str) -> None:
    kinds = pa.array([KINDS[k] for k in given.split()], pa.int8())
    actual = whole_updates(kinds.take(pa.array(selected)), kinds, np.array(selected))
    assert rowkind.texts(actual).to_pylist() == expected.split()
