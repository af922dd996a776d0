"""Compaction tasks as bytes: what comes back, and which bytes are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablestore.core.errors import InvalidRequest
from tablestore.format.commit_message import CompactionTask, decode_task, encode_task
from tablestore.format.deletion_vector import index_file
from tablestore.lsm.compaction.recording import planned
from tablestore.lsm.compaction.universal import full
from tablestore.lsm.levels.sorted_run import Levels
from tests.lsm.trees import data_file

FILES = tuple(data_file(f"f{i}", i, i + 9, file_size=10 + i) for i in range(3))
TASK = CompactionTask(b"p", 2, 4, FILES, (index_file("index-1", 17, ()),), full=True, snapshot=8)


def test_a_task_comes_back_from_its_bytes() -> None:
    record = planned(full(Levels.of(FILES, 6)), strategy="append", bucket=2)
    for task in (TASK, replace(TASK, planned=record, full=False), CompactionTask(b"", 0, 1, ())):
        assert decode_task(encode_task(task)) == task
    assert TASK.size == 33


def test_other_versions_and_damaged_bytes_are_refused() -> None:
    data = encode_task(TASK)
    with pytest.raises(InvalidRequest, match="version 09"):
        decode_task(b"\x09" + data[1:])
    for cut in range(len(data)):
        with pytest.raises(InvalidRequest):
            decode_task(data[:cut])
