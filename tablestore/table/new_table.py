"""What a caller says of a table that is to be made: the arguments of `Lake.create_table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tablestore.table.columns import Columns
    from tablestore.table.table import Table


@dataclass(frozen=True, slots=True)
class NewTable:
    """Columns, keys, partitions and options of a new table; None is what the model `like`, if any, has."""

    schema: Columns | Any
    like: Table | None
    primary_key: Sequence[str] | None
    partition_by: Sequence[str] | None
    options: Mapping[str, Any] | None
    comment: str | None
    comments: Mapping[str, str] | None
