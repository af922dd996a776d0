"""A process that asks its first query loads what queries need, and not what looks at tables and streams."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

import tablestore as ts
from tablestore import doors
from tablestore.core.errors import MissingPackage

ROOT = Path(__file__).parents[2]
UNUSED = {
    *("tablestore.insight", "tablestore.verbs", "tablestore.sql.connectors.registry", "tablestore.cdc.mysql"),
    *("tablestore.cdc.kafka", "tablestore.cdc.formats", "tablestore.fluss", "tablestore.tiering"),
    *("tablestore.sql.magics", "tablestore.sql.completion", "pyspark", "polars", "widgets"),
}


def test_a_first_query_loads_what_it_needs(lake: ts.Lake, tmp_path: Path) -> None:
    """Modules are counted, since seconds depend on the machine; most of the time they take is their own."""
    code = (
        "import sys, tablestore as ts; lake = ts.connect(sys.argv[1]); "
        "rows = lake.sql('SELECT customer, sum(amount) AS s FROM shop.orders GROUP BY customer').to_arrow(); "
        "print(rows.num_rows, *sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "lake")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rows, *loaded = done.stdout.split()
    customers = lake.table("shop.orders").scan(columns=["customer"]).to_arrow()["customer"]
    assert int(rows) == len(set(customers.to_pylist()))
    assert not UNUSED & set(loaded)
    assert len([name for name in loaded if name.startswith("tablestore.")]) <= 555, sorted(loaded)


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_after_a_door_as_before(*, collects: bool) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if collects else gc.disable()
        assert doors.public("col", "tablestore.format.predicates.predicate", "col") is ts.col
        assert gc.isenabled() is collects
        with pytest.raises(MissingPackage, match="nothing_of_this_name"):
            doors.public("x", "nothing_of_this_name", "x")
        assert gc.isenabled() is collects
    finally:
        gc.enable() if before else gc.disable()
