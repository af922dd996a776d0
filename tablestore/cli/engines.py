"""What runs the tasks of a command: Spark, whose session ends with it, or processes of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tablestore.flow.runner import LOCAL, spark_session


@contextmanager
def running(command: str, engine: str, cores: int | None) -> Iterator[tuple[dict[str, Any], Path | None]]:
    """The arguments of a verb of the lake that say what runs it, and the file of Spark's own words. A session
    of Spark ends with the block."""
    if engine == LOCAL:
        yield {"engine": LOCAL, "processes": cores}, None
        return
    with tempfile.NamedTemporaryFile(prefix=f"tablestore-{command}-", suffix=".log", delete=False) as made:
        log = Path(made.name)
    spark = spark_session(f"tablestore {command}", cores=cores, log_file=str(log))
    try:
        yield {"spark": spark}, log
    finally:
        spark.stop()
