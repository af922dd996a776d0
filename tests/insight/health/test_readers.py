"""Readers that go wrong: each rule about readers of data files, proved by DuckDB, Polars and pyarrow on such
a table; and that every rule names a thread, or a test that is there."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import orc

import tablestore as ts
from notebooks.cli.doctor import main
from tablestore import col
from tablestore.insight.doctor import Finding
from tablestore.insight.health.reader_rules import FILES, JAVA, PAIMON, READERS, RULES, STARROCKS
from tests.tables import WRITE_ONLY, TableSpec

ROOT = Path(__file__).resolve().parents[3]
KEYED = TableSpec({"k": ts.INT, "v": ts.BIGINT}, primary_key=("k",), options=WRITE_ONLY)
APPEND = TableSpec({"k": ts.INT, "v": ts.BIGINT})
Rows = list[tuple[Any, ...]]


def put(table: ts.Table, *rows: tuple[int, int | None], **names: str) -> None:
    k, v = zip(*rows, strict=True)
    table.write(pa.table({"k": pa.array(k, pa.int32()), names.get("v", "v"): pa.array(v, pa.int64())}))


def here(table: ts.Table) -> list[str]:
    """Every file of the bucket's directory, as a pattern finds them."""
    return [str(p) for p in Path(table.location).glob("bucket-0/*.*")]


def live(table: ts.Table) -> list[str]:
    """The data files that the newest snapshot names."""
    store = table.refresh().store
    entries = store.manifests.live_entries(store.snapshots.latest())
    return [f"{table.location}/bucket-0/{e.file.file_name}" for e in entries]


def duck(files: Iterable[str], columns: str = "k, v") -> Rows:
    """What DuckDB reads from these files."""
    with duckdb.connect() as connection:
        query = f"SELECT {columns} FROM read_parquet(?, union_by_name = true)"
        return sorted(connection.execute(query, [list(files)]).fetchall(), key=repr)


def true_rows(table: ts.Table) -> Rows:
    rows = table.refresh().scan().to_arrow().to_pylist()
    return sorted((tuple(r.values()) for r in rows), key=repr)


def the(table: ts.Table, name: str, reader: object = FILES) -> Finding:
    """The one finding of a rule about a reader."""
    diagnosis = table.refresh().inspect.readers()
    matching = [f for f in diagnosis if (f.kind, f.where) == (name, str(reader))]
    assert len(matching) == 1, diagnosis.text
    return matching[0]


def silent(table: ts.Table, name: str, reader: object = FILES) -> bool:
    return (name, str(reader)) not in {(f.kind, f.where) for f in table.refresh().inspect.readers()}


def cured(table: ts.Table, name: str) -> None:
    """Mending takes the finding away and changes no row; then the files alone hold the rows."""
    before = true_rows(table)
    table.mend(the(table, name), dry_run=False)
    assert silent(table, name)
    assert true_rows(table) == before == duck(live(table))


def test_files_hold_older_rows_of_a_key(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path)
    put(table, (1, 10), (2, 20))
    assert silent(table, "unmerged keys")
    assert duck(live(table)) == true_rows(table)
    put(table, (1, 11))
    assert true_rows(table) == [(1, 11), (2, 20)]
    assert duck(live(table)) == [(1, 10), (1, 11), (2, 20)]
    assert "several sorted runs in 1 of 1 bucket" in the(table, "unmerged keys").what
    cured(table, "unmerged keys")


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, [(1, 21)]),
        ({"merge-engine": "partial-update"}, [(1, 11)]),
    ],
)
def test_files_hold_parts_of_rows(tmp_path: Path, options: dict[str, str], rows: Rows) -> None:
    table = KEYED.create(tmp_path, options)
    put(table, (1, 10))
    assert silent(table, "parts of rows")
    put(table, (1, 11))
    put(table, (1, None))
    assert true_rows(table) == rows
    assert duck(live(table)) == [(1, 10), (1, 11), (1, None)]
    assert options["merge-engine"] in the(table, "parts of rows").what
    cured(table, "parts of rows")


def test_files_hold_rows_that_delete(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path)
    put(table, (1, 10), (2, 20))
    table.compact(full=True)
    assert silent(table, "delete rows")
    table.refresh().delete(col("k") == 1)
    assert true_rows(table) == [(2, 20)]
    assert [k for k, _ in duck(live(table))] == [1, 1, 2]
    assert the(table, "delete rows").mends
    table.mend(the(table, "delete rows"), dry_run=False)
    assert silent(table, "delete rows")
    assert duck(live(table)) == [(2, 20)]


@pytest.mark.parametrize("wide", [False, True])
def test_files_hold_rows_that_a_vector_masks(tmp_path: Path, wide: bool) -> None:
    options = {"deletion-vectors.enabled": True, "deletion-vectors.bitmap64": wide}
    table = APPEND.create(tmp_path, options)
    put(table, (1, 10), (2, 20), (3, 30))
    assert silent(table, "deletion vectors")
    table.refresh().delete(col("k") == 1)
    assert true_rows(table) == [(2, 20), (3, 30)]
    assert duck(live(table)) == [(1, 10), (2, 20), (3, 30)]
    assert "1 row masked in 1 file" in the(table, "deletion vectors").what
    kinds = table.refresh().inspect.readers().kinds
    assert ("wide deletion vectors" in kinds) is wide
    remedy = the(table, "deletion vectors").remedy
    relation = eval(remedy, {"table": table.refresh(), "duckdb": duckdb})
    assert sorted(relation.fetchall()) == true_rows(table)


def test_directories_hold_files_of_other_snapshots(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path, {"changelog-producer": "input", "bucket": 1})
    put(table, (1, 10))
    assert "1 changelog file" in the(table, "other files").what
    table = KEYED.create(tmp_path / "plain")
    put(table, (1, 10))
    assert silent(table, "other files")
    put(table, (1, 11))
    table.compact(full=True)
    assert true_rows(table) == [(1, 11)] == duck(live(table))
    assert duck(here(table)) == [(1, 10), (1, 11), (1, 11)]
    assert "2 files of other snapshots" in the(table, "other files").what
    table.refresh().tags.create("old", snapshot=1)
    table.refresh().expire_snapshots(keep=1)
    assert duck(here(table)) == [(1, 10), (1, 11)]
    assert "1 file of other snapshots" in the(table, "other files").what
    table.refresh().tags.delete("old")
    table.remove_orphans(older_than="0s", force=True, dry_run=False)
    table.refresh().branches.create("b")
    put(table.refresh().branch("b"), (3, 30))
    assert (3, 30) in duck(here(table))
    assert the(table, "other files").what.endswith("branches)")


def test_files_keep_the_names_of_their_columns(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path)
    put(table, (1, 10))
    table = table.refresh().alter(ts.rename("v", "w"))
    assert "v is now w" in the(table, "renamed columns").what
    put(table, (2, 20), v="w")
    assert true_rows(table) == [(1, 10), (2, 20)]
    assert duck(live(table), "k, w") == [(1, None), (2, 20)]
    table.mend(the(table, "renamed columns"), dry_run=False)
    assert silent(table, "renamed columns")
    assert duck(live(table), "k, w") == [(1, 10), (2, 20)]
    table = table.refresh().alter(ts.drop("w")).alter(ts.add("w", ts.BIGINT))
    assert true_rows(table) == [(1, None), (2, None)]
    assert duck(live(table), "k, w") == [(1, 10), (2, 20)]
    assert "w is another column now" in the(table, "renamed columns").what


def test_avro_names_the_two_timestamps_the_other_way_round(tmp_path: Path) -> None:
    columns = {"k": ts.INT, "local": ts.TIMESTAMP(6), "instant": ts.TIMESTAMP_LTZ(6)}
    table = TableSpec(columns, primary_key=("k",)).create(tmp_path, {"file.format": "avro"})
    when = datetime(2024, 5, 6, 7, 8, 9)
    values = {
        "k": pa.array([1], pa.int32()),
        "local": pa.array([when], pa.timestamp("us")),
        "instant": pa.array([when], pa.timestamp("us", "UTC")),
    }
    table.write(pa.table(values))
    assert true_rows(table) == [(1, when, when.replace(tzinfo=UTC))]
    (file,) = live(table)
    header = Path(file).read_bytes()[:2000].decode("latin-1")
    schema = json.JSONDecoder().raw_decode(header[header.index('{"', header.index("avro.schema")) :])[0]
    named = {f["name"]: str(f["type"]) for f in schema["fields"]}
    assert "'timestamp-micros'" in named["local"]
    assert "'local-timestamp-micros'" in named["instant"]
    assert "local, instant in 1 AVRO file" in the(table, "times in Avro").what
    table.mend(the(table, "times in Avro"), dry_run=False)
    assert silent(table, "times in Avro")
    (row,) = pl.read_parquet(live(table)[0]).select("k", "local", "instant").rows()
    assert [row] == true_rows(table)


def test_orc_holds_times_of_day_as_numbers(tmp_path: Path) -> None:
    spec = TableSpec({"k": ts.INT, "at": ts.TIME(3)}, primary_key=("k",))
    table = spec.create(tmp_path, {"file.format": "orc"})
    at = time(1, 2, 3, 4000)
    table.write(pa.table({"k": pa.array([1], pa.int32()), "at": pa.array([at], pa.time32("ms"))}))
    assert true_rows(table) == [(1, at)]
    (number,) = orc.read_table(live(table)[0])["at"].to_pylist()
    assert timedelta(milliseconds=number) == timedelta(hours=1, minutes=2, seconds=3, milliseconds=4)
    assert "at in 1 ORC file" in the(table, "TIME in ORC").what
    table.mend(the(table, "TIME in ORC"), dry_run=False)
    assert silent(table, "TIME in ORC")
    assert pl.read_parquet(live(table)[0])["at"].to_list() == [at]


def test_rows_that_no_reader_sees_are_stale(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path, {"merge-engine": "first-row"})
    put(table, (1, 10), (2, 20))
    assert true_rows(table) == []
    assert "stale rows: " in the(table, "rows not visible yet", PAIMON).what
    table.mend(the(table, "rows not visible yet", PAIMON), dry_run=False)
    assert silent(table, "rows not visible yet", PAIMON)
    assert true_rows(table) == [(1, 10), (2, 20)]


def test_readers_without_a_finding_are_listed_with_what_is_known(tmp_path: Path) -> None:
    table = APPEND.create(tmp_path)
    assert "no snapshot yet" in table.inspect.readers().text
    put(table, (1, 10))
    diagnosis = table.refresh().inspect.readers()
    assert diagnosis.sound, diagnosis.text
    assert diagnosis.summary == "no finding"
    assert [t.rule for t in diagnosis.tried] == [str(r) for r in READERS]
    KEYED.create(tmp_path / "keyed")
    keyed = ts.open(tmp_path / "keyed" / "d.db" / "t")
    put(keyed, (1, 10))
    spoken = {t.rule: t.findings for t in keyed.refresh().inspect.readers().tried}
    assert [name for name, findings in spoken.items() if findings] == [str(STARROCKS)]
    put(keyed, (1, 11))
    severities = [f.severity for f in keyed.refresh().inspect.readers()]
    assert severities == sorted(severities, reverse=True)
    assert severities[-1] == "note"


def test_every_rule_has_a_source_that_is_there() -> None:
    assert {r.reader for r in RULES} | {JAVA} == set(READERS)
    assert len({(r.name, r.reader) for r in RULES}) == len(RULES)
    for rule in RULES:
        if rule.source.startswith("https://github.com/"):
            assert rule.source.rsplit("/", 1)[1].isdigit(), rule
            continue
        path, _, name = rule.source.partition("::")
        tests = {n.name for n in ast.parse((ROOT / path).read_text()).body if isinstance(n, ast.FunctionDef)}
        assert name in tests, rule


def test_the_command_says_who_would_read_wrongly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = KEYED.create(tmp_path)
    put(table, (1, 10))
    put(table, (1, 11))
    assert main([table.location, "--readers"]) == 0
    said = capsys.readouterr().out
    assert said.strip() == table.refresh().inspect.readers().text
    assert "ClickHouse" in said
    for wrong in (["--readers"], [table.location, "--readers", "--mend"]):
        with pytest.raises(SystemExit):
            main(wrong)
        assert "--readers" in capsys.readouterr().err
    (Path(table.location) / "snapshot" / "snapshot-2").write_bytes(b"{")
    assert main([table.location, "--readers"]) == 1
    assert "is broken" in capsys.readouterr().out
