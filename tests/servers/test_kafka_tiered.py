"""A table whose log is a topic, tiered: rows are in the topic at once, in files by rounds of a service."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import tablestore as ts
from tests.servers.kafka import Broker


@pytest.mark.large
def test_a_topic_comes_into_files_by_rounds(kafka: Broker, tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    options = {
        **{"bucket": 2, "log.system": "kafka", "kafka.bootstrap.servers": kafka.address},
        **{"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        **{"tablestore.tiering.enabled": True, "tablestore.tiering.freshness": "100 ms"},
    }
    columns = {"k": ts.INT, "v": ts.BIGINT}
    table = lake.create_table("d.tiered", schema=columns, primary_key=["k"], options=options)
    for number in range(5):
        done = table.write([{"k": k, "v": 1} for k in range(4)], user="till", identifier=number)
        assert (done.snapshots, done.replayed) == ((), False)
        assert table.write([{"k": k, "v": 1} for k in range(4)], user="till", identifier=number).replayed
    assert {row["v"] for row in table.scan(log=True).to_arrow().to_pylist()} == {5}
    assert table.scan().count() == 0
    with lake.coordinator() as coordinator:
        service = lake.tier(f"fluss://{coordinator.address}", poll="50ms")
        end = time.monotonic() + 240
        while table.scan().count() < 4 and time.monotonic() < end:
            time.sleep(0.1)
        table.write([{"k": 0, "v": 100}], user="till", identifier=5)
        while table.log.in_files != table.log.end and time.monotonic() < end:
            time.sleep(0.1)
        assert service.stop(240), [r.reason for r in service.rounds()]
    assert sorted(row["v"] for row in table.scan().to_arrow().to_pylist()) == [5, 5, 5, 105]
    assert table.write([{"k": 0, "v": 100}], user="till", identifier=5).replayed
    assert table.log.finish() == ()
    assert table.check() == []
    lake.drop_table("d.tiered")
