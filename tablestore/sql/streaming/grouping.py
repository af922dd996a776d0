"""GROUP BY over changes: what is counted and added up for each group, retractions subtracted."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tablestore.sql.streaming.row_step import RowStep

KEY, ARGUMENT, VALUE = "__key_{}", "__argument_{}", "__value_{}"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: `function` is COUNT, SUM, AVG, MIN or MAX of the input's column `argument` (None: of
    rows); `type` is that of its value."""

    name: str
    function: str
    argument: str | None
    distinct: bool
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Grouping:
    """`keys` and the arguments of `aggregates` are columns of the rows that come; `after` makes of changes of
    groups (keys and values, the view `GROUPS`) changes of the result. Without keys there is one group."""

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    after: RowStep


GROUPS = "__groups"
