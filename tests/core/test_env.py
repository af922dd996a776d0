"""The world of a process, sent to another one."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

import tablestore as ts
from tablestore.io.fileio import LocalFileIO
from tablestore.io.object_store import ObjectStoreFileIO
from tablestore.io.s3_options import S3Options
from tablestore.log.kafka.kafka_appender import StagedRows
from tests.faults import SimEnv


def test_a_copy_keeps_the_clock_and_draws_names_of_its_own() -> None:
    env = SimEnv(seed=3, now_ms=5_000)
    data = pickle.dumps(env)
    copies = [pickle.loads(data) for _ in range(2)]
    assert [copy.now_ms() for copy in copies] == [5_000, 5_000]
    assert len({env.uuid(), *(copy.uuid() for copy in copies)}) == 3


def test_the_copy_of_a_store_has_its_clock(tmp_path: Path) -> None:
    table = ts.connect(tmp_path, env=SimEnv(now_ms=7_000)).create_table("d.t", schema={"k": ts.INT})
    assert pickle.loads(pickle.dumps(table.store)).env.now_ms() == 7_000


class Named(SimEnv):
    """Counts the names that are asked of any of its copies."""

    asked: ClassVar[list[str]] = []

    def uuid(self) -> str:
        self.asked.append(super().uuid())
        return self.asked[-1]


def test_the_copy_of_a_store_reaches_files_by_its_env(tmp_path: Path) -> None:
    table = ts.connect(tmp_path, env=Named()).create_table("d.t", schema={"k": ts.INT})
    copy = pickle.loads(pickle.dumps(table.store))
    before = len(Named.asked)
    assert copy.io.write_new(f"{copy.paths.root}/new", b"bytes")
    assert len(Named.asked) > before


def test_the_copy_of_an_object_store_keeps_its_env() -> None:
    files = ObjectStoreFileIO(S3Options(), SimEnv(now_ms=9_000))
    assert pickle.loads(pickle.dumps(files))._env.now_ms() == 9_000


def test_staged_rows_are_named_by_the_env_that_they_are_given(tmp_path: Path) -> None:
    rows = StagedRows(LocalFileIO(), str(tmp_path), "none", Named())
    rows.write(0, pa.array([0], pa.int8()), pa.record_batch({"k": [1]}))
    before = len(Named.asked)
    assert rows.stage() is not None
    assert len(Named.asked) == before + 1
