"""A lake table store in the Apache Paimon format. `ts.connect(path)` opens a lake, `ts.open(path)` a table.

Every name here is a promise; see README.md in this folder for the map.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tablestore.core.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidOption,
    InvalidRequest,
    NotFound,
    SchemaMismatch,
    TablestoreError,
    Unavailable,
    Unsupported,
)
from tablestore.format.predicates.predicate import col
from tablestore.format.predicates.predicate_text import parse as where
from tablestore.format.schema_change import (
    add,
    comment,
    default,
    drop,
    move,
    not_null,
    nullable,
    rename,
    reset_options,
    retype,
    set_options,
)
from tablestore.format.types.arrow_types import (
    ARRAY,
    BIGINT,
    BINARY,
    BOOLEAN,
    BYTES,
    CHAR,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    MAP,
    MULTISET,
    ROW,
    SMALLINT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TINYINT,
    VARBINARY,
    VARCHAR,
    VARIANT,
)
from tablestore.lsm.compaction.settings import CompactionSettings, compaction_settings
from tablestore.table.engine import compact_bucket
from tablestore.table.features import feature, provide
from tablestore.table.lake import Lake, connect
from tablestore.table.lake import mend_table as mend
from tablestore.table.lake import open_table as open
from tablestore.table.scan import Scan
from tablestore.table.table import Table
from tablestore.write.commit.committer import Committed
from tablestore.write.progress import text_bar

__version__ = "0.1.0"


if TYPE_CHECKING:
    from tablestore import spark as spark
    from tablestore.insight.explain.merging import merging, merging_events
    from tablestore.insight.simulator import compare as what_if
    from tablestore.table.advise import advise_buckets

provide(
    {
        "tablestore.advise_buckets": "tablestore.table.advise:advise_buckets",
        "tablestore.mend": "tablestore.table.recovery:repair",
        "tablestore.merging": "tablestore.insight.explain.merging:merging",
        "tablestore.merging_events": "tablestore.insight.explain.merging:merging_events",
        "tablestore.what_if": "tablestore.insight.simulator:compare",
        "Lake.table of system tables": "tablestore.table.system:global_table",
        "Table.inspect": "tablestore.insight.inspect.inspect:Inspect",
        "Table.check": "tablestore.insight.check.check:check",
        "Table.mend": "tablestore.table.mend:mend",
        "Table.what_if": "tablestore.table.what_if:what_if",
        "Table.system": "tablestore.table.system:system_table",
        "Table.compact(dry_run=True)": "tablestore.table.dry_run:dry_run",
        "Scan.explain": "tablestore.insight.explain.explanation:Explanation",
        "compactions of other engines": "tablestore.insight.explain.foreign_compactions:explained",
        "Table.to_spark": "tablestore.spark:to_spark",
        "columns of a Spark frame": "tablestore.spark:arrow_schema",
    }
)


def __getattr__(name: str) -> Any:
    """What few need, imported when it is first used: `ts.spark`, and what looks at tables."""
    if name == "spark":
        return import_module("tablestore.spark")
    if name in _LAZY:
        return globals().setdefault(name, feature(f"tablestore.{name}"))
    raise AttributeError(f"module 'tablestore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_LAZY = {"advise_buckets", "merging", "merging_events", "what_if"}
__all__ = [
    "ARRAY",
    "BIGINT",
    "BINARY",
    "BOOLEAN",
    "BYTES",
    "CHAR",
    "DATE",
    "DECIMAL",
    "DOUBLE",
    "FLOAT",
    "INT",
    "MAP",
    "MULTISET",
    "ROW",
    "SMALLINT",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "TINYINT",
    "VARBINARY",
    "VARCHAR",
    "VARIANT",
    "AlreadyExists",
    "CommitConflict",
    "CommitUnknown",
    "Committed",
    "CompactionSettings",
    "Corrupt",
    "InvalidOption",
    "InvalidRequest",
    "Lake",
    "NotFound",
    "Scan",
    "SchemaMismatch",
    "Table",
    "TablestoreError",
    "Unavailable",
    "Unsupported",
    "add",
    "advise_buckets",
    "col",
    "comment",
    "compact_bucket",
    "compaction_settings",
    "connect",
    "default",
    "drop",
    "mend",
    "merging",
    "merging_events",
    "move",
    "not_null",
    "nullable",
    "open",
    "rename",
    "reset_options",
    "retype",
    "set_options",
    "text_bar",
    "what_if",
    "where",
]
