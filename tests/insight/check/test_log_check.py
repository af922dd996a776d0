"""`Table.check` of tables with a log: damage of the log, and files that are not what the log says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.log.log import CommitMark
from tests.log.logged import to_files
from tests.tables import TableSpec

LOG = {"log.system": "embedded", "bucket": 1}
COLUMNS = {"k": ts.INT, "v": ts.FLOAT, "n": ts.ARRAY(ts.INT)}
KEYED = TableSpec(COLUMNS, ("k",), options=LOG)
APPEND = TableSpec(COLUMNS, options={**LOG, "bucket-key": "k"})
ROWS = [{"k": k, "v": float("nan") if k == 2 else k, "n": None if k == 1 else [k]} for k in range(4)]


def made(path: Path, spec: TableSpec = KEYED) -> ts.Table:
    t = spec.create(path)
    t.write(ROWS)
    t.write(ROWS[:2])
    if spec is KEYED:
        t.delete("k = 3")
    assert t.check() == []
    return t


def complaints(table: ts.Table) -> str:
    problems = ts.connect(Path(table.location).parent.parent).table("d.t").check()
    assert {v.invariant for v in problems} <= {"I14"}
    return "\n".join(map(str, problems))


def log_files(table: ts.Table) -> list[Path]:
    return sorted((Path(table.location) / "tablestore" / "log").glob("*.log"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda files: flip(files[0], -9), "rows 0 to 4 of bucket 0 are torn or damaged"),
        (lambda files: flip(files[1], 40), "header"),
        (lambda files: files[1].write_bytes(files[0].read_bytes()), "another file took its place"),
        (lambda files: files[1].unlink(), "files of the numbers 2 to 2 are missing"),
        (lambda files: flip(files[-1], -9), "rows 6 to 7 of bucket 0 are torn or damaged"),
        (lambda files: files[-1].unlink(), "names offsets"),
    ],
    ids=["rows", "header", "order", "gap", "newest", "end"],
)
def test_damage_of_a_log_is_named(
    break_it: Callable[[list[Path]], object], words: str, tmp_path: Path
) -> None:
    t = made(tmp_path)
    break_it(log_files(t))
    assert words in complaints(t)


def test_a_part_that_is_gone_is_named(tmp_path: Path) -> None:
    t = made(tmp_path)
    w = t.open_writer()
    w.write(ROWS)
    t.commit(w.prepare(), user="job", identifier=1)
    parts = Path(t.location) / "tablestore" / "log" / "parts"
    (part,) = parts.iterdir()
    assert t.check() == []
    part.unlink()
    assert f"part {part.stem}, which is not there" in complaints(t)


@pytest.mark.parametrize(
    ("spec", "kind", "row", "words"),
    [
        (KEYED, "+U", (1, 5.0, [1]), "{'k': 1} has other values"),
        (KEYED, "+I", (9, 5.0, [1]), "{'k': 9} is not in files"),
        (KEYED, "-D", (0, 0.0, [0]), "{'k': 0} was removed"),
        (APPEND, "+I", (9, 5.0, [1]), "its files add 2 rows, its part of the log 1"),
    ],
    ids=["changed", "missing", "removed", "added"],
)
def test_files_that_are_not_what_the_log_says(
    spec: TableSpec, kind: str, row: tuple[object, ...], words: str, tmp_path: Path
) -> None:
    t = made(tmp_path, spec)
    log = t._handle.log
    assert log is not None
    rows = pa.RecordBatch.from_pylist([dict(zip(COLUMNS, row, strict=True))], schema=t.schema)
    appender = log.appender()
    appender.write(0, pa.array([["+I", "-U", "+U", "-D"].index(kind)], pa.int8()), rows)
    done = appender.commit(CommitMark("other", 1))
    assert done is not None
    to_files(t, [("+I", 7, 7.0, None), ("+I", 8, 8.0, None)], done.end)
    assert words in complaints(t)


def test_what_changes_files_alone_is_no_damage(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.overwrite(ROWS[:1])
    assert t.check() == []
    t.write(ROWS[2:])
    assert t.check() == []
    t.truncate()
    assert t.check() == []
    t.write(ROWS)
    t.expire_snapshots(keep=1)
    assert t.check() == []
