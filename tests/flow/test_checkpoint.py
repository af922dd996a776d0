"""Where a stream starts in a fresh checkpoint, and which checkpoints are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.flow.checkpoint import Origin, origin_in_lake, origin_of

SECOND_BATCH = {"start": {"at": 1}, "end": {"at": 2}}


def commit(table: ts.Table, identifier: int, position: Any, user: str = "job") -> None:
    writer = table.open_writer(user=user)
    writer.write(pa.table({"n": [identifier]}))
    table.commit(writer.prepare(), user=user, identifier=identifier, position=json.dumps(position))


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    return ts.connect(tmp_path / "lake").create_table("shop.t", schema={"n": ts.INT})


def of_table(table: ts.Table, path: Path, user: str = "job") -> Origin:
    return origin_of(str(path), table, user)


def of_lake(table: ts.Table, path: Path, user: str = "job", source: str = "shop") -> Origin:
    return origin_in_lake(str(path), ts.connect(path.parent / "lake"), user=user, source=source)


def plan(path: Path, *numbers: int) -> None:
    for number in numbers:
        (path / "offsets").mkdir(exist_ok=True)
        (path / "offsets" / str(number)).write_text("planned")


@pytest.mark.parametrize(
    ("of", "start"), [(of_table, json.dumps(SECOND_BATCH)), (of_lake, SECOND_BATCH["start"])]
)
def test_a_fresh_checkpoint_goes_on_behind_the_commits_of_its_user(
    table: ts.Table, tmp_path: Path, of: Any, start: Any
):
    assert of(table, tmp_path / "a") == Origin(0, None)
    commit(table, 4, SECOND_BATCH)
    commit(table, 9, SECOND_BATCH, user="somebody")
    assert of(table, tmp_path / "a") == of(table, tmp_path / "b") == Origin(5, start)
    plan(tmp_path / "a", 0, 1)
    commit(table, 6, {"start": {"at": 2}})
    assert of(table, tmp_path / "a") == Origin(5, start)
    assert table.check() == []


@pytest.mark.parametrize("of", [of_table, of_lake])
def test_checkpoints_of_others_and_older_ones_are_refused(table: ts.Table, tmp_path: Path, of: Any):
    for name in ("a", "b"):
        of(table, tmp_path / name)
        plan(tmp_path / name, 0)
    with pytest.raises(ts.InvalidRequest, match="user 'job', and not 'somebody'"):
        of(table, tmp_path / "a", "somebody")
    commit(table, 0, SECOND_BATCH)
    plan(tmp_path / "a", 1)
    commit(table, 1, SECOND_BATCH)
    assert of(table, tmp_path / "a") == Origin(0, None)
    with pytest.raises(ts.InvalidRequest, match=r"'job' that .*b did not plan"):
        of(table, tmp_path / "b")
    (tmp_path / "c").mkdir()
    plan(tmp_path / "c", 0)
    with pytest.raises(ts.InvalidRequest, match="another query"):
        of(table, tmp_path / "c")
    assert table.check() == []


def test_another_source_and_a_table_made_anew_are_refused(table: ts.Table, tmp_path: Path):
    of_lake(table, tmp_path / "a")
    with pytest.raises(ts.InvalidRequest, match="source 'shop', and not 'other'"):
        of_lake(table, tmp_path / "a", source="other")
    of_table(table, tmp_path / "b")
    plan(tmp_path / "b", 0)
    lake = ts.connect(tmp_path / "lake")
    lake.drop_table("shop.t")
    anew = lake.create_table("shop.t", schema={"n": ts.INT}, options={"tablestore.uuid": "another"})
    with pytest.raises(ts.InvalidRequest, match="with table "):
        of_table(anew, tmp_path / "b")


def test_the_files_of_earlier_versions_are_read(table: ts.Table, tmp_path: Path):
    (tmp_path / "a").mkdir()
    plan(tmp_path / "a", 0)
    old = {"v": 1, "user": "job", "source": "shop", "identifier": 7, "start": {"at": 3}}
    (tmp_path / "a" / "tablestore-origin.json").write_text(json.dumps(old))
    assert of_lake(table, tmp_path / "a") == Origin(7, {"at": 3})
    (tmp_path / "b").mkdir()
    plan(tmp_path / "b", 0)
    identity = table.options.get("tablestore.uuid", table.location)
    old = {"v": 1, "user": "job", "table": identity, "identifier": 7, "position": "text"}
    (tmp_path / "b" / "tablestore-origin.json").write_text(json.dumps(old))
    assert of_table(table, tmp_path / "b") == Origin(7, "text")
