"""`lake.tier`: a service from what a user says."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, Unavailable
from tablestore.core.options.trusted_servers import trust
from tablestore.core.options.values import duration_ms
from tablestore.core.quantities import duration
from tablestore.flow.runner import SPARK, runner_of
from tablestore.io.paths import checked_name, join, location
from tablestore.table.lake import Lake
from tablestore.tiering.dropped import DROP, DROPPED, KEEP
from tablestore.tiering.factory import LakeTieringFactory
from tablestore.tiering.fluss_cluster import FlussTieringCluster
from tablestore.tiering.hold import RoundHold
from tablestore.tiering.iceberg.factory import IcebergTieringFactory
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.paimon.factory import PaimonTieringFactory
from tablestore.tiering.round import RoundParts
from tablestore.tiering.runner import PoolRunner, TaskRunner, ThreadRunner
from tablestore.tiering.service import ServiceSettings, TieringService

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "fluss://"
LOST_ROWS = ("fail", "skip")
_FOLDER, _NAME = "tablestore-tiering", "tier"
_PAUSE_SECONDS, _THREADS = 0.5, 2

log = logging.getLogger(__name__)


def tier(
    lake: Lake,
    source: str,
    *,
    tables: str | Sequence[str] = (),
    follow: bool = True,
    name: str | None = None,
    log_columns: bool = False,
    options: Mapping[str, Any] | None = None,
    iceberg: Mapping[str, str] | None = None,
    lost_rows: str = "fail",
    dropped: str = KEEP,
    rounds: int = 2,
    threads: int | None = None,
    poll: Any = "500ms",
    wait: Any = "1min",
    hold: str | os.PathLike[str] | None = None,
    engine: str | None = None,
    processes: int | None = None,
    spark: SparkSession | None = None,
) -> TieringService:
    """The service of `Lake.tier`, started."""
    if not source.startswith(SCHEME):
        raise InvalidRequest(f"{source!r} is no address of a cluster: fluss://host:port")
    if lost_rows not in LOST_ROWS:
        raise InvalidRequest(f"lost_rows {lost_rows!r} must be one of {', '.join(LOST_ROWS)}")
    if dropped not in DROPPED:
        raise InvalidRequest(f"dropped {dropped!r} must be one of {', '.join(DROPPED)}")
    if rounds < 1:
        raise InvalidRequest(f"rounds {rounds!r} must be at least 1")
    patterns = tables.split(",") if isinstance(tables, str) else tables
    settings = ServiceSettings(
        tuple(pattern.strip() for pattern in patterns if pattern.strip()),
        room=rounds,
        poll_seconds=_seconds("poll", poll),
        once=not follow,
    )
    wait_seconds = _seconds("wait", wait)
    round_hold = RoundHold(None if hold is None else os.fspath(hold))
    runner = _runner(engine, threads=threads, processes=processes, spark=spark)
    cluster = FlussTieringCluster(source)
    trust(*cluster.servers)  # so tables that it fills are read with their logs in this process
    reached(cluster, coordinated=follow, seconds=wait_seconds)
    parts = RoundParts(
        cluster,
        _factory(lake, source, log_columns, options, iceberg),
        runner,
        TieringJournal(journal_directory(lake.warehouse, name)),
        SYSTEM,
        skips_lost_rows=lost_rows == "skip",
        drops=dropped == DROP,
        hold=round_hold,
    )
    return TieringService(parts, settings).start()


def _runner(
    engine: str | None, *, threads: int | None, processes: int | None, spark: SparkSession | None
) -> TaskRunner:
    """What reads splits: the workers of an engine, without one threads of this process."""
    if engine is None and spark is None:
        if processes is not None:
            raise InvalidRequest('processes= is of engine="local"; without an engine it is threads=')
        if threads is not None and threads < 1:
            raise InvalidRequest(f"threads {threads!r} must be at least 1")
        return ThreadRunner(_THREADS if threads is None else threads)
    if threads is not None:
        raise InvalidRequest("threads= read splits without an engine; leave it out with engine= and spark=")
    return PoolRunner(runner_of(engine or SPARK, spark=spark, processes=processes).pool())


def _factory(
    lake: Lake,
    source: str,
    log_columns: bool,
    options: Mapping[str, Any] | None,
    iceberg: Mapping[str, str] | None,
) -> LakeTieringFactory:
    """What rounds write to: tables of the lake, or those of an Iceberg catalog."""
    if iceberg is None:
        servers = source.removeprefix(SCHEME)
        return PaimonTieringFactory(lake, log_columns=log_columns, options=options, read_from=servers)
    if options:
        raise InvalidRequest("options= are of tables of this lake: an Iceberg catalog has its own properties")
    return IcebergTieringFactory(iceberg, log_columns=log_columns)


def reached(cluster: FlussTieringCluster, *, coordinated: bool, seconds: float, env: Env = SYSTEM) -> None:
    """Wait until a cluster answers that can tier, at most so long; a warning says that and for what. Raises
    Unavailable after that, Unsupported at once."""
    began, warned = env.monotonic(), False
    while True:
        try:
            return cluster.require_tiering(coordinated=coordinated)
        except Unavailable as e:
            left = began + seconds - env.monotonic()
            if left <= 0:
                cluster.close()
                waited = f" (waited for {duration(int(1000 * seconds))})" if seconds else ""
                raise Unavailable(f"{e}{waited}") from e
            if not warned:
                log.warning("%s; waiting for it, at most %s", e, duration(int(1000 * seconds)))
                warned = True
            env.sleep(min(_PAUSE_SECONDS, left))


def _seconds(what: str, given: Any) -> float:
    try:
        return duration_ms(str(given)) / 1000
    except ValueError:
        raise InvalidRequest(f"{what} {given!r} must be a duration such as '500 ms'") from None


def journal_directory(warehouse: str | os.PathLike[str], name: str | None = None) -> str:
    """Where a service of that name writes down what it does."""
    return join(location(warehouse), _FOLDER, checked_name(name or _NAME, "service"))
