"""pyfluss, the client of Fluss for Python, with our coordinator: what it is given is right, what its flush
says is written is there, and the rest is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

import tablestore as ts
from tablestore.fluss.errors import ErrorCode
from tests.servers import pyfluss_env
from tests.suite import counterparts

LOG = {"log.system": "embedded", "bucket": 2, "tablestore.tiering.enabled": True}
COLUMNS = {"id": ts.BIGINT.not_null(), "text": ts.STRING}
OF_THE_CLIENT = -2
"""The number of what pyfluss refuses by itself, for it has asked what the server serves."""


@pytest.mark.large
def test_pyfluss_reads_and_writes_and_is_refused_what_is_not_served(tmp_path: Path):
    counterparts.need("pyfluss")
    lake = ts.connect(tmp_path)
    log = lake.create_table("shop.log", schema=COLUMNS, options={**LOG, "bucket-key": "id"})
    keyed = lake.create_table("shop.keyed", schema=COLUMNS, primary_key=["id"], options=LOG)
    log.write([{"id": n, "text": f"old {n}"} for n in range(50)])
    keyed.write([{"id": n, "text": f"old {n}"} for n in range(5, 15)])
    keyed.log.finish()
    ends, newest = sorted(log.log.end.items()), keyed.log.newest_snapshot
    with lake.coordinator() as coordinator:
        said = pyfluss_env.calls(coordinator.server, Path(coordinator.token_file).read_text())
    given = {
        **{"databases": ["shop"], "tables": ["keyed", "log"], "table exists": [True, False]},
        **{"database": "shop", "keys": ["id"], "buckets": 2, "ends": [list(end) for end in ends]},
        **{"lake": newest, "ids": [*range(50), *range(100, 11120), 50000]},
    }
    assert {name: said[name] for name in given} == given
    refused = {
        **{"wrong password": ErrorCode.AUTHENTICATE, "no database": ErrorCode.DATABASE_NOT_EXIST},
        **{"no table": ErrorCode.TABLE_NOT_EXIST, "partitions": ErrorCode.TABLE_NOT_PARTITIONED},
        **{"no lake": ErrorCode.LAKE_SNAPSHOT_NOT_EXIST},
        **dict.fromkeys(("create database", "drop database", "create table", "drop table"), OF_THE_CLIENT),
        "lookup": OF_THE_CLIENT,
    }
    assert {name: said[name]["error"] for name in refused} == refused
    for name in ("create database", "drop database", "create table", "drop table", "lookup"):
        assert "The server does not support" in said[name]["text"]
    assert [said[name] for name in ("flush of rows", "flush of keys")] == [[], []]
    rows = log.scan(log=True).to_arrow()
    assert sorted(rows["id"].to_pylist()) == given["ids"]
    assert rows["text"].to_pylist().count("arrow") == 1000
    assert pc.sum(pc.utf8_length(rows["text"])).as_py() > 5_000_000
    state = {n: f"old {n}" for n in range(10, 15)} | {n: f"new {n}" for n in range(10)} | {4: None}
    del state[3]
    actual = keyed.scan(log=True).to_arrow()
    assert dict(zip(actual["id"].to_pylist(), actual["text"].to_pylist(), strict=True)) == state
    assert (log.check(), keyed.check()) == ([], [])
