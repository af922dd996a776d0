"""Data files in every format, with Java Paimon: each reads what the other wrote, and says the same of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.manifest import DataFileMeta
from tablestore.read.file_stats import own_stats
from tests.format import samples
from tests.peers.cells import cells, in_order
from tests.peers.java_env import Missing
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer
FORMATS = ("parquet", "orc", "avro")
HELD = {
    "parquet": (samples.PRIMITIVES, samples.NANOS, samples.NESTED),
    "orc": (samples.PRIMITIVES, samples.NANOS, samples.NESTED),
    "avro": (samples.PRIMITIVES, samples.NESTED),
}


@pytest.fixture(scope="module")
def java() -> Iterator[JavaPaimon]:
    try:
        peer = JavaPaimon()
    except Missing as e:
        pytest.skip(f"needs Java Paimon: {e}")
    with peer:
        yield peer


def two_tables(
    java: JavaPaimon, folder: Path, columns: dict[str, Any], *, keyed: bool, options: dict[str, Any]
) -> tuple[str, str]:
    """Paths of two tables of the same schema: one for us to write, one for Java."""
    paths = [str(folder / "d.db" / name) for name in ("ours", "theirs")]
    for path in paths:
        java.create(
            path,
            {"k": "BIGINT NOT NULL" if keyed else "BIGINT", **columns},
            primary_keys=["k"] if keyed else [],
            options={"bucket": 1 if keyed else -1, "write-only": "true", **options},
        )
    return paths[0], paths[1]


def columns_of(form: str) -> dict[str, Any]:
    return {name: text for group in HELD[form] for name, text in group.items()}


def our_rows(path: str) -> list[list[Any]]:
    t = ts.open(path)
    types = {f.name: f.type for f in t.store.schema.fields}
    return in_order(cells(t.scan().to_arrow(), types))


def files(path: str) -> list[DataFileMeta]:
    store = ts.open(path).store
    return [e.file for e in store.manifests.live_entries(store.snapshots.latest())]


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("form", FORMATS)
def test_each_reads_all_types_that_the_other_wrote_and_statistics_agree(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], form: str, keyed: bool
) -> None:
    for seed in seeds:
        columns = columns_of(form)
        options = {"file.format": form}
        ours, theirs = two_tables(java, tmp_path / str(seed), columns, keyed=keyed, options=options)
        # Arrow cannot write fractions of milliseconds before 1970 into ORC, Java not those of its last second
        how = {"years": (1971, 2200)} if form == "orc" else {}
        rows = samples.table(samples.types_of(columns), 60, seed, **how)
        ts.open(ours).write(rows)
        java.write(theirs, cells(rows, samples.types_of(columns)))
        expected = java.rows(theirs)
        assert our_rows(theirs) == expected
        assert java.rows(ours) == expected
        assert our_rows(ours) == expected
        (mine,), (other,) = files(ours), files(theirs)
        assert (mine.value_stats_cols, mine.row_count) == (other.value_stats_cols, other.row_count)
        assert (mine.min_sequence, mine.max_sequence) == (other.min_sequence, other.max_sequence)
        assert (mine.min_key, mine.max_key) == (other.min_key, other.max_key)
        assert (mine.delete_count, mine.extra_files) == (other.delete_count, other.extra_files)
        assert mine.key_stats == other.key_stats
        assert stats_by_column(ours, mine) == stats_by_column(theirs, other)
        if form != "orc":  # Java pads CHAR values there
            assert mine.value_stats == other.value_stats
        assert ts.open(ours).check() == []
        assert ts.open(theirs).check() == []


def stats_by_column(path: str, file: DataFileMeta) -> dict[str, Any]:
    return own_stats(file, ts.open(path).store.schema)


EDGES = {
    "f": "FLOAT",
    "d": "DOUBLE",
    "nan": "DOUBLE",
    "zero": "DOUBLE",
    "s": "STRING",
    "top": "STRING",
    "b": "BYTES",
    "ff": "BYTES",
    "none": "INT",
    "i": "INT",
    "a": {"type": "ARRAY", "element": "INT"},
}
MODES: list[dict[str, Any]] = [
    {"metadata.stats-mode": "full"},
    {"metadata.stats-mode": "counts"},
    {"metadata.stats-mode": "none"},
    {"metadata.stats-mode": "none", "metadata.stats-dense-store": "false"},
    {"metadata.stats-mode": "truncate(3)", "fields.s.stats-mode": "none", "fields.i.stats-mode": "counts"},
    {"metadata.stats-keep-first-n-columns": 3, "fields.ff.stats-mode": "full"},
    {"metadata.stats-dense-store": "false"},
    {"metadata.stats-mode.per.level": "0:counts", "file.compression.per.level": "0:none"},
    {"data-file.thin-mode": "true"},
]


def edge_rows() -> pa.Table:
    nan, top = float("nan"), "\U0010ffff" * 20
    columns = {
        "k": pa.array([1, 2, 3, 4], pa.int64()),
        "f": pa.array([1.5, -2.5, None, 0.25], pa.float32()),
        "d": pa.array([1e300, -1e-300, None, 2.0]),
        "nan": pa.array([nan, 1.0, None, -1.0]),
        "zero": pa.array([0.0, 0.0, None, 0.0]),
        "s": ["a" * 30, "é中" * 12, None, "b" * 15 + "\U0010ffff" + "c"],
        "top": [top, "a", None, "b"],
        "b": [b"\x01" * 40, b"", None, b"\x02" * 15 + b"\xff\xff"],
        "ff": [b"\xff" * 20, b"\x00", None, b"\x01"],
        "none": pa.array([None] * 4, pa.int32()),
        "i": pa.array([-5, 7, None, 2**31 - 1], pa.int32()),
        "a": pa.array([[1], None, [], [2]], pa.list_(pa.int32())),
    }
    return pa.table(columns)


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("form", FORMATS)
def test_statistics_are_those_of_java_in_every_mode(
    java: JavaPaimon, tmp_path: Path, form: str, keyed: bool
) -> None:
    rows = edge_rows()
    for number, mode in enumerate(MODES):
        options = {"file.format": form, **mode}
        if form == "avro":
            options.pop("file.compression.per.level", None)
        ours, theirs = two_tables(java, tmp_path / str(number), EDGES, keyed=keyed, options=options)
        ts.open(ours).write(rows)
        java.write(theirs, cells(rows))
        (mine,), (other,) = files(ours), files(theirs)
        assert mine.value_stats_cols == other.value_stats_cols, mode
        for name, known in stats_by_column(theirs, other).items():
            if not (form == "orc" and name == "nan"):  # Java forgets numbers beside NaN there
                assert repr(stats_by_column(ours, mine)[name]) == repr(known), (mode, name)
        assert (mine.key_stats, mine.value_stats.null_counts) == (
            other.key_stats,
            other.value_stats.null_counts,
        )
        assert java.rows(ours) == our_rows(ours) == java.rows(theirs) == our_rows(theirs)
