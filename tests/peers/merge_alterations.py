"""Alterations of a table of the merge space that both engines accept. Pure."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.peers.merge_space import KIND_COLUMN, MergeSpace, drawn_column

WIDER = {"TINYINT": "INT", "INT": "BIGINT", "BIGINT": "STRING", "DATE": "STRING", "BOOLEAN": "STRING"}
RENAMED = ("distinct", "list-agg-delimiter", "ignore-retract")
UNNAMED = (
    "partial-update.remove-record-on-sequence-group",
    "changelog-producer.row-deduplicate-ignore-fields",
)
"""Java Paimon 2.0.0 refuses to rename a column that one of these options names, or that has options of its
function other than `RENAMED`."""


def altered(space: MergeSpace, rng: random.Random, fresh: str) -> tuple[MergeSpace, dict[str, str]] | None:
    """The table after an ALTER TABLE, and what that is: a new column, one renamed to `fresh` (also one that
    options name), a wider type, or one less; None where nothing fits."""
    named = {name for key in space.options for name in key.removeprefix("fields.").split(".")[0].split(",")}
    named |= {name for value in space.options.values() for name in value.split(",")}
    fixed = {name for key in UNNAMED for name in space.options.get(key, "").split(",")} | {KIND_COLUMN}
    fixed |= {
        c.name for c in space.columns if c.function and not set(dict(c.function.options)) <= set(RENAMED)
    }
    free = [c for c in space.columns if c.name not in named]
    kind, columns = rng.choice(["add", "rename", "rename", "type", "drop"]), list(space.columns)
    options = space.options
    if kind == "add":
        columns.append(drawn_column(rng, fresh, rng.choice(["INT", "STRING", "DATE", "BOOLEAN"])))
        change = {"name": fresh, "type": columns[-1].type.root.replace("VARCHAR", "STRING")}
    else:
        fits = [c for c in columns if c.name not in fixed] if kind == "rename" else free
        fits = [c for c in fits if kind != "type" or c.type.root in WIDER]
        if not fits or (kind == "drop" and len(free) < 2):
            return None
        old = rng.choice(fits)
        at, change = columns.index(old), {"name": old.name}
        if kind == "rename":
            columns[at], change["to"] = replace(old, name=fresh), fresh
            options = {_renamed(k, old.name, fresh): _renamed(v, old.name, fresh) for k, v in options.items()}
        elif kind == "type":
            change["type"] = WIDER[old.type.root]
            columns[at] = drawn_column(rng, old.name, change["type"])
        else:
            del columns[at]
    return replace(space, columns=tuple(columns), options=options), {"change": kind, **change}


def _renamed(text: str, old: str, new: str) -> str:
    """An option's name or value as it is after a rename: engines rename the columns that options name."""
    return ".".join(",".join(new if n == old else n for n in part.split(",")) for part in text.split("."))
