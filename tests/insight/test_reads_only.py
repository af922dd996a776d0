"""What looks at a table leaves every byte of it as it is: over files that refuse to be changed, all of it
works."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.io.fileio import LocalFileIO
from tablestore.table.table import Table

CHANGES = (
    *("open_output", "write", "write_new", "replace", "sync", "delete", "delete_tree", "delete_empty"),
    *("make_dir", "move"),
)


class ReadOnly(LocalFileIO):
    """The files of a directory, none of which can be changed."""

    def __getattribute__(self, name: str) -> Any:
        if name in CHANGES:
            raise AssertionError(f"{name} is called by what only looks")
        return super().__getattribute__(name)


@pytest.fixture(scope="module", params=["deduplicate", "append"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    lake = ts.connect(tmp_path_factory.mktemp("lake") / request.param)
    keyed = request.param != "append"
    created = lake.create_table(
        "d.t",
        schema={"k": ts.INT, "v": ts.INT},
        primary_key=["k"] if keyed else [],
        options={"bucket": 2, "write-only": True} if keyed else {},
    )
    for start in range(0, 60, 10):
        ks = pa.array(range(start, start + 20), pa.int32())
        created.write(pa.table({"k": ks, "v": ks}))
    created.tags.create("kept", 2)
    created.branches.create("side", tag="kept")
    created.compact(full=True)
    created.expire_snapshots(keep=2)
    return ts.open(created.location, io=ReadOnly())


def views(table: Table) -> list[str]:
    """The views of `inspect` that need no argument."""

    def needed(name: str) -> list[inspect.Parameter]:
        _, *parameters = inspect.signature(getattr(type(table.inspect), name)).parameters.values()
        return [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]

    verbs = [v for of in type(table.inspect).__mro__[:-1] for v in vars(of).items()]
    return [name for name, v in verbs if not name.startswith("_") and callable(v) and not needed(name)]


def test_every_view_of_a_table(table: Table):
    names = views(table)
    assert len(names) > 20, names
    keyed_only = {"merging"}
    for name in names:
        if table.primary_key or name not in keyed_only:
            getattr(table.inspect, name)()


def test_checks_explanations_forecasts_and_advice(table: Table):
    assert table.check() == []
    assert "split" in repr(table.scan(where="k > 30").explain())
    assert table.scan(where="k > 30").explain().row_groups().num_rows
    assert table.compact(full=True, dry_run=True).text
    assert "nothing is broken" in repr(ts.mend(table.location, io=ReadOnly()))
    assert table.mend().dry_run
    assert table.system("files").to_arrow().num_rows
    if table.primary_key:
        assert ts.advise_buckets(table).buckets
        assert repr(table.what_if({"num-sorted-run.compaction-trigger": 3}))
