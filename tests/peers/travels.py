"""A keyed table for moments and streams of both engines."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
from tests.peers.cells import cells, in_order
from tests.read import golden
from tests.tables import KEEP_ALL, KEYED

TABLE = KEYED.with_options(KEEP_ALL)


def rows(first: int, n: int, v: str) -> pa.Table:
    return pa.table({"k": pa.array(range(first, first + n), pa.int64()), "v": [v] * n})


def of(table: ts.Table) -> list[list[Any]]:
    return in_order(cells(table.scan().to_arrow()))


def copied(tmp_path: Path, name: str) -> str:
    path = tmp_path / "j.db" / name
    shutil.copytree(golden.JAVA / "warehouse" / "j.db" / name, path)
    return str(path)
