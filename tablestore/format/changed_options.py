"""Changes of options, set and reset, and what they do to the options of a schema; options that name columns.

Options that say how files are laid out are fixed once there are snapshots (FORMAT.md 22.1). Pure. Used by
`schema_change`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tablestore.core.errors import InvalidOption
from tablestore.core.options.names import ALIASES, CHANGE_TRACKING, FIXED_WITH_DATA, OF_CREATION
from tablestore.core.options.rules import require_storable
from tablestore.core.options.table_options import TableOptions, as_text, current_names
from tablestore.format.change_tracking import option_of, path_of_values
from tablestore.format.schema import TableSchema

_LISTS = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "record-level.time-field",
    "changelog-producer.row-deduplicate-ignore-fields",
    "partial-update.remove-record-on-sequence-group",
)
_INDEX_LIST = re.compile(r"file-index\.[\w-]+\.columns")
_INDEX_OPTION = re.compile(r"(file-index\.[\w-]+\.)(.+)(\.[\w-]+)")
_FAMILY = r"map\.(?:shared-shredding\.)?|pk-[\w-]+\.(?:\w+\.)?"
_FIELDS = re.compile(rf"fields\.(?P<columns>.+?)\.(?P<suffix>(?:{_FAMILY})?[\w-]+)")
_NOT_A_COLUMN = "default-aggregate-function"


@dataclass(frozen=True, slots=True)
class SetOptions:
    """Options of the table by name, or of one partition by its values."""

    options: Mapping[str, Any]
    partition: Mapping[str, Any] | None

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the options."""
        return tuple(self.options)

    def __repr__(self) -> str:
        return "set options"


@dataclass(frozen=True, slots=True)
class DropOptions:
    """Names of options of the table, or of one partition, that get their defaults again."""

    keys: tuple[str, ...]
    partition: Mapping[str, Any] | None

    def __repr__(self) -> str:
        return "reset options"


class ChangedOptions:
    """The options of `schema` while changes are applied: `stored` are those of now. Not thread-safe."""

    def __init__(self, schema: TableSchema, has_snapshots: bool) -> None:
        self.stored = dict(schema.options)
        self._schema, self._has_snapshots = schema, has_snapshots
        self._keyed = bool(schema.primary_keys)

    def set(self, change: SetOptions) -> None:
        """Store these options. Raises InvalidOption for one that cannot be changed."""
        named = {self._stored_name(k, change.partition): v for k, v in as_text(change.options).items()}
        given = current_names(named, keyed=self._keyed, stored=self.stored)
        new = {k: v for k, v in given.items() if self.stored.get(k) != v}
        require_storable(new, keyed=self._keyed)
        for key, value in given.items():
            old = self.stored.get(key)
            if old == value:
                continue
            _require_no_column(key)
            if key == "type" and value.lower() == (old or "table").lower():
                continue
            if key in ("type", *OF_CREATION):
                raise InvalidOption(f"option {key!r} of a table cannot be changed")
            if self._has_snapshots:
                _require_changeable(key, old, value, self.stored, given)
            self.stored[key] = value
        TableOptions.parse(self.stored)

    def reset(self, change: DropOptions) -> None:
        """Reset these options. Raises InvalidOption for one that says how files are laid out."""
        for name in [self._stored_name(k, change.partition) for k in change.keys]:
            _require_no_column(name)
            key = ALIASES.get(name, (name,))[0]
            if key in ("type", *OF_CREATION) or (self._has_snapshots and key in (*FIXED_WITH_DATA, "bucket")):
                raise InvalidOption(
                    f"option {key!r} cannot be reset: it says how the table's files are laid out"
                )
            self.stored.pop(key, None)

    def rename_column(self, old: str, new: str) -> None:
        """Let the options that name the column `old` name it `new`."""
        self.stored = with_renamed_column(self.stored, old, new)

    def _stored_name(self, key: str, partition: Mapping[str, Any] | None) -> str:
        """The name under which an option of the table, or of one partition, is stored."""
        if partition is None:
            return key
        name = ALIASES.get(key, (key,))[0]
        if name != CHANGE_TRACKING:
            raise InvalidOption(f"option {key!r} is of whole tables; a partition has 'change-tracking' only")
        return option_of(path_of_values(self._schema, partition))


def _require_no_column(key: str) -> None:
    head, _, rest = key.partition(".")
    if head == "schema" and (rest.partition(".")[0].isdecimal() or rest.startswith("watermark.")):
        raise InvalidOption(
            f"option {key!r} is of a computed column or the watermark: ALTER TABLE changes those"
        )


def _require_changeable(
    key: str, old: str | None, new: str, options: Mapping[str, str], given: Mapping[str, str]
) -> None:
    """Raise InvalidOption for a change that files of the table do not allow; `given` changes with it."""
    if key in FIXED_WITH_DATA:
        raise InvalidOption(f"option {key!r} cannot be changed once the table has snapshots")
    if key == "bucket":
        before, after = TableOptions.parse(options).bucket, TableOptions.parse({key: new}).bucket
        if before < 1 or after < 1:
            raise InvalidOption(
                f"option 'bucket' can only change between numbers of buckets, not {before} to {after}"
            )
    switched = key == "deletion-vectors.enabled" and (old or "false").lower() != new.lower()
    if switched and not TableOptions.parse({**options, **given}).dv_modifiable:
        raise InvalidOption(
            "option 'deletion-vectors.enabled' can only change with 'deletion-vectors.modifiable' = true, "
            "set before or together with it; then rows may be seen twice until a full compaction"
        )
    if key in ("ignore-delete", "ignore-update-before") and (old or "").lower() == "true" != new.lower():
        raise InvalidOption(f"option {key!r} cannot be changed from true to false: what it ignored is lost")


def with_renamed_column(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The options with `new` wherever they named the column `old`."""
    renamed: dict[str, str] = {}
    for key, value in options.items():
        group = _FIELDS.fullmatch(key)
        index = _INDEX_OPTION.fullmatch(key)
        if key in _LISTS or _INDEX_LIST.fullmatch(key):
            value = _renamed(value, old, new)
        elif group:
            columns = _renamed(group["columns"], old, new)
            key = f"fields.{columns}.{group['suffix']}"
            value = _renamed(value, old, new) if group["suffix"] == "sequence-group" else value
        elif index and index[2] == old:
            key = f"{index[1]}{new}{index[3]}"
        renamed[key] = value
    return renamed


def _renamed(names: str, old: str, new: str) -> str:
    return ",".join(new if n.strip() == old else n for n in names.split(","))


def _named(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(option, column) for every column that options name."""
    for key, value in options.items():
        lists = [value] if key in _LISTS or _INDEX_LIST.fullmatch(key) else []
        group = _FIELDS.fullmatch(key)
        if group:
            lists = [group["columns"], *([value] if group["suffix"] == "sequence-group" else [])]
        for name in ",".join(lists).split(","):
            plain = name.strip().partition("[")[0]  # `m[k]`: key k of map m
            if plain:
                yield key, plain


def require_columns_exist(schema: TableSchema) -> None:
    """Raise InvalidOption for an option that names a column that the schema lacks."""
    for key, name in _named(schema.options):
        if name not in schema.by_name and name != _NOT_A_COLUMN:
            raise InvalidOption(
                f"option {key!r} names {name!r}, which is not a column; change or reset it in the same call"
            )
