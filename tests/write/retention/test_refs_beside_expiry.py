"""Tags and branches that are made while what they name expires or is deleted: readable, or not there."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import NotFound
from tablestore.meta import manifest_cache
from tests.faults import FaultyIO
from tests.tables import KEYED

WAIT_SECONDS = 60
Act = Callable[[ts.Table], object]


class StoppingIO(FaultyIO):
    """Local files; before operation `stop_at` (counted from 0) it calls `meanwhile`."""

    def __init__(self, stop_at: int, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._stop_at, self._meanwhile = stop_at, meanwhile

    def _run(self, what: str, path: str, action: Any, *, writes: bool) -> Any:
        if self.count == self._stop_at:
            self.count += 1
            self._meanwhile()
        else:
            self.count += 1
        return action()


def both(location: str, first: tuple[Act, int], second: tuple[Act, int]) -> None:
    """The first act up to an operation, the second up to one, then the rest of each in that order."""
    stopped, goes_on = threading.Event(), threading.Event()
    failures = list[BaseException]()

    def wait() -> None:
        stopped.set()
        assert goes_on.wait(WAIT_SECONDS)

    def run_second() -> None:
        try:
            with suppress(NotFound):
                second[0](opened(location, StoppingIO(second[1], wait)))
        except BaseException as e:
            failures.append(e)
        finally:
            stopped.set()

    beside = threading.Thread(target=run_second)

    def start() -> None:
        beside.start()
        assert stopped.wait(WAIT_SECONDS)

    with suppress(NotFound):
        first[0](opened(location, StoppingIO(first[1], start)))
    goes_on.set()
    if beside.ident is not None:
        beside.join()
    for failure in failures:
        raise failure


def opened(location: str, io: FaultyIO) -> ts.Table:
    folder, database, name = location.rsplit("/", 2)
    return ts.connect(folder, io=io).table(f"{database.removesuffix('.db')}.{name}")


def expire(table: ts.Table) -> None:
    table.expire_snapshots(keep=1)


def tag(table: ts.Table) -> None:
    table.tags.create("new", snapshot=2)


def tag_newest(table: ts.Table) -> None:
    table.tags.create("new")


def move_tag(table: ts.Table) -> None:
    table.tags.create("old", snapshot=2, replace=True)


def tag_again(table: ts.Table) -> None:
    table.tags.create("new", snapshot=1)


def rename_tag(table: ts.Table) -> None:
    table.tags.rename("old", to="new")


def delete_tag(table: ts.Table) -> None:
    table.tags.delete("old")


def branch(table: ts.Table) -> None:
    table.branches.create("b", tag="old")


def write_and_expire(table: ts.Table) -> None:
    table.write([{"k": 9, "v": "x"}])
    expire(table)


def expired_to_old(table: ts.Table) -> None:
    """Snapshot 1 is kept by its tag alone."""
    expire(table)


PAIRS = [
    (tag, expire, None),
    (tag_newest, write_and_expire, None),
    (move_tag, expire, None),
    (rename_tag, expire, None),
    (tag_again, delete_tag, expire),
    (branch, delete_tag, expire),
    (rename_tag, delete_tag, expire),
]


def table_with_a_tag(folder: Path) -> ts.Table:
    """Four snapshots, each of which replaces the file of the one before; the tag `old` of the first."""
    table = KEYED.create(folder, {"write-only": True})
    for n in range(2):
        table.write([{"k": k, "v": f"{n}"} for k in range(3)])
        table.compact(full=True)
        if n == 0:
            table.tags.create("old", snapshot=1)
    return table


def operations(location: str, act: Act) -> int:
    io = StoppingIO(-1, lambda: None)
    with suppress(NotFound):
        act(opened(location, io))
    return io.count


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].__name__} beside {pair[1].__name__}")
@pytest.mark.sample(2)
def test_a_ref_made_while_its_snapshot_goes_is_whole_or_not_there(
    pair: tuple[Act, Act, Act | None], tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    making, removing, before = pair
    template = table_with_a_tag(tmp_path / "template")
    if before is not None:
        before(template)
    relative = Path(template.location).relative_to(tmp_path / "template")

    def fresh() -> str:
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        shutil.copytree(tmp_path / "template", tmp_path / "t")
        manifest_cache.LOCAL.clear()
        return str(tmp_path / "t" / relative)

    lengths = {act: operations(fresh(), act) for act in (making, removing)}
    whole = 0
    for seed in seeds:
        draw = random.Random(f"{seed} {making.__name__} {removing.__name__}")
        acts = [(act, draw.randrange(lengths[act] + 1)) for act in (making, removing)]
        draw.shuffle(acts)
        both(location := fresh(), *acts)
        manifest_cache.LOCAL.clear()
        table = ts.open(location)
        assert table.check() == [], acts
        for name in table.tags.names():
            table.at(tag=name).scan().to_arrow()
            whole += 1
        for name in table.branches.names():
            table.branch(name).scan().to_arrow()
            whole += 1
    assert whole > 0 or len(seeds) < 20


def test_an_expiry_that_meets_a_tag_with_holes_names_it_and_goes_on_without_it(tmp_path: Path) -> None:
    """What a kill between a tag's file and the look behind it may leave."""
    table = KEYED.create(tmp_path, {"bucket": 1, "write-only": True})
    for key in range(4):
        table.write({"k": [key], "v": ["x"]})
        if key == 1:
            table.tags.create("broken")
    _, delta = table.inspect.manifest_lists("broken")["file_name"].to_pylist()
    table.expire_snapshots(keep=1)
    table.write({"k": [9], "v": ["x"]})
    (Path(table.location) / "manifest" / delta).unlink()
    manifest_cache.LOCAL.clear()
    table = ts.open(table.location)
    with pytest.raises(
        ts.Corrupt, match=r"tag 'broken' of snapshot 2 needs.*table\.tags\.delete\('broken'\)"
    ):
        table.expire_snapshots(keep=1)
    table.tags.delete("broken")
    assert table.expire_snapshots(keep=1).snapshots
    assert table.check() == []
