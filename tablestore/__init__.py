"""A lake table store in the Apache Paimon format. `ts.connect(path)` opens a lake, `ts.open(path)` a table.

Every name in `__all__` is a promise; see README.md in this folder for the map.
"""

from typing import TYPE_CHECKING, Any

from tablestore import doors
from tablestore.core import rich

__version__ = "0.2.0"


if TYPE_CHECKING:
    from tablestore import spark as spark
    from tablestore.api import *
    from tablestore.cdc.capture.journal import capture_reports as capture_reports
    from tablestore.cdc.capture.report import BatchProgress as BatchProgress
    from tablestore.cdc.capture.report import BatchReport as BatchReport
    from tablestore.cdc.capture.report import ChunkReport as ChunkReport
    from tablestore.cdc.capture.report import EventReport as EventReport
    from tablestore.cdc.capture.report import Freshness as Freshness
    from tablestore.cdc.capture.report import PieceProgress as PieceProgress
    from tablestore.cdc.capture.report import TableReport as TableReport
    from tablestore.cdc.capture.state import CaptureChange as CaptureChange
    from tablestore.cdc.capture.state import CaptureChunk as CaptureChunk
    from tablestore.cdc.capture.state import CaptureModel as CaptureModel
    from tablestore.cdc.capture.state import CaptureTable as CaptureTable
    from tablestore.cdc.capture.state import capture_model as capture_model
    from tablestore.insight.explain.merge_steps.arrow_runs import merging as merging
    from tablestore.insight.explain.merge_steps.arrow_runs import merging_events as merging_events
    from tablestore.insight.simulator import compare
    from tablestore.insight.simulator.opening import simulator as simulator
    from tablestore.sql import sql_session as sql_session
    from tablestore.tiering.journal import tiering_report as tiering_report
    from tablestore.tiering.report import BucketMarks as BucketMarks
    from tablestore.tiering.report import Heartbeat as Heartbeat
    from tablestore.tiering.report import RoundReport as RoundReport
    from tablestore.tiering.report import SplitReport as SplitReport
    from tablestore.tiering.report import TableState as TableState
    from tablestore.tiering.report import TieringReport as TieringReport
    from tablestore.verbs.advise import advise_buckets as advise_buckets

    what_if = compare

rich.provide(doors.card)


def __getattr__(name: str) -> Any:
    """A public name when it is first used: `import tablestore` alone waits for nothing."""
    if name == "__all__":
        value: Any = sorted({*doors.public("__all__"), *_FEATURES})
    elif name.startswith("__"):
        raise AttributeError(f"module 'tablestore' has no attribute {name!r}")
    else:
        value = doors.public(name)
    return globals().setdefault(name, value)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext tablestore` in a notebook: `%sql` and `%%sql`, `%lake PATH`, `%cockpit TABLE`."""
    doors.load_magics(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})


_FEATURES = {
    *("advise_buckets", "capture_reports", "merging", "merging_events", "sql_session", "tiering_report"),
    *("simulator", "what_if"),
    *("capture_model", "CaptureChange", "CaptureChunk", "CaptureTable", "CaptureModel"),
    *("BatchProgress", "BatchReport", "ChunkReport", "EventReport", "Freshness", "PieceProgress"),
    *("TableReport", "BucketMarks", "Heartbeat", "RoundReport", "SplitReport", "TableState", "TieringReport"),
}
