"""What a table with a log must always be: its files hold the rows of a prefix of the log, merged."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

import tablestore as ts
from tablestore.log import offsets
from tablestore.log.log import LogBatch
from tablestore.read.table_log import log_of
from tablestore.table.log_view import LogView


def log_view(table: ts.Table) -> LogView:
    """The log of a table that has one."""
    assert table.log is not None
    return table.log


def position(table: ts.Table) -> dict[int, int]:
    """The offsets that the newest snapshot names."""
    return offsets.known(table.store.snapshots.latest(), table.store.snapshots.get)


def logged(table: ts.Table, stop: dict[int, int] | None = None) -> list[LogBatch]:
    """The rows of the log, up to the newest snapshot's offsets or those of `stop`."""
    log = log_of(table.store)
    assert log is not None
    return list(log.read({}, position(table) if stop is None else stop))


def end(table: ts.Table) -> dict[int, int]:
    """The end of the log."""
    log = log_of(table.store)
    assert log is not None
    return {b: o for b, o in log.bounds().end.items() if o}


def rows(table: ts.Table) -> list[str]:
    """All rows of the files, in order."""
    return sorted(map(str, table.scan().to_arrow().to_pylist()))


def merged(lake: ts.Lake, table: ts.Table) -> list[str]:
    """The rows of a table without a log, into which the rows of the log's prefix were written."""
    if not table.primary_key:
        counts: Counter[str] = Counter()
        for batch in logged(table):
            for row, kind in zip(batch.rows.to_pylist(), batch.kinds.to_pylist(), strict=True):
                counts[str(row)] += 1 if kind in (0, 2) else -1
        assert all(count >= 0 for count in counts.values())
        return sorted(counts.elements())
    options = {"log.system": None, "log.consistency": None}
    twin = lake.create_table(f"twins.t{len(lake.tables())}", like=table, options=options)
    with twin.writer() as w:
        for batch in logged(table):
            kinds = pa.DictionaryArray.from_arrays(batch.kinds, ["+I", "-U", "+U", "-D"]).cast(pa.string())
            w.write(batch.rows.append_column("_k", kinds), row_kind_column="_k")
    return rows(twin)


def require_prefix(lake: ts.Lake, table: ts.Table) -> None:
    """Raise AssertionError unless the files are the merged prefix of the log that the snapshot names."""
    assert offsets.reaches(end(table), position(table))
    assert rows(table) == merged(lake, table)
    assert table.check() == []
