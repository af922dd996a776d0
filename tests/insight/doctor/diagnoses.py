"""Tables that are ill, and what the doctor says of them and mends."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
from tablestore.insight.doctor import Diagnosis, Finding
from tablestore.insight.doctor.bucket_advice import BucketAdvice
from tablestore.table.table import Table
from tests.tables import KEEP_ALL, TableSpec

SMALL = {
    "small_files": 3,
    "merged_bytes": 1,
    "newer_share": 0.9,
    "skew": 1.5,
    "skew_bytes": 1,
    "deleted_rows": 1,
    "kept_bytes": 1,
    "kept_snapshots": 2,
    "manifests": 3,
}


SCHEMA = {"id": ts.INT, "v": ts.STRING, "n": ts.BIGINT}


TABLE = TableSpec(SCHEMA, primary_key=("id",), options=KEEP_ALL)


def put(table: Table, ids: range, v: str = "x", **options: Any) -> None:
    rows = {"id": pa.array(list(ids), pa.int32()), "v": [v] * len(ids), "n": list(ids)}
    table.write(pa.table(rows), **options)


def flush(table: Table, times: int, ids: range) -> None:
    """The same rows in so many commits, each time with another value."""
    for i in range(times):
        put(table, ids, v=str(i))


def noisy(table: Table, rows: int, **more: pa.Array) -> None:
    """Rows that do not compress."""
    noise = random.Random(rows)
    values = [f"{noise.getrandbits(80):x}" for _ in range(rows)]
    columns = {"id": pa.array(range(rows), pa.int32()), "v": values, "n": [1] * rows, **more}
    table.write(pa.table(columns))


def doctor(table: Table, limits: dict[str, float] = SMALL, **options: Any) -> Diagnosis:
    return table.refresh().inspect.doctor(**limits, **options)


def the(diagnosis: Diagnosis, kind: str) -> Finding:
    actual = [f for f in diagnosis if f.kind == kind]
    assert len(actual) == 1, diagnosis.text
    return actual[0]


def mended(table: Table, kind: str, limits: dict[str, float] = SMALL, **options: Any) -> Finding:
    """The finding, after `mend` took it away and left the table sound, which its text does to a copy; the
    preview changed nothing."""
    before = table.refresh().scan().to_arrow().sort_by("id")
    actual = the(doctor(table, limits, **options), kind)
    assert actual.mends, actual
    there = files_of(table)
    preview = table.mend(actual)
    assert (files_of(table), preview.dry_run, preview.after) == (there, True, None)
    assert preview.done[0][1][-1] in preview.text.replace("\n    ", "\n")
    copy = shutil.copytree(table.location, f"{table.location}-copy")
    eval(actual.remedy, {"table": ts.open(copy), "ts": ts})
    assert table.mend(actual, dry_run=False, decided=bool(actual.asks)).after is not None
    for after in (table.refresh(), ts.open(copy)):
        assert kind not in doctor(after, limits, **options).kinds, actual
        assert after.check() == []
        if kind != "waiting rows":
            assert after.scan().to_arrow().sort_by("id") == before
    return actual


def files_of(table: Table) -> dict[str, bytes]:
    """Every file of a table."""
    return {str(f): f.read_bytes() for f in Path(table.location).rglob("*") if f.is_file()}


def looked(table: Table, actual: Finding) -> BucketAdvice:
    """What the call gives of a finding that no call mends: what to decide by."""
    assert not actual.mends
    advice = eval(actual.remedy, {"table": table.refresh(), "ts": ts})
    assert isinstance(advice, BucketAdvice)
    return advice
