"""Java Paimon opens tables with a log and writes to them; its snapshots, which name no offsets, are no end of
the log's place."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tests.log import held
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer


def test_java_reads_and_writes_a_table_with_a_log(java: JavaPaimon, tmp_path: Path) -> None:
    options = {"bucket": 2, "log.system": "embedded", "log.retention": "1 d"}
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.BIGINT}, primary_key=["k"], options=options
    )
    t.write([{"k": k, "v": k} for k in range(6)])
    t.delete("k = 3")
    assert java.rows(t.location) == in_order(cells(t.scan().to_arrow()))
    at = held.position(t)
    java.write(t.location, [(9, 9)], kinds=["+I"], identifier=1)
    latest = t.store.snapshots.latest()
    assert latest is not None
    assert "tablestore.log-offsets" not in (latest.properties or {})
    assert held.position(t) == at == held.end(t)
    assert not t.write([{"k": 9, "v": 10}]).from_log
    t.compact(full=True)
    assert java.rows(t.location) == in_order(cells(t.scan().to_arrow()))
    assert held.position(t) == held.end(t)
