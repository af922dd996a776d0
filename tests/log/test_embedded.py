"""The embedded log: append, read, bounds, transactions, timestamps, waiting, staged parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.errors import InvalidRequest
from tablestore.format.types.arrow_types import parse_type
from tablestore.format.types.data_type import DataField
from tablestore.log.log import CommitMark
from tests.faults import SimEnv
from tests.log.embedded_logs import SCHEMA, append, content, ids, inserts, open_log, rows

MARK = CommitMark("loader", 7, position="p", properties={"a": "b"}, watermark=5)


def test_a_new_log_is_empty(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.bounds().start == log.bounds().end == {0: 0, 1: 0}
    assert content(log) == {}
    assert list(log.transactions({})) == []
    assert log.at(0) == {0: 0, 1: 0}
    assert log.appender().flush() is None
    assert log.appender().commit(MARK) is None


def test_rows_are_read_in_their_order_with_dense_offsets(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first = append(log, {0: [1, 2], 1: [3]})
    second = append(log, {1: [4, 5]}, MARK)
    assert (first.start, first.end, first.mark) == ({0: 0, 1: 0}, {0: 2, 1: 1}, None)
    assert (second.start, second.end, second.mark) == ({1: 1}, {1: 3}, MARK)
    for reader in (log, open_log(tmp_path)):
        assert ids(reader) == {0: [1, 2], 1: [3, 4, 5]}
        assert reader.bounds().end == {0: 2, 1: 3}
        assert list(reader.transactions({})) == [first, second]
        assert list(reader.transactions(first.end)) == [second]
        assert content(reader, {0: 1, 1: 1}, {1: 2}) == {1: [(1, 4)]}
        assert content(reader, {}, {0: 1}) == {0: [(0, 1)]}


def test_a_listing_that_goes_further_than_the_end_names_no_file_twice(tmp_path: Path) -> None:
    log, writer = open_log(tmp_path), open_log(tmp_path, env=SimEnv(1))
    append(writer, {0: [1]})
    log.bounds()
    append(writer, {0: [2]})
    append(writer, {0: [3]})
    log._directory.forget()
    assert len(log._directory.chain()) == 3
    log.bounds()
    assert log._directory.chain() == ((1, 1), (2, 2), (3, 3))
    assert ids(log) == {0: [1, 2, 3]}


def test_kinds_and_chosen_columns_come_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    appender = log.appender()
    appender.write(0, pa.array([0, 3], pa.int8()), rows(1, 2))
    appender.flush()
    (batch,) = log.read({}, {0: 2}, ["text"])
    assert batch.kinds.to_pylist() == [0, 3]
    assert batch.rows.to_pydict() == {"text": ["row 1", "row 2"]}
    (batch,) = log.read({}, {0: 2}, [])
    assert batch.rows.num_columns == 0
    assert batch.offsets.tolist() == [0, 1]


def test_appenders_of_two_logs_take_turns(tmp_path: Path) -> None:
    first, second = open_log(tmp_path), open_log(tmp_path, env=SimEnv(1))
    for i in range(6):
        append((first, second)[i % 2], {0: [i]})
    assert ids(first) == ids(second) == {0: list(range(6))}


def test_staged_rows_of_several_appenders_become_one_transaction(tmp_path: Path) -> None:
    log, task = open_log(tmp_path), open_log(tmp_path, env=SimEnv(1))
    messages = []
    for i in range(2):
        appender = task.appender()
        appender.write(0, inserts(2), rows(2 * i, 2 * i + 1))
        messages.append(appender.stage())
        assert appender.stage() is None
    assert content(log) == {}
    appender = log.appender()
    appender.write(1, inserts(1), rows(9))
    done = appender.commit(MARK, [m for m in messages if m])
    assert done is not None
    assert done.end == {0: 4, 1: 1}
    assert ids(log) == ids(open_log(tmp_path)) == {0: [0, 1, 2, 3], 1: [9]}
    with pytest.raises(InvalidRequest):
        appender.commit(MARK, [b"nonsense"])


def test_rows_above_the_limit_wait_in_one_part_file(tmp_path: Path) -> None:
    log = open_log(tmp_path, memory_bytes=1000)
    append(log, {0: range(100), 1: range(100, 200)})
    assert ids(log) == {0: list(range(100)), 1: list(range(100, 200))}
    assert len(list((tmp_path / "parts").iterdir())) == 1


def test_abort_forgets_rows_and_removes_parts(tmp_path: Path) -> None:
    log = open_log(tmp_path, memory_bytes=1000)
    appender = log.appender()
    appender.write(0, inserts(200), rows(*range(200)))
    appender.write(0, inserts(1), rows(1))
    appender.stage()
    appender.abort()
    assert appender.flush() is None
    assert content(log) == {}
    assert not list((tmp_path / "parts").iterdir())


def test_rows_of_an_older_schema_are_read_by_field_id(tmp_path: Path) -> None:
    append(open_log(tmp_path), {0: [1]})
    newer = replace(
        SCHEMA,
        id=1,
        fields=(
            DataField(2, "extra", parse_type("INT")),
            DataField(0, "number", parse_type("BIGINT NOT NULL")),
            DataField(1, "text", parse_type("STRING")),
        ),
    )
    log = open_log(tmp_path, schema=newer, older=[SCHEMA])
    appender = log.appender()
    added = {"extra": [5], "number": [2], "text": ["row 2"]}
    appender.write(0, inserts(1), pa.RecordBatch.from_pydict(added, schema=newer.arrow))
    appender.flush()
    rows = pa.Table.from_batches([b.rows for b in log.read({}, {0: 2})])
    assert rows.to_pydict() == {"extra": [None, 5], "number": [1, 2], "text": ["row 1", "row 2"]}


def test_timestamps_never_go_back_although_the_clock_does(tmp_path: Path) -> None:
    env = SimEnv(now_ms=1000)
    log = open_log(tmp_path, env=env)
    for now in (1000, 2000, 500, 3000):
        object.__setattr__(env, "_now", now)
        append(log, {0: [now], 1: [now]} if now == 1000 else {0: [now]})
    batches = np.concatenate([b.timestamps for b in log.read({}, {0: 4})])
    assert batches.tolist() == [1000, 2000, 2000, 3000]
    assert log.at(0) == {0: 0, 1: 0}
    assert log.at(1500) == {0: 1, 1: 1}
    assert log.at(2001) == {0: 3, 1: 1}
    assert log.at(9000) == log.bounds().end


def test_wait_sees_rows_of_others_and_ends_in_time(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path, env=SimEnv(1))
    assert not log.wait({}, 0.2)
    append(other, {1: [1]})
    assert log.wait({}, 0.2)
    assert not log.wait(log.bounds().end, 0.2)


def test_drop_removes_everything(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, {0: [1]})
    log.drop()
    assert not (tmp_path / "log").exists()
    assert open_log(tmp_path / "log").bounds().end == {0: 0, 1: 0}
