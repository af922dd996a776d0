"""A lake table store in the Apache Paimon format. `ts.connect(path)` opens a lake, `ts.open(path)` a table.

Every name in `__all__` is a promise; see README.md in this folder for the map.
"""

from typing import TYPE_CHECKING, Any

from tablestore import doors
from tablestore.core import rich

__version__ = "0.2.0"


if TYPE_CHECKING:
    from tablestore import spark as spark
    from tablestore.cdc.capture.report import BatchProgress as BatchProgress
    from tablestore.cdc.capture.report import BatchReport as BatchReport
    from tablestore.cdc.capture.report import ChunkReport as ChunkReport
    from tablestore.cdc.capture.report import EventReport as EventReport
    from tablestore.cdc.capture.report import Freshness as Freshness
    from tablestore.cdc.capture.report import PieceProgress as PieceProgress
    from tablestore.cdc.capture.report import TableReport as TableReport
    from tablestore.cdc.capture.report import capture_reports as capture_reports
    from tablestore.cdc.capture.state import CaptureChange as CaptureChange
    from tablestore.cdc.capture.state import CaptureChunk as CaptureChunk
    from tablestore.cdc.capture.state import CaptureModel as CaptureModel
    from tablestore.cdc.capture.state import CaptureTable as CaptureTable
    from tablestore.cdc.capture.state import capture_model as capture_model
    from tablestore.core.errors import AlreadyExists as AlreadyExists
    from tablestore.core.errors import CommitConflict as CommitConflict
    from tablestore.core.errors import CommitUnknown as CommitUnknown
    from tablestore.core.errors import Corrupt as Corrupt
    from tablestore.core.errors import InvalidOption as InvalidOption
    from tablestore.core.errors import InvalidRequest as InvalidRequest
    from tablestore.core.errors import NotFound as NotFound
    from tablestore.core.errors import OutsideRoots as OutsideRoots
    from tablestore.core.errors import RowsNotVisible as RowsNotVisible
    from tablestore.core.errors import SchemaMismatch as SchemaMismatch
    from tablestore.core.errors import SnapshotExpired as SnapshotExpired
    from tablestore.core.errors import TablestoreError as TablestoreError
    from tablestore.core.errors import Unavailable as Unavailable
    from tablestore.core.errors import Unsupported as Unsupported
    from tablestore.format.predicates.predicate import col as col
    from tablestore.format.predicates.predicate_text import parse as where
    from tablestore.format.schema_change import add as add
    from tablestore.format.schema_change import comment as comment
    from tablestore.format.schema_change import default as default
    from tablestore.format.schema_change import drop as drop
    from tablestore.format.schema_change import move as move
    from tablestore.format.schema_change import not_null as not_null
    from tablestore.format.schema_change import nullable as nullable
    from tablestore.format.schema_change import rename as rename
    from tablestore.format.schema_change import reset_options as reset_options
    from tablestore.format.schema_change import retype as retype
    from tablestore.format.schema_change import set_options as set_options
    from tablestore.format.types.arrow_types import ARRAY as ARRAY
    from tablestore.format.types.arrow_types import BIGINT as BIGINT
    from tablestore.format.types.arrow_types import BINARY as BINARY
    from tablestore.format.types.arrow_types import BOOLEAN as BOOLEAN
    from tablestore.format.types.arrow_types import BYTES as BYTES
    from tablestore.format.types.arrow_types import CHAR as CHAR
    from tablestore.format.types.arrow_types import DATE as DATE
    from tablestore.format.types.arrow_types import DECIMAL as DECIMAL
    from tablestore.format.types.arrow_types import DOUBLE as DOUBLE
    from tablestore.format.types.arrow_types import FLOAT as FLOAT
    from tablestore.format.types.arrow_types import INT as INT
    from tablestore.format.types.arrow_types import MAP as MAP
    from tablestore.format.types.arrow_types import MULTISET as MULTISET
    from tablestore.format.types.arrow_types import ROW as ROW
    from tablestore.format.types.arrow_types import SMALLINT as SMALLINT
    from tablestore.format.types.arrow_types import STRING as STRING
    from tablestore.format.types.arrow_types import TIME as TIME
    from tablestore.format.types.arrow_types import TIMESTAMP as TIMESTAMP
    from tablestore.format.types.arrow_types import TIMESTAMP_LTZ as TIMESTAMP_LTZ
    from tablestore.format.types.arrow_types import TINYINT as TINYINT
    from tablestore.format.types.arrow_types import VARBINARY as VARBINARY
    from tablestore.format.types.arrow_types import VARCHAR as VARCHAR
    from tablestore.format.types.arrow_types import VARIANT as VARIANT
    from tablestore.insight.explain.merge_steps.arrow_runs import merging as merging
    from tablestore.insight.explain.merge_steps.arrow_runs import merging_events as merging_events
    from tablestore.insight.simulator import compare as what_if
    from tablestore.insight.simulator.opening import simulator as simulator
    from tablestore.lsm.compaction.options import CompactionSettings as CompactionSettings
    from tablestore.lsm.compaction.options import compaction_settings as compaction_settings
    from tablestore.maintenance.policy import MaintenancePolicy as MaintenancePolicy
    from tablestore.maintenance.report import MaintenanceReport as MaintenanceReport
    from tablestore.maintenance.report import TableHealth as TableHealth
    from tablestore.maintenance.report import WorkDone as WorkDone
    from tablestore.maintenance.report import WorkWaiting as WorkWaiting
    from tablestore.maintenance.report import maintenance_report as maintenance_report
    from tablestore.sql import sql_session as sql_session
    from tablestore.table.engine import compact_bucket as compact_bucket
    from tablestore.table.lake import Lake as Lake
    from tablestore.table.lake import connect as connect
    from tablestore.table.lake import mend_table as mend
    from tablestore.table.lake import open_table as open
    from tablestore.table.row_changes import RowChanges as RowChanges
    from tablestore.table.scan import Scan as Scan
    from tablestore.table.table import Table as Table
    from tablestore.tiering.journal import tiering_report as tiering_report
    from tablestore.tiering.report import BucketMarks as BucketMarks
    from tablestore.tiering.report import Heartbeat as Heartbeat
    from tablestore.tiering.report import RoundReport as RoundReport
    from tablestore.tiering.report import SplitReport as SplitReport
    from tablestore.tiering.report import TableState as TableState
    from tablestore.tiering.report import TieringReport as TieringReport
    from tablestore.verbs.advise import advise_buckets as advise_buckets
    from tablestore.write.commit.committer import Committed as Committed
    from tablestore.write.progress import text_bar as text_bar

    __all__ = ["mend", "open", "what_if", "where"]  # all others are imported under their own names

rich.provide(doors.card)

_NAMES = {
    "cdc.capture.report": (
        "BatchProgress BatchReport ChunkReport EventReport Freshness PieceProgress TableReport "
        "capture_reports"
    ),
    "cdc.capture.state": "CaptureChange CaptureChunk CaptureModel CaptureTable capture_model",
    "core.errors": (
        "AlreadyExists CommitConflict CommitUnknown Corrupt InvalidOption InvalidRequest NotFound "
        "OutsideRoots RowsNotVisible SchemaMismatch SnapshotExpired TablestoreError Unavailable Unsupported"
    ),
    "format.predicates.predicate": "col",
    "format.predicates.predicate_text": "where",
    "format.schema_change": (
        "add comment default drop move not_null nullable rename reset_options retype set_options"
    ),
    "format.types.arrow_types": (
        "ARRAY BIGINT BINARY BOOLEAN BYTES CHAR DATE DECIMAL DOUBLE FLOAT INT MAP MULTISET ROW SMALLINT "
        "STRING TIME TIMESTAMP TIMESTAMP_LTZ TINYINT VARBINARY VARCHAR VARIANT"
    ),
    "insight.explain.merge_steps.arrow_runs": "merging merging_events",
    "insight.simulator": "what_if",
    "insight.simulator.opening": "simulator",
    "lsm.compaction.options": "CompactionSettings compaction_settings",
    "maintenance.policy": "MaintenancePolicy",
    "maintenance.report": "MaintenanceReport maintenance_report TableHealth WorkDone WorkWaiting",
    "sql": "sql_session",
    "table.engine": "compact_bucket",
    "table.lake": "Lake connect mend open",
    "table.row_changes": "RowChanges",
    "table.scan": "Scan",
    "table.table": "Table",
    "tiering.journal": "tiering_report",
    "tiering.report": "BucketMarks Heartbeat RoundReport SplitReport TableState TieringReport",
    "verbs.advise": "advise_buckets",
    "write.commit.committer": "Committed",
    "write.progress": "text_bar",
}
"""The public names by the module that has them; the block above says the same to checkers of types."""
_NAMED_THERE = {"where": "parse", "what_if": "compare", "mend": "mend_table", "open": "open_table"}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # a name that is not above is an error to checkers of types

    def __getattr__(name: str) -> Any:
        """A public name when it is first used: `import tablestore` alone waits for nothing."""
        if name == "spark":
            return doors.spark_package()
        if name not in _HOMES:
            raise AttributeError(f"module 'tablestore' has no attribute {name!r}")
        value = doors.public(name, f"tablestore.{_HOMES[name]}", _NAMED_THERE.get(name, name))
        return globals().setdefault(name, value)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext tablestore` in a notebook: `%sql` and `%%sql`, `%lake PATH`, `%cockpit TABLE`."""
    doors.load_magics(shell)


def __dir__() -> list[str]:
    return [*__all__, "spark"]
