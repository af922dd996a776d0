"""Orphan files of a table with an embedded log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import tablestore as ts


def test_orphan_removal_leaves_the_log_and_finds_its_parts(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
    lake = ts.connect(tmp_path)
    table = lake.create_table(
        "shop.orders",
        schema=rows.schema,
        primary_key=["id"],
        options={"bucket": 2, "log.system": "embedded"},
    )
    table.write(rows)
    folder = tmp_path / "shop.db" / "orders" / "tablestore" / "log"
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    lost = folder / "parts" / "0b9a3c4e-0000-4000-8000-000000000000.arrow"
    lost.write_bytes(b"rows of a task that was killed")
    before = sorted(p.name for p in folder.glob("*.log"))
    table = lake.table("shop.orders")
    assert table.remove_orphans("1 h").files == ()
    removed = table.remove_orphans("0 ms", dry_run=False, force=True)
    assert removed.removed
    assert [Path(path).name for path, _ in removed.files] == [lost.name]
    assert not lost.exists()
    assert sorted(p.name for p in folder.glob("*.log")) == before
    assert table.scan().to_arrow().num_rows == 2
    assert table.check() == []
