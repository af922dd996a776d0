"""One bucket of the state, one batch: parts of changes are merged, old rows looked up, new rows written.

Only the rows of touched groups and values are read, by their keys: 65,536 keys cost 0.03 s, as much as a scan
and a join where a third of all groups is touched. The values of a group are read again only where its least
or greatest one has gone. DuckDB merges and computes; what it keeps meanwhile may spill.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from tablestore.format import rowkind
from tablestore.format.predicates.predicate import Predicate, all_of, any_of, col
from tablestore.sql.query.connection import DuckConnection
from tablestore.sql.streaming.group_columns import (
    GROUPS_TABLE,
    ROWS,
    TIMES,
    VALUE,
    Counted,
    GroupColumn,
    GroupColumns,
    decoded,
    listed,
    sql_type,
)
from tablestore.sql.text import quoted
from tablestore.table.table import Table

_CHUNK_ROWS = 65_536
_FEW = 32  # groups whose values are read again by a condition; of more all values are read
_PARTS, _CHANGED, _EXTREMES, _AGAIN = "parts_{}", "changed_{}", "extremes_{}", "again_{}"
_DELTA, _OLD, _FOUND = "delta", "old", "found"


class GroupUpdate:
    """One bucket and one batch at work. Not thread-safe."""

    def __init__(
        self,
        columns: GroupColumns,
        tables: Mapping[str, Table],
        basis: Mapping[str, int],
        *,
        user: str,
        bucket: int,
        connection: DuckConnection,
    ) -> None:
        self._columns, self._tables, self._basis = columns, tables, basis
        self._user, self._bucket, self._connection = user, bucket, connection
        self._keys = columns.key_names
        self._kept: list[str] = []  # tables of the connection

    def messages(self, parts: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
        """(table, commit message) of what is written; nothing is committed."""
        try:
            there = self._keep_parts(parts)
            for counted in self._columns.counted:
                self._connection.duck.register(_FOUND, self._columns.counted_schema(counted).empty_table())
                self._keep(_CHANGED.format(counted.table), f"SELECT *, 0::BIGINT AS before FROM {_FOUND}")
                if counted.table in there:
                    yield from self._written(counted.table, self._counted(counted))
                self._keep(_EXTREMES.format(counted.table), self._changes(counted))
            if GROUPS_TABLE in there:
                yield from self._written(GROUPS_TABLE, self._groups())
        finally:
            self._run("; ".join(f"DROP TABLE IF EXISTS {name}" for name in self._kept) or "SELECT 1")

    def _keep_parts(self, parts: Iterable[bytes]) -> set[str]:
        """Copy the parts into DuckDB; gives the tables that they change."""
        there = set()
        for part in parts:
            table, rows = decoded(part)
            self._connection.duck.register(_FOUND, rows)
            name = _PARTS.format(table)
            if table in there:
                self._run(f"INSERT INTO {name} SELECT * FROM {_FOUND}")
            else:
                self._keep(name, f"SELECT * FROM {_FOUND}")
            there.add(table)
        return there

    def _keep(self, name: str, sql: str) -> None:
        """A table of the connection with these rows, until the update is done."""
        self._kept.append(name)
        self._run(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")

    def _run(self, sql: str) -> None:
        self._connection.run(lambda: self._connection.duck.execute(sql).fetchall())

    def _rows(self, sql: str) -> pa.Table:
        return self._connection.run(lambda: self._connection.duck.sql(sql).to_arrow_table())

    def _written(self, name: str, rows: Iterator[tuple[pa.Table, np.ndarray]]) -> Iterator[tuple[str, bytes]]:
        table = self._tables[name]
        writer = table.open_writer(user=self._user, compact=True)
        try:
            for batch, kinds in rows:
                if batch.num_rows:
                    writer.write(batch.cast(table.schema), pa.array(kinds, pa.int8()))
            for message in writer.prepare():
                yield name, message
        finally:
            writer.close()

    def _old(self, name: str, keys: pa.Table) -> pa.Table:
        """The rows of these keys that the batch builds on."""
        table, snapshot = self._tables[name], self._basis[name]
        if not snapshot:
            return table.schema.empty_table()
        return table.at(snapshot=snapshot).get_many(keys.cast(_of(table.schema, keys.schema.names)))

    def _deltas(self, table: str, keys: list[str], merged: str) -> Iterator[pa.Table]:
        """The merged changes of a table in order of its keys, some at a time, as the view DELTA with the view
        OLD beside it."""
        duck = self._connection.duck
        sql = f"SELECT {listed(keys)}, {merged} FROM {_PARTS.format(table)} GROUP BY {listed(keys)}"
        self._keep(f"merged_{table}", f"{sql} ORDER BY {listed(keys)}")
        self._run(f"DROP TABLE {_PARTS.format(table)}")
        (total,) = duck.execute(f"SELECT count(*) FROM merged_{table}").fetchall()[0]
        for start in range(0, total, _CHUNK_ROWS):
            rows = f"SELECT * FROM merged_{table} WHERE rowid >= {start} AND rowid < {start + _CHUNK_ROWS}"
            delta = self._rows(rows)
            duck.register(_DELTA, delta)
            duck.register(_OLD, self._old(table, delta.select(keys)))
            yield delta

    def _counted(self, counted: Counted) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """New rows of the values of an argument; keeps what changed in CHANGED."""
        keys = [*self._keys, VALUE]
        on = _equal("d", "o", keys)
        times = quoted(TIMES)
        for _ in self._deltas(counted.table, keys, f"CAST(sum({times}) AS BIGINT) AS {times}"):
            sql = (
                f"SELECT {listed(keys, 'd.')}, coalesce(o.{times}, 0) + d.{times} AS {times}, "
                f"coalesce(o.{times}, 0) AS before FROM {_DELTA} d LEFT JOIN {_OLD} o ON {on} "
                f"WHERE d.{times} <> 0 ORDER BY {listed(keys, 'd.')}"
            )
            counts = self._rows(sql)
            self._connection.duck.register(_FOUND, counts)
            self._run(f"INSERT INTO {_CHANGED.format(counted.table)} SELECT * FROM {_FOUND}")
            before, after = counts["before"].to_numpy(), counts[TIMES].to_numpy()
            kinds = np.where(after == 0, rowkind.DELETE, rowkind.UPDATE_AFTER).astype(np.int8)
            kinds[before == 0] = rowkind.INSERT
            yield counts.drop_columns("before"), kinds

    def _changes(self, counted: Counted) -> str:
        """Of each group whose values changed: the changes of its columns, and the extremes among values that
        came and that went."""
        changes = []
        for column in self._columns.of_counted(counted):
            value, name = quoted(VALUE), column.name
            if column.extreme:
                for prefix, when in (("came_", "NOT went"), ("went_", "went")):
                    change = f"{column.measure}({value}) FILTER (WHERE {when})"
                    changes.append(f"{change} AS {quoted(prefix + name)}")
            else:
                changes.append(f"{column.change(value, minus='went')} AS {quoted(name)}")
        times = quoted(TIMES)
        rows = (
            f"SELECT *, {times} <= 0 AS went FROM {_CHANGED.format(counted.table)} "
            f"WHERE ({times} > 0) <> (before > 0)"
        )
        return (
            f"SELECT {listed(self._keys)}, {', '.join(changes)} FROM ({rows}) GROUP BY {listed(self._keys)}"
        )

    def _groups(self) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """Old and new rows of the groups that change, with their kinds."""
        plain = [c for c in self._columns.columns if not c.distinct]
        merged = ", ".join(f"{c.merged()} AS {quoted(c.name)}" for c in plain)
        for _ in self._deltas(GROUPS_TABLE, self._keys, merged):
            for counted in self._columns.counted:
                self._read_again(counted)
            yield _as_changes(self._rows(self._new_groups()), self._columns)

    def _new_groups(self) -> str:
        """Keys, `old`: whether the group was there, and each column as it was and as it is."""
        columns, keys = self._columns.columns, self._keys
        joins = [f"LEFT JOIN {_OLD} o ON {_equal('d', 'o', keys)}"]
        for counted in self._columns.counted:
            for alias, view in (("c", _EXTREMES), ("a", _AGAIN)):
                name = f"{alias}_{counted.table}"
                joins.append(f"LEFT JOIN {view.format(counted.table)} {name} ON {_equal('d', name, keys)}")
        shown = [f"o.{quoted(c.name)} AS {quoted('old ' + c.name)}" for c in columns]
        shown += [f"{self._new(c)} AS {quoted('new ' + c.name)}" for c in columns]
        there = f"o.{quoted(ROWS)} IS NOT NULL AS old"
        inner = f"SELECT {listed(keys, 'd.')}, {there}, {', '.join(shown)} FROM {_DELTA} d {' '.join(joins)}"
        differs = " OR ".join(
            f"{quoted('old ' + c.name)} IS DISTINCT FROM {quoted('new ' + c.name)}" for c in columns
        )
        return f"SELECT * FROM ({inner}) WHERE {differs} ORDER BY {listed(keys)}"

    def _new(self, column: GroupColumn) -> str:
        name = quoted(column.name)
        if column.extreme:
            return self._new_extreme(column)
        source = f"c_{self._table_of(column)}" if column.distinct else "d"
        if column.measure == "rest":
            return _rest(column, source)
        added = f"CAST(coalesce(o.{name}, 0) + coalesce({source}.{name}, 0) AS {sql_type(column.type)})"
        if column.measure == "total":
            return f"CASE WHEN {self._count(column, source)} = 0 THEN 0 ELSE {added} END"
        return added

    def _count(self, column: GroupColumn, source: str) -> str:
        """How many values a sum of doubles is of."""
        name = quoted(column.name.replace("sum", "count", 1))
        return f"coalesce(o.{name}, 0) + coalesce({source}.{name}, 0)"

    def _new_extreme(self, column: GroupColumn) -> str:
        name, best = quoted(column.name), "least" if column.measure == "min" else "greatest"
        if not column.distinct:
            return f"{best}(o.{name}, d.{name})"
        c, a = f"c_{self._table_of(column)}", f"a_{self._table_of(column)}"
        came, went = f"{c}.{quoted('came_' + column.name)}", f"{c}.{quoted('went_' + column.name)}"
        return (
            f"CASE WHEN o.{name} IS NULL THEN {came} WHEN {went} IS DISTINCT FROM o.{name} "
            f"THEN {best}(o.{name}, {came}) WHEN {best}(o.{name}, {came}) = {came} THEN {came} "
            f"ELSE {a}.{name} END"
        )

    def _table_of(self, column: GroupColumn) -> str:
        return next(c.table for c in self._columns.counted if c.argument == column.argument)

    def _read_again(self, counted: Counted) -> None:
        """AGAIN: extremes of groups whose least or greatest value went, from all values that are there."""
        keys, extremes = self._keys, [c for c in self._columns.of_counted(counted) if c.extreme]
        again = _AGAIN.format(counted.table)
        shown = [f"{c.measure}({quoted(VALUE)}) AS {quoted(c.name)}" for c in extremes] or ["1 AS none"]
        gone = " OR ".join(f"c.{quoted('went_' + c.name)} = o.{quoted(c.name)}" for c in extremes) or "FALSE"
        wanted = self._rows(
            f"SELECT {listed(keys, 'd.')} FROM {_DELTA} d JOIN {_OLD} o ON {_equal('d', 'o', keys)} "
            f"JOIN {_EXTREMES.format(counted.table)} c ON {_equal('d', 'c', keys)} WHERE {gone}"
        )
        duck = self._connection.duck
        duck.register("wanted", wanted)
        duck.register("stored", self._stored(counted, wanted))
        times, changed = quoted(TIMES), _CHANGED.format(counted.table)
        value = [*keys, VALUE]
        self._keep(
            again,
            f"SELECT {listed(keys)}, {', '.join(shown)} FROM ("
            f"SELECT {listed(value, 's.')} FROM stored s SEMI JOIN wanted w ON {_equal('s', 'w', keys)} "
            f"ANTI JOIN {changed} c ON {_equal('s', 'c', value)} WHERE s.{times} > 0 UNION ALL "
            f"SELECT {listed(value, 'c.')} FROM {changed} c SEMI JOIN wanted w ON {_equal('c', 'w', keys)} "
            f"WHERE c.{times} > 0) GROUP BY {listed(keys)}",
        )

    def _stored(self, counted: Counted, wanted: pa.Table) -> pa.RecordBatchReader:
        """The stored values of at least these groups."""
        table, snapshot = self._tables[counted.table], self._basis[counted.table]
        batches: Iterator[pa.RecordBatch] = iter(())
        if snapshot and wanted.num_rows:
            pinned = table.at(snapshot=snapshot)
            where = _one_of(wanted.cast(_of(table.schema, self._keys))) if wanted.num_rows <= _FEW else None
            splits = [s for s in pinned.scan(where=where).plan().splits if s.bucket == self._bucket]
            batches = (b for s in splits for b in pinned.read_split(s, where=where))
        return pa.RecordBatchReader.from_batches(table.schema, self._connection.watched(batches))


def _as_changes(joined_rows: pa.Table, columns: GroupColumns) -> tuple[pa.Table, np.ndarray]:
    """Rows of the groups table, old before new, with their kinds."""
    old = joined_rows["old"].to_numpy()
    alive = joined_rows["new " + ROWS].to_numpy() != 0
    keys, names = columns.key_names, [c.name for c in columns.columns]
    halves = [
        pa.table(
            [joined_rows[k] for k in keys] + [joined_rows[f"{half} {n}"] for n in names],
            names=columns.schema.names,
        )
        for half in ("old", "new")
    ]
    taken, given = np.flatnonzero(old), np.flatnonzero(alive)
    kinds = np.concatenate(
        [
            np.where(alive[taken], rowkind.UPDATE_BEFORE, rowkind.DELETE),
            np.where(old[given], rowkind.UPDATE_AFTER, rowkind.INSERT),
        ]
    ).astype(np.int8)
    places = np.concatenate([taken * 2, given * 2 + 1])
    order = np.argsort(places, kind="stable")
    rows = pa.concat_tables([halves[0].take(pa.array(taken)), halves[1].take(pa.array(given))])
    return rows.take(pa.array(order)), kinds[order]


def _rest(column: GroupColumn, source: str) -> str:
    """What rounding has lost of a sum, with what it loses now (Knuth's two-sum)."""
    rest, total = quoted(column.name), quoted(column.name.replace("rest", "sum", 1))
    count = quoted(column.name.replace("rest", "count", 1))
    a, b = f"coalesce(o.{total}, 0)", f"coalesce({source}.{total}, 0)"
    s = f"({a} + {b})"
    lost = f"(({a} - ({s} - ({s} - {a}))) + ({b} - ({s} - {a})))"
    values = f"coalesce(o.{count}, 0) + coalesce({source}.{count}, 0)"
    return f"CASE WHEN {values} = 0 THEN 0 ELSE coalesce(o.{rest}, 0) + {lost} END"


def _equal(a: str, b: str, names: Iterable[str]) -> str:
    return " AND ".join(f"{a}.{quoted(n)} = {b}.{quoted(n)}" for n in names)


def _of(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    return pa.schema([schema.field(n) for n in names])


def _one_of(keys: pa.Table) -> Predicate:
    """A condition for the rows with one of a few keys."""
    rows = keys.to_pylist()
    return any_of(*(all_of(*(col(n) == v for n, v in row.items())) for row in rows))
