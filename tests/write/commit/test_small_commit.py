"""What a small commit asks of the store: on object stores each of these takes milliseconds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa

import tablestore as ts
from tests.faults import FaultyIO


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": keys})


def test_a_small_commit_reads_little(tmp_path: Path) -> None:
    """Whose it is (4 times), the newest snapshot (3 times), the hints; not what this process just wrote."""
    io = FaultyIO()
    lake = ts.connect(str(tmp_path), io=io)
    schema = {"k": ts.BIGINT, "v": ts.BIGINT}
    t = lake.create_table("d.t", schema=schema, primary_key=["k"], options={"bucket": 1})
    for k in range(2):
        t.write(rows(k))
    io.log.clear()
    t.write(rows(*range(10)))
    asked = Counter(line.split()[0] for line in io.log)
    assert asked["read"] <= 11, io.log
    assert not any(line.startswith("read") and "/manifest/" in line for line in io.log), io.log
    assert asked["exists"] <= 3, io.log
    assert asked["list"] <= 2, io.log
    assert asked["write"] + asked["create"] + asked["put"] + asked["replace"] == 6, io.log
