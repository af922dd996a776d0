"""Columns at a glance: bars are the engine's spread, and the condition of a bar is that of its values."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path

import pyarrow.compute as pc
import pytest

import tablestore as ts
from tests.tables import TableSpec
from widgets import PruningExplainer

COLUMNS = {"k": ts.BIGINT, "price": ts.DOUBLE, "day": ts.DATE, "no te": ts.INT, "text": ts.STRING}


def filled(folder: Path, chance: random.Random) -> ts.Table:
    table = TableSpec(COLUMNS, primary_key=("k",), options={"bucket": 1, "write-only": True}).create(folder)
    for turn in range(chance.randint(1, 4)):
        many, first = chance.randint(1, 200), chance.randint(-500, 500)
        rows = {
            "k": [first + 7 * i for i in range(many)],
            "price": [chance.uniform(-3, 900) for _ in range(many)],
            "day": [date(2026, chance.randint(1, 12), chance.randint(1, 28)) for _ in range(many)],
            "no te": [chance.choice((None, 1, 2, 5 + turn)) for _ in range(many)],
            "text": ["x"] * many,
        }
        table.write(rows)
    return table.refresh()


def test_each_row_with_a_value_lies_in_the_condition_of_one_bar(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        table = filled(tmp_path / str(seed), random.Random(seed))
        columns = {column["name"]: column for column in PruningExplainer(table).frame["glance"]}
        assert list(columns) == list(COLUMNS)
        rows = table.scan().to_arrow()
        for name, column in columns.items():
            asked = [condition for _, _, condition in column["bars"] if condition]
            if not asked:
                continue
            num_rows = [
                table.scan([name], where=ts.where(condition)).to_arrow().num_rows for condition in asked
            ]
            assert sum(num_rows) == rows.num_rows - rows[name].null_count, (name, asked)
            if column["nulls"]:
                none = table.scan([name], where=ts.where(column["nulls"][1])).to_arrow()
                assert none.num_rows == rows[name].null_count
        assert columns["k"]["bars"]
        assert columns["text"]["bars"] == []
        facts = {f["column"]: f for f in table.scan().explain().columns().to_pylist()}
        spread = facts["k"]["spread"]
        heights = [round(n / max(spread), 3) for n in spread]
        assert [height for height, _, _ in columns["k"]["bars"]] == heights


def test_a_condition_leaves_the_columns_as_they_are_and_another_snapshot_has_its_own(tmp_path: Path) -> None:
    table = TableSpec({"k": ts.BIGINT}, primary_key=("k",), options={"bucket": 1}).create(tmp_path)
    table.write({"k": range(10)})
    table.write({"k": range(100)})
    view = PruningExplainer(table.refresh())
    before = view.frame["glance"]
    assert before[0]["ends"] == ["0", "99"]
    view.where = before[0]["bars"][-1][2]
    assert view.frame["problem"] == {}
    assert view.frame["glance"] == before
    view.snapshot = 1
    assert view.frame["glance"][0]["ends"] == ["0", "9"]


def test_many_files_have_no_columns_at_a_glance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("widgets.pruning.widget.MOST_STATISTICS", 1)
    table = TableSpec({"k": ts.BIGINT}, options={"bucket": 1, "bucket-key": "k"}).create(tmp_path)
    for _ in range(2):
        table.write({"k": range(10)})
    assert pc.sum(table.refresh().inspect.levels()["rows"]).as_py() == 20
    assert PruningExplainer(table).frame["glance"] == []
