"""What a view may ask of its source, whatever it is: a table, a simulation, something shaped like one.

Pure. Called by every widget and by the head of the workbench.
"""

import numbers
import os
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

import tablestore as ts


class InspectedTable(Protocol):
    """The metadata of a table as Arrow tables."""

    def commits(self) -> pa.Table:
        """One row a commit."""
        ...

    def levels(
        self, snapshot: int | None = None, *, partition: str | None = None, bucket: int | None = None
    ) -> pa.Table:
        """One row a live file."""
        ...


class Source(Protocol):
    """What a view needs of a table; a simulator can offer the same."""

    @property
    def inspect(self) -> InspectedTable:
        """The table's metadata."""
        ...


def require_source(source: object, view: str) -> None:
    """Raise InvalidRequest for a path, a number, a list, a scan, a lake or None where a view takes a
    table or what has the form of one."""
    if hasattr(source, "inspect"):
        return
    others = str | bytes | os.PathLike | numbers.Number | Sequence | Mapping
    if source is not None and not isinstance(source, others | ts.Scan | ts.Lake):
        return
    how = ""
    if isinstance(source, str | os.PathLike):
        how = f"; open it first: ts.open({os.fspath(source)!r})"
    elif isinstance(source, ts.Scan):
        how = "; pass its table, and the condition as where= to a view that has one"
    elif isinstance(source, ts.Lake):
        how = "; pass one of its tables: lake.table('database.table')"
    raise ts.InvalidRequest(f"{view} takes a table, not {reprlib.repr(source)}{how}")


def option_map(source: object) -> Mapping[str, Any]:
    """The table's options by key, as far as it shows them as a mapping."""
    options = getattr(source, "options", None)
    return options if isinstance(options, Mapping) else {}


def num_levels_of(source: object, trigger: int | None = None) -> int:
    """The levels of a fresh tree: as the source counts them, else by its options as the engine would, with
    this compaction `trigger` in place of its own."""
    count = getattr(getattr(source, "inspect", None), "num_levels", None)
    if callable(count):
        return int(count())
    options = option_map(source)
    trigger = trigger or int(options.get("num-sorted-run.compaction-trigger", 5))
    return int(options.get("num-levels", trigger + 1))


def title_of(source: object) -> str:
    """The table's name, if it has one."""
    for attribute in ("full_name", "name"):
        value = getattr(source, attribute, None)
        if isinstance(value, str):
            return value
    return ""


def is_bucket(text: str) -> bool:
    """Whether it is a bucket's id: `l_year=1995/1`, or `/1` without partitions."""
    return re.fullmatch(r"(?s:.*)/-?[0-9]{1,9}", text) is not None
