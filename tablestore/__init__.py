"""A lake table store in the Apache Paimon format. `ts.connect(path)` opens a lake, `ts.open(path)` a table.

Every name in `__all__` is a promise; see README.md in this folder for the map.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tablestore.core import rich
from tablestore.table.features import feature, provide

__version__ = "0.1.0"


if TYPE_CHECKING:
    from tablestore import spark as spark
    from tablestore.api import *
    from tablestore.cdc.capture.journal import capture_reports as capture_reports
    from tablestore.insight.explain.merge_steps.arrow_runs import merging as merging
    from tablestore.insight.explain.merge_steps.arrow_runs import merging_events as merging_events
    from tablestore.insight.simulator import compare
    from tablestore.insight.simulator.opening import simulator as simulator
    from tablestore.sql import sql_session as sql_session
    from tablestore.table.advise import advise_buckets as advise_buckets
    from tablestore.tiering.journal import tiering_report as tiering_report

    what_if = compare

provide(
    {
        "tablestore.advise_buckets": "tablestore.table.advise:advise_buckets",
        "tablestore.capture_reports": "tablestore.cdc.capture.journal:capture_reports",
        "tablestore.mend": "tablestore.table.recovery:repair",
        "tablestore.merging": "tablestore.insight.explain.merge_steps.arrow_runs:merging",
        "tablestore.merging_events": "tablestore.insight.explain.merge_steps.arrow_runs:merging_events",
        "tablestore.simulator": "tablestore.insight.simulator.opening:simulator",
        "tablestore.sql_session": "tablestore.sql:sql_session",
        "tablestore.tiering_report": "tablestore.tiering.journal:tiering_report",
        "Lake.sql": "tablestore.sql:sql_session",
        "%load_ext tablestore": "tablestore.sql.magics:load",
        "live table of a stream": "widgets:StreamTable",
        "cockpit of a table": "widgets:Workbench",
        "cockpit of a lake": "widgets:LakeHealth",
        "tablestore.what_if": "tablestore.insight.simulator:compare",
        "Lake.coordinator": "tablestore.tiering.coordinator.coordinator:Coordinator",
        "Lake.ingest": "tablestore.spark.capture_start:ingest",
        "Lake.tier": "tablestore.tiering.opening:tier",
        "rounds by Spark": "tablestore.spark.tiering:SparkRunner",
        "Lake.register": "tablestore.spark.lake_views:register_views",
        "Lake.table of system tables": "tablestore.table.system:global_table",
        "Table.inspect": "tablestore.insight.inspect.inspect:Inspect",
        "Table.check": "tablestore.insight.check.check:check",
        "Table.mend": "tablestore.table.mend:mend",
        "Table.what_if": "tablestore.table.what_if:what_if",
        "Table.system": "tablestore.table.system:system_table",
        "Table.compact(dry_run=True)": "tablestore.table.dry_run:dry_run",
        "Scan.explain": "tablestore.insight.explain.explanation:Explanation",
        "compactions of other engines": "tablestore.insight.explain.foreign_compactions:explained",
        "Spark session": "tablestore.spark:session",
        "data sources of a Spark session": "tablestore.spark:register",
        "streams by Spark": "tablestore.spark:start_stream",
        "compaction by Spark": "tablestore.spark:compact",
        "Table.to_spark": "tablestore.spark:to_spark",
        "columns of a Spark frame": "tablestore.spark:arrow_schema",
    }
)

rich.provide("tablestore.insight.cards:card")


def __getattr__(name: str) -> Any:
    """A public name when it is first used: `import tablestore` alone waits for nothing."""
    if name == "spark":
        return import_module("tablestore.spark")
    if name in _FEATURES:
        found = feature(f"tablestore.{name}")
    elif name == "__all__":
        found = sorted({*import_module("tablestore.api").__all__, *_FEATURES})
    elif name.startswith("__") or not hasattr(api := import_module("tablestore.api"), name):
        raise AttributeError(f"module 'tablestore' has no attribute {name!r}")
    else:
        found = getattr(api, name)
    return globals().setdefault(name, found)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext tablestore` in a notebook: `%sql` and `%%sql`, `%lake PATH`, `%cockpit TABLE`."""
    feature("%load_ext tablestore")(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})


_FEATURES = {
    *("advise_buckets", "capture_reports", "merging", "merging_events", "sql_session", "tiering_report"),
    *("simulator", "what_if"),
}
