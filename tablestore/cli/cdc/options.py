"""`cdc`: capture tables of MySQL, MariaDB, PostgreSQL or of topics of change events into a lake: what is
there, then each change.

    PROGRAM cdc --from mysql://user@host:3306/shop --tables 'shop.*' --warehouse lake --into ods

The password comes from TABLESTORE_SOURCE_PASSWORD or from --password-file. Ctrl-C stops between two batches,
and the same command goes on from there. Exit codes: 0 done, 2 refused, 3 failed, 4 ended with
tables that are paused, 130 stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tablestore.cli.door import (
    Door,
    add_log,
    add_many,
    add_master,
    add_metrics,
    add_warehouse,
    command_parser,
    pair,
)

BAD_ROWS = ("fail", "dead-letter")
ENGINES = ("spark", "local")
FUNCTIONS = (
    *("year", "month", "day", "hour", "minute", "second", "date", "date_format", "substring", "truncate"),
    *("upper", "lower", "trim", "cast", "bucket", "mod"),
)
KEYLESS = ("refuse", "append")
METADATA = ("database_name", "table_name", "op_ts")
SCHEMA_CHANGES = ("evolve", "ignore", "fail")
TLS_MODES = ("off", "preferred", "required", "verify-ca", "verify-identity")
TYPE_MAPPINGS = (
    *("tinyint1-to-bool", "tinyint1-not-bool", "to-nullable", "to-string", "char-to-string"),
    *("longtext-to-bytes", "bigint-unsigned-to-bigint", "decimal-no-change"),
)
ZERO_DATES = ("null", "fail")
"""The words of the engine (a test compares them), so that the help does not wait for it."""


def parsed(arguments: Sequence[str], door: Door) -> argparse.Namespace:
    """The options; ends the process where they do not go together."""
    p = command_parser("cdc", __doc__ or "", door)
    source = p.add_argument_group("the source")
    _source_options(source)
    _message_options(source)
    _target_options(p.add_argument_group("the lake"), door)
    _column_options(p.add_argument_group("columns"))
    _run_options(p.add_argument_group("the run"))
    options = p.parse_args(arguments)
    if options.plan and options.log:
        p.error("--plan captures nothing that could be logged: leave --log out")
    return options


def _source_options(p: Any) -> None:
    p.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="URL",
        help="mysql://user@host:3306/database, …/database.table, postgresql://user@host:5432/database, or "
        "kafka://host:9092/topic",
    )
    add_many(
        p,
        "--tables",
        "PATTERNS",
        "database.table with * and ?, several with commas: 'shop.*,crm_?.people'; default: what the "
        "address names",
    )
    add_many(p, "--exclude", "PATTERNS", "tables to leave out")
    add_many(
        p,
        "--read-again",
        "PATTERNS",
        "tables to empty in the lake and read once more, on the same checkpoint: 'shop.orders', "
        "'*.*' for all",
    )
    add_many(
        p, "--leave-out", "[PATTERN=]COLUMNS", "columns that are not captured: 'shop.orders=photo,place'"
    )
    p.add_argument(
        "--zero-dates",
        choices=ZERO_DATES,
        help=f"what becomes of a date as 0000-00-00 (default {ZERO_DATES[0]})",
    )
    p.add_argument("--publication", metavar="NAME", help="of PostgreSQL: which tables are published")
    p.add_argument("--slot", metavar="NAME", help="of PostgreSQL: the replication slot of this capture")
    p.add_argument("--password-file", metavar="FILE", help="read again for each connection")
    p.add_argument("--tls", choices=TLS_MODES, help="whether connections are encrypted, and who is trusted")
    p.add_argument("--tls-ca", metavar="FILE", help="certificates of authorities that are trusted")
    p.add_argument("--chunk-rows", type=int, metavar="N", help="rows of a chunk of a snapshot")
    p.add_argument("--chunks", type=int, metavar="N", help="chunks of a batch")
    p.add_argument("--log-bytes", type=int, metavar="N", help="about so much log to a batch")


def _message_options(p: Any) -> None:
    p.add_argument(
        "--format", metavar="NAME", help="of messages: debezium-json, debezium-avro, canal-json, …"
    )
    add_many(p, "--format-option", "KEY=VALUE", "of the format", kind=pair)
    add_many(p, "--property", "KEY=VALUE", "of Kafka's client; a secret is ${env:NAME}", kind=pair)
    add_many(
        p,
        "--column",
        "TABLE:NAME=TYPE",
        "a type that messages do not say: 'shop.orders:price=DECIMAL(15, 2)'",
    )
    p.add_argument(
        "--start", metavar="WHERE", help="earliest-offset, latest-offset, group-offsets or ms of 1970"
    )


def _target_options(p: Any, door: Door) -> None:
    add_warehouse(p, door)
    add_metrics(p)
    add_log(p)
    p.add_argument(
        "--into",
        default="",
        metavar="NAME",
        help="a database, or database.table for one table; default: the databases of the source",
    )
    p.add_argument("--prefix", default="", help="before the names of tables")
    p.add_argument("--suffix", default="", help="after the names of tables")
    p.add_argument(
        "--merge-shards", action="store_true", help="tables of one name, or all into one, become one table"
    )
    add_many(p, "--table-option", "KEY=VALUE", "of tables that are created: bucket=4", kind=pair)


def _column_options(p: Any) -> None:
    p.add_argument("--type-mapping", default="", metavar="WORDS", help=", ".join(TYPE_MAPPINGS))
    add_many(
        p,
        "--primary-keys",
        "[PATTERN=]COLUMNS",
        "the key of tables; * among the columns stands for that of the source: 'shop.orders=*,dt'",
    )
    add_many(p, "--partition-by", "[PATTERN=]COLUMNS", "partition columns")
    add_many(
        p,
        "--computed",
        "[PATTERN:]NAME=EXPRESSION",
        "a column as 'dt=date(created_at)'; there are " + ", ".join(FUNCTIONS),
    )
    p.add_argument("--metadata", default="", metavar="COLUMNS", help=", ".join(METADATA))
    p.add_argument("--metadata-prefix", default="", metavar="TEXT", help="before their names")
    p.add_argument(
        "--schema-change",
        choices=SCHEMA_CHANGES,
        default=SCHEMA_CHANGES[0],
        help="what follows an ALTER TABLE in the source (default %(default)s)",
    )
    p.add_argument(
        "--bad-rows",
        choices=BAD_ROWS,
        default=BAD_ROWS[0],
        help="what becomes of rows that do not fit (default %(default)s)",
    )
    p.add_argument(
        "--keyless",
        choices=KEYLESS,
        default=KEYLESS[0],
        help="what becomes of tables without a primary key; append: updates and deletions are bad rows "
        "(default %(default)s)",
    )


def _run_options(p: Any) -> None:
    p.add_argument("--once", action="store_true", help="end once all that is there has been read")
    p.add_argument(
        "--plan",
        action="store_true",
        help="say which tables would be captured, and write nothing to the lake",
    )
    p.add_argument("--interval", default="1s", metavar="TIME", help="between batches (default %(default)s)")
    p.add_argument(
        "--compact-every", type=int, default=5, metavar="N", help="commits of a table (default %(default)s)"
    )
    p.add_argument("--name", metavar="NAME", help="of the capture: the user of its commits")
    p.add_argument("--checkpoint", metavar="DIR", help="where it keeps how far it has come")
    p.add_argument(
        "--engine",
        choices=ENGINES,
        default=ENGINES[0],
        help="what runs it: Spark, or processes of this machine, without Java (default %(default)s); a "
        "checkpoint goes on with either",
    )
    p.add_argument("--cores", type=int, metavar="N", help="tasks at once (default: all cores)")
    add_master(p)
