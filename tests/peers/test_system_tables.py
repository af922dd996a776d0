"""System tables: columns, types and values as Java Paimon 2.0.0 shows them, on its tables and on ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.types.arrow_types import DataType, from_arrow
from tablestore.insight.inspect.system import DATA, METADATA
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon
from tests.read import golden

pytestmark = pytest.mark.peer
NAMES = (*METADATA, "audit_log", "binlog", "ro")
GOLDEN = (
    "branch_tags",
    "expired",
    "analyzed",
    "overwrite",
    "append_bucketed",
    "part_special",
    "pk_changelog_input",
    "pk_dynamic_bucket",
    "schema_evolution",
    "pk_aggregation",
    "pk_many_keys",
    "pk_deletion_vectors",
    "append_deletion_vectors",
)


def type_text(field: pa.Field) -> str:
    """A type as Java's driver spells it."""
    t: DataType = from_arrow(field.type)
    return _spelled(t) + ("" if field.nullable else " NOT NULL")


def _spelled(t: DataType) -> str:
    if t.root == "ARRAY":
        return f"ARRAY<{_spelled(t.children[0].type)}>"
    if t.root == "MAP":
        return (
            f"MAP<{_spelled(t.children[0].type).removesuffix(' NOT NULL')}, {_spelled(t.children[1].type)}>"
        )
    if t.root == "ROW":
        inner = ", ".join(
            f"`{f.name}` {_spelled(f.type)}{'' if f.type.nullable else ' NOT NULL'}" for f in t.children
        )
        return f"ROW<{inner}>"
    return str(t.as_nullable())


def same(ours: pa.Table, theirs: Any, name: str, types: dict[str, DataType]) -> None:
    rows = in_order(cells(ours, types))
    wanted = in_order(theirs.rows)
    if name in ("options", "schemas"):
        rows, wanted = ([_sorted_json(r) for r in some] for some in (rows, wanted))
    if name == "statistics":
        rows, wanted = ([[*r[:4], json.loads(r[4])] for r in some] for some in (rows, wanted))
    if name == "aggregation_fields":
        rows, wanted = ([_as_sets(r) for r in some] for some in (rows, wanted))
    assert rows == wanted, name


def _sorted_json(row: list[Any]) -> list[Any]:
    return [
        json.dumps(json.loads(c), sort_keys=True) if isinstance(c, str) and c[:1] in "[{" else c for c in row
    ]


def _as_sets(row: list[Any]) -> list[Any]:
    return [*row[:2], *(sorted(c.strip("[]").split(", ")) for c in row[2:4]), row[4]]


def compare(java: JavaPaimon, path: str, names: tuple[str, ...], **options: Any) -> int:
    """Every system table of one table; how many were compared."""
    table = ts.open(path)
    if options:
        table = table.with_options(options)
    types = {f.name: f.type for f in table.store.schema.fields}
    compared = 0
    for name in names:
        theirs = java.read(path, suffix=name, options=options or None)
        ours = table.system(name).to_arrow()
        assert ours.schema.names == [f[0] for f in theirs.fields], name
        if name not in DATA:
            assert [type_text(f) for f in ours.schema] == [f[1] for f in theirs.fields], name
        same(ours, theirs, name, types if name in ("audit_log", "ro") else {})
        compared += 1
    return compared


LEFT_OUT = {  # what cannot be compared, each with the reason
    ("pk_many_keys", "files"): "Java prints the address of a byte array",
    ("pk_many_keys", "file_key_ranges"): "Java prints the address of a byte array",
    ("pk_aggregation", "audit_log"): "the order in collected arrays has no meaning",
    ("pk_aggregation", "binlog"): "the order in collected arrays has no meaning",
}


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.sample(5)
def test_java_s_tables_look_as_java_shows_them(java: JavaPaimon, tmp_path: Path, name: str) -> None:
    names = tuple(n for n in NAMES if (name, n) not in LEFT_OUT)
    path = tmp_path / "j.db" / name
    shutil.copytree(golden.JAVA / "warehouse" / "j.db" / name, path)
    assert compare(java, str(path), names) == len(names)


def test_our_tables_look_to_java_as_to_us(java: JavaPaimon, tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "day": ts.DATE, "v": ts.STRING},
        primary_key=["k", "day"],
        partition_by=["day"],
        options={"bucket": 2, "fields.v.comment-of-mine": "x"},
        comment="a table",
    )
    days = pa.array([19724, 19725, 19725, 19726], pa.int32()).cast(pa.date32())
    t.write(pa.table({"k": [1, 2, 3, 4], "day": days, "v": ["a", None, "é", "d"]}), watermark=5)
    t.delete(ts.col("k") == 2)
    t.tags.create("one", 1, retain="1 d")
    t.branches.create("b", "one")
    t.consumers.reset("reader", 2)
    t.compact(full=True)
    t.analyze()
    assert compare(java, t.location, NAMES) == len(NAMES)
    assert java.statistics(t.location)["mergedRecordCount"] == 3
    t.truncate()
    assert java.rows(t.location) == []
    assert compare(java, t.location, ("snapshots",)) == 1


def test_a_branch_has_system_tables_of_its_own(java: JavaPaimon, tmp_path: Path) -> None:
    shutil.copytree(golden.JAVA / "warehouse" / "j.db" / "branch_tags", tmp_path / "j.db" / "branch_tags")
    lake = ts.connect(str(tmp_path))
    path = str(tmp_path / "j.db" / "branch_tags")
    for name in ("snapshots", "files", "tags"):
        theirs = java.read(path, suffix=name, branch="b1")
        ours = lake.table(f"j.branch_tags$branch_b1${name}").scan().to_arrow()
        same(ours, theirs, name, {})


def test_changes_by_option_come_with_their_kinds(java: JavaPaimon, tmp_path: Path) -> None:
    for name in ("pk_changelog_input", "pk_levels", "pk_changelog_lookup"):
        path = str(tmp_path / "j.db" / name)
        shutil.copytree(golden.JAVA / "warehouse" / "j.db" / name, path)
        newest = ts.open(path).store.snapshots.latest_id()
        assert compare(java, path, ("audit_log", "binlog"), **{"incremental-between": f"1,{newest}"}) == 2


def test_an_older_snapshot_s_files_are_shown_by_option(java: JavaPaimon, tmp_path: Path) -> None:
    """Java looks at the newest snapshot for partitions and buckets, so the table has no partitions."""
    path = str(tmp_path / "j.db" / "pk_levels")
    shutil.copytree(golden.JAVA / "warehouse" / "j.db" / "pk_levels", path)
    names = ("files", "manifests", "partitions", "file_key_ranges", "audit_log")
    assert compare(java, path, names, **{"scan.snapshot-id": "3"}) == len(names)


def test_a_lake_s_tables_are_listed_alike(java: JavaPaimon, tmp_path: Path) -> None:
    for name in ("branch_tags", "overwrite", "append_bucketed", "part_special"):
        shutil.copytree(golden.JAVA / "warehouse" / "j.db" / name, tmp_path / "j.db" / name)
    lake = ts.connect(str(tmp_path))
    for name in ("tables", "all_table_options", "partitions"):
        ours = in_order(cells(lake.table(f"sys.{name}").scan().to_arrow()))
        assert ours == in_order(java.global_table(str(tmp_path), name)), name
