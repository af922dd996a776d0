"""What runs the tasks of a command: Spark, whose session ends with it, or processes of this machine."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tablestore.core.errors import InvalidRequest
from tablestore.flow.runner import LOCAL, spark_session


def cluster_settings(master: str, cores: int | None) -> dict[str, Any]:
    """The settings of a session on the cluster at `master`, of which it takes `cores` (None: all). Raises
    InvalidRequest for what is no address of a cluster."""
    if not master.startswith("spark://"):
        raise InvalidRequest(f"--master {master} is no address of a cluster: write spark://host:port")
    settings: dict[str, Any] = {"spark.master": master, "spark.task.maxFailures": 8}
    return settings if cores is None else settings | {"spark.cores.max": cores}


@contextmanager
def running(
    command: str, engine: str, cores: int | None, master: str | None = None
) -> Iterator[tuple[dict[str, Any], Path | None]]:
    """The arguments of a verb of the lake that say what runs it, and the file of Spark's own words. A session
    of Spark ends with the block; with `master` it is one of that cluster. Raises InvalidRequest for a
    `master` that is no cluster, or that the engine does not have."""
    if master is not None and engine == LOCAL:
        raise InvalidRequest(f"--master {master} is of --engine spark")
    conf: dict[str, Any] = {} if master is None else cluster_settings(master, cores)
    if engine == LOCAL:
        yield {"engine": LOCAL, "processes": cores}, None
        return
    with tempfile.NamedTemporaryFile(
        prefix=f"tablestore-{command}-", suffix=".log", delete=False
    ) as log_file:
        log = Path(log_file.name)
    conf["jobs_only"] = True
    remedy = f"choose --engine {LOCAL}"
    spark = spark_session(f"tablestore {command}", cores=cores, log_file=str(log), remedy=remedy, conf=conf)
    try:
        yield {"spark": spark}, log
    finally:
        with contextlib.suppress(Exception):  # its Java was killed
            spark.stop()
