"""`lake.maintain`: a service from what a user says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest
from tablestore.core.options.values import duration_ms
from tablestore.flow.runner import LOCAL, require_engine, runner_of
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join
from tablestore.maintenance.leases import LeaseBook
from tablestore.maintenance.policy import DAY_MINUTES, MaintenanceLimits, MaintenancePolicy, PolicyBook
from tablestore.maintenance.report import FOLDER, History
from tablestore.maintenance.service import MaintenanceService
from tablestore.table.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_LEASE_MS = 1_000


def service_of(
    lake: Lake,
    io: FileIO,
    *,
    tables: str | Sequence[str] = (),
    policy: MaintenancePolicy | Mapping[str, Any] | None = None,
    bytes_per_hour: int | str | None = None,
    windows: str | Sequence[str] = (),
    follow: bool = True,
    name: str | None = None,
    poll: Any = "5 s",
    lease: Any = "1 min",
    engine: str = LOCAL,
    spark: SparkSession | None = None,
    processes: int | None = None,
    env: Env = SYSTEM,
) -> MaintenanceService:
    """The service, not yet started."""
    require_engine(engine, spark=spark, processes=processes)
    lake.require_there()
    policies = PolicyBook.of(policy, tables.split(",") if isinstance(tables, str) else tables)
    hours = [each for each in windows.split(",") if each.strip()] if isinstance(windows, str) else windows
    limits = MaintenanceLimits.of(bytes_per_hour, hours)
    lease_ms = _milliseconds("lease", lease)
    if lease_ms < LEAST_LEASE_MS:
        raise InvalidRequest(f"lease {lease!r} must be a second at least")
    poll_ms = _milliseconds("poll", poll)
    history = History(io, lake.warehouse, name)
    holder = f"{history.name}@{env.host()}:{env.process()}:{env.uuid()[:8]}"
    leases = LeaseBook(io, join(lake.warehouse, FOLDER, "leases"), holder, lease_ms=lease_ms, env=env)
    runner = runner_of(engine, spark=spark, processes=processes or 1 if engine == LOCAL else None)
    return MaintenanceService(
        lake,
        policies,
        limits,
        leases,
        history,
        runner.pool(),
        follow=follow,
        poll_seconds=poll_ms / 1000,
        env=env,
    )


def _milliseconds(what: str, given: Any) -> int:
    try:
        millis = duration_ms(str(given))
    except ValueError:
        raise InvalidRequest(f"{what} {given!r} must be a duration such as '5 s'") from None
    if not 0 < millis <= DAY_MINUTES * 60_000:
        raise InvalidRequest(f"{what} {given!r} must be above 0, and a day at most")
    return millis
