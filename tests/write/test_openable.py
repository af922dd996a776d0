"""Tables that Paimon would not open or write are not made; those that there are go on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption
from tests.write.unopenable import CASES, Unopenable


def created(where: Path, case: Unopenable, options: dict[str, Any]) -> ts.Table:
    keys = (["p", "k"] if case.partitioned else ["k"]) if case.keyed else []
    return ts.connect(str(where)).create_table(
        "d.t",
        schema={"p": ts.STRING, "k": ts.INT},
        primary_key=keys,
        partition_by=["p"] if case.partitioned else [],
        options=options,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.names)
def test_what_paimon_would_not_open_is_not_made(tmp_path: Path, case: Unopenable) -> None:
    with pytest.raises(InvalidOption, match=re.escape(case.words)):
        created(tmp_path / "refused", case, case.options)
    table = created(tmp_path / "made", case, {**case.options, **case.mended})
    table.write([{"p": "a", "k": 1}])
    changed = {k: v for k, v in case.options.items() if table.options.get(k) != str(v).lower()}
    if changed:
        with pytest.raises(InvalidOption):
            table.alter(ts.set_options(changed))


def test_a_table_that_is_so_already_is_written_and_can_be_mended(tmp_path: Path) -> None:
    table = created(tmp_path, CASES[0], {})
    schema = replace(table.store.schema.with_options({"snapshot.num-retained.max": "5"}), id=1)
    assert table.store.schemas.commit(schema)
    table = ts.open(table.location)
    table.write([{"p": "a", "k": 1}])
    with pytest.raises(InvalidOption, match=r"set 'snapshot\.num-retained\.min' to 5"):
        table.alter(ts.add("v", ts.INT))
    table = table.alter(ts.set_options({"snapshot.num-retained.min": 2}), ts.add("v", ts.INT))
    assert table.scan().to_arrow().to_pylist() == [{"p": "a", "k": 1, "v": None}]
