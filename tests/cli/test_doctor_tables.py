"""`doctor PATH`: tables are looked at, damage is named, and only `--mend` puts something aside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tablestore as ts
from notebooks.cli.doctor import main


@pytest.fixture
def lake(tmp_path: Path) -> ts.Lake:
    """Two tables, one of which lost its newest snapshot, and one that cannot be opened."""
    created = ts.connect(tmp_path / "lake")
    for name in ("d.good", "d.broken", "e.closed"):
        table = created.create_table(name, schema={"k": ts.BIGINT})
        table.write([{"k": 1}])
        table.write([{"k": 2}])
    (tmp_path / "lake" / "d.db" / "broken" / "snapshot" / "snapshot-2").write_bytes(b"")
    (tmp_path / "lake" / "e.db" / "closed" / "schema" / "schema-0").write_bytes(b"")
    return created


def test_a_table_is_mended_when_that_is_asked_for(lake: ts.Lake, capsys: pytest.CaptureFixture[str]) -> None:
    place = f"{lake.warehouse}/d.db/broken"
    assert main([place]) == 1
    said = capsys.readouterr().out
    assert "snapshot 1 would be the newest" in said
    assert f"./workbench doctor {place} --mend" in said
    assert ts.open(place).store.snapshots.ids() == [1, 2]
    assert main([place, "--mend"]) == 0
    assert ts.open(place).check() == []
    assert ts.open(place).scan().count() == 1
    assert main([place]) == 0
    assert "broken at snapshot 1" in capsys.readouterr().out


def test_every_table_of_a_warehouse_is_looked_at(lake: ts.Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([lake.warehouse, "--json"]) == 1
    by_name = {Path(each["table"]).name: each for each in json.loads(capsys.readouterr().out)}
    assert {name: each["broken"] for name, each in by_name.items()} == {
        "good": False,
        "broken": True,
        "closed": True,
    }
    assert "put back a copy" in by_name["closed"]["text"]
    assert main([f"{lake.warehouse}/d.db"]) == 1
    assert "closed" not in capsys.readouterr().out


def test_a_path_without_tables_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert main([str(tmp_path / "none")]) == 1
    assert [line.partition(": ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "./workbench doctor"
    ] * 2
