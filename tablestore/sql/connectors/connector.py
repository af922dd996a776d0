"""Connector: a kind of temporary table: which options it takes, how it is read, how it is written; and its
tables as queries read them, which see in one what a table of a catalog is.

Options are checked when a table is used: an unknown one is refused with the nearest names, one that is not
implemented with the reason. `${env:NAME}` in a value stands for an environment variable, looked up then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tablestore import doors
from tablestore.core.errors import InvalidOption, NotFound, Unsupported
from tablestore.core.options.environment import ENVIRONMENT, resolved
from tablestore.core.options.secrets import HIDDEN, is_secret
from tablestore.flow.sink import StreamSink
from tablestore.flow.source import Changes, StreamSource
from tablestore.format.predicates import evaluate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.types.data_type import DataField, DataType
from tablestore.io.confined import Roots
from tablestore.sql.scope import TableDefinition, written_inside
from tablestore.table.lazy_read import SchemaScan, bind, limited

_COLUMN = "#"  # in a key: the name of a column
_ANY = "*"  # at the end of a key: any name
_OF_ALL = ("connector", "property-version")
_ABSENT = {
    "tpch-cdc": "it comes with `from notebooks import course` in a checkout of the workbench",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `#` in the key stands for a column, `*` at its end for any name. `refused` says why it is
    not implemented. `late`: `${env:NAME}` stays as it is typed; what uses the value looks it up. `place` says
    of a key whether its value is a path."""

    key: str
    text: str = ""
    parse: Callable[[str], Any] = str
    default: Any = None
    required: bool = False
    refused: str = ""
    late: bool = False
    place: Callable[[str], bool] = lambda key: False


@dataclass(frozen=True, slots=True)
class ConnectorOptions:
    """A temporary table with its options parsed: `values` by key, `of_columns` those of each column by what
    stands behind its name. With `roots` every path among them is resolved, and in one of these."""

    columns: tuple[DataField, ...]
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    of_columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    primary_key: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()  # pairs of a column and which metadata it has
    roots: Roots | None = None

    @property
    def schema(self) -> pa.Schema:
        """The stored columns."""
        return pa.schema([f.arrow for f in self.columns])


class BoundedSource(Protocol):
    """Rows that end. Each `batches` gives the same rows anew."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of these columns, in this order."""


class Sink(Protocol):
    """Where rows go. After `finish` they are there; after `abandon` nothing is, where that can be had."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows with exactly the table's columns."""

    def finish(self) -> str:
        """Make the rows visible; gives where they are, in words."""

    def abandon(self) -> None:
        """Remove what was written."""


def matching(
    source: BoundedSource, full: pa.Schema, columns: Sequence[str], where: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """The rows of a source with columns `full` that meet a condition; only columns that are asked for are
    made or read."""
    bound = None if where is None else bind(where, full)
    tested = [] if bound is None else [n for n in full.names if n in bound.columns and n not in columns]
    for batch in source.batches([*columns, *tested]):
        rows = batch if bound is None else batch.filter(evaluate.mask(bound, batch))
        if rows.num_rows:
            yield rows.select(list(columns))


def inserts(batches: Iterator[pa.RecordBatch]) -> Changes:
    """Rows as changes: each is new."""
    for batch in batches:
        yield batch, pa.array(np.zeros(batch.num_rows, np.int8))


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector. Without `source` it cannot be read in batch mode, without `stream` not in streaming
    mode; without `sink` and `stream_sink` it cannot be written there. `takes_retracts`: a stream may give it
    rows that are taken back. `columns` gives columns and primary key of a table that declares none;
    `metadata` is what it knows of a record beside the row: what that is and its type, by key."""

    name: str
    text: str
    options: tuple[Option, ...]
    source: Callable[[ConnectorOptions], BoundedSource] | None = None
    sink: Callable[[ConnectorOptions], Sink] | None = None
    stream: Callable[[ConnectorOptions], StreamSource] | None = None
    stream_sink: Callable[[ConnectorOptions], StreamSink] | None = None
    takes_retracts: bool = False
    columns: Callable[[ConnectorOptions], tuple[tuple[DataField, ...], tuple[str, ...]]] | None = None
    metadata: Mapping[str, tuple[str, DataType]] = field(default_factory=dict)

    def parsed(self, table: TableDefinition, roots: Roots | None = None) -> ConnectorOptions:
        """The table's options, parsed. Raises NotFound, InvalidOption, Unsupported and, where `roots` confine
        them, OutsideRoots, naming the option."""
        values: dict[str, Any] = {o.key: o.default for o in self.options if not {_COLUMN, _ANY} & {*o.key}}
        of_columns: dict[str, dict[str, Any]] = {}
        for key, written in table.options.items():
            if key in _OF_ALL:
                continue
            option, column = self._option(key)
            if option.refused:
                raise Unsupported(f"option {key!r} of connector {self.name!r}", option.refused)
            written = written_inside(roots, key, written, place=option.place(key))
            value = _parsed(key, written, option)
            if column is None:
                values[key] = value
            else:
                of_columns.setdefault(column, {})[option.key.rpartition(".")[2]] = value
        for option in self.options:
            if option.required and values[option.key] is None:
                raise InvalidOption(f"connector {self.name!r} needs option {option.key!r}: {option.text}")
        stored = {f.name for f in table.columns}
        for column in of_columns:
            if column.partition(".")[0] not in stored and column not in stored:
                raise NotFound.among("column", column, stored)
        for record in table.metadata:
            what = f"metadata of connector {self.name!r}"
            if not self.metadata:
                raise Unsupported(f"METADATA column {record.name!r}", f"there is no {what}")
            if record.key not in self.metadata:
                raise NotFound.among(what, record.key, self.metadata)
        metadata = tuple((column.name, column.key) for column in table.metadata)
        return ConnectorOptions(table.columns, values, of_columns, table.primary_key, metadata, roots)

    def require_no_secrets(self, options: Mapping[str, str]) -> None:
        """Raise InvalidOption for a secret that is typed where only the environment may hold it."""
        for option in self.options:
            if option.parse is from_environment and option.key in options:
                _parsed(option.key, options[option.key], option)

    def _option(self, key: str) -> tuple[Option, str | None]:
        for option in self.options:
            if option.key == key:
                return option, None
            if option.key.endswith(_ANY) and key.startswith(option.key[:-1]):
                return option, None
            before, mark, behind = option.key.partition(_COLUMN)
            if mark and key.startswith(before) and key.endswith(behind) and len(key) > len(option.key) - 1:
                return option, key[len(before) : len(key) - len(behind)]
        raise NotFound.among(f"option of connector {self.name!r}", key, [o.key for o in self.options])


def _parsed(key: str, written: str, option: Option) -> Any:
    value = written if option.late else resolved(key, written)
    try:
        return option.parse(value)
    except ValueError as e:
        shown = repr(value) if value == written and not is_secret(key) else HIDDEN
        raise InvalidOption(f"option {key!r} is {e}, not {shown}") from None


def from_environment(text: str) -> str:
    """A value that is `${env:NAME}` and nothing else."""
    if not (text.startswith(ENVIRONMENT) and text.find("}") == len(text) - 1):
        raise ValueError(f"a secret: {ENVIRONMENT}NAME}}, from the environment")
    return text


def always(key: str) -> bool:
    """Of an option whose value is a path."""
    return True


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError("a whole number") from None


def count(text: str) -> int:
    """A whole number from 1."""
    number = whole(text)
    if number < 1:
        raise ValueError("a whole number from 1")
    return number


def connector_of(name: str) -> Connector:
    """The connector of a name. Raises Unsupported for one of other engines, NotFound naming the nearest."""
    if name in doors.connectors:
        return doors.connectors[name]()
    connectors = doors.connectors_of_sql()
    if name in _ABSENT:
        raise Unsupported(
            f"connector {name!r}", f"{_ABSENT[name]}; there are {', '.join(sorted(connectors))}"
        )
    if name not in connectors:
        raise NotFound.among("connector", name, connectors)
    return connectors[name]


class ConnectorTable:
    """A temporary table that is read or written; `definition` is what CREATE TEMPORARY TABLE said, `roots`
    are those of the session."""

    def __init__(self, name: str, definition: TableDefinition, roots: Roots | None) -> None:
        self.name, self.definition = name, definition
        self._connector = connector_of(definition.connector)
        self.options: ConnectorOptions = self._connector.parsed(definition, roots)

    def scan(self) -> ConnectorScan:
        """All its rows, the same at each reading. Raises Unsupported where there are none to read, and what
        the connector refuses."""
        if self._connector.source is None and self._connector.stream is not None:
            return ConnectorScan(_Followed(self.name), self.options.schema)
        if self._connector.source is None:
            raise Unsupported(f"SELECT of {self.name}", f"connector {self._connector.name!r} only takes rows")
        return ConnectorScan(self._connector.source(self.options), self.options.schema)

    def without_rows(self) -> ConnectorScan:
        """A scan that has its columns only: nothing is asked of the connector."""
        return ConnectorScan(_NoRows(), self.options.schema)

    def stream(self) -> StreamSource:
        """Its rows as a stream. Raises Unsupported where a connector gives none, and what it refuses."""
        if self._connector.stream is None:
            raise Unsupported(f"following {self.name}", f"connector {self._connector.name!r} has no stream")
        return self._connector.stream(self.options)

    def sink(self) -> Sink:
        """Where rows that are inserted go. Raises Unsupported where a connector takes none."""
        if self._connector.sink is None:
            why = f"connector {self._connector.name!r} only gives rows"
            raise Unsupported(f"INSERT INTO {self.name}", why)
        return self._connector.sink(self.options)

    def stream_sink(self, *, retracts: bool) -> StreamSink:
        """Where the changes of a stream go; `retracts`: it may take rows back. Raises Unsupported where a
        connector takes none."""
        connector = self._connector
        if connector.stream_sink is None:
            raise Unsupported(
                f"INSERT INTO {self.name} in streaming mode", f"connector {connector.name!r} takes no streams"
            )
        if retracts and not connector.takes_retracts:
            why = f"connector {connector.name!r} only takes new rows, and rows of the query change"
            raise Unsupported(f"a stream of changes into {self.name}", why)
        return connector.stream_sink(self.options)


class _NoRows:
    """A source without rows."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """None."""
        return iter(())


@dataclass(frozen=True)
class _Followed:
    """The source of a table that can be followed only."""

    name: str

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        remedy = "its changes have no end: SET 'execution.runtime-mode' = 'streaming'"
        raise Unsupported(f"SELECT of {self.name} in batch mode", remedy)


@dataclass(frozen=True)
class ConnectorScan(SchemaScan):
    """A lazy read of a source; only columns that are asked for are made or read."""

    source: BoundedSource
    full: pa.Schema

    @property
    def full_schema(self) -> pa.Schema:
        """The columns of the source."""
        return self.full

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        return limited(matching(self.source, self.full, self.schema.names, self.where), self.limit)
