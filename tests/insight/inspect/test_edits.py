"""`inspect.edits()` and `inspect.stays()`: one source, read in any order and in parts; keys by columns."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablestore as ts
from tablestore.insight.explain.key_axis import key_numbers
from tablestore.insight.inspect import inspect as inspect_module
from tablestore.insight.inspect.edits import EDITS, STAYS, key_columns
from tablestore.insight.inspect.inspect import Inspect

SCHEMAS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "numbers": ({"k": ts.BIGINT, "v": ts.STRING}, ["k"]),
    "two": ({"p": ts.INT, "k": ts.DATE, "v": ts.STRING}, ["p", "k"]),
    "texts": ({"k": ts.STRING, "v": ts.STRING}, ["k"]),
}


def written(folder: Path, kind: str = "numbers", writes: int = 12, **options: object) -> ts.Table:
    columns, key = SCHEMAS[kind]
    given = {"bucket": 3, "num-sorted-run.compaction-trigger": 3, "snapshot.num-retained.min": 1000} | options
    table = ts.connect(folder).create_table("d.t", schema=columns, primary_key=key, options=given)
    for n in range(writes):
        numbers = range(n * 5, n * 5 + 9)
        rows = {
            "numbers": {"k": list(numbers)},
            "two": {"p": [7] * 9, "k": pa.array([100 * i for i in numbers], pa.date32())},
            "texts": {"k": [f"key-{i:03d}" for i in numbers]},
        }[kind]
        table.write(rows | {"v": [f"{n}"] * 9})
    return table


def fresh(table: ts.Table) -> Inspect:
    return ts.open(table.location).inspect


def rows_of(actual: pa.Table) -> set[tuple[Any, ...]]:
    return {tuple(row.values()) for row in actual.to_pylist()}


@pytest.mark.parametrize(("kind", "vectors"), [("numbers", False), ("texts", False), ("two", True)])
def test_parts_in_any_order_are_those_of_a_fresh_reader(tmp_path: Path, kind: str, vectors: bool) -> None:
    table = written(tmp_path, kind, **({"deletion-vectors.enabled": "true"} if vectors else {}))
    last = table.inspect.latest_snapshot_id()
    drawn, inspect = random.Random(kind), fresh(table)
    for turn in range(6):
        first = drawn.randint(1, last)
        until = drawn.choice([last, drawn.randint(first, last)])
        actual, wanted = (reader.edits(first=first, last=until) for reader in (inspect, fresh(table)))
        assert actual.schema.metadata == wanted.schema.metadata, turn
        assert rows_of(actual) == rows_of(wanted), (turn, first, until)
        for snapshot in {first, drawn.randint(first, until), until}:
            added = pc.fill_null(actual["added"], 0)
            there = pc.and_(
                pc.less_equal(added, snapshot),
                pc.greater(pc.fill_null(actual["removed"], snapshot + 1), snapshot),
            )
            wanted = table.inspect.levels(snapshot)
            state = actual.filter(there)
            columns = ["bucket", "level", "file_name", "rows", "min_key", "max_key", "masked_rows"]
            assert rows_of(state.select(columns)) == rows_of(wanted.select(columns)), (first, until, snapshot)


def test_a_commit_and_an_expiry_leave_what_a_fresh_reader_finds(tmp_path: Path) -> None:
    table = written(tmp_path)
    inspect = table.inspect
    for n in range(4):
        inspect.edits()
        table.write({"k": [n], "v": ["new"]})
        if n == 2:
            table.expire_snapshots(keep=5)
        assert rows_of(inspect.edits()) == rows_of(fresh(table).edits())
        assert rows_of(inspect.stays()) == rows_of(fresh(table).stays())
    assert inspect.edits(first=1).schema.metadata == fresh(table).edits().schema.metadata


def test_a_rollback_makes_it_begin_again(tmp_path: Path) -> None:
    table = written(tmp_path, writes=6)
    inspect = table.inspect
    inspect.edits()
    table.rollback(snapshot=3)
    for n in range(4):
        table.write({"k": [n], "v": ["other"]})
    assert rows_of(inspect.edits()) == rows_of(fresh(table).edits())


def test_stays_are_the_edits_without_what_they_do_not_have(tmp_path: Path) -> None:
    table = written(tmp_path)
    assert table.inspect.stays().schema == STAYS
    assert rows_of(table.inspect.edits().select(STAYS.names)) == rows_of(table.inspect.stays())


def test_the_newest_are_kept_where_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = written(tmp_path, writes=14)
    whole = table.inspect.edits()
    last = table.inspect.latest_snapshot_id()
    for most in (1, 5, 9, 20, len(whole), len(whole) + 5):
        monkeypatch.setattr(inspect_module, "MOST_EDITS", most)
        actual = fresh(table).edits()
        first = pc.min(actual["added"]).as_py() or last
        assert len(actual) <= max(most, len(fresh(table).edits(first=last)))
        assert rows_of(actual) == rows_of(fresh(table).edits(first=_first(actual)))
        assert first >= _first(actual)
    assert _first(actual) == 1


def _first(actual: pa.Table) -> int:
    return int(json.loads(actual.schema.metadata[b"edits"])["first"])


def test_a_table_without_snapshots_has_none(tmp_path: Path) -> None:
    inspect = written(tmp_path, writes=0).inspect
    assert inspect.edits().schema.equals(EDITS)
    assert (inspect.edits(first=3, last=9).num_rows, inspect.stays().num_rows) == (0, 0)


@pytest.mark.parametrize("kind", ["numbers", "two"])
def test_keys_of_whole_numbers_are_those_decoded_one_by_one(tmp_path: Path, kind: str) -> None:
    store = written(tmp_path, kind).store
    files = store.manifests.live_entries(store.snapshots.latest()).table
    actual, plain = key_columns(files, store.key_types)
    assert plain == (kind == "numbers")
    for bucket in set(files["bucket"].to_pylist()):
        at = pc.equal(files["bucket"], bucket)
        keys = [k for name in ("min_key", "max_key") for k in files.filter(at)[name].to_pylist()]
        wanted, _ = key_numbers(keys, store.key_types)
        numbers = [
            x for name in ("min_key", "max_key") for x in actual[f"{name}_number"].filter(at).to_pylist()
        ]
        assert numbers == wanted
        texts = [x for name in ("min_key", "max_key") for x in actual[name].filter(at).to_pylist()]
        assert texts == [store.key_text(k) for k in keys]
