"""What the sidebar is told of lakes: entries of every place, bounded, each with code that gives it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.read import golden
from tests.widgets import hostile
from widgets import lakes


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A table with three snapshots, of which only a tag keeps the first; a tag in history; a branch."""
    table = ts.connect(tmp_path / "lake").create_table(
        "shop.orders", schema={"k": ts.BIGINT}, primary_key=["k"], options={"bucket": 1}
    )
    for number in range(4):
        table.write({"k": [number]})
    table.tags.create("old", snapshot=1)
    table.tags.create("new", snapshot=4)
    table.branches.create("dev", tag="new")
    table.expire_snapshots(keep=3)
    return tmp_path / "lake"


def asked(*steps: list[str], skip: int = 0) -> dict[str, Any]:
    """The answer as it crosses: through JSON."""
    answer = lakes.answer(json.dumps({"place": steps, "skip": skip}))
    return json.loads(json.dumps(answer._repr_mimebundle_()["application/json"]))


def names(answer: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in answer["entries"]]


def test_a_lake_is_walked_down_to_snapshots_tags_and_branches(warehouse: Path) -> None:
    lake = ["path", str(warehouse)]
    table = [lake, ["database", "shop"], ["table", "orders"]]
    assert names(asked(lake)) == ["shop"]
    assert names(asked(*table[:2])) == ["orders"]
    lists = asked(*table)["entries"]
    assert [(each["name"], each["detail"]) for each in lists] == [
        ("Snapshots", "newest #4"),
        ("Tags", "2"),
        ("Branches", "1"),
    ]
    assert names(asked(*table, ["snapshots", ""])) == ["4", "3", "2"]
    tags = {each["name"]: each["detail"] for each in asked(*table, ["tags", ""])["entries"]}
    assert tags == {"new": "#4", "old": "#1 · kept by the tag"}
    assert names(asked(*table, ["branches", ""])) == ["dev"]
    assert names(asked(*table, ["branches", ""], ["branch", "dev"], ["snapshots", ""])) == ["4"]


def test_every_entry_has_code_that_runs_and_a_cockpit_where_it_says_so(warehouse: Path) -> None:
    waiting: list[list[list[str]]] = [[["path", str(warehouse)]]]
    seen, cockpits = 0, 0
    while waiting:
        steps = waiting.pop()
        for entry in asked(*steps)["entries"]:
            seen += 1
            exec(compile(entry["code"], entry["name"], "exec"), {})
            place = [*steps, [entry["kind"], entry["name"]]]
            if entry["opens"]:
                waiting.append(place)
            if entry["cockpit"]:
                cockpits += 1
                view = lakes.cockpit(place)
                kept = entry["detail"].endswith("kept by the tag")
                assert type(view).__name__ == ("LsmLevels" if kept else "Workbench")
                view.close()
    assert (seen, cockpits) == (15, 9)


def test_a_level_is_bounded_and_goes_on_where_it_ended(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lakes, "MOST", 2)
    place = (["path", f"{warehouse}/shop.db/orders"], ["snapshots", ""])
    assert (names(asked(*place)), asked(*place)["more"]) == (["4", "3"], True)
    assert (names(asked(*place, skip=2)), asked(*place, skip=2)["more"]) == (["2"], False)


def test_what_is_wrong_is_part_of_the_answer(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert asked(["path", "/nowhere"]) == {"error": "there is nothing at /nowhere"}
    assert asked(["path", str(tmp_path / "file")])["error"].startswith("there is nothing at")
    assert asked(["variable", "gone"])["error"] == "the kernel has no lake or table gone any more"
    gone = asked(["path", str(warehouse)], ["database", "shop"], ["table", "gone"])
    assert "gone" in gone["error"]


def test_lakes_near_the_kernel_and_added_paths_are_the_roots(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(warehouse.parent)
    table = f"{warehouse}/shop.db/orders"
    entries = lakes.answer(json.dumps({"roots": [table]})).value["entries"]
    assert [(each["name"], each["cockpit"]) for each in entries] == [(str(warehouse), False), (table, True)]
    for each in entries:
        exec(compile(each["code"], "root", "exec"), {})


def test_names_that_are_markup_stay_text_and_code_stays_a_literal(tmp_path: Path) -> None:
    table = hostile.table_at(tmp_path)
    (tag,) = asked(["path", table.location], ["tags", ""])["entries"]
    assert tag["name"] == hostile.IMG
    (branch,) = asked(["path", table.location], ["branches", ""])["entries"]
    assert branch["code"].count("\n") == 3
    assert repr(hostile.IMG) in branch["code"]
    (database,) = asked(["path", str(tmp_path)])["entries"]
    assert database["name"] == hostile.IMG
    assert "cannot be used" in asked(["path", str(tmp_path)], ["database", hostile.IMG])["error"]


def test_tables_of_others_are_walked_to_their_last_entry() -> None:
    tables, left = list[str](), [[["path", str(golden.JAVA / "warehouse")]]]
    while left:
        place = left.pop()
        for entry in asked(*place)["entries"]:
            compile(entry["code"], "<cell>", "exec")
            tables += [entry["name"]] if entry["kind"] == "table" else []
            if entry["opens"]:
                left.append([*place, [entry["kind"], entry["name"]]])
    assert sorted(tables) == sorted(golden.java_tables())
