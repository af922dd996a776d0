"""A table whose log is a topic, tiered: rows are in the topic at once, in files by rounds of a service."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, TopicPartition

import tablestore as ts
from tablestore.fluss.tables import TTL
from tablestore.tiering.fluss_cluster import FlussTieringCluster
from tablestore.tiering.report import RoundReport
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


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.sample(1)
def test_rows_that_the_topic_lost_before_a_round_fail_it_and_are_passed_over_on_demand(
    kafka: Broker, tmp_path: Path, keyed: bool
) -> None:
    lake = ts.connect(tmp_path)
    options = {
        **{"bucket": 1, "log.system": "kafka", "kafka.bootstrap.servers": kafka.address},
        **{"tablestore.tiering.enabled": True, "log.retention": "10 min"},
        **({} if keyed else {"bucket-key": "k"}),
    }
    columns = {"k": ts.INT, "v": ts.BIGINT}
    key = ["k"] if keyed else None
    table = lake.create_table("d.lost", schema=columns, primary_key=key, options=options)
    table.write([{"k": 1, "v": 1}])
    place = TopicPartition(table.options["kafka.topic"], 0, OFFSET_END)
    (done,) = [future.result(60) for future in kafka.admin.delete_records([place]).values()]
    table.write([{"k": 2, "v": 2}])

    def round_of(**asked: str) -> RoundReport:
        service = lake.tier(f"fluss://{coordinator.address}", follow=False, **asked)
        assert service.wait(240)
        return service.rounds()[-1]

    with lake.coordinator() as coordinator:
        cluster = FlussTieringCluster(coordinator.address)
        assert cluster.table("d.lost").options[TTL] == "600000ms"
        cluster.close()
        failed = round_of()
        assert failed.outcome == "failed"
        gone = f"offsets [0, {done.low_watermark}), up to {done.low_watermark} rows, are gone from the log"
        assert f"ROWS ARE LOST: bucket 0: {gone}" in failed.reason
        assert "--lost-rows skip" in failed.reason
        assert table.scan().count() == 0
        passed = round_of(lost_rows="skip")
        assert (passed.outcome, passed.rows) == ("incomplete", 1)
        assert table.scan().to_arrow()["k"].to_pylist() == [2]
        assert round_of().outcome == "empty"
        table.write([{"k": 3, "v": 3}])
        assert round_of().outcome == "committed"
    assert sorted(table.scan(log=True).to_arrow()["k"].to_pylist()) == [2, 3]
    assert table.log is not None
    assert table.log.in_files == table.log.end
    assert table.check() == []
    lake.drop_table("d.lost")
