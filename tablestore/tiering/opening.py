"""`lake.tier`: a service from what a user says."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, Unavailable
from tablestore.core.options.environment import trust
from tablestore.core.options.values import duration_ms
from tablestore.core.quantities import duration
from tablestore.flow.runner import SPARK, runner_of
from tablestore.io.paths import checked_name, join, location
from tablestore.table.lake import Lake
from tablestore.tiering.cluster import LakeTieringFactory
from tablestore.tiering.dropped import DROP, DROPPED
from tablestore.tiering.fluss_cluster import FlussTieringCluster
from tablestore.tiering.iceberg.factory import IcebergTieringFactory
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.paimon.factory import PaimonTieringFactory
from tablestore.tiering.round import RoundHold, RoundParts
from tablestore.tiering.runner import PoolRunner, TaskRunner, ThreadRunner
from tablestore.tiering.service import ServiceSettings, TieringService

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "fluss://"
LOST_ROWS = ("fail", "skip")
_FOLDER, _NAME = "tablestore-tiering", "tier"
_PAUSE_SECONDS, _THREADS = 0.5, 2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TieringOptions:
    """The arguments of `Lake.tier`."""

    tables: str | Sequence[str]
    follow: bool
    name: str | None
    log_columns: bool
    options: Mapping[str, Any] | None
    iceberg: Mapping[str, str] | None
    lost_rows: str
    dropped: str
    rounds: int
    threads: int | None
    poll: Any
    wait: Any
    hold: str | os.PathLike[str] | None
    engine: str | None
    processes: int | None
    spark: SparkSession | None

    def settings(self) -> ServiceSettings:
        """Those of the service. Raises InvalidRequest for what is not one of its values."""
        if self.lost_rows not in LOST_ROWS:
            raise InvalidRequest(f"lost_rows {self.lost_rows!r} must be one of {', '.join(LOST_ROWS)}")
        if self.dropped not in DROPPED:
            raise InvalidRequest(f"dropped {self.dropped!r} must be one of {', '.join(DROPPED)}")
        if self.rounds < 1:
            raise InvalidRequest(f"rounds {self.rounds!r} must be at least 1")
        patterns = self.tables.split(",") if isinstance(self.tables, str) else self.tables
        return ServiceSettings(
            tuple(pattern.strip() for pattern in patterns if pattern.strip()),
            room=self.rounds,
            poll_seconds=_seconds("poll", self.poll),
            once=not self.follow,
        )

    def runner(self) -> TaskRunner:
        """What reads splits: the workers of an engine, without one threads of this process."""
        if self.engine is None and self.spark is None:
            if self.processes is not None:
                raise InvalidRequest('processes= is of engine="local"; without an engine it is threads=')
            if self.threads is not None and self.threads < 1:
                raise InvalidRequest(f"threads {self.threads!r} must be at least 1")
            return ThreadRunner(_THREADS if self.threads is None else self.threads)
        if self.threads is not None:
            text = "threads= read splits without an engine; leave it out with engine= and spark="
            raise InvalidRequest(text)
        runner = runner_of(self.engine or SPARK, spark=self.spark, processes=self.processes)
        return PoolRunner(runner.pool())

    def factory(self, lake: Lake, servers: str) -> LakeTieringFactory:
        """What rounds write to: tables of the lake, or those of an Iceberg catalog."""
        columns, options = self.log_columns, self.options
        if self.iceberg is None:
            return PaimonTieringFactory(lake, log_columns=columns, options=options, read_from=servers)
        if options:
            text = "options= are of tables of this lake: an Iceberg catalog has its own properties"
            raise InvalidRequest(text)
        return IcebergTieringFactory(self.iceberg, log_columns=columns)


def tier(lake: Lake, source: str, how: TieringOptions) -> TieringService:
    """The service of `Lake.tier`, started."""
    if not source.startswith(SCHEME):
        raise InvalidRequest(f"{source!r} is no address of a cluster: fluss://host:port")
    settings, wait_seconds = how.settings(), _seconds("wait", how.wait)
    hold = RoundHold(None if how.hold is None else os.fspath(how.hold))
    runner = how.runner()
    cluster = FlussTieringCluster(source)
    trust(*cluster.servers)  # so tables that it fills are read with their logs in this process
    reached(cluster, coordinated=how.follow, seconds=wait_seconds)
    parts = RoundParts(
        cluster,
        how.factory(lake, source.removeprefix(SCHEME)),
        runner,
        TieringJournal(journal_directory(lake.warehouse, how.name)),
        SYSTEM,
        skips_lost_rows=how.lost_rows == "skip",
        drops=how.dropped == DROP,
        hold=hold,
    )
    return TieringService(parts, settings).start()


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
