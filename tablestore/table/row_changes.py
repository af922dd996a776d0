"""Rows found, changed and written back in one commit: what UPDATE, DELETE and MERGE are made of.

A `change` looks at batches of rows that are there and says which go and which come back otherwise. How that
is written is the table's matter: −D and −U/+U rows where there is a primary key, rows of negative counts
where rows are counted, deletion vectors and new files where neither. Memory: one batch, the write buffers,
and the positions of one data file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.format import rowkind
from tablestore.lsm.merge.aggregation import Aggregation
from tablestore.lsm.merge.groups import MergeFunction
from tablestore.lsm.merge.partial_update import PartialUpdate
from tablestore.write.delete import with_values

KIND = "rowkind"  # of rows with their kinds: no column of a table may be called so
Positions = Sequence[int] | np.ndarray


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What becomes of the rows of a batch. `deleted` and `updated` are positions in it, none in both; `rows`
    are the updated ones as they are to be, in the order of `updated`, with the columns of the batch."""

    deleted: Positions = ()
    updated: Positions = ()
    rows: pa.RecordBatch | None = None

    @property
    def gone(self) -> np.ndarray:
        """Positions of all rows that do not stay as they are, ascending, each once."""
        return np.union1d(_integers(self.deleted), _integers(self.updated))


RowChanger = Callable[[pa.RecordBatch], RowChanges]
RowInserts = Callable[[], Iterable[pa.RecordBatch]]


def deleting_all(batch: pa.RecordBatch) -> RowChanges:
    """The change of a plain DELETE: each row goes."""
    return RowChanges(deleted=range(batch.num_rows))


def setting(values: Mapping[str, pa.Scalar]) -> RowChanger:
    """The change of an UPDATE to constants, of the types of their columns."""
    return partial(_set, values)


def _set(values: Mapping[str, pa.Scalar], batch: pa.RecordBatch) -> RowChanges:
    return RowChanges(updated=range(batch.num_rows), rows=with_values(batch, values))


def _integers(positions: Positions) -> np.ndarray:
    return np.asarray(positions, dtype=np.int64)


def nothing() -> None:
    """No step is wanted here."""


def no_rows() -> Iterator[pa.RecordBatch]:
    """No row to insert."""
    return iter(())


@dataclass(frozen=True, slots=True)
class ChangeSteps:
    """One run over a table: `change` of each batch, then `inserts`; `restart` comes first when all is done
    again on top of another commit."""

    change: RowChanger
    inserts: RowInserts = no_rows
    restart: Callable[[], None] = nothing


def as_kinds(
    batch: pa.RecordBatch, changes: RowChanges, kinds: tuple[int, ...], function: MergeFunction
) -> Iterator[pa.Table]:
    """The rows of changes with their kinds in the column `KIND`: −D, then −U (if wanted) before all +U.

    Raises InvalidRequest where the merge engine would show an old value, or 0, in place of a new NULL.
    """
    if len(changes.deleted):
        yield _with_kind(batch.take(_integers(changes.deleted)), rowkind.DELETE)
    if len(changes.updated):
        assert changes.rows is not None
        before = batch.take(_integers(changes.updated))
        _require_visible(before, changes.rows, function)
        tables = [
            _with_kind(rows, k) for rows, k in zip([before, changes.rows][-len(kinds) :], kinds, strict=True)
        ]
        yield pa.concat_tables(tables).combine_chunks()


def _with_kind(rows: pa.RecordBatch, kind: int) -> pa.Table:
    column = pa.array(np.full(rows.num_rows, kind, dtype=np.int8))
    return pa.Table.from_batches([rows.append_column(KIND, column)])


def _require_visible(before: pa.RecordBatch, after: pa.RecordBatch, function: MergeFunction) -> None:
    if not isinstance(function, PartialUpdate | Aggregation):
        return
    for name, text in function.hidden_nulls().items():
        hidden = np.asarray(after.column(name).is_null()) & np.asarray(before.column(name).is_valid())
        if hidden.any():
            raise InvalidRequest(f"the merge engine {text} where the new one is NULL")
