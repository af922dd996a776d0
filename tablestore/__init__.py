"""A lake table store in the Apache Paimon format. `ts.connect(path)` opens a lake, `ts.open(path)` a table.

Every name here is a promise; see README.md in this folder for the map.
"""

from importlib import import_module
from types import ModuleType

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
from tablestore.insight.explain.merging import merging, merging_events
from tablestore.insight.simulator import compare as what_if
from tablestore.lsm.compaction.settings import CompactionSettings, compaction_settings
from tablestore.table.advise import advise_buckets
from tablestore.table.catalog import Lake, connect
from tablestore.table.catalog import mend_table as mend
from tablestore.table.catalog import open_table as open
from tablestore.table.engine import compact_bucket, spark_engine
from tablestore.table.scan import Scan
from tablestore.table.table import Table
from tablestore.write.commit.committer import Committed
from tablestore.write.progress import text_bar

__version__ = "0.1.0"


def __getattr__(name: str) -> ModuleType:
    """`ts.spark`, imported when it is first used: PySpark takes a second that others need not wait."""
    if name == "spark":
        return import_module("tablestore.spark")
    raise AttributeError(f"module 'tablestore' has no attribute {name!r}")


spark_engine.load = lambda: import_module("tablestore.spark")
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
