"""Tables altered by this engine, as pypaimon sees them: old rows under new columns."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tests.peers.pypaimon import PyPaimon

pytestmark = pytest.mark.peer


def test_tables_with_options_comments_and_defaults_open(tmp_path: Path) -> None:
    peer = PyPaimon(tmp_path)
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"])
    t = t.alter(ts.set_options({"bucket": 1, "num-levels": 7}), ts.comment(None, "said"), ts.default("v", 5))
    t.write([{"k": 1}, {"k": 2, "v": 3}])
    assert peer.read("d.t").sort_by("k").to_pydict() == {"k": [1, 2], "v": [5, 3]}
