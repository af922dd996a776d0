"""The history of a table as edits: the files of every snapshot are those that the engine gives."""

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.insight.simulator import Simulator, Workload
from widgets.history.history import History, Sent

COMPARED = [
    *("partition", "bucket", "level", "run", "file_name", "rows", "deletes", "bytes", "min_key", "max_key"),
    *("min_key_pos", "max_key_pos", "min_sequence", "max_sequence", "creation_time", "file_source"),
    *("snapshot_id", "masked_rows"),
]


def same(actual: pa.Table, wanted: pa.Table) -> None:
    order = [(name, "ascending") for name in ("partition", "bucket", "run", "min_key_pos", "file_name")]
    rows = [table.select(COMPARED).sort_by(order).to_pylist() for table in (actual, wanted)]
    for left, right in zip(*rows, strict=True):
        ends = [(row.pop("min_key_pos"), row.pop("max_key_pos")) for row in (left, right)]
        assert ends[0] == pytest.approx(ends[1])
        assert left == right


def history(source: object) -> History:
    actual = History.of(source.inspect.edits())
    assert actual is not None
    return actual


def written(folder: Path, **options: object) -> ts.Table:
    given = {"bucket": 2, "num-sorted-run.compaction-trigger": 3} | options
    table = ts.connect(folder).create_table(
        "shop.orders",
        schema={"day": ts.STRING, "k": ts.BIGINT, "v": ts.STRING},
        primary_key=["day", "k"],
        partition_by=["day"],
        options=given,
    )
    for n in range(9):
        keys = list(range(n * 30, n * 30 + 80))
        days = [f"d{1 + (k + n) % 11}" for k in keys]
        table.write({"day": days, "k": keys, "v": [f"x{n}"] * len(keys)})
    return table


def test_the_files_of_each_snapshot_are_those_of_the_engine(tmp_path: Path) -> None:
    table = written(tmp_path)
    table.delete("k < 100 and day = 'd3'")
    actual = history(table)
    assert (actual.first, actual.last) == (1, table.inspect.latest_snapshot_id())
    for snapshot in range(actual.first, actual.last + 1):
        wanted = table.inspect.levels(snapshot)
        same(actual.files(snapshot), wanted)
        runs = wanted.group_by(["partition", "bucket"]).aggregate([("run", "count_distinct")])
        total = sum(runs["run_count_distinct"].to_pylist())
        assert actual.sums(snapshot) == (total, wanted.num_rows, sum(wanted["bytes"].to_pylist()))


def test_after_expiry_it_starts_from_the_oldest_state_and_a_commit_is_added(tmp_path: Path) -> None:
    table = written(tmp_path)
    before = history(table)
    table.expire_snapshots(keep=4)
    actual = history(table)
    assert actual.first == before.last - 3
    table.write({"day": ["d1"], "k": [7], "v": ["new"]})
    grown = history(table)
    assert grown.last == table.inspect.latest_snapshot_id()
    for snapshot in range(grown.first, grown.last + 1):
        wanted, given = table.inspect.levels(snapshot), grown.files(snapshot)
        assert set(given["file_name"].to_pylist()) == set(wanted["file_name"].to_pylist())


@pytest.mark.large
def test_a_commit_sends_its_own_edit(tmp_path: Path) -> None:
    table = written(tmp_path)
    before = Sent.of(history(table))
    table.write({"day": ["d1"], "k": [7], "v": ["new"]})
    after = Sent.of(history(table), before)
    assert after.base is before.base
    assert 0 < len(after.tail) < len(after.base) / 2


def test_deletion_vectors_come_and_go_with_their_snapshots(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true", "write-only": "true", "bucket": 1}
    table = written(tmp_path, **options)
    active = table.with_options({"write-only": "false"})
    active.compact(full=True)
    table.write({"day": ["d1", "d2"], "k": [0, 1], "v": ["y", "y"]})
    active.compact()
    actual, masked = history(table), []
    for snapshot in range(actual.first, actual.last + 1):
        same(actual.files(snapshot), table.inspect.levels(snapshot))
        masked.append(sum(m or 0 for m in actual.files(snapshot)["masked_rows"].to_pylist()))
    assert masked[-1] > 0


def test_a_table_without_keys_and_one_without_snapshots(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    table = lake.create_table("a.b", schema={"v": ts.STRING}, options={"bucket": "-1"})
    assert History.of(table.inspect.edits()) is None
    for n in range(3):
        table.write({"v": [f"{n}"] * (n + 1)})
    actual = history(table)
    for snapshot in (1, 2, 3):
        same(actual.files(snapshot), table.inspect.levels(snapshot))


def test_a_simulation_gives_the_same(simulator: Simulator) -> None:
    actual = history(simulator)
    for snapshot in range(actual.first, actual.last + 1):
        same(actual.files(snapshot), simulator.inspect.levels(snapshot))


@pytest.fixture
def simulator() -> Simulator:
    options = {"num-sorted-run.compaction-trigger": 3}
    simulator = Simulator(Workload(rows=200, keys=2_000), options, buckets=2, keep=20)
    for _ in range(40):
        simulator.step()
    return simulator
