"""`lake.ingest`: from what a user writes to a capture at work."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tablestore.cdc.capture.job import CaptureJob, CaptureSettings, Listener, default_checkpoint
from tablestore.cdc.capture.opening import SourceAddress, Tables, rules_of, source_address
from tablestore.core.arguments import require_session
from tablestore.core.errors import InvalidRequest
from tablestore.flow.runner import SPARK, require_engine, runner_of
from tablestore.io.paths import checked_name, location
from tablestore.table.lake import Lake
from tablestore.table.refs import Duration, milliseconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ODD = re.compile(r"[^\w-]+")


def ingest(
    lake: Lake,
    url: str | os.PathLike[str],
    *,
    tables: Tables,
    rules: Mapping[str, Any],
    source: Mapping[str, Any],
    follow: bool = True,
    interval: Duration | float = "1s",
    compact_every: int = 5,
    checkpoint: str | os.PathLike[str] | None = None,
    name: str | None = None,
    engine: str = SPARK,
    processes: int | None = None,
    spark: SparkSession | None = None,
    on_batch: Listener | None = None,
) -> CaptureJob:
    """Start a capture; `rules` are arguments of `CaptureRules.of`, `source` those of the kind of source."""
    seconds = _seconds(interval)
    if compact_every < 0:
        raise InvalidRequest(f"compact_every {compact_every} must be a number of commits, or 0 for never")
    require_engine(engine, spark=spark, processes=processes)
    if spark is not None:
        require_session(spark)
    address = source_address(url, tables, source)
    made = rules_of(address, rules)
    name = checked_name(name or _default_name(made.into, address), "capture")
    place = default_checkpoint(lake, name) if checkpoint is None else location(checkpoint)
    opened = address.open(made, checkpoint=place, follow=follow)
    runner = runner_of(engine, spark=spark, processes=processes)
    variables = tuple(address.variables)
    between = seconds if follow else 0  # nobody waits for what is there
    settings = CaptureSettings(name, place, address.title, between, compact_every, variables)
    return CaptureJob(lake, opened, made, settings, runner, on_batch=on_batch).start()


def _seconds(interval: Duration | float) -> float:
    if isinstance(interval, bool | int | float):
        found = float(interval)
    else:
        found = milliseconds(interval, "interval") / 1000
    if not 0 <= found < 1 << 31:
        raise InvalidRequest(f"interval {interval!r} must be a time between two batches, such as '1s'")
    return found


def _default_name(into: str, address: SourceAddress) -> str:
    return "cdc-" + (_ODD.sub("-", into or address.database) or "all")
