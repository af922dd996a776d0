"""Epochs on the disk grow over restarts, kills and several coordinators; files of dropped tables go."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.io.fileio import LocalFileIO
from tablestore.tiering.coordinator.files import DroppedTableFiles, FileEpochs
from tablestore.tiering.coordinator.lake_snapshots import LakeSnapshots
from tablestore.tiering.coordinator.served_tables import ServedTables
from tests.faults import FaultyIO, Killed, SimEnv
from tests.tiering.waiting import until


def test_epochs_grow_over_starts(tmp_path: Path):
    first = FileEpochs(LocalFileIO(), str(tmp_path))
    assert (first.coordinator, first.next(7), first.next(7), first.next(8)) == (1, 1, 2, 1)
    second = FileEpochs(LocalFileIO(), str(tmp_path))
    assert (second.coordinator, second.next(7), second.next(9)) == (2, 3, 1)


def test_two_coordinators_never_give_out_the_same_epoch(tmp_path: Path):
    both = [FileEpochs(LocalFileIO(), str(tmp_path)) for _ in range(2)]
    given = [each.next(7) for _ in range(10) for each in both]
    assert len(set(given)) == 20
    assert FileEpochs(LocalFileIO(), str(tmp_path)).next(7) == 21


def test_old_files_go_but_for_a_few(tmp_path: Path):
    epochs = FileEpochs(LocalFileIO(), str(tmp_path))
    for _ in range(100):
        epochs.next(7)
    assert len(list((tmp_path / "tables" / "7").iterdir())) == 8
    epochs.drop(7)
    assert not (tmp_path / "tables" / "7").exists()


@pytest.mark.parametrize("mode", ["error before", "error after", "kill before", "kill after"])
def test_whatever_operation_fails_no_epoch_comes_twice(tmp_path: Path, mode: str):
    seen: list[tuple[int, int]] = []
    for fail_at in range(1, 40):
        io = FaultyIO(fail_at, mode)
        try:
            epochs = FileEpochs(io, str(tmp_path))
            for _ in range(3):
                seen.append((epochs.coordinator, epochs.next(7)))
        except (TablestoreError, OSError, Killed):
            continue
    tables = [epoch for _, epoch in seen]
    assert len(tables) > 30
    assert tables == sorted(set(tables))
    assert [c for c, _ in seen] == sorted(c for c, _ in seen)


TIERED = {"log.system": "embedded", "bucket": 1, "bucket-key": "v", "tablestore.tiering.enabled": True}


class Coordinated:
    """A lake with the files that a coordinator keeps for its tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / ".tablestore" / "coordinator"
        self.lake, self.env = ts.connect(folder), SimEnv()

    def start(self, io: LocalFileIO | FaultyIO) -> DroppedTableFiles:
        """What a coordinator that starts now has."""
        self.tables = ServedTables(self.lake, self.env)
        self.epochs = FileEpochs(io, str(self.folder))
        self.lakes = LakeSnapshots(io, str(self.folder), self.env)
        return DroppedTableFiles(self.tables, self.epochs, self.lakes, env=self.env)

    def look(self, leftovers: DroppedTableFiles, times: int = 2) -> None:
        """Look as often, ten seconds apart, so that no listing of tables is an old one."""
        for _ in range(times):
            self.env.sleep(10)
            leftovers.remove()

    def add(self, name: str) -> int:
        """A table with files of both kinds; its id."""
        self.env.sleep(10)
        self.lake.create_table(f"shop.{name}", schema={"v": ts.INT}, options=TIERED).write([{"v": 1}])
        table = self.tables.by_path(f"shop.{name}")
        self.epochs.next(table.table_id)
        self.lakes.commit_prepared(table, 1, self.lakes.prepare(table, {0: 1}), None)
        return table.table_id

    def files(self) -> set[str]:
        """The folders of tables."""
        folders = [*self.folder.glob("tables/*"), *self.folder.glob("lake/*/*")]
        return {str(folder.relative_to(self.folder)) for folder in folders}


def folders_of(name: str, table_id: int) -> set[str]:
    return {f"tables/{table_id}", f"lake/shop/{name}-{table_id}"}


def test_a_table_that_is_dropped_takes_its_files_along(tmp_path: Path):
    there = Coordinated(tmp_path)
    leftovers = there.start(LocalFileIO())
    kept, gone = there.add("kept"), there.add("gone")
    there.look(leftovers)
    assert there.files() == folders_of("kept", kept) | folders_of("gone", gone)
    there.lake.drop_table("shop.gone")
    there.look(leftovers)
    assert there.files() == folders_of("kept", kept)
    there.lake.drop_table("shop.kept")  # while no coordinator runs
    there.look(there.start(LocalFileIO()))
    assert there.files() == set()


def test_a_table_that_is_renamed_made_again_or_no_longer_tiered_keeps_its_files(tmp_path: Path):
    there = Coordinated(tmp_path)
    leftovers = there.start(LocalFileIO())
    renamed, stopped, first = there.add("renamed"), there.add("stopped"), there.add("again")
    there.lake.rename_table("shop.renamed", "shop.other")
    there.lake.table("shop.stopped").alter(ts.set_options({"tablestore.tiering.enabled": False}))
    there.lake.drop_table("shop.again")
    second = there.add("again")
    there.look(leftovers)
    wanted = folders_of("renamed", renamed) | folders_of("stopped", stopped) | folders_of("again", second)
    assert (first != second, there.files()) == (True, wanted)


def test_where_a_table_cannot_be_read_nothing_is_removed_before_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    there = Coordinated(tmp_path)
    leftovers = there.start(LocalFileIO())
    gone, unreadable = there.add("gone"), there.add("unreadable")
    (schema,) = (tmp_path / "shop.db" / "unreadable" / "schema").glob("schema-*")
    text = schema.read_bytes()
    there.lake.drop_table("shop.gone")
    schema.write_bytes(b"{")
    there.look(leftovers, 20)
    assert folders_of("gone", gone) <= there.files()
    assert any("not removed yet" in record.message for record in caplog.records)
    schema.write_bytes(text)
    there.look(leftovers, 20)
    assert there.files() == folders_of("unreadable", unreadable)


@pytest.mark.parametrize("mode", ["error before", "error after", "kill before", "kill after"])
def test_whatever_operation_fails_a_later_look_removes_the_rest(tmp_path: Path, mode: str):
    fail_at, completed = 0, False
    while not completed:
        fail_at += 1
        there = Coordinated(tmp_path / str(fail_at))
        there.start(LocalFileIO())
        there.epochs.next(4711)
        LocalFileIO().write(f"{there.folder}/lake/shop/gone-4711/metadata/registered", b"{}")
        assert there.files() == folders_of("gone", 4711)
        io = FaultyIO(fail_at, mode)
        try:
            leftovers = there.start(io)
            there.look(leftovers, 3)
        except (Killed, TablestoreError, OSError):
            pass
        completed = io.count < fail_at
        there.look(there.start(LocalFileIO()))
        assert there.files() == set(), fail_at
    assert fail_at > 4


def test_a_coordinator_removes_them(tmp_path: Path):
    there = Coordinated(tmp_path)
    there.start(LocalFileIO())
    there.add("gone")
    there.lake.drop_table("shop.gone")
    with there.lake.coordinator():
        until(lambda: there.files() == set())
