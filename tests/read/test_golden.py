"""Tables of both peers read as their writers say, and `check` finds them clean."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablestore as ts
from tablestore.core.errors import NotFound, Unsupported
from tablestore.format import stats
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import col
from tablestore.insight.check.check import examine
from tablestore.insight.inspect.inspect import Inspect
from tablestore.meta.entries import Entries
from tablestore.read.changes.stream import StreamRequest, stream
from tablestore.read.changes.stream_start import Cursor
from tablestore.read.scan import time_travel
from tablestore.read.supported import require_readable_files
from tests.read import golden

JAVA_TABLES = golden.java_tables()
PYTHON_TABLES = golden.python_tables()


@pytest.mark.parametrize("table", JAVA_TABLES)
def test_rows_of_java_tables(table: str) -> None:
    store = golden.java(table)
    wanted = golden.expected(table)
    rows, names = golden.cells(golden.read(store), golden.types_of(store)), list(store.schema.names)
    assert [[f.name, str(f.type)] for f in store.schema.fields] == wanted["fields"]
    rows, wanted_rows = (golden.without_order(r, names, wanted["unordered"]) for r in (rows, wanted["rows"]))
    assert golden.in_order(rows) == golden.in_order(wanted_rows)


def _further_reads() -> list[tuple[str, int]]:
    collected = []
    for table in JAVA_TABLES:
        for i, r in enumerate(golden.expected(table)["reads"]):
            if "options" in r:
                collected.append((table, i))
    return collected


@pytest.mark.parametrize(("table", "number"), _further_reads())
def test_time_travel_tags_and_branches_of_java_tables(table: str, number: int) -> None:
    wanted = golden.expected(table)["reads"][number]
    options = wanted["options"]
    store = golden.java(table, branch=options.get("branch", "main"))
    snapshot = int(options["scan.snapshot-id"]) if "scan.snapshot-id" in options else None
    resolved = time_travel.resolve(store, snapshot=snapshot, tag=options.get("scan.tag-name"))
    then = time_travel.at(store, resolved)
    names = [name for name, _ in wanted["fields"]]  # through main's table Java gives a branch main's columns
    assert "branch" in options or [f.name for f in then.schema.fields] == names
    rows = golden.cells(golden.read(store, resolved, columns=names), golden.types_of(then))
    assert golden.in_order(rows) == golden.in_order(wanted["rows"])


@pytest.mark.parametrize("table", [t for t in JAVA_TABLES if t != "expired"])
def test_changes_of_java_tables(table: str) -> None:
    store = golden.java(table)
    types = golden.types_of(store)
    steps = list(stream(store, StreamRequest(start=1, follow=False)))
    actual = [
        (Cursor.parse(s.cursor).snapshot, golden.in_order(golden.cells(s.to_arrow(), types))) for s in steps
    ]
    wanted = golden.expected(table)["changelog"]
    assert [c for c in actual if c[1]] == [
        (w["next"], golden.in_order(w["changes"])) for w in wanted if w["changes"]
    ]


def test_changes_that_have_expired_are_refused() -> None:
    with pytest.raises(NotFound, match="snapshot 1, the next of this stream, has expired"):
        next(stream(golden.java("expired"), StreamRequest(start=1, follow=False)))


@pytest.mark.parametrize("table", golden.java_tables())
def test_files_and_statistics_of_java_tables(table: str) -> None:
    store = golden.java(table)
    live = {e.file.file_name: e for e in store.manifests.live_entries(store.snapshots.latest())}
    wanted = {f["name"]: f for f in golden.expected(table)["files"]}
    assert live.keys() == wanted.keys()
    for name, e in live.items():
        f, w = e.file, wanted[name]
        sources = {None: None, 0: "APPEND", 1: "COMPACT"}
        assert (e.bucket, e.total_buckets, f.level, f.file_size, f.row_count, f.delete_count) == (
            w["bucket"],
            w["total_buckets"],
            w["level"],
            w["size"],
            w["rows"],
            w["deletes"],
        )
        assert (f.min_sequence, f.max_sequence, f.schema_id) == (w["min_seq"], w["max_seq"], w["schema_id"])
        assert sources[f.file_source] == w["source"]
        assert list(f.extra_files) == w["extra_files"]
        assert (None if f.value_stats_cols is None else list(f.value_stats_cols)) == w["value_stats_cols"]
        own = store.schema_of(f.schema_id)
        names = f.value_stats_cols if f.value_stats_cols is not None else f.write_cols or own.names
        if set(names) <= set(own.names) and not any(own.by_name[n].type.children for n in names):
            types = {n: own.by_name[n].type for n in names}
            decoded = stats.decode(f.value_stats, [t.as_nullable() for t in types.values()], f.row_count)
            actual = dict(zip(names, decoded, strict=True))
            assert {n: golden.cell(s.min, types[n]) for n, s in actual.items()} == w["value_stats"]["min"]
            assert {n: golden.cell(s.max, types[n]) for n, s in actual.items()} == w["value_stats"]["max"]
            assert [s.null_count for s in actual.values()] == w["value_stats"]["nulls"]


@pytest.mark.parametrize("table", golden.java_tables())
def test_index_files_of_java_tables(table: str) -> None:
    store = golden.java(table)
    collected = []
    types = {f.name: f.type for f in store.schema.partition_fields}
    for e in store.manifests.index_entries(store.snapshots.latest()):
        values = zip(types.items(), store.partition_values(e.partition), strict=True)
        row = {"kind": "ADD", "partition": {n: golden.cell(v, t) for (n, t), v in values}, "bucket": e.bucket}
        row |= {"type": e.file.index_type, "name": e.file.file_name}
        row |= {"size": e.file.file_size, "rows": e.file.row_count}
        if e.file.dv_ranges is not None:
            row["dv_ranges"] = [[r.data_file, r.offset, r.length, r.cardinality] for r in e.file.dv_ranges]
        collected.append(row)
    assert sorted(collected, key=repr) == sorted(golden.expected(table)["index_files"], key=repr)


@pytest.mark.parametrize("table", golden.java_tables())
def test_levels_of_java_tables(table: str) -> None:
    store = golden.java(table)
    collected: dict[int, list[tuple[int, int]]] = {}
    for row in Inspect(store).levels().to_pylist():
        collected.setdefault(row["bucket"], []).append((row["level"], row["rows"]))
        assert row["min_key_pos"] is None or 0 <= row["min_key_pos"] <= row["max_key_pos"] <= 1
    wanted: dict[int, list[tuple[int, int]]] = {}
    for place, files in golden.expected(table)["levels"].items():
        wanted.setdefault(int(place.rsplit(" ", 1)[1]), []).extend((f[0], f[1]) for f in files)
    assert {b: sorted(f) for b, f in collected.items()} == {b: sorted(f) for b, f in wanted.items()}


@pytest.mark.parametrize("table", golden.java_tables())
def test_snapshots_of_java_tables(table: str) -> None:
    store = golden.java(table)
    snapshots = Inspect(store).snapshots().to_pylist()
    wanted = golden.expected(table)["snapshots"]
    assert len(snapshots) == len(wanted)
    for row, w, s in zip(snapshots, wanted, store.snapshots.all(), strict=True):
        row.pop("commit_time")
        utc = datetime.datetime.fromtimestamp(s.time_millis / 1000, datetime.UTC)
        assert utc.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] == w.pop("commit_time")
        assert row == w


@pytest.mark.parametrize("table", JAVA_TABLES)
def test_plans_are_those_of_java(table: str) -> None:
    store = golden.java(table)

    def shape(raw: bool, files: list[str], deletions: list[Any]) -> tuple[bool, list[tuple[str, str]]]:
        marks = deletions or [None] * len(files)
        return raw, sorted((f, repr(d)) for f, d in zip(files, marks, strict=True))

    def deletion(d: Any) -> Any:
        return None if d is None else [d.path.rpartition("/")[2], d.offset, d.length, d.cardinality]

    splits = golden.planned(store).splits
    actual = [
        shape(s.raw, [f.file_name for f in s.files], [deletion(d) for d in s.deletion_files]) for s in splits
    ]
    wanted = [shape(s["raw"], s["files"], s["deletion_files"]) for s in golden.expected(table)["splits"]]
    assert sorted(actual) == sorted(wanted)


FILTERS = {"=": lambda c, v: c == v, "in": lambda c, v: c.is_in(v)}


@pytest.mark.parametrize("number", range(4))
def test_filters_select_what_java_selects_and_skip_no_file_it_needs(number: int) -> None:
    store = golden.java("file_index")
    wanted = golden.expected("file_index")["reads"][number]
    op, name, value = wanted["filter"]
    where = FILTERS[op](col(name), value)
    rows = golden.cells(golden.read(store, where=where), golden.types_of(store))
    bound = predicate.bind(where, store.schema)
    everything = golden.read(store)
    by_hand = golden.cells(everything.filter(evaluate.mask(bound, everything)), golden.types_of(store))
    assert golden.in_order(rows) == golden.in_order(by_hand)
    assert all(row in wanted["rows"] for row in rows)
    kept = {f.file_name for s in golden.planned(store, where=where).splits for f in s.files}
    assert set(wanted["files_planned"]) == kept


@pytest.mark.parametrize("table", golden.java_tables())
def test_java_tables_are_clean(table: str) -> None:
    assert examine(golden.java(table)).violations == []


@pytest.mark.parametrize("table", golden.python_tables())
def test_python_tables_are_clean(table: str) -> None:
    assert examine(golden.python(table)).violations == []


def test_uncounted_deletes_of_pypaimon_are_a_note() -> None:
    notes = examine(golden.python("pk_upsert_delete")).notes
    assert any("its writer never counts deletes" in n for n in notes)


def _python_reads() -> list[str]:
    names = (p.stem for p in (golden.PYTHON / "expected").glob("*.parquet"))
    return sorted(n for n in names if n.split("@")[0] in PYTHON_TABLES)


@pytest.mark.parametrize("name", _python_reads())
def test_rows_of_python_tables(name: str) -> None:
    table, _, at = name.partition("@")
    store = golden.python(table, branch=at.removeprefix("branch_") if at.startswith("branch_") else "main")
    snapshot = None
    if at.startswith("tag_"):
        snapshot = time_travel.resolve(store, tag=at.removeprefix("tag_"))
    elif at.isdigit():
        snapshot = time_travel.resolve(store, snapshot=int(at))
    content = golden.read(store, snapshot)
    wanted = pq.ParquetFile(golden.PYTHON / "expected" / f"{name}.parquet").read()
    assert content.column_names == wanted.column_names
    assert _rows(content) == _rows(wanted.cast(content.schema))


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("table", ["handwritten", "handwritten_compact"])
def test_rows_of_handwritten_tables(table: str) -> None:
    content = golden.read(golden.python(table)).to_pylist()
    assert len(content) == 2
    assert {r["k"] for r in content} == {r["k"] for r in _handwritten(table)}
    assert sorted(map(repr, content)) == sorted(map(repr, _handwritten(table)))


def _handwritten(table: str) -> list[dict[str, Any]]:
    return json.loads((golden.PYTHON / "expected" / f"{table}.json").read_text())


def test_row_ids_and_versions_of_a_java_table() -> None:
    wanted = golden.expected("row_tracking")["reads"][0]
    table = ts.open(str(golden.JAVA / "warehouse" / "j.db" / "row_tracking"))
    rows = table.system("row_tracking").scan().to_arrow()
    assert rows.column_names == [name for name, _ in wanted["fields"]]
    assert golden.in_order(golden.cells(rows)) == golden.in_order(wanted["rows"])


def test_files_that_share_rows_are_refused_by_name_before_a_byte_is_read() -> None:
    store = golden.python("append_row_tracking_dv")
    first, second = store.manifests.live_entries(store.snapshots.latest())
    moved = replace(second, file=replace(second.file, first_row_id=first.file.first_row_id + 9))
    with pytest.raises(Unsupported, match=r"data-evolution\.enabled"):
        require_readable_files(Entries.of([first, moved]), store.schema_of)
