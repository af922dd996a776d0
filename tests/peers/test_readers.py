"""Readers that go wrong, proved on the real ones: Java Paimon, pypaimon and an Iceberg reader get the table
that a rule of readers is about, and give what it says."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import tablestore as ts
from tablestore import col
from tablestore.insight.doctor import Finding
from tablestore.insight.health.reader_rules import ICEBERG, PAIMON, PYTHON, Reader
from tests.peers.java_paimon import JavaPaimon
from tests.peers.pypaimon import PeerError, PyPaimon
from tests.tables import TableSpec

pytestmark = pytest.mark.peer

KEYED = TableSpec({"k": ts.INT, "v": ts.BIGINT}, primary_key=("k",), options={"write-only": True})


def put(table: ts.Table, *rows: tuple[int, int | None]) -> None:
    k, v = zip(*rows, strict=True)
    table.write(pa.table({"k": pa.array(k, pa.int32()), "v": pa.array(v, pa.int64())}))


def the(table: ts.Table, name: str, reader: Reader) -> Finding:
    """The one finding of a rule about a reader."""
    diagnosis = table.refresh().inspect.readers()
    matching = [f for f in diagnosis if (f.kind, f.where) == (name, str(reader))]
    assert len(matching) == 1, diagnosis.text
    return matching[0]


@pytest.mark.parametrize("options", [{"merge-engine": "first-row"}, {"deletion-vectors.enabled": True}])
def test_rows_at_level_0_are_hidden(java: JavaPaimon, tmp_path: Path, options: dict[str, object]) -> None:
    table = KEYED.create(tmp_path, options)
    put(table, (1, 10), (2, 20))
    found_by = {"ours": table.refresh().scan().count(), "Java": len(java.rows(table.location))}
    found_by["pypaimon"] = PyPaimon(tmp_path).read("d.t").num_rows
    assert found_by == {"ours": 0, "Java": 0, "pypaimon": 0}
    table.mend(the(table, "rows not visible yet", PAIMON), dry_run=False)
    assert java.rows(table.location) == [[1, 10], [2, 20]]
    assert PyPaimon(tmp_path).read("d.t").sort_by("k").to_pydict() == {"k": [1, 2], "v": [10, 20]}


def test_early_times_in_orc_files_have_moved(java: JavaPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / "d.db" / "t")
    options = {"bucket": "1", "file.format": "orc"}
    java.create(path, {"k": "INT NOT NULL", "at": "TIMESTAMP(6)"}, primary_keys=["k"], options=options)
    late = "2020-01-01 00:00:00.000000"
    java.write(path, [(1, late)])
    assert "early times in ORC" not in ts.open(path).inspect.readers().kinds
    times = ["1500-01-01 00:00:00.000000", "1969-12-31 23:59:59.500000", late]
    java.write(path, [(k, at) for k, at in enumerate(times)], identifier=1)
    by_java = [datetime.fromisoformat(at) for _, at in java.rows(path)]
    moved = [b - datetime.fromisoformat(a) for a, b in zip(times, by_java, strict=True)]
    assert moved == [timedelta(days=9), timedelta(seconds=1), timedelta()]
    assert ts.open(path).scan().to_arrow().sort_by("k")["at"].to_pylist() == by_java
    assert "at may hold times before 1970" in the(ts.open(path), "early times in ORC", PAIMON).what


def test_pypaimon_refuses_wide_deletion_vectors(java: JavaPaimon, tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": True, "deletion-vectors.bitmap64": True}
    table = TableSpec({"k": ts.INT, "v": ts.BIGINT}).create(tmp_path, options)
    put(table, (1, 10), (2, 20))
    assert PyPaimon(tmp_path).read("d.t").num_rows == 2
    table.refresh().delete(col("k") == 1)
    the(table, "wide deletion vectors", PYTHON)
    assert java.rows(table.location) == [[2, 20]]
    with pytest.raises(PeerError, match="Invalid magic number"):
        PyPaimon(tmp_path).read("d.t")


def test_pypaimon_refuses_multisets(tmp_path: Path) -> None:
    spec = TableSpec({"k": ts.INT, "m": ts.MULTISET(ts.STRING)}, primary_key=("k",))
    table = spec.create(tmp_path)
    counts = pa.array([[("a", 2)]], pa.map_(pa.string(), pa.int32()))
    table.write(pa.table({"k": pa.array([1], pa.int32()), "m": counts}))
    the(table, "multisets", PYTHON)
    with pytest.raises(PeerError, match="MULTISET"):
        PyPaimon(tmp_path).read("d.t")


def test_pypaimon_refuses_sequence_groups(java: JavaPaimon, tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "fields.s.sequence-group": "v"}
    columns = {"k": ts.INT, "v": ts.BIGINT, "s": ts.INT}
    table = TableSpec(columns, primary_key=("k",), options=options).create(tmp_path)
    row = {"k": pa.array([1], pa.int32()), "v": pa.array([10], pa.int64()), "s": pa.array([1], pa.int32())}
    table.write(pa.table(row))
    the(table, "sequence groups", PYTHON)
    assert java.rows(table.location) == [[1, 10, 1]]
    with pytest.raises(PeerError, match="sequence-group"):
        PyPaimon(tmp_path).read("d.t")


def test_iceberg_metadata_name_the_top_level_alone(java: JavaPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / "d.db" / "t")
    options = {
        "bucket": "1",
        "metadata.iceberg.storage": "table-location",
        "metadata.iceberg.manifest-compression": "deflate",
    }
    java.create(path, {"k": "INT NOT NULL", "v": "BIGINT"}, primary_keys=["k"], options=options)
    java.write(path, [(1, 10), (2, 20)])
    java.compact(path, identifier=1)
    table = ts.open(path)
    assert "below the top level" not in table.inspect.readers().kinds
    assert iceberg_rows(path) == [(1, 10), (2, 20)]
    java.write(path, [(1, 11), (3, 30)], identifier=2, write_only=True)
    assert java.rows(path) == [[1, 11], [2, 20], [3, 30]]
    assert iceberg_rows(path) == [(1, 10), (2, 20)]
    assert "1 of 2 files lie below" in the(table, "below the top level", ICEBERG).what


def iceberg_rows(path: str) -> list[tuple[int, int]]:
    """What an Iceberg reader makes of the newest Iceberg metadata of a table."""
    newest = max(Path(path, "metadata").glob("v*.metadata.json"), key=lambda p: int(p.name[1:].split(".")[0]))
    rows = StaticTable.from_metadata(str(newest)).scan().to_arrow().to_pylist()
    return sorted((r["k"], r["v"]) for r in rows)
