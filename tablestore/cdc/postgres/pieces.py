"""Pieces of a batch of tables of PostgreSQL: a stretch of the log, and ranges of the keys of a table. The
last image of a key wins.

An image without a value that an update left alone is passed over, and its row is read as it is now: in a
view that has the whole stretch. Where it is gone, its deletion is in the log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import BadRow, ChunkFacts, TableRows, TableShape
from tablestore.cdc.databases.address import Address, patiently_begun
from tablestore.cdc.databases.slices import Slices
from tablestore.cdc.databases.undo import keyed
from tablestore.cdc.postgres.copy_rows import copied, values_of
from tablestore.cdc.postgres.pgoutput import NULL, UNCHANGED, Images, PostgresLog
from tablestore.cdc.postgres.server import Connection, in_statement, title_of
from tablestore.cdc.postgres.slot import PEEK, Slot, lsn_text
from tablestore.cdc.postgres.tables import PostgresTable, quoted, tables_now
from tablestore.cdc.postgres.values import Mask, columns_of
from tablestore.core.errors import NotFound, Unavailable
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

Condition = tuple[str, list[Any]]
"""A condition of a statement, and its values."""
_LOOKED_UP = 5_000  # rows in a statement


@dataclass(frozen=True)
class PostgresLogPiece:
    """The changes of tables in transactions whose commits are at `start` or later, and before `end`."""

    address: Address
    slot: Slot
    definitions: tuple[PostgresTable, ...]
    start: int
    end: int

    @property
    def chunk(self) -> ChunkFacts | None:
        return None

    @cached_property
    def tables(self) -> Mapping[SourceName, TableShape]:
        return {table.source: table.shape for table in self.definitions}

    def read(self) -> Iterator[TableRows | BadRow]:
        """Changes in the order of the log: +I, +U and −D. Raises NotFound where the slot does not have
        them."""
        by_number = {table.number: table for table in self.definitions}
        unchanged: dict[int, list[pa.Table]] = {}
        seconds = 0
        for images in patiently_begun(self._images, what=title_of(self.address)):
            table = by_number[images.relation.number]
            seconds = int(images.seconds.max())
            slices = _in_columns(images, table)
            absent = (slices.lengths == UNCHANGED).any(axis=0) & ~np.isin(
                images.kinds, (DELETE, UPDATE_BEFORE)
            )
            if absent.any():
                unchanged.setdefault(table.number, []).append(_key_texts(slices.taken(absent), table))
            there = ~absent
            if there.any():
                kinds = images.kinds[there]
                yield from _changes(table, slices.taken(there), kinds, images.seconds[there], self.end)
        for number, keys in unchanged.items():
            yield from self._looked_up(by_number[number], pa.concat_tables(keys), seconds)

    def _images(self) -> Iterator[Images]:
        with Connection.open(self.address) as connection:
            self.slot.require(connection, self.start)
            decoder = PostgresLog(self.start, self.end, frozenset(table.number for table in self.definitions))
            values = (self.slot.name, lsn_text(self.end), self.slot.publication)
            yield from decoder.images(copied(connection, f"SELECT data FROM {PEEK}", values, binary=True))

    def _looked_up(self, table: PostgresTable, keys: pa.Table, seconds: int) -> Iterator[TableRows | BadRow]:
        """The rows of these keys as they are now."""
        keys = keys.group_by(keys.column_names).aggregate([])
        for begin in range(0, len(keys), _LOOKED_UP):
            values = [column.to_pylist() for column in keys.slice(begin, _LOOKED_UP).columns]

            def rows(values: list[Any] = values) -> Iterator[Slices]:
                return rows_now(self.address, table, lambda now: _has_keys(now, values))

            for slices in patiently_begun(rows, what=title_of(self.address)):
                kinds = np.full(slices.rows, UPDATE_AFTER, np.int8)
                yield from _changes(table, slices, kinds, np.full(slices.rows, seconds), self.end)


@dataclass(frozen=True)
class PostgresChunkPiece:
    """The rows of a range of keys, above `low` and not above `high`, in a view that has all of the log before
    `position`."""

    address: Address
    definition: PostgresTable
    low: str | None
    high: str | None
    last: bool
    position: int

    @property
    def chunk(self) -> ChunkFacts | None:
        return ChunkFacts(self.definition.source, self.low, self.high, self.last)

    @cached_property
    def tables(self) -> Mapping[SourceName, TableShape]:
        return {self.definition.source: self.definition.shape}

    def read(self) -> Iterator[TableRows | BadRow]:
        """All rows as +I; none of a table that was altered since the chunk was planned: it is read again
        then."""

        def rows() -> Iterator[Slices]:
            where = partial(range_of, low=self.low, high=self.high)
            return rows_now(self.address, self.definition, where)

        for slices in patiently_begun(rows, what=title_of(self.address)):
            kinds = np.full(slices.rows, INSERT, np.int8)
            yield from _changes(self.definition, slices, kinds, None, self.position)


def range_of(table: PostgresTable, low: str | None, high: str | None) -> Condition:
    """Which rows are in a range of keys; the server alone compares keys."""
    column = table.chunk_key
    ends = [(">", low), ("<=", high)] if column is not None else []
    parts = [
        in_statement(f"{quoted(column.name)} {sign} ") + f"%s::{in_statement(column.spelled)}"
        for sign, end in ends
        if end is not None and column
    ]
    return " AND ".join(parts) or "true", [end for _, end in ends if end is not None]


def key_after(connection: Connection, table: PostgresTable, low: str | None, rows: int) -> str | None:
    """The key of the row that ends a range of so many above `low`; None if no row is behind it."""
    column = table.chunk_key
    if column is None:
        return None
    where, values = range_of(table, low, None)
    name = quoted(column.name)
    query = in_statement(f"SELECT {name}::text FROM {table.spelled_rows} WHERE ") + where
    query += in_statement(f" ORDER BY {name} LIMIT 2 OFFSET ") + "%s"
    keys = connection.rows(query, *values, max(1, rows) - 1)
    return str(keys[0][0]) if len(keys) > 1 else None


def _has_keys(table: PostgresTable, keys: list[Any]) -> Condition:
    """Which rows have one of these keys: a list of texts for each column of it."""
    of = {c.name: c for c in table.columns}
    names = ", ".join(quoted(name) for name in table.primary_key)
    casts = ", ".join(f"x{i}::{of[name].spelled}" for i, name in enumerate(table.primary_key))
    aliases = ", ".join(f"x{i}" for i in range(len(keys)))
    texts = ", ".join(["%s::text[]"] * len(keys))
    sought = in_statement(f"({names}) IN (SELECT {casts} FROM unnest(")
    return f"{sought}{texts}) AS x({aliases}))", keys


def rows_now(
    address: Address,
    table: PostgresTable,
    where: Callable[[PostgresTable], Condition],
) -> Iterator[Slices]:
    """Rows of a table in a view that has all that is in the log, whatever the names of table and columns are
    by now; none where columns are gone or of other types, which the next batch sees."""
    with (
        Connection.open(address) as connection,
        contextlib.suppress(NotFound),
        connection.view_of(table.number),
    ):
        tables = tables_now(connection, "", lambda name: True, only=table.number, refuse=False).values()
        now = next((table.under_names_of(t) for t in tables if isinstance(t, PostgresTable)), None)
        if now is None:
            return
        condition, values = where(now)
        query = in_statement(f"SELECT {now.selected} FROM {now.spelled_rows} WHERE ") + condition
        yield from values_of(connection, query, len(table.columns), values)


def _in_columns(images: Images, table: PostgresTable) -> Slices:
    """The images with the columns of the definition; those that were added later are NULL. Raises
    Unavailable for a table that the log has otherwise: it was altered since the batch was planned."""
    if not table.agrees(images.relation):
        raise Unavailable(f"{table.source} in the log is {images.relation}, and not as its definition says")
    slices = images.slices
    missing = (len(table.columns) - len(slices.offsets), slices.rows)
    offsets = np.concatenate([slices.offsets, np.zeros(missing, np.int64)])
    lengths = np.concatenate([slices.lengths, np.full(missing, NULL, np.int64)])
    return Slices(slices.data, slices.rows, offsets, lengths)


def _key_texts(slices: Slices, table: PostgresTable) -> pa.Table:
    """The keys of rows as the server writes them."""
    places = {c.name: i for i, c in enumerate(table.columns)}
    texts = [slices.binary(places[name]).cast(pa.string()) for name in table.primary_key]
    return pa.table(texts, names=list(table.primary_key))


def _changes(
    table: PostgresTable, slices: Slices, kinds: Any, seconds: Any, position: int
) -> Iterator[TableRows | BadRow]:
    """Rows as changes by key, and apart from them those with a value that no column here has."""
    rows, bad = columns_of(slices, table.columns, table.schema)
    kinds = keyed([rows.column(name) for name in table.primary_key], kinds)
    kept: Mask = kinds != UPDATE_BEFORE
    for name in table.primary_key:
        null = rows.column(name).is_null().to_numpy(zero_copy_only=False)
        bad[name] = bad.get(name, null) | null
    at = lsn_text(position)
    for place, c in enumerate(table.columns):
        mask = bad.get(c.name, ~kept) & kept & ((kinds != DELETE) | (c.name in table.primary_key))
        if mask.any():
            kept = kept & ~mask
            shown = rows.filter(pa.array(mask)).to_pylist()
            misfits = zip(
                kinds[mask].tolist(),
                slices.taken(mask).binary(place).to_pylist(),
                [None] * len(shown) if seconds is None else seconds[mask].tolist(),
                shown,
                strict=True,
            )
            for kind, value, when, row in misfits:
                text = value.decode()[:80] if value else None
                reason = f"column {c.name!r}: {text!r} is no value of {c.type}"
                as_json = json.dumps(row, default=str, ensure_ascii=False)
                yield BadRow(table.source, at, kind, reason, as_json, when, unheld=kind == DELETE)
    if not kept.all():
        rows, kinds = rows.filter(pa.array(kept)), kinds[kept]
        seconds = None if seconds is None else seconds[kept]
    if rows.num_rows:
        when = None if seconds is None else pa.array(seconds, pa.int64())
        yield TableRows(table.source, rows, pa.array(kinds, pa.int8()), when, at)
