"""Options that exclude each other are refused by name, as Paimon refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption
from tablestore.core.options.table_options import TableOptions
from tablestore.lsm.merge.validate import require_changelog
from tests.tables import schema_of

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


@pytest.mark.parametrize(
    ("key", "options"),
    [
        (["k"], VECTORS),
        (["k"], {"changelog-producer": "lookup", **VECTORS}),
        (["k"], {"changelog-producer": "full-compaction"}),
        (["k"], {"changelog-producer": "full-compaction", "full-compaction.delta-commits": 3}),
        (["k"], {"full-compaction.delta-commits": 3}),
        (["k"], {"changelog-producer": "lookup"}),
        (["k"], {"merge-engine": "first-row"}),
        ([], VECTORS),
        ([], {"full-compaction.delta-commits": 3}),
    ],
)
def test_what_goes_together_is_taken(key: list[str], options: dict[str, str]) -> None:
    schema = schema_of({"k": ts.INT}, primary_key=tuple(key))
    require_changelog(
        schema, TableOptions.parse({name: str(value).lower() for name, value in options.items()})
    )
