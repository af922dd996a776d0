"""Partitions and tables that the cluster drops: what rounds tell, and what the lake keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.fluss.heartbeat import TableEpoch, TieringTable
from tablestore.tiering.cluster import COMMIT_USER
from tablestore.tiering.enumerator import AssignedTable
from tablestore.tiering.journal import TieringJournal, read_report
from tablestore.tiering.marks import TieringMarks
from tablestore.tiering.paimon.factory import PaimonTieringFactory
from tablestore.tiering.report import RoundReport, TieringEvent
from tablestore.tiering.round import RoundParts, TieringRound
from tablestore.tiering.runner import ThreadRunner
from tablestore.tiering.splits import TieredBucket
from tests.tiering.memory import PartitionedCluster, PreparingCluster, remade


class Rounds:
    """Rounds of one service over a cluster and a lake, one after the other; `look` as it does between."""

    def __init__(self, cluster: PartitionedCluster, path: Path, *, drops: bool = False) -> None:
        self.cluster, self.lake = cluster, ts.connect(path / "lake")
        self.journal = TieringJournal(str(path / "journal"))
        factory, runner = PaimonTieringFactory(self.lake), ThreadRunner(1)
        self.parts = RoundParts(cluster, factory, runner, self.journal, SYSTEM, drops=drops)
        self.marks, self.count = TieringMarks(cluster, self.journal), 0

    def look(self) -> None:
        self.marks.look()

    def run(self) -> RoundReport:
        self.count += 1
        id = self.cluster.table_id
        assigned = AssignedTable(TieringTable(id, "db.t", self.count), TableEpoch(id, 0, self.count), 0.0)
        return TieringRound(
            *(self.parts, assigned, self.count),
            ours=lambda: True,
            stopping=lambda: False,
            observe=self.marks.planned,
            looked_at=lambda: self.marks.looked_at("db.t"),
        ).run()

    def events(self) -> list[tuple[str, str | None, int | None]]:
        """Those that the files of the journal hold."""
        actual = read_report(str(self.journal.directory)).events
        assert all(event.table == "db.t" and event.time > 0 for event in actual)
        return [(event.name, event.partition, event.offsets) for event in actual]

    def rows(self) -> dict[str, list[int]]:
        """The numbers of the rows that the lake has, by day."""
        collected: dict[str, list[int]] = {}
        for row in self.lake.table("db.t").scan().to_arrow().to_pylist():
            collected.setdefault(row["day"], []).append(row["x"])
        return {day: sorted(numbers) for day, numbers in collected.items()}


@pytest.fixture
def cluster() -> Iterator[PartitionedCluster]:
    created = PartitionedCluster()
    created.add("a", 3)
    created.add("b", 2)
    return created


def test_the_lake_keeps_rows_of_a_dropped_partition_and_says_so_once(
    cluster: PartitionedCluster, tmp_path: Path
):
    rounds = Rounds(cluster, tmp_path)
    assert rounds.run().outcome == "committed"
    cluster.append(1, 1)
    rounds.look()
    cluster.drop("a")
    done = rounds.run()
    assert (done.outcome, done.rows) == ("incomplete", 1)
    assert "the lake keeps its rows; when its log was last looked at, the lake had all of it" in done.notes[0]
    assert rounds.events() == [("partition dropped", "a", 0)]
    assert rounds.run().outcome == "empty"
    assert rounds.events() == [("partition dropped", "a", 0)]
    assert rounds.rows() == {"a": [0, 1, 2], "b": [0, 1, 2]}
    assert rounds.lake.table("db.t").check() == []


@pytest.mark.parametrize(("looks", "lake_offset"), [(True, 4), (False, None)])
def test_a_round_in_which_rows_vanish_is_not_called_committed(
    cluster: PartitionedCluster, tmp_path: Path, looks: bool, lake_offset: int | None
):
    rounds = Rounds(cluster, tmp_path)
    rounds.run()
    cluster.append(0, 4)
    cluster.append(1, 1)
    if looks:
        rounds.look()
    else:  # the service is started anew meanwhile
        rounds = Rounds(cluster, tmp_path)
    cluster.drop("a")
    done = rounds.run()
    assert (done.outcome, done.rows) == ("incomplete", 1)
    assert rounds.events() == [("partition dropped", "a", lake_offset)]
    assert rounds.rows() == {"a": [0, 1, 2], "b": [0, 1, 2]}


def test_rows_of_a_partition_that_no_round_had_seen_in_the_lake_are_told(
    cluster: PartitionedCluster, tmp_path: Path
):
    rounds = Rounds(cluster, tmp_path)
    cluster.add("c")
    rounds.run()
    cluster.append(2, 5)
    rounds.look()
    cluster.drop("c")
    assert rounds.run().outcome == "incomplete"
    assert rounds.events() == [("partition dropped", "c", 5)]


def test_a_partition_that_is_dropped_while_it_is_read_is_told(cluster: PartitionedCluster, tmp_path: Path):
    rounds = Rounds(cluster, tmp_path)
    rounds.run()
    cluster.append(0, 2)
    cluster.append(1, 1)
    cluster.drops_while_read = "a"
    done = rounds.run()
    assert (done.outcome, done.rows) == ("incomplete", 1)
    assert rounds.events() == [("partition dropped", "a", 2)]
    (marks,) = [
        marks_of_bucket
        for marks_of_bucket in rounds.journal.table("db.t").marks
        if marks_of_bucket.partition == "a"
    ]
    assert marks.tiered == 3
    assert rounds.rows() == {"a": [0, 1, 2], "b": [0, 1, 2]}


@pytest.mark.parametrize("again", [False, True])
def test_by_policy_the_lake_drops_the_rows_too(cluster: PartitionedCluster, tmp_path: Path, again: bool):
    rounds = Rounds(cluster, tmp_path, drops=True)
    rounds.run()
    rounds.look()
    cluster.drop("a")
    if again:  # as another partition of the same name
        cluster.add("a", 1)
    assert rounds.run().outcome == "incomplete"
    assert rounds.events() == [("partition dropped", "a", 0)]
    assert rounds.rows() == ({"a": [0]} if again else {}) | {"b": [0, 1]}
    table = rounds.lake.table("db.t")
    assert table.check() == []
    assert rounds.run().outcome == "empty"
    state = rounds.parts.factory.create_committer(cluster.table("db.t")).state()
    assert state.partition_names == ({2: "a"} if again else {}) | {1: "b"}
    assert state.offsets == {TieredBucket(1, 0): 2} | ({TieredBucket(2, 0): 1} if again else {})


def test_offsets_of_dropped_partitions_do_not_gather(cluster: PartitionedCluster, tmp_path: Path):
    rounds = Rounds(cluster, tmp_path)
    rounds.run()
    size = 0
    for day in range(30):
        cluster.add(f"day {day}", 1)
        rounds.run()
        cluster.drop(f"day {day}")
        rounds.run()
        snapshot = rounds.lake.table("db.t").store.snapshots.latest()
        assert snapshot is not None
        kept = {k: v for k, v in (snapshot.properties or {}).items() if "log-offsets" not in k}
        size = size or len(str(kept))
        assert len(str(kept)) < size + 50
    assert len(rounds.rows()) == 32
    assert rounds.lake.table("db.t").check() == []


def test_offsets_stay_where_the_cluster_may_still_have_the_partition(
    cluster: PartitionedCluster, tmp_path: Path
):
    rounds = Rounds(cluster, tmp_path)
    rounds.run()
    gone = cluster.days.pop(0)
    cluster.still_led = True
    assert rounds.run().outcome == "incomplete"
    cluster.days[0] = gone  # it was there all the time
    cluster.append(0, 1)
    rounds.run()
    assert rounds.rows()["a"] == [0, 1, 2, 3]
    cluster.drop("a")
    cluster.still_led = False
    rounds.run()
    state = rounds.parts.factory.create_committer(cluster.table("db.t")).state()
    assert {place.partition_id for place in state.offsets} == {1}


def test_nothing_is_dropped_where_the_cluster_does_not_agree_with_itself(
    cluster: PartitionedCluster, tmp_path: Path
):
    rounds = Rounds(cluster, tmp_path, drops=True)
    rounds.run()
    gone = cluster.days.pop(0)
    cluster.still_led = True
    done = rounds.run()
    assert (done.outcome, "still led" in done.reason) == ("failed", True)
    assert rounds.events() == []
    cluster.days[0] = gone  # it was there all the time
    assert rounds.run().outcome == "empty"
    assert rounds.rows()["a"] == [0, 1, 2]


@pytest.mark.parametrize("drops", [False, True])
def test_a_table_made_again_is_an_event_and_a_tag_keeps_its_rows(
    cluster: PartitionedCluster, tmp_path: Path, drops: bool
):
    rounds = Rounds(cluster, tmp_path, drops=drops)
    rounds.run()
    cluster.append(0, 2)
    rounds.look()
    remade(cluster)
    cluster.days = {}
    cluster.add("a", 1)
    assert rounds.run().outcome == "incomplete"
    assert rounds.events() == [("table replaced", None, 2)]
    assert rounds.rows() == {"a": [0]}
    table = rounds.lake.table("db.t")
    assert table.tags.list()["tag_name"].to_pylist() == ([] if drops else ["fluss-table-1"])
    if not drops:
        assert table.at(tag="fluss-table-1").scan().count() == 5
    assert rounds.run().outcome == "empty"


def test_an_event_comes_back_from_json_as_it_was():
    event = TieringEvent("db.t", "rows lost", "offsets are gone", "a", 3, 5.0)
    assert TieringEvent.from_json(event.to_json()) == event


class PreparingPartitions(PartitionedCluster, PreparingCluster):
    """Partitions of a cluster of 0.9."""


def taken_over(cluster: PreparingPartitions, rounds: Rounds) -> None:
    """A round of Fluss's own service of 0.9, which brings one row more of the first day and says no names."""
    cluster.append(0, 1)
    offsets = {TieredBucket(0, 0): len(cluster.logs[0])}
    path = cluster.prepare_lake_snapshot(cluster.table("db.t"), offsets)
    table = rounds.lake.table("db.t")
    table.write([{"x": cluster.logs[0][-1], "day": "a"}])
    snapshots = table.store.snapshots
    written = snapshots.latest()
    snapshots.delete(written.id)
    said = {"properties": {"fluss-offsets": path}, "uuid": None, "writer_version": None}
    theirs = replace(written, commit_user=COMMIT_USER, commit_identifier=2**63 - 1, **said)
    assert snapshots.publish(theirs)


@pytest.mark.parametrize("drops", [False, True])
def test_a_partition_that_is_dropped_when_fluss_s_service_had_the_table_is_reported_by_its_name(
    tmp_path: Path, drops: bool
):
    cluster = PreparingPartitions()
    for day, rows in (("a", 3), ("b", 2)):
        cluster.add(day, rows)
    rounds = Rounds(cluster, tmp_path, drops=drops)
    assert rounds.run().outcome == "committed"
    taken_over(cluster, rounds)
    cluster.drop("a")
    assert rounds.run().outcome == "incomplete"
    assert [event[:2] for event in rounds.events()] == [("partition dropped", "a")]
    assert rounds.rows() == ({"b": [0, 1]} if drops else {"a": [0, 1, 2, 3], "b": [0, 1]})
    assert rounds.run().outcome == "empty"
    assert rounds.lake.table("db.t").check() == []
