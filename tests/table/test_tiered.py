"""Tables whose writers append to the log alone: what is seen when, replays, and rounds that bring files."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption
from tablestore.log.embedded import appender as appending
from tablestore.meta import positions
from tests.faults import FaultyIO, Killed, SimEnv
from tests.tables import TableSpec

TIERED = {"log.system": "embedded", "bucket": 2, "tablestore.tiering.enabled": True}
KEYED = TableSpec({"k": ts.INT, "v": ts.BIGINT}, ("k",), options=TIERED)
APPEND = TableSpec({"k": ts.INT, "v": ts.BIGINT}, options={**TIERED, "bucket-key": "k"})
SUMS = KEYED.with_options({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})


def made(path: Path, spec: TableSpec = KEYED, **options: Any) -> ts.Table:
    return ts.connect(str(path)).create_table(
        "d.t",
        schema=spec.columns,
        primary_key=spec.primary_key,
        options={**spec.options, **options},
    )


def rows(actual: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(actual["k"].to_pylist(), actual["v"].to_pylist(), strict=True))


def seen(table: ts.Table) -> list[tuple[int, int]]:
    return rows(table.scan(log=True).to_arrow())


def in_files(table: ts.Table) -> list[tuple[int, int]]:
    return rows(table.scan().to_arrow())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [(KEYED, [(1, 11), (2, 20)]), (APPEND, [(1, 10), (1, 11), (2, 20)]), (SUMS, [(1, 21), (2, 20)])],
    ids=["keyed", "append", "sums"],
)
def test_rows_are_in_the_log_at_once_and_in_files_after_a_round(
    tmp_path: Path, spec: TableSpec, expected: list[tuple[int, int]]
):
    table = made(tmp_path, spec)
    done = table.write([{"k": 1, "v": 10}, {"k": 2, "v": 20}])
    assert (done.rows, done.snapshots, done.replayed) == (2, (), False)
    table.write([{"k": 1, "v": 11}])
    assert seen(table) == expected
    assert in_files(table) == []
    assert not list((tmp_path / "d.db/t").glob("bucket-*"))
    assert len(table.log.finish()) <= 2
    assert in_files(table) == seen(table) == expected
    assert table.log.in_files == table.log.end
    assert table.log.finish() == ()
    assert table.check() == []


def test_a_stream_sees_rows_at_once_and_a_round_adds_nothing(tmp_path: Path):
    table = made(tmp_path)
    table.write([{"k": 1, "v": 1}])
    stream = table.stream(start="latest-full", follow=False)
    assert [b.num_rows for c in stream for b in c.batches] == [1]
    (*_, last) = table.stream(start="latest-full", follow=False)
    table.write([{"k": 2, "v": 2}])
    table.log.finish()
    table.write([{"k": 3, "v": 3}])
    steps = list(table.stream(start=last.cursor, follow=False))
    assert sorted(k for c in steps for b in c.batches for k in b.column("k").to_pylist()) == [2, 3]
    assert {c.source for c in steps} == {"log"}


@pytest.mark.parametrize("finished", [False, True])
def test_a_replay_adds_nothing_before_and_after_a_round(tmp_path: Path, finished: bool):
    table = made(tmp_path, SUMS)
    for number in (1, 2):
        table.write([{"k": 1, "v": number}], user="till", identifier=number, position=f"at {number}")
    table.write([{"k": 1, "v": 100}], user="other", identifier=7, position="far")
    if finished:
        table.log.finish()
    for number in (1, 2):
        assert table.write([{"k": 1, "v": number}], user="till", identifier=number).replayed
    assert not table.write([{"k": 1, "v": 3}], user="till", identifier=3).replayed
    assert seen(table) == [(1, 106)]
    table.log.finish()
    assert in_files(table) == [(1, 106)]
    actual = positions.known(table.store, table.store.snapshots.latest())
    assert actual == {"till": (3, "at 2"), "other": (7, "far")}
    assert table.write([{"k": 1, "v": 3}], user="till", identifier=3).replayed
    assert table.check() == []


def test_two_writers_of_one_name_append_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Both look for a replay before either appends."""
    table, both = made(tmp_path, SUMS), threading.Barrier(2, timeout=240)
    plain, first = appending.EmbeddedAppender.commit, threading.local()

    def together(self, *args, **named):
        if not hasattr(first, "done"):
            first.done = True
            both.wait()
        return plain(self, *args, **named)

    monkeypatch.setattr(appending.EmbeddedAppender, "commit", together)
    answers: list[bool] = []

    def write() -> None:
        other = ts.connect(str(tmp_path)).table("d.t")
        answers.append(other.write([{"k": 1, "v": 5}], user="till", identifier=1).replayed)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, True]
    assert seen(table) == [(1, 5)]


def test_engines_stage_rows_for_the_log_alone(tmp_path: Path):
    table = made(tmp_path)
    for again in (False, True):
        writers = [table.open_writer() for _ in range(2)]
        for n, writer in enumerate(writers):
            writer.write(pa.table({"k": [n], "v": pa.array([n], pa.int64())}))
        messages = [m for w in writers for m in w.prepare()]
        done = table.commit(messages, user="spark", identifier=4, position="p")
        assert (done.replayed, done.rows) == ((True, 0) if again else (False, 2))
    assert (seen(table), in_files(table)) == ([(0, 0), (1, 1)], [])


def test_changes_of_rows_look_at_all_that_the_log_has(tmp_path: Path):
    table = made(tmp_path)
    table.write([{"k": k, "v": 0} for k in range(6)])
    table.delete(ts.col("k") == 1)
    table.write([{"k": 7, "v": 0}])
    table.update({"v": 5}, where=ts.col("k") >= 5)
    table.write([{"k": 8, "v": 0}])
    table.delete(pa.table({"k": [8, 0]}))
    assert seen(table) == [(2, 0), (3, 0), (4, 0), (5, 5), (7, 5)]
    table.overwrite([{"k": 9, "v": 9}])
    table.write([{"k": 10, "v": 10}])
    assert seen(table) == [(9, 9), (10, 10)]
    table.log.finish()
    assert in_files(table) == [(9, 9), (10, 10)]
    assert table.check() == []


def test_a_compaction_leaves_the_log_to_rounds(tmp_path: Path):
    table = made(tmp_path)
    for v in range(3):
        table.write([{"k": 1, "v": v}])
        table.log.finish()
    table.write([{"k": 2, "v": 2}])
    table.compact(full=True)
    assert (in_files(table), seen(table)) == ([(1, 2)], [(1, 2), (2, 2)])


def test_many_commits_are_one_round(tmp_path: Path):
    table = made(tmp_path, SUMS)
    for n in range(30):
        table.write([{"k": n % 3, "v": 1}], user=f"u{n % 2}", identifier=n, watermark=n)
    assert len(table.log.finish()) <= 2
    assert in_files(table) == [(0, 10), (1, 10), (2, 10)]
    latest = table.store.snapshots.latest()
    assert latest.watermark == 29
    assert positions.known(table.store, latest) == {"u0": (28, None), "u1": (29, None)}


def test_rounds_at_once_bring_each_row_once(tmp_path: Path):
    table = made(tmp_path, SUMS)
    for n in range(20):
        table.write([{"k": n, "v": 1}])
    errors: list[BaseException] = []

    def finish() -> None:
        try:
            ts.connect(str(tmp_path)).table("d.t").log.finish()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=finish) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert in_files(table) == [(n, 1) for n in range(20)]


@pytest.mark.parametrize("mode", ["kill before", "kill after", "error after"])
@pytest.mark.sample(1)
def test_a_write_or_round_that_ends_anywhere_is_repeated_without_doubles(tmp_path: Path, mode: str):
    for fail_at in range(0, 400, 7):
        path = tmp_path / f"{mode}-{fail_at}".replace(" ", "-")
        made(path, SUMS).write([{"k": 1, "v": 1}])
        io = FaultyIO(fail_at, mode)
        try:
            broken = ts.Lake(str(path), io=io).table("d.t")
            broken.write([{"k": 1, "v": 10}], user="till", identifier=1)
            broken.log.finish()
        except (ts.TablestoreError, OSError, Killed):
            pass
        table = ts.connect(str(path)).table("d.t")
        table.write([{"k": 1, "v": 10}], user="till", identifier=1)
        assert seen(table) == [(1, 11)], fail_at
        table.log.finish()
        assert in_files(table) == [(1, 11)], fail_at
        assert table.check() == []
        if io.count < fail_at:
            return


def test_what_cannot_be_tiered_is_refused_by_name(tmp_path: Path):
    lake = ts.connect(str(tmp_path))
    columns = {"k": ts.INT}
    for options in ({"bucket": 1}, {**TIERED, "log.consistency": "eventual"}):
        with pytest.raises(InvalidOption, match=r"tablestore\.tiering\.enabled"):
            lake.create_table(
                "d.t",
                schema=columns,
                primary_key=["k"],
                options={**options, "tablestore.tiering.enabled": True},
            )


def test_a_table_becomes_tiered_and_no_longer(tmp_path: Path):
    table = made(tmp_path, KEYED, **{"tablestore.tiering.enabled": False})
    table.write([{"k": 1, "v": 1}])
    table = table.alter(ts.set_options({"tablestore.tiering.enabled": "true"}))
    table.write([{"k": 2, "v": 2}])
    assert (in_files(table), seen(table)) == ([(1, 1)], [(1, 1), (2, 2)])
    table = table.alter(ts.set_options({"tablestore.tiering.enabled": "false"}))
    table.write([{"k": 3, "v": 3}])
    assert in_files(table) == [(1, 1), (2, 2), (3, 3)]
    assert table.check() == []


@pytest.mark.parametrize("tiered_before", [False, True])
def test_retention_of_an_embedded_log_waits_for_rounds(tmp_path: Path, tiered_before: bool):
    """However old rows are, those that no round has brought stay; also those of a bucket without a round."""
    env = SimEnv()
    lake = ts.connect(str(tmp_path), env=env)
    options = {**TIERED, "log.retention": "1 min", "snapshot.num-retained.min": 1}
    table = lake.create_table("d.t", schema=KEYED.columns, primary_key=["k"], options=options)
    if tiered_before:
        table.write([{"k": 0, "v": 0}])
        table.log.finish()
    for number in range(1, 9):
        table.write([{"k": number, "v": number}])
        env.sleep(3600)
    table.expire_snapshots(keep=1)
    wanted = [(number, number) for number in range(0 if tiered_before else 1, 9)]
    assert seen(table) == wanted
    table.log.finish()
    env.sleep(3600)
    table.expire_snapshots(keep=1)
    assert any(table.log.start.values())  # what files have goes
    assert seen(table) == in_files(table) == wanted
