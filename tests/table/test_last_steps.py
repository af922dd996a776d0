"""An error at any operation of a verb of names: "nothing was done" only where nothing was, and the same call
again ends as one that never failed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import CommitUnknown, TablestoreError
from tests.faults import FaultyIO, failures

Act = Callable[[ts.Table], Any]


def rename_branch(table: ts.Table) -> None:
    if "side" in table.branches.names():
        table.branches.rename("side", "other")


def forget(table: ts.Table) -> None:
    if "reader" in table.consumers.names():
        table.consumers.delete("reader")


VERBS: dict[str, Act] = {
    "rename a branch": rename_branch,
    "fast-forward": lambda t: t.branches.fast_forward("side"),
    "place a consumer": lambda t: t.consumers.reset("reader", 2),
    "forget a consumer": forget,
}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose directories are synced, with a branch that has gone on and a consumer."""
    root = tmp_path_factory.mktemp("start")
    table = ts.connect(root).create_table(
        "d.t", schema={"k": ts.INT}, primary_key=["k"], options={"tablestore.durability": "commit"}
    )
    table.write([{"k": 1}])
    table.tags.create("v1")
    table.branches.create("side", "v1")
    table.branch("side").write([{"k": 2}])
    table.write([{"k": 3}])
    table.consumers.reset("reader", 1)
    return root


def state(root: Path) -> tuple[Any, ...]:
    table = ts.connect(root).table("d.t")
    rows = sorted(row["k"] for row in table.scan().to_arrow().to_pylist())
    return rows, table.branches.names(), table.consumers.list().to_pylist()


@pytest.mark.large
@pytest.mark.parametrize("verb", VERBS)
def test_the_answer_is_right_after_any_error(start: Path, tmp_path: Path, verb: str) -> None:
    act, counting = VERBS[verb], FaultyIO()
    shutil.copytree(start, tmp_path / "whole")
    act(ts.connect(tmp_path / "whole", io=counting).table("d.t"))
    before, after = state(start), state(tmp_path / "whole")
    assert before != after
    cases = [(n, mode) for n, mode in failures(counting.log) if mode.startswith("error")]
    assert len(cases) > 3
    for number, mode in cases:
        root, place = tmp_path / "try", f"{mode} {counting.log[number]}"
        shutil.copytree(start, root)
        error: TablestoreError | None = None
        try:
            act(ts.connect(root, io=FaultyIO(number, mode)).table("d.t"))
        except TablestoreError as e:
            error = e
        if error is None:
            assert state(root) == after, f"{place}: not done, although it said nothing"
        elif not isinstance(error, CommitUnknown):
            assert state(root) == before, f"{place}: done, although {error!r}"
        act(ts.connect(root).table("d.t"))
        assert state(root) == after, f"{place}: not as it must be after it was called again"
        shutil.rmtree(root)
