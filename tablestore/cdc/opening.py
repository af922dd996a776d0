"""Sources by their address: which tables it names, and the `CaptureSource` of them.

    mysql://user@host:3306/database, …/database.table, … alone with tables=    (mariadb:// is the same)
    postgresql://user@host:5432/database                     its tables are schema.table
    kafka://host:9092/topic
    a path, file:///path, s3://bucket/path                   a change directory, with its table in tables=

`SOURCES` is the one place that knows them. An address is read before anything is opened; what a source takes
beside it are the other arguments of `lake.ingest`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tablestore.cdc.capture.job import CaptureJob, CaptureSettings, Listener, default_checkpoint
from tablestore.cdc.capture.names import APPEND, ByTable, Patterns, SourceName, literal, words
from tablestore.cdc.capture.rules import SOURCE_KEY, CaptureRules
from tablestore.cdc.capture.source import CaptureSource
from tablestore.cdc.capture.targets import name_refusal
from tablestore.cdc.databases.address import Address
from tablestore.cdc.directory_stream import DirectoryStream, DirectoryTable
from tablestore.cdc.kafka.capture import TopicSettings, open_topics, parsed
from tablestore.cdc.mysql.columns import ZERO_DATES
from tablestore.cdc.mysql.database import MysqlDatabase
from tablestore.cdc.mysql.table_choice import TableChoice
from tablestore.cdc.postgres import server as postgres_server
from tablestore.cdc.postgres.database import PostgresDatabase
from tablestore.cdc.postgres.slot import Slot
from tablestore.cdc.source import ChangeDirectory
from tablestore.core.arguments import require_session
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.core.options import environment
from tablestore.flow.runner import require_engine, runner_of
from tablestore.io.paths import OBJECT_SCHEMES, checked_name, is_object_location, location
from tablestore.io.routed import file_io_for
from tablestore.table.identifier import DEFAULT_DATABASE
from tablestore.table.lake import Lake
from tablestore.table.refs import Duration, milliseconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ODD = re.compile(r"[^\w-]+")
Tables = str | Sequence[str]
_WILD = "*?["


class SourceAddress(Protocol):
    """Where a source is. `tables` are the patterns of what is captured there, those without a dot of
    `database`; `one_table`: the address itself names a table. `title` has neither secrets nor settings;
    `variables` of the environment hold the secrets."""

    @property
    def title(self) -> str: ...

    @property
    def database(self) -> str: ...

    @property
    def tables(self) -> Tables: ...

    @property
    def one_table(self) -> bool: ...

    @property
    def variables(self) -> Sequence[str]: ...

    def open(self, rules: CaptureRules, *, checkpoint: str, follow: bool) -> CaptureSource:
        """The source; its definitions of tables are kept beside the checkpoint."""


def source_address(url: str | os.PathLike[str], tables: Tables, settings: Mapping[str, Any]) -> SourceAddress:
    """The source at an address. Raises InvalidRequest for an address that is none, and for settings that such
    a source does not take."""
    text = os.fspath(url)
    if not isinstance(text, str):
        raise InvalidRequest(f"{url!r} is no address of a source; write mysql://user@host/database")
    scheme, separator, _ = text.partition("://")
    kind = SOURCES.get(scheme if separator else "")
    if kind is None:
        schemes = ", ".join(sorted(f"{name}://" for name in SOURCES if name))
        raise InvalidRequest(f"no source has an address of {scheme}://; there are {schemes} and directories")
    return kind(text, tables, settings)


def rules_of(address: SourceAddress, rules: Mapping[str, Any]) -> CaptureRules:
    """The rules of a capture from there; `rules` are arguments of `CaptureRules.of`. What an address of one
    table goes into is a table."""
    into = rules.get("into") or ""
    if address.one_table and into and "." not in into:
        into = f"{DEFAULT_DATABASE}.{into}"
    return CaptureRules.of(address.tables, database=address.database, **{**rules, "into": into})


@dataclass(frozen=True)
class MysqlAddress:
    """A server of MySQL or MariaDB."""

    address: Address
    database: str
    tables: Tables
    one_table: bool
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, url: str, tables: Tables, settings: Mapping[str, Any]) -> MysqlAddress:
        _require_known(
            settings,
            ("password_file", "tls", "tls_ca", "read_again", "left_out", "zero_dates"),
            _OF_DATABASES,
        )
        security = _security(settings)
        address = Address.parse(url, **security)
        database, _, table = address.database.partition(".")
        if table and tables:
            raise InvalidRequest(f"the address names the table {table!r}: leave out tables=, or its name")
        chosen = tables or ([f"{literal(database)}.{literal(table)}"] if table else "*")
        if not database and not tables:
            raise InvalidRequest("the address names no database: add it, or tables=['shop.*']")
        how = _numbers(settings, _OF_DATABASES)
        if settings.get("zero_dates") is not None:
            if settings["zero_dates"] not in ZERO_DATES:
                raise NotFound.among("zero_dates", settings["zero_dates"], ZERO_DATES)
            how["zero_dates"] = settings["zero_dates"]
        if settings.get("left_out"):
            how["left_out"] = _left_out(settings["left_out"], database)
        if settings.get("read_again"):
            how["read_again"] = Patterns.of(settings["read_again"], database=database)
        return cls(address, database, chosen, bool(table), how)

    @property
    def title(self) -> str:
        return str(self.address)

    @property
    def variables(self) -> Sequence[str]:
        return self.address.variables

    def open(self, rules: CaptureRules, *, checkpoint: str, follow: bool) -> MysqlDatabase:
        how = dict(self.settings)
        refusal = partial(name_refusal, rules)
        out = how.pop("left_out", ())
        choice = TableChoice(rules.patterns, _keys(rules), out, rules.keyless, refusal)
        address = replace(self.address, database=self.database)
        return MysqlDatabase.open(address, choice, checkpoint=checkpoint, bounded=not follow, **how)


_OF_DATABASES = ("chunk_rows", "chunks", "log_bytes", "tasks")


@dataclass(frozen=True)
class PostgresAddress:
    """A database of PostgreSQL. Its schemas are the databases of its tables."""

    address: Address
    tables: Tables
    settings: Mapping[str, Any]
    database: str = "public"
    one_table: bool = False

    @classmethod
    def of(cls, url: str, tables: Tables, settings: Mapping[str, Any]) -> PostgresAddress:
        names = ("password_file", "tls", "tls_ca", "read_again", "publication", "slot")
        numbers = ("chunk_rows", "chunks", "log_bytes")
        _require_known(settings, names, numbers)
        given = {k: v for k, v in settings.items() if v is not None}
        security = _security(settings)
        how = _numbers(settings, numbers)
        how |= {k: _text(k, given[k]) for k in ("publication", "slot") if k in given}
        if given.get("read_again"):
            how["read_again"] = Patterns.of(given["read_again"], database=cls.database)
        return cls(postgres_server.parse_address(url, **security), tables or "*", how)

    @property
    def title(self) -> str:
        return postgres_server.title_of(self.address)

    @property
    def variables(self) -> Sequence[str]:
        return self.address.variables

    def open(self, rules: CaptureRules, *, checkpoint: str, follow: bool) -> PostgresDatabase:
        if rules.keyless == APPEND:
            raise Unsupported("keyless='append' of PostgreSQL", "ALTER TABLE … ADD PRIMARY KEY")
        if rules.primary_keys or rules.partition_by:
            why = "an update does not have its old values in the log: tables have the keys of the source"
            raise Unsupported("primary_keys and partition_by of PostgreSQL", why)
        if dict(rules.options).get("changelog-producer") == "input":
            why = "deletions have only a key in the log: changelog-producer = 'lookup' finds the rows"
            raise Unsupported("changelog-producer = 'input' of PostgreSQL", why)
        how = dict(self.settings)
        publication = how.pop("publication", "tablestore")
        slot = Slot(how.pop("slot", None) or _slot_name(self.address.database, checkpoint), publication)
        return PostgresDatabase.open(self.address, rules.patterns, slot, bounded=not follow, **how)


def _slot_name(database: str, checkpoint: str) -> str:
    """A name of a replication slot that no other capture of a server has."""
    digest = hashlib.sha256(f"{database} {checkpoint}".encode()).hexdigest()[:16]
    return f"tablestore_{digest}"


@dataclass(frozen=True)
class TopicsAddress:
    """Topics of Kafka."""

    url: str
    tables: Tables
    settings: TopicSettings
    database: str = ""
    one_table: bool = False

    @classmethod
    def of(cls, url: str, tables: Tables, settings: Mapping[str, Any]) -> TopicsAddress:
        _require_known(settings, [field.name for field in fields(TopicSettings)], ())
        if not settings.get("format"):
            raise InvalidRequest("topics need format=, such as 'debezium-json'")
        parsed(url)
        given = {k: v for k, v in settings.items() if v is not None}
        return cls(url, tables or "*.*", TopicSettings(**given))

    @property
    def title(self) -> str:
        return self.url

    @property
    def variables(self) -> Sequence[str]:
        return environment.variables(str(self.settings))

    def open(self, rules: CaptureRules, *, checkpoint: str, follow: bool) -> CaptureSource:
        if rules.keyless == APPEND:
            raise Unsupported(
                "keyless='append' of topics", "name the columns that tell rows apart in primary_keys"
            )
        return open_topics(self.url, self.settings, rules, checkpoint=checkpoint, follow=follow)


@dataclass(frozen=True)
class DirectoryAddress:
    """A change directory, whose name stands for that of a database. One in an object store is reached by
    what the environment says (`AWS_…`)."""

    path: str
    table: str
    settings: Mapping[str, Any]
    one_table: bool = False
    variables: Sequence[str] = ()

    @classmethod
    def of(cls, url: str, tables: Tables, settings: Mapping[str, Any]) -> DirectoryAddress:
        _require_known(settings, ("chunks", "log_bytes"), ())
        path = location(url)
        if not file_io_for(path).is_dir(path):
            raise NotFound(f"no change directory at {path}")
        chosen = [tables] if isinstance(tables, str) and tables else list(tables)
        if len(chosen) != 1 or any(c in str(chosen[0]) for c in _WILD):
            raise InvalidRequest("a change directory is captured table by table: name one in tables=")
        how = {f"{k}_per_batch": _positive(k, v) for k, v in settings.items() if v is not None}
        reached_by = environment.store_variables() if is_object_location(path) else ()
        return cls(path, str(chosen[0]).rpartition(".")[2], how, variables=reached_by)

    @property
    def title(self) -> str:
        return f"{self.path} ({self.table})"

    @property
    def database(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def tables(self) -> Tables:
        return [f"{literal(self.database)}.{literal(self.table)}"]

    def open(self, rules: CaptureRules, *, checkpoint: str, follow: bool) -> DirectoryTable:
        directory = ChangeDirectory(file_io_for(self.path), self.path, self.table)
        stream = DirectoryStream(self.path, self.table, directory.schema, **self.settings)
        name = SourceName(self.database, self.table)
        return DirectoryTable(stream, name, until=None if follow else stream.latest())


SOURCES: Mapping[str, Callable[[str, Tables, Mapping[str, Any]], SourceAddress]] = {
    "mysql": MysqlAddress.of,
    "mariadb": MysqlAddress.of,
    **dict.fromkeys(postgres_server.SCHEMES, PostgresAddress.of),
    "kafka": TopicsAddress.of,
    "file": DirectoryAddress.of,
    "": DirectoryAddress.of,
    **dict.fromkeys(OBJECT_SCHEMES, DirectoryAddress.of),
}


def _require_known(settings: Mapping[str, Any], names: Iterable[str], more: Iterable[str]) -> None:
    for name in settings:
        if name not in (*names, *more):
            raise NotFound.among("argument of this source", name, (*names, *more))


def _security(settings: Mapping[str, Any]) -> dict[str, str]:
    """Those of the settings that say how a server is signed in to."""
    return {k: _text(k, settings[k]) for k in ("password_file", "tls", "tls_ca") if settings.get(k)}


def _numbers(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {k: _positive(k, settings[k]) for k in names if settings.get(k) is not None}


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidRequest(f"{name} {value!r} must be a whole number above 0")
    return value


def _left_out(written: Any, database: str) -> ByTable[tuple[str, ...]]:
    """Columns that are left out, by patterns of tables."""
    if not isinstance(written, Mapping):
        raise InvalidRequest(f"left_out is {{'shop.orders': ['column']}}, not {written!r}")
    patterns = [Patterns.of(pattern, database=database).include for pattern in written]
    columns = [tuple(words(names, "columns")) for names in written.values()]
    return tuple((name, out) for matching, out in zip(patterns, columns, strict=True) for name in matching)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise InvalidRequest(f"{name} {value!r} must be text")
    return os.fspath(value)


def _keys(rules: CaptureRules) -> ByTable[tuple[str, ...]]:
    """The keys that are asked for, where they replace those of the source: by columns that it has."""
    computed = {column.name for _, columns in rules.computed for column in columns}
    added = {*computed, *(column.name for column in rules.metadata)}
    keys = ((pattern, key) for pattern, key in rules.primary_keys if SOURCE_KEY not in key)
    own = ((pattern, tuple(name for name in key if name not in added)) for pattern, key in keys)
    return tuple((pattern, columns) for pattern, columns in own if columns)


@dataclass(frozen=True)
class CaptureOptions:
    """How a capture runs: those arguments of `Lake.ingest`."""

    follow: bool
    interval: Duration | float
    compact_every: int
    checkpoint: str | os.PathLike[str] | None
    name: str | None
    engine: str
    processes: int | None
    spark: SparkSession | None
    on_batch: Listener | None


def ingest(
    lake: Lake,
    url: str | os.PathLike[str],
    how: CaptureOptions,
    *,
    tables: Tables,
    rules: Mapping[str, Any],
    source: Mapping[str, Any],
) -> CaptureJob:
    """Start a capture; `rules` are arguments of `CaptureRules.of`, `source` those of the kind of source."""
    seconds, every = _seconds(how.interval), how.compact_every
    if every < 0:
        raise InvalidRequest(f"compact_every {every} must be a number of commits, or 0 for never")
    require_engine(how.engine, spark=how.spark, processes=how.processes)
    if how.spark is not None:
        require_session(how.spark)
    address = source_address(url, tables, source)
    capture_rules = rules_of(address, rules)
    name = checked_name(how.name or _default_name(capture_rules.into, address), "capture")
    place = default_checkpoint(lake, name) if how.checkpoint is None else location(how.checkpoint)
    opened = address.open(capture_rules, checkpoint=place, follow=how.follow)
    runner = runner_of(how.engine, spark=how.spark, processes=how.processes)
    variables = tuple(address.variables)
    between = seconds if how.follow else 0  # nobody waits for what is there
    settings = CaptureSettings(name, place, address.title, between, every, variables)
    return CaptureJob(lake, opened, capture_rules, settings, runner, on_batch=how.on_batch).start()


def _seconds(interval: Duration | float) -> float:
    if isinstance(interval, bool | int | float):
        seconds = float(interval)
    else:
        seconds = milliseconds(interval, "interval") / 1000
    if not 0 <= seconds < 1 << 31:
        raise InvalidRequest(f"interval {interval!r} must be a time between two batches, such as '1s'")
    return seconds


def _default_name(into: str, address: SourceAddress) -> str:
    return "cdc-" + (_ODD.sub("-", into or address.database) or "all")
