"""An error at an operation of a verb, above all at its last ones: "nothing was done" only where nothing was,
no error only where all was. Whatever failed, or died, the same call again ends as one that never failed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import CommitUnknown
from tablestore.meta import changelogs
from tests.faults import Cases, FailedCall, failed_calls

Act = Callable[[ts.Lake], Any]
LAST = 5  # operations from the end on that all fail; of those before, as many by chance


def of_table(act: Callable[[ts.Table], Any]) -> Act:
    return lambda lake: act(lake.table("d.t"))


def rename_tag(table: ts.Table) -> None:
    if "v1" in table.tags:
        table.tags.rename("v1", "renamed")


def delete_tag(table: ts.Table) -> None:
    """The tag of a snapshot that has expired."""
    if "old" in table.tags:
        table.tags.delete("old")


def create_tag(table: ts.Table) -> None:
    if "new" not in table.tags:
        table.tags.create("new")


def create_branch(table: ts.Table) -> None:
    if "fresh" not in table.branches.names():
        table.branches.create("fresh", "v1")


def delete_branch(table: ts.Table) -> None:
    if "side" in table.branches.names():
        table.branches.delete("side")


def rename_branch(table: ts.Table) -> None:
    if "side" in table.branches.names():
        table.branches.rename("side", "other")


def forget(table: ts.Table) -> None:
    if "reader" in table.consumers.names():
        table.consumers.delete("reader")


def add_column(table: ts.Table) -> None:
    if "w" not in table.schema.names:
        table.alter(ts.add("w", ts.INT))


def rename_table(lake: ts.Lake) -> None:
    if "d.t" in lake.tables():
        lake.rename_table("d.t", "d.moved")


def drop_table(lake: ts.Lake) -> None:
    if "d.t" in lake.tables():
        lake.drop_table("d.t")


def create_table(lake: ts.Lake) -> None:
    if "d.new" not in lake.tables():
        lake.create_table("d.new", schema={"k": ts.INT}, options={"bucket": 1, "bucket-key": "k"})


def drop_database(lake: ts.Lake) -> None:
    if "d" in lake.databases():
        lake.drop_database("d", cascade=True)


def create_database(lake: ts.Lake) -> None:
    if "e" not in lake.databases():
        lake.create_database("e")


def rows(*keys: int, p: int = 1, v: str = "new") -> list[dict[str, Any]]:
    return [{"p": p, "k": k, "v": v} for k in keys]


VERBS: dict[str, Act] = {
    "create a tag": of_table(create_tag),
    "replace a tag": of_table(lambda t: t.tags.create("v1", replace=True)),
    "rename a tag": of_table(rename_tag),
    "delete a tag": of_table(delete_tag),
    "expire tags": of_table(lambda t: t.tags.expire()),
    "create a branch": of_table(create_branch),
    "delete a branch": of_table(delete_branch),
    "rename a branch": of_table(rename_branch),
    "fast-forward": of_table(lambda t: t.branches.fast_forward("side")),
    "place a consumer": of_table(lambda t: t.consumers.reset("reader", 4)),
    "forget a consumer": of_table(forget),
    "rollback": of_table(lambda t: t.rollback(snapshot=3)),
    "rollback to a tag": of_table(lambda t: t.rollback(tag="old")),
    "expire snapshots": of_table(lambda t: t.expire_snapshots(keep=1)),
    "expire partitions": of_table(
        lambda t: t.with_options(
            {"partition.expiration-time": "1 ms", "partition.expiration-strategy": "update-time"}
        ).expire_partitions()
    ),
    "compact": of_table(lambda t: t.compact(full=True)),
    "compact manifests": of_table(lambda t: t.compact_manifests()),
    "rescale": of_table(lambda t: t.rescale(2)),
    "add a column": of_table(add_column),
    "set options": of_table(lambda t: t.alter(ts.set_options({"num-sorted-run.compaction-trigger": 9}))),
    "write": of_table(lambda t: t.write(rows(1, 50), user="u", identifier=9)),
    "overwrite": of_table(lambda t: t.overwrite(rows(70), partition={"p": 1})),
    "truncate": of_table(lambda t: t.truncate()),
    "truncate a partition": of_table(lambda t: t.truncate(partition={"p": 1})),
    "delete": of_table(lambda t: t.delete("k = 1")),
    "delete a partition": of_table(lambda t: t.delete("p = 1")),
    "update": of_table(lambda t: t.update({"v": "u"}, where="k = 2")),
    "analyze": of_table(lambda t: t.analyze()),
    "remove orphans": of_table(lambda t: t.remove_orphans("1 min", dry_run=False, force=True)),
    "rename the table": rename_table,
    "drop the table": drop_table,
    "create a table": create_table,
    "drop a database": drop_database,
    "create a database": create_database,
}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose directories are synced: changelogs, tags, a branch that has gone on, a consumer."""
    root = tmp_path_factory.mktemp("start")
    table = ts.connect(root).create_table(
        "d.t",
        schema={"p": ts.INT, "k": ts.INT, "v": ts.STRING},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={
            "tablestore.durability": "commit",
            "bucket": 1,
            "changelog-producer": "input",
            "write-only": True,
            "changelog.num-retained.min": 50,
            "changelog.num-retained.max": 50,
        },
    )
    table.write(rows(1, 2))
    table.tags.create("old")
    table.write(rows(1, 3))
    table.expire_snapshots(keep=1)
    table.write(rows(4, p=2))
    table.tags.create("v1")
    table.branches.create("side", "v1")
    table.branch("side").write(rows(5))
    table.write(rows(6))
    table.consumers.reset("reader", 3)
    table.tags.create("short", retain="1 ms")
    stray = Path(table.location, "manifest", "manifest-left-0")
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    return root


def of(table: ts.Table) -> dict[str, Any]:
    store = table.store
    return {
        "rows": of_rows(table),
        "schema": (table.schema.names, {k: v for k, v in table.options.items() if k != "tablestore.uuid"}),
        "tags": {t: table.at(tag=t).scan().count() for t in table.tags},
        "history": (store.snapshots.ids(), changelogs.ids(store)),
        "consumers": table.consumers.list().select([0, 1]).to_pylist(),
    }


def of_rows(table: ts.Table) -> list[str]:
    return sorted(map(str, table.scan().to_arrow().to_pylist()))


def state(root: Path) -> dict[str, Any]:
    lake = ts.connect(root)
    states: dict[str, Any] = {"databases": lake.databases()}
    for name in lake.tables():
        table = lake.table(name)
        states[name] = of(table) | {b: of(table.branch(b)) for b in table.branches.names()}
    return states


def meaning(part: Any) -> Any:
    """A state without the numbers of snapshots, of which a second try makes more."""
    if isinstance(part, dict):
        return {k: meaning(v) for k, v in part.items() if k != "history"}
    return part


@pytest.mark.large
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.sample(1, all=12)
def test_the_answer_is_right_after_an_error(
    start: Path, tmp_path: Path, verb: str, seeds: tuple[int, ...]
) -> None:
    def choose(cases: Cases) -> Cases:
        errors = [case for case in cases if case[1].startswith("error")]
        last = [case for case in errors if case[0] > cases[-1][0] - LAST]
        earlier = [case for case in errors if case not in last]
        return [*last, *random.Random(seeds[0]).sample(earlier, min(len(earlier), LAST * len(seeds)))]

    calls = failed_calls(start, tmp_path, VERBS[verb], choose)
    before, after = state(start), state(tmp_path / "whole")
    for call in calls:
        now = state(call.root)
        if call.error is None:
            assert now == after, f"{call.place}: not done, although it said nothing"
        elif not isinstance(call.error, CommitUnknown):
            assert now == before, f"{call.place}: done, although it said that it was not"
        require_healed(call, VERBS[verb], after)


def require_healed(call: FailedCall, act: Act, after: dict[str, Any]) -> None:
    """Raise AssertionError unless the same call again ends as one that never failed."""
    act(call.lake)
    assert meaning(state(call.root)) == meaning(after), call.place
    assert all(table.check() == [] for table in map(call.lake.table, call.lake.tables())), call.place


STEPWISE = ("rollback", "rollback to a tag", "fast-forward")
"""They go snapshot by snapshot, and a kill may stop them at any."""
KILLED = (*STEPWISE, "write", "compact", "expire snapshots", "create a branch", "delete a branch")


@pytest.mark.large
@pytest.mark.parametrize("verb", KILLED)
@pytest.mark.sample(2, all=len(KILLED))
def test_a_table_is_sound_after_any_failure(start: Path, tmp_path: Path, verb: str) -> None:
    calls = failed_calls(start, tmp_path, VERBS[verb])
    before, after = (of_rows(ts.connect(root).table("d.t")) for root in (start, tmp_path / "whole"))
    whole = state(tmp_path / "whole")
    for call in calls:
        wrong = [v for v in call.table.check() if verb not in STEPWISE or not v.text.endswith("are missing")]
        assert wrong == [], call.place
        assert of_rows(call.table) in (before, after) or verb in STEPWISE, call.place
        require_healed(call, VERBS[verb], whole)
