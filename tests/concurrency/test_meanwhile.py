"""Snapshots expire while they are read: right rows, or NotFound with what to do; never damage."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tests.concurrency.meanwhile import Twin, wrong
from tests.log.followed import Followed
from tests.tables import KEYED

LOGGED = {"bucket": 1, "log.system": "embedded"}


def history(lake: ts.Lake) -> ts.Table:
    """Five overlapping commits, a compaction among them."""
    table = KEYED.create(lake.warehouse, LOGGED | {"log.consistency": "eventual", "write-only": True})
    for n in range(5):
        table.write(pa.table({"k": range(n, n + 4), "v": [f"{n}"] * 4}))
    return table


def expire(table: ts.Table) -> None:
    """All but the newest snapshot go, and the files that a compaction has taken from it."""
    table.compact(full=True)
    table.write(pa.table({"k": [0, 9], "v": ["late", "new"]}))
    table.expire_snapshots(keep=1)


@pytest.mark.parametrize("start", [None, {"log": {0: 6}}, 3], ids=["state", "log", "files"])
def test_a_normalised_stream_of_a_log(tmp_path: Path, start: Any) -> None:
    def follow(table: ts.Table) -> Counter[Any]:
        found = Followed(1)
        for step in table.stream(start=start, follow=False, normalize=True):
            found.take(step) if start is None else step.to_arrow()
        return found.rows

    assert wrong(Twin.of(tmp_path, history, expire), follow) == []
