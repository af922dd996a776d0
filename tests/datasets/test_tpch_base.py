"""Base tables: complete or absent, made once, errors that leave nothing behind."""

import hashlib
import os
import stat
from pathlib import Path

import pyarrow as pa
import pytest

from datasets import tpch
from datasets.cachedir import cache_root
from datasets.errors import DatasetError
from datasets.tpch import base_tables
from datasets.tpch.refresh_sets import tbl


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def everything_under(path: Path) -> set[str]:
    return {p.name for p in path.rglob("*") if p.is_file() or p.name.startswith("generating")} - {"lock"}


def test_parts_together_are_dbgens_lineitem() -> None:
    paths = tpch.base("0.01", parts=4, progress=False)["lineitem"]
    assert [path.name for path in paths] == [f"lineitem.{n}.parquet" for n in (1, 2, 3, 4)]
    text = b"".join(tbl(batch) for path in paths for batch in tpch.read(path))
    assert hashlib.md5(text).hexdigest() == "4c6d44350a1f7974f56f5d3d7091c2be"


def test_reading_gives_plain_strings_and_chosen_columns_in_order() -> None:
    path = tpch.base("0.01", parts=4, progress=False)["lineitem"][0]
    batches = list(tpch.read(path, ["l_comment", "l_orderkey"], batch_rows=4000))
    assert batches[0].schema == pa.schema(
        [tpch.LINEITEM.field("l_comment"), tpch.LINEITEM.field("l_orderkey")]
    )
    assert [len(batch) for batch in batches][:3] == [4000, 4000, 4000]


def test_second_call_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tpch.base("0.001", ("nation", "orders"), parts=2, cache=tmp_path, progress=False)
    monkeypatch.setattr(base_tables, "_executable", lambda: script(tmp_path / "fails", "exit 9"))
    assert tpch.base("0.001", ("nation", "orders"), parts=2, cache=tmp_path, progress=False) == first
    assert [len(first["nation"]), len(first["orders"])] == [1, 2]


def test_what_a_killed_generator_left_is_removed_and_made_again(tmp_path: Path) -> None:
    home = tmp_path / "tpch" / "parquet-1" / "sf0.001"
    left = home / "generating-x" / "orders"
    left.mkdir(parents=True)
    (left / "orders.1.parquet").write_bytes(b"PAR1 torn")
    paths = tpch.base("0.001", ("orders",), cache=tmp_path, progress=False)["orders"]
    assert sum(len(batch) for path in paths for batch in tpch.read(path)) == tpch.base_rows("0.001") == 1500
    assert everything_under(home) == {"orders.1.parquet"}


@pytest.mark.parametrize(
    ("generator", "said"),
    [
        ("echo disk is full >&2; exit 3", "exit status 3: disk is full"),
        ("exit 0", "made 0 of 2 parts of lineitem"),
    ],
)
def test_a_generator_that_fails_or_makes_too_little_is_quoted_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generator: str, said: str
) -> None:
    monkeypatch.setattr(base_tables, "_executable", lambda: script(tmp_path / "gen", generator))
    with pytest.raises(DatasetError, match=said):
        tpch.base("0.001", parts=2, cache=tmp_path / "cache", progress=False)
    assert everything_under(tmp_path / "cache") == set()


def test_missing_generator_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_tables.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DatasetError, match="pip install tpchgen-cli"):
        tpch.base("0.001", cache=tmp_path, progress=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tables": ("lineitems",)}, "no TPC-H table 'lineitems'"),
        ({"parts": 0}, "parts 0: use 1 to 10"),
        ({"parts": 11}, "parts 11: use 1 to 10"),
        ({"scale_factor": 0.0015}, "multiple of 0.001"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_made(
    arguments: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match=said):
        tpch.base(**{"scale_factor": "0.001", "cache": tmp_path / "new", **arguments})
    assert not (tmp_path / "new").exists()


def test_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLESTORE_CACHE", "/own")
    assert cache_root() == Path("/own")
    monkeypatch.delenv("TABLESTORE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_root() == Path("/xdg/tablestore-workbench")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path(os.path.expanduser("~")) / ".cache" / "tablestore-workbench"
