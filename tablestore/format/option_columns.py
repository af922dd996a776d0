"""Table options that name columns: the columns they name, and their values after a rename. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tablestore.core.errors import InvalidOption, Unsupported
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


def require_plain_map(schema: TableSchema, column: str) -> None:
    """Raise Unsupported for a MAP whose entries would be separate columns in the files."""
    option = f"fields.{column}.map.storage-layout"
    if schema.options.get(option, "default").strip().lower() != "default":
        raise Unsupported(f"{option} = {schema.options[option]}", "maps are stored as keys and values")
