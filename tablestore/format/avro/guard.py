"""Refuses Avro schemas whose values may take no bytes, so that a file cannot claim more values than it has
bytes.

With a schema that refers to itself, or with arrays of nulls or empty records, a few bytes could stand for
billions of values; no writer of tables makes one. Pure. Called once per schema when a container is opened.
"""

from __future__ import annotations

import json
from typing import Any

from tablestore.core.errors import Corrupt

_DEPTH = 64
_MAX_FIXED = 1 << 20
_SIZES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


def require_sound(schema: bytes, path: str) -> None:
    """Raise Corrupt naming `path` unless every value of the schema's records takes at least a byte."""
    try:
        size = _min_bytes(json.loads(schema), {}, 0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Corrupt(path, f"its Avro schema cannot be used: {e}") from e
    if size < 1:
        raise Corrupt(path, "its Avro schema describes records of no bytes")


def _min_bytes(t: Any, known: dict[str, int | None], depth: int) -> int:
    """The minimum bytes of a value of `t`. `known`: those of named types; None while one is being defined."""
    if depth > _DEPTH:
        raise ValueError(f"it nests deeper than {_DEPTH}")
    if isinstance(t, list):
        return 1 + min([_min_bytes(branch, known, depth + 1) for branch in t], default=0)
    if isinstance(t, str):
        return _named(t, known)
    kind = t["type"]
    if isinstance(kind, dict | list):
        return _min_bytes(kind, known, depth + 1)
    if kind in ("array", "map"):
        if _min_bytes(t["items" if kind == "array" else "values"], known, depth + 1) < 1 and kind == "array":
            raise ValueError("an array of values without bytes")
        return 1
    if kind not in ("record", "error", "fixed", "enum"):
        return _named(kind, known)
    name = str(t["name"])
    known[name] = None
    known[name] = _defined(t, kind, known, depth)
    return known[name] or 0


def _defined(t: dict[str, Any], kind: str, known: dict[str, int | None], depth: int) -> int:
    if kind == "fixed":
        if not 0 <= int(t["size"]) <= _MAX_FIXED:
            raise ValueError(f"a fixed of {t['size']} bytes")
        return int(t["size"])
    if kind == "enum":
        return 1
    return sum(_min_bytes(f["type"], known, depth + 1) for f in t["fields"])


def _named(name: str, known: dict[str, int | None]) -> int:
    if name in _SIZES:
        return _SIZES[name]
    size = known.get(name, known.get(name.rpartition(".")[2], -1))
    if size is None:
        raise ValueError(f"{name} holds itself")
    if size < 0:
        raise ValueError(f"type {name!r} is not defined")
    return size
