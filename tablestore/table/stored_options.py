"""The options of a table as they are stored, and a description of each."""

from __future__ import annotations

from dataclasses import astuple

import pyarrow as pa

from tablestore.core.arguments import checked
from tablestore.core.options import rules as option_rules

_COLUMNS = {
    "option": pa.string(),
    "value": pa.string(),
    "default": pa.string(),
    "is_set": pa.bool_(),
    "status": pa.string(),
    "meaning": pa.string(),
    "places": pa.string(),
}


@checked
class StoredOptions(dict[str, str]):
    """Options by name, as text."""

    def describe(self, *, set_only: bool = False) -> pa.Table:
        """Every known option (with `set_only` those that the table stores), by name: the value in force and
        the default, in units people write; whether the table stores it; its status: implemented, ignored (the
        meaning says why), refused (the meaning says why) or unknown; where it may be set, of create, alter
        and scan (for one use)."""
        facts = [astuple(f) for f in option_rules.describe(self) if f.is_set or not set_only]
        columns = zip(*facts, strict=True) if facts else [[] for _ in _COLUMNS]
        arrays = [pa.array(c, t) for c, t in zip(columns, _COLUMNS.values(), strict=True)]
        return pa.table(arrays, names=list(_COLUMNS))
