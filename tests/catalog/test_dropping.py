"""A drop or rename that is killed anywhere leaves the whole table or none, and the same call ends it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.catalog import filesystem
from tablestore.catalog.sql import _CursorSession
from tablestore.core.errors import AlreadyExists, NotFound, TablestoreError, Unavailable
from tablestore.io.fileio import LocalFileIO
from tests.faults import FaultyIO, Killed

CHANGES = ("delete", "move", "write", "put", "replace", "mkdir", "rmdir")
Connect = Callable[..., ts.Lake]


@pytest.fixture(params=["filesystem", "jdbc"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Connect:
    """Opens the lake of a directory below the test's own."""

    def opened(name: str, io: Any = None) -> ts.Lake:
        more = {"metastore": "jdbc", "uri": f"sqlite:{tmp_path / name / 'catalog.sqlite'}"}
        return ts.connect(tmp_path / name, io=io, **(more if request.param == "jdbc" else {}))

    return opened


def fill(lake: ts.Lake) -> None:
    for name in ("d.t", "d.other"):
        table = lake.create_table(name, schema={"k": ts.INT, "v": ts.STRING}, primary_key=["k"])
        table.write([{"k": 1, "v": "a"}])
        table.write([{"k": 2, "v": "b"}])


def keys(table: ts.Table) -> list[int]:
    return sorted(table.scan().to_arrow()["k"].to_pylist())


def killed_anywhere(
    connect: Connect, tmp_path: Path, act: Callable[[ts.Lake], object], look: Callable[[ts.Lake], None]
) -> int:
    """Kill `act` beside each change; `look` at what a fresh process sees; (kills)."""
    (tmp_path / "start").mkdir()
    fill(connect("start"))
    counting = FaultyIO()
    shutil.copytree(tmp_path / "start", tmp_path / "count")
    act(connect("count", counting))
    steps = [i for i, line in enumerate(counting.log) if line.startswith(CHANGES)]
    kills = [(step, "kill before") for step in steps] + [(steps[-1], "kill after")]
    for step, mode in kills:  # a death after a change is the one before the next
        shutil.copytree(tmp_path / "start", tmp_path / "try")
        with contextlib.suppress(Killed, TablestoreError):
            act(connect("try", FaultyIO(step, mode)))
        look(connect("try"))
        shutil.rmtree(tmp_path / "try")
    return len(steps)


def test_a_killed_drop_leaves_the_whole_table_or_none(connect: Connect, tmp_path: Path) -> None:
    def look(lake: ts.Lake) -> None:
        try:
            assert keys(lake.table("d.t")) == [1, 2]
        except NotFound:
            assert not Path(lake.warehouse, "d.db", "t").exists()
        lake.drop_table("d.t", if_exists=True)
        assert lake.tables() == ["d.other"]
        assert [p.name for p in Path(lake.warehouse, "d.db").iterdir()] == ["other"]
        with pytest.raises(NotFound):
            lake.drop_table("d.t")
        assert keys(lake.table("d.other")) == [1, 2]

    assert killed_anywhere(connect, tmp_path, lambda lake: lake.drop_table("d.t"), look) >= 3


def test_the_same_call_ends_a_drop_and_a_creation_tidies_up(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    fill(connect("lake"))
    database = tmp_path / "lake" / "d.db"
    (database / ".dropped").mkdir()
    shutil.copytree(database / "t", database / ".dropped" / "gone-t-0")
    lake = connect("lake")
    assert lake.tables() == ["d.other", "d.t"]
    lake.drop_table("d.gone-t")
    assert sorted(p.name for p in database.iterdir()) == ["other", "t"]
    shutil.copytree(database / "t", database / ".dropped-t-3")
    lake.create_table("d.new", schema={"k": ts.INT})
    assert sorted(p.name for p in database.iterdir()) == ["new", "other", "t"]


def test_a_killed_drop_of_a_database_is_ended_by_the_same_call(connect: Connect, tmp_path: Path) -> None:
    def look(lake: ts.Lake) -> None:
        for name in lake.tables():
            with contextlib.suppress(NotFound):
                assert keys(lake.table(name)) == [1, 2]
        lake.drop_database("d", cascade=True, if_exists=True)
        lake.create_table("d.t", schema={"k": ts.INT})

    act = lambda lake: lake.drop_database("d", cascade=True)  # noqa: E731
    assert killed_anywhere(connect, tmp_path, act, look) >= 6


def test_a_killed_rename_is_ended_by_the_same_call(connect: Connect, tmp_path: Path) -> None:
    def look(lake: ts.Lake) -> None:
        with contextlib.suppress(NotFound):
            lake.rename_table("d.t", "d.new")
        assert lake.tables() == ["d.new", "d.other"]
        assert keys(lake.table("d.new")) == [1, 2]
        assert lake.table("d.new").check() == []

    assert killed_anywhere(connect, tmp_path, lambda lake: lake.rename_table("d.t", "d.new"), look) >= 1


@pytest.mark.parametrize("step", range(4))
def test_a_rename_is_taken_back_only_where_the_registry_has_the_old_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The connection breaks after so many statements; the last one was answered by nobody."""
    lake = ts.connect(tmp_path, metastore="jdbc", uri=f"sqlite:{tmp_path / 'catalog.sqlite'}")
    fill(lake)
    run, statements = _CursorSession.run, list[str]()

    def breaks(self: _CursorSession, statement: str, *values: Any) -> int:
        if len(statements) == 3:
            return run(self, statement, *values)
        statements.append(statement)
        if len(statements) == step:
            statements.extend([""] * (3 - step))
            run(self, statement, *values)
            raise Unavailable("no answer")
        return run(self, statement, *values)

    monkeypatch.setattr(_CursorSession, "run", breaks)
    with contextlib.suppress(Unavailable):
        lake.rename_table("d.t", "d.new")
    name = "d.new" if step in (0, 3) else "d.t"
    assert lake.tables() == sorted([name, "d.other"])
    assert keys(lake.table(name)) == [1, 2]
    if name == "d.t":
        lake.rename_table("d.t", "d.new")
        assert keys(lake.table("d.new")) == [1, 2]


@pytest.fixture
def no_rename(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local files, taken for those of a store that cannot rename."""
    monkeypatch.setattr(filesystem, "is_object_location", lambda path: True)


@pytest.mark.usefixtures("no_rename")
def test_where_nothing_can_be_renamed_a_mark_makes_it_no_table(connect: Connect, tmp_path: Path) -> None:
    def look(lake: ts.Lake) -> None:
        try:
            assert keys(lake.table("d.t")) == [1, 2]
        except NotFound:
            if Path(lake.warehouse, "d.db", "t", "schema", ".dropped").exists() and "d.t" not in lake:
                with pytest.raises(AlreadyExists, match=r"drop_table\('d.t'\) completes it"):
                    lake.create_table("d.t", schema={"k": ts.INT})
        lake.drop_table("d.t", if_exists=True)
        assert not Path(lake.warehouse, "d.db", "t").exists()
        assert lake.tables() == ["d.other"]
        lake.create_table("d.t", schema={"k": ts.INT})

    assert killed_anywhere(connect, tmp_path, lambda lake: lake.drop_table("d.t"), look) >= 5


def test_a_drop_that_has_no_room_for_a_folder_renames_beside(tmp_path: Path) -> None:
    class NoFolder(LocalFileIO):
        def move(self, path: str, target: str) -> None:
            if not Path(target).parent.exists():
                raise ts.Unavailable(28, "no space")
            super().move(path, target)

    fill(ts.connect(tmp_path))
    ts.connect(tmp_path, io=NoFolder()).drop_table("d.t")
    assert [p.name for p in (tmp_path / "d.db").iterdir()] == ["other"]


def test_of_a_table_that_is_a_link_only_the_link_goes(tmp_path: Path) -> None:
    fill(ts.connect(tmp_path / "lake"))
    place, elsewhere = tmp_path / "lake" / "d.db" / "t", tmp_path / "elsewhere"
    shutil.move(place, elsewhere)
    place.symlink_to(elsewhere)
    before = {p: p.stat().st_size for p in elsewhere.rglob("*")}
    ts.connect(tmp_path / "lake").drop_table("d.t")
    assert not place.is_symlink()
    assert ts.connect(tmp_path / "lake").tables() == ["d.other"]
    assert {p: p.stat().st_size for p in elsewhere.rglob("*")} == before


def test_files_in_external_paths_stay_and_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outside = tmp_path / "outside"
    lake = ts.connect(tmp_path / "lake", roots=[outside])
    options = {
        "data-file.external-paths": f"file:{outside}",
        "data-file.external-paths.strategy": "round-robin",
    }
    table = lake.create_table("d.t", schema={"k": ts.INT}, options=options)
    table.write([{"k": 1}])
    lake.drop_table("d.t")
    assert not Path(table.location).exists()
    assert [p.suffix for p in outside.rglob("*.parquet")] == [".parquet"]
    assert f"d.t is dropped; data files that it kept in file:{outside} stay" in caplog.messages
