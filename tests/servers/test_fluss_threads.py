"""What users of Fluss report of its tiering, by threads of github.com/apache/fluss: what goes wrong there,
what ours does, and the test that shows it. A test of another file is named with its file."""

from __future__ import annotations

import ast
import datetime as dt
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.write import TableWriter
from tablestore.format.types.arrow_types import BIGINT, STRING
from tests.servers.fluss import Fluss
from tests.servers.test_fluss_tiering import is_tiered, log_end, service, until

ROOT = Path(__file__).parents[2]
COLUMNS = {"id": BIGINT.not_null(), "text": STRING}
LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "5s"}


@dataclass(frozen=True)
class Thread:
    """Threads about one thing: their numbers, what `goes_wrong` there, what `ours` does, and its test."""

    numbers: tuple[int, ...]
    goes_wrong: str
    ours: str
    test: str


THREADS = (
    Thread(
        (2648,),
        "two jobs commit the same round, where a holder was silent for too long",
        "the later round is not on top of the snapshot that it was planned on: it is refused",
        "tests/servers/test_fluss_newest.py::test_a_round_that_fluss_s_job_overtakes_is_not_committed",
    ),
    Thread(
        (3892, 3413),
        "a bucket whose newest batches have no rows never advances, or loses its offset",
        "the offset goes to the end of the log, whatever rows there are",
        "test_buckets_whose_newest_batches_have_no_rows_advance",
    ),
    Thread(
        (2512,),
        "a snapshot of keys is gone while it is read",
        "a round holds its snapshots by a lease",
        "tests/servers/test_fluss_newest.py"
        "::test_a_round_reads_the_snapshot_of_keys_of_its_plan_though_there_are_newer_ones",
    ),
    Thread(
        (4038,),
        "a column that another engine added to the lake table stops the job for ever",
        "new rows are NULL there",
        "test_a_column_that_another_engine_added_is_null_in_new_rows",
    ),
    Thread(
        (4372,),
        "each idle table costs a whole interval of asking, thirty seconds",
        "the next table is asked for as soon as a round ends",
        "tests/tiering/test_service.py::test_idle_tables_cost_no_interval",
    ),
    Thread(
        (2745, 3789),
        "there is no service for some tables alone",
        "a service is for the tables that its patterns name, and gives others back",
        "tests/tiering/test_enumerator.py::test_tables_of_others_are_given_back",
    ),
    Thread(
        (3419,),
        "the snapshot of the lake says no watermark",
        "it says none either: a cluster has none to give",
        "test_a_snapshot_has_offsets_and_no_watermark",
    ),
    Thread(
        (3075, 2454),
        "how old, large and far behind tables are is not told",
        "the service tells it as metrics",
        "tests/cli/test_metrics.py::test_a_round_counts_once_however_often_one_looks",
    ),
    Thread(
        (2498, 3483),
        "a table that is dropped leaves its reader waiting; one that is made again meets the old path",
        "the round ends by name; a table made again is filled anew, once its lake table has another name",
        "test_a_table_that_is_dropped_and_made_again_is_filled_anew",
    ),
    Thread(
        (2121, 3519, 4327),
        "reads of lake and log lose rows where deletion vectors hide those of level 0",
        "the cluster is told what readers see, and reads add the rest from the log",
        "test_reads_of_lake_and_log_have_every_row_of_a_table_with_deletion_vectors",
    ),
    Thread(
        (4295,),
        "microseconds before 1970 end the client, and with it the whole job",
        "they are rows like others",
        "test_microseconds_before_1970_are_tiered",
    ),
    Thread(
        (3820,),
        "partitions expire before they are tiered",
        "the round says which and how many rows, and ends as incomplete",
        "tests/servers/test_fluss_dropped.py::test_a_dropped_partition_ends_no_stream_and_is_reported",
    ),
)


@pytest.mark.parametrize("thread", THREADS, ids=lambda thread: f"#{thread.numbers[0]}")
def test_every_thread_has_its_test(thread: Thread) -> None:
    file, _, name = thread.test.rpartition("::")
    tree = ast.parse((ROOT / file if file else Path(__file__)).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.fixture
def lake(newest: Fluss) -> ts.Lake:
    return ts.connect(newest.servers.warehouse)


def read(lake: ts.Lake, path: object, **how: bool) -> list[dict[str, object]]:
    table = lake.table(str(path))
    names = [name for name in table.schema.names if not name.startswith("__")]
    return table.scan(columns=names, **how).to_arrow().sort_by("id").to_pylist()


@pytest.mark.large
def test_buckets_whose_newest_batches_have_no_rows_advance(newest: Fluss, lake: ts.Lake) -> None:
    keyed, first = (
        newest.table(COLUMNS, key=["id"], properties={**LAKE, **engine})
        for engine in ({}, {"table.merge-engine": "first_row"})
    )
    writers = [TableWriter(newest.cluster, table) for table in (keyed, first)]
    rows = pa.table({"id": [1, 2], "text": ["a", "b"]})
    for writer in writers:
        writer.upsert(rows)
    with service(newest, lake, [keyed, first]):
        until(lambda: is_tiered(newest, keyed) and is_tiered(newest, first), what="the first rows")
        before = [log_end(newest, table) for table in (keyed, first)]
        writers[0].delete(pa.table({"id": [7], "text": pa.nulls(1, pa.string())}))
        writers[1].upsert(pa.table({"id": [1], "text": ["later"]}))
        assert all(log_end(newest, t) != at for t, at in zip((keyed, first), before, strict=True))
        until(lambda: is_tiered(newest, keyed) and is_tiered(newest, first), what="batches without rows")
    assert read(lake, keyed.path) == read(lake, first.path) == rows.to_pylist()


@pytest.mark.large
def test_a_column_that_another_engine_added_is_null_in_new_rows(newest: Fluss, lake: ts.Lake) -> None:
    table = newest.table(COLUMNS, key=["id"], properties=LAKE)
    writer = TableWriter(newest.cluster, table)
    writer.upsert(pa.table({"id": [1], "text": ["a"]}))
    lake.table(str(table.path)).alter(ts.add("score", ts.INT))
    with service(newest, lake, [table]):
        until(lambda: is_tiered(newest, table), what="a round")
    assert read(lake, table.path) == [{"id": 1, "text": "a", "score": None}]


@pytest.mark.large
def test_a_snapshot_has_offsets_and_no_watermark(newest: Fluss, lake: ts.Lake) -> None:
    table = newest.table(COLUMNS, properties=LAKE)
    TableWriter(newest.cluster, table).append(pa.table({"id": [1], "text": ["a"]}))
    with service(newest, lake, [table]):
        until(lambda: is_tiered(newest, table), what="a round")
    snapshot = lake.table(str(table.path)).store.snapshots.latest()
    assert (snapshot.watermark, "fluss-offsets" in snapshot.properties) == (None, True)


@pytest.mark.large
def test_a_table_that_is_dropped_and_made_again_is_filled_anew(newest: Fluss, lake: ts.Lake) -> None:
    table = newest.table(COLUMNS, properties=LAKE)
    TableWriter(newest.cluster, table).append(pa.table({"id": [1], "text": ["a"]}))
    with service(newest, lake, [table]) as job:
        until(lambda: is_tiered(newest, table), what="a round")
        newest.admin.drop_table(table.path)
        until(lambda: any(event.name == "table dropped" for event in job.events()), what="the event")
        with pytest.raises(FlussError, match="the table is not empty") as e:  # of the lake
            newest.admin.create_table(table.path, table.descriptor)
        assert e.value.code == ErrorCode.LAKE_TABLE_ALREADY_EXIST
        lake.rename_table(str(table.path), f"{table.path}_before")
        again = newest.table(COLUMNS, name=table.path.table, properties=LAKE)
        TableWriter(newest.cluster, again).append(pa.table({"id": [2], "text": ["b"]}))
        until(lambda: is_tiered(newest, again), what="a round of the new table")
    assert read(lake, table.path) == [{"id": 2, "text": "b"}]
    assert read(lake, f"{table.path}_before") == [{"id": 1, "text": "a"}]


@pytest.mark.large
def test_reads_of_lake_and_log_have_every_row_of_a_table_with_deletion_vectors(
    newest: Fluss, lake: ts.Lake
) -> None:
    table = newest.table(
        COLUMNS, key=["id"], buckets=2, properties={**LAKE, "paimon.deletion-vectors.enabled": "true"}
    )
    writer = TableWriter(newest.cluster, table)
    state: dict[int, str] = {}
    with service(newest, lake, [table]):
        for turn in range(3):
            rows = dict.fromkeys(range(turn * 5, turn * 5 + 10), f"turn {turn}")
            writer.upsert(pa.table({"id": list(rows), "text": list(rows.values())}))
            writer.delete(pa.table({"id": [turn * 5], "text": pa.nulls(1, pa.string())}))
            state |= rows
            del state[turn * 5]
            until(lambda: is_tiered(newest, table), what=f"round {turn}")
            wanted = [{"id": id, "text": text} for id, text in sorted(state.items())]
            assert read(lake, table.path) == wanted
    writer.upsert(pa.table({"id": [100], "text": ["in the log alone"]}))
    assert read(lake, table.path) == wanted


@pytest.mark.large
def test_microseconds_before_1970_are_tiered(newest: Fluss, lake: ts.Lake) -> None:
    columns = {"id": BIGINT.not_null(), "at": ts.TIMESTAMP(6), "moment": ts.TIMESTAMP_LTZ(6)}
    log, keyed = (newest.table(columns, key=key, properties=LAKE) for key in ((), ("id",)))
    early = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    given = [
        {"id": number, "at": at, "moment": at.replace(tzinfo=dt.UTC)}
        for number, at in enumerate((early, dt.datetime(1, 1, 1, 0, 0, 0, 1), dt.datetime(1970, 1, 1)))
    ]
    rows = pa.Table.from_pylist(given, log.arrow_schema)
    TableWriter(newest.cluster, log).append(rows)
    TableWriter(newest.cluster, keyed).upsert(rows)
    with service(newest, lake, [log, keyed]):
        until(lambda: is_tiered(newest, log) and is_tiered(newest, keyed), what="rounds of both")
    assert read(lake, log.path) == read(lake, keyed.path) == given
