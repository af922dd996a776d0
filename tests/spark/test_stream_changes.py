"""Spark streams of tables without a changelog: what was before is told, once, with no state to lose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import tablestore as ts

pytestmark = pytest.mark.spark


def log_of(spark, source: ts.Table, log: ts.Table, checkpoint: Path, **options: Any) -> dict[str, Any]:
    """Append the changes of a table to a log, one batch; the progress that Spark tells of the rows."""
    changes = spark.readStream.format("tablestore").option("rowkind", "kind").options(**options)
    sink = changes.load(source.location).writeStream.format("tablestore").option("path", log.location)
    sink = sink.option("user", "log").option("checkpointLocation", str(checkpoint))
    query = sink.trigger(availableNow=True).start()
    query.awaitTermination()
    with_rows = [progress for progress in query.recentProgress if progress["numInputRows"]]
    return with_rows[-1] if with_rows else {}  # the last of all may tell of a look that found nothing more


def logged(log: ts.Table) -> list[tuple[Any, ...]]:
    rows = log.scan().to_arrow().to_pylist()
    return sorted((r["id"], r["kind"], r["v"]) for r in rows)


@pytest.mark.large
def test_changes_hold_the_old_row_and_come_once_though_all_but_the_offsets_is_lost(
    spark, lake: ts.Lake, tmp_path: Path
):
    schema = {"id": ts.BIGINT, "v": ts.STRING}
    source = lake.create_table("d.s", schema=schema, primary_key=["id"], options={"bucket": 2})
    log = lake.create_table("d.log", schema=schema | {"kind": ts.STRING})
    source.write([{"id": i, "v": "a"} for i in range(4)])
    log_of(spark, source, log, tmp_path / "ck", **{"consumer-id": "log"})
    assert logged(log) == [(i, "+I", "a") for i in range(4)]
    source.write([{"id": 0, "v": "a"}, {"id": 1, "v": "b"}, {"id": 7, "v": "c"}])
    source.delete(ts.col("id") == 2)
    source.compact(full=True)
    source.expire_snapshots(keep=1)
    progress = log_of(spark, source, log, tmp_path / "ck", **{"consumer-id": "log"})
    later = [(1, "+U", "b"), (1, "-U", "a"), (2, "-D", "a"), (7, "+I", "c")]
    assert logged(log) == sorted([(i, "+I", "a") for i in range(4)] + later)
    [there] = progress["sources"]
    assert there["numInputRows"] == 4
    assert str(source.store.snapshots.latest_id()) in str(there["latestOffset"])
    # a batch that Spark planned but does not know to be done comes again, the same
    commits = tmp_path / "ck" / "commits"
    newest = max(int(path.name) for path in commits.glob("[0-9]*"))
    for path in (commits / str(newest), commits / f".{newest}.crc"):
        path.unlink()
    before = log.store.snapshots.latest_id()
    log_of(spark, source, log, tmp_path / "ck", **{"consumer-id": "log"})
    assert log.store.snapshots.latest_id() == before
    assert logged(log) == sorted([(i, "+I", "a") for i in range(4)] + later)


@pytest.mark.large
def test_rows_as_they_were_written_and_a_switch_that_is_none(spark, lake: ts.Lake, tmp_path: Path):
    schema = {"id": ts.BIGINT, "v": ts.STRING}
    source = lake.create_table("d.s", schema=schema, primary_key=["id"], options={"bucket": 1})
    log = lake.create_table("d.log", schema=schema | {"kind": ts.STRING})
    source.write([{"id": 1, "v": "a"}])
    source.write([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    log_of(spark, source, log, tmp_path / "ck", start="2", normalize="false")
    assert logged(log) == [(1, "+I", "a"), (2, "+I", "b")]
    with pytest.raises(PySparkException, match="normalize 'perhaps' must be true or false"):
        log_of(spark, source, log, tmp_path / "other", normalize="perhaps")
