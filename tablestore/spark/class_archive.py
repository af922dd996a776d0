"""`python -m tablestore.spark.class_archive`: makes the archive with which Spark starts in half the time.

It holds the classes that the JVM of a session loads, parsed and laid out; to make it takes some 30 s.
`sessions` uses it where it is; the JVM passes over one of another Java or other jars. It is written aside,
synced and renamed, because a torn one crashes a JVM. Called by the workbench, once its environment is
complete.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tablestore.spark.sessions import CLASS_ARCHIVE, NO_ARCHIVE_LOG, session
from tablestore.table.lake import Lake


def make(target: str = CLASS_ARCHIVE) -> None:
    """Write the archive: a session runs what most sessions do; its JVM writes what it loaded as it ends."""
    with tempfile.TemporaryDirectory(prefix="spark-classes-", dir=os.path.dirname(target)) as folder:
        archive = os.path.join(folder, "classes.jsa")
        java = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={archive} {NO_ARCHIVE_LOG}"
        spark = session("class archive", cores=1, memory="512m", spark__driver__extraJavaOptions=java)
        gateway = spark.sparkContext._gateway
        assert gateway is not None, "the session runs"
        _use(spark, Path(folder))
        spark.stop()
        gateway.shutdown()
        gateway.proc.communicate()  # the end of its input is its end
        with open(archive, "rb") as written:
            os.fsync(written.fileno())
        os.replace(archive, target)


def _use(spark: SparkSession, folder: Path) -> None:
    """Queries, Python workers, files, a table and a stream."""
    rows = spark.range(9).selectExpr("id", "cast(id % 3 as string) as name")
    rows.groupBy("name").count().orderBy("name").collect()
    rows.mapInArrow(lambda batches: batches, "id long, name string").collect()
    spark.sparkContext.parallelize([1, 2], 2).map(str).collect()
    table = Lake(str(folder)).create_table("shop.rows", schema={"id": "BIGINT", "name": "STRING"})
    rows.write.format("tablestore").mode("append").save(table.location)
    spark.read.format("tablestore").load(table.location).where("id > 1").collect()
    rows.select("name").write.text(str(folder / "text"))
    changes = spark.readStream.text(str(folder / "text")).writeStream.foreachBatch(_collect)
    query = changes.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query.start().awaitTermination(60)


def _collect(frame: DataFrame, number: int) -> None:
    frame.collect()


if __name__ == "__main__":
    make()
