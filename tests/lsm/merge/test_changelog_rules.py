"""Options that exclude each other are refused by name, as Paimon refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption

VECTORS = {"deletion-vectors.enabled": True}


@pytest.mark.parametrize(
    ("key", "options", "said"),
    [
        ([], {"changelog-producer": "lookup"}, "needs a primary key"),
        (["k"], {"changelog-producer": "lookup", "full-compaction.delta-commits": 3}, "delta-commits"),
        (["k"], {"changelog-producer": "full-compaction", **VECTORS}, "none, input, lookup only"),
        (["k"], {"merge-engine": "first-row", **VECTORS}, "first-row"),
    ],
)
def test_what_cannot_be_is_refused_at_creation(tmp_path: Path, key, options, said) -> None:
    lake = ts.connect(str(tmp_path))
    with pytest.raises(InvalidOption, match=said):
        lake.create_table("d.t", schema={"k": ts.INT}, primary_key=key, options={"bucket": -1, **options})
    lake.create_table("d.t", schema={"k": ts.INT}, primary_key=["k"], options={"bucket": 1, **VECTORS})
