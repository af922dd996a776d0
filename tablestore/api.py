"""The public names of `tablestore` up to the table; `tablestore/__init__` gives these and those above it.

They stand here so that who imports one module of the package, as a worker of Spark does, waits for that one
only.
"""

from tablestore.core.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidOption,
    InvalidRequest,
    NotFound,
    OutsideRoots,
    RowsNotVisible,
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
from tablestore.table.lake import Lake, connect
from tablestore.table.lake import mend_table as mend
from tablestore.table.lake import open_table as open
from tablestore.table.row_changes import RowChanges
from tablestore.table.scan import Scan
from tablestore.table.table import Table
from tablestore.write.commit.committer import Committed
from tablestore.write.progress import text_bar

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
    "OutsideRoots",
    "RowChanges",
    "RowsNotVisible",
    "Scan",
    "SchemaMismatch",
    "Table",
    "TablestoreError",
    "Unavailable",
    "Unsupported",
    "add",
    "col",
    "comment",
    "compact_bucket",
    "compaction_settings",
    "connect",
    "default",
    "drop",
    "mend",
    "move",
    "not_null",
    "nullable",
    "open",
    "rename",
    "reset_options",
    "retype",
    "set_options",
    "text_bar",
    "where",
]
