"""Snapshot files (`snapshot/snapshot-N`, JSON): Snapshot ⇄ bytes (FORMAT.md 7.1), and how often others were
first (FORMAT.md 7.3). Unknown fields are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from tablestore.core import rich
from tablestore.core.errors import Corrupt, brief
from tablestore.format import checksums
from tablestore.io.paths import is_plain

RETRIES, MILLIS = "tablestore.commit.retries", "tablestore.commit.retry-ms"
VERSION = 3
BATCH_IDENTIFIER = 9223372036854775807
TABLE = "tablestore.table"
"""The property that says of which table a snapshot is: its uuid."""
APPEND, COMPACT, OVERWRITE, ANALYZE = "APPEND", "COMPACT", "OVERWRITE", "ANALYZE"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table: what was live before (`base`) plus what this commit changed (`delta`).

    Record counts are unmerged: they count physical rows, retractions included.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    operation: str | None = None
    writer_version: str | None = None

    def _repr_html_(self) -> str | None:
        return rich.card("snapshot", self)


_KEYS = {f.name: re.sub("_([a-z])", lambda m: m[1].upper(), f.name) for f in fields(Snapshot)}


def to_json(snapshot: Snapshot) -> bytes:
    """The bytes of a snapshot file, with their checksum; absent values are left out."""
    body: dict[str, Any] = {"version": VERSION}
    for name, key in _KEYS.items():
        value = getattr(snapshot, name)
        if value is not None and not (name == "properties" and not value):
            body[key] = dict(value) if name == "properties" else value
    return checksums.sealed(json.dumps(body, indent=2, ensure_ascii=False).encode())


_NAMES = {"base_manifest_list", "delta_manifest_list", "changelog_manifest_list"}
_NAMES |= {"index_manifest", "statistics"}
_MAX_LONG = (1 << 63) - 1
_TYPES: dict[str, type[Any]] = {"int": int, "str": str}
_KINDS = {f.name: _TYPES.get(str(f.type).split(" ")[0], dict) for f in fields(Snapshot)}
_REQUIRED = [f.name for f in fields(Snapshot) if f.default is MISSING]


def _require_sound(values: Mapping[str, Any], path: str) -> None:
    """Raise Corrupt for missing fields, wrong types, numbers beyond 64 bits and names that leave their
    directories."""
    for name in _REQUIRED:
        if values[name] is None:
            raise Corrupt(path, f"field {_KEYS[name]!r} is missing")
    for name, value in values.items():
        if value is not None and not _sound(name, value):
            raise Corrupt(path, f"field {_KEYS[name]!r} is {value!r}")


def _sound(name: str, value: Any) -> bool:
    kind = _KINDS[name]
    if type(value) is not kind:  # exact types: bool is not a number
        return False
    if kind is int:
        return -_MAX_LONG - 1 <= value <= _MAX_LONG
    if kind is dict:
        return all(isinstance(v, str) and _is_text(k + v) for k, v in value.items())
    return _is_text(value) and (name not in _NAMES or is_plain(value))


def _is_text(value: str) -> bool:
    """Whether the text can be encoded: JSON may contain lone surrogates."""
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def from_json(data: bytes, path: str) -> Snapshot:
    """Read a snapshot (or tag) file of any version; raises Corrupt naming `path`."""
    try:
        body = json.loads(checksums.require_intact(data, path))
        values = {name: body.get(key) for name, key in _KEYS.items()}
        _require_sound(values, path)
        return Snapshot(**values)
    except (ValueError, TypeError, AttributeError, RecursionError) as e:
        raise Corrupt(path, f"not a snapshot file: {brief(e)}") from e


def require_own(snapshot: Snapshot, uuid: str | None, path: str) -> Snapshot:
    """The snapshot; raises Corrupt, naming `path`, for one of another table than that with this uuid, as far
    as both have one."""
    own = (snapshot.properties or {}).get(TABLE)
    if uuid is not None and own is not None and own != uuid:
        text = f"it is of another table: its property {TABLE!r} is {own}, and this table has the uuid {uuid}"
        raise Corrupt(path, text)
    return snapshot


@dataclass(frozen=True, slots=True)
class LostRaces:
    """`retries` tries again, and the `millis` from the first try to the one that succeeded."""

    retries: int = 0
    millis: int = 0

    @classmethod
    def of(cls, properties: Mapping[str, str] | None) -> LostRaces:
        """Those of a snapshot by its properties; none where it does not say so."""
        values = properties or {}
        return cls(*(int(v) if (v := values.get(name, "0")).isdigit() else 0 for name in (RETRIES, MILLIS)))

    def as_properties(self) -> dict[str, str]:
        """The properties of a snapshot; none where nobody was first."""
        return {RETRIES: str(self.retries), MILLIS: str(self.millis)} if self.retries else {}
