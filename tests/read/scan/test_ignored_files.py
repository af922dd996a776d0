"""Scans that pass over data files which are damaged or lost, where the table's options allow it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt

CORRUPT, LOST = {"scan.ignore-corrupt-files": True}, {"scan.ignore-lost-files": True}


def two_files(path: Path, **options: Any) -> tuple[ts.Table, str]:
    """A table of two files, one a commit, and the path of the first."""
    keyed = "primary_key" in options
    kinds = {"primary_key": options.pop("primary_key")} if keyed else {}
    given = {"bucket": 1 if keyed else -1, "write-only": True, **options}
    t = ts.connect(str(path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.STRING}, options=given, **kinds
    )
    t.write([{"k": 1, "v": "first"}, {"k": 2, "v": "first"}])
    t.write([{"k": 2, "v": "second"}, {"k": 3, "v": "second"}])
    (file,) = t.at(snapshot=1).scan().plan().splits[0].files
    return t, t.store.file_path(t.scan().plan().splits[0].partition, 0, file)


def damage(path: str) -> None:
    with open(path, "r+b") as file:
        file.seek(-40, os.SEEK_END)
        file.write(b"\xff" * 40)


def rows(t: ts.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in t.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(("harm", "option"), [(damage, CORRUPT), (os.remove, LOST)])
def test_a_file_that_cannot_be_read_is_passed_over_and_named(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    keyed: bool,
    harm: Callable[[str], None],
    option: dict[str, Any],
) -> None:
    t, path = two_files(tmp_path, **({"primary_key": ["k"]} if keyed else {}))
    harm(path)
    with pytest.raises(Corrupt):
        rows(t)
    with pytest.raises(Corrupt):
        rows(t.with_options(LOST if option is CORRUPT else CORRUPT))
    with caplog.at_level(logging.WARNING):
        assert rows(t.with_options(option)) == [(2, "second"), (3, "second")]
    assert f"left out of this scan: {path} (2 rows)" in caplog.text
    assert t.with_options(option).scan().count() == 2
    assert [r["k"] for r in t.with_options(option).changes(since=0).to_pylist()] == [2, 3]


def test_rows_that_are_written_again_must_all_be_read(tmp_path: Path) -> None:
    t, path = two_files(tmp_path, primary_key=["k"])
    damage(path)
    tolerant = t.with_options(CORRUPT)
    for again in (lambda: tolerant.update({"v": "x"}, where=ts.col("k") > 0), lambda: t.compact(full=True)):
        with pytest.raises(Corrupt):
            again()
    t.alter(ts.set_options(CORRUPT))
    with pytest.raises(Corrupt):
        t.refresh().rescale(2)
