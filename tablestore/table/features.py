"""Verbs whose code is above the table in the layers, or needed by few: imported on first use.

`tablestore/__init__` says where each is (`provide`); the verbs of `Lake`, `Table` and `Scan` ask for it
(`feature`). So the engine works without what explains it, and `import tablestore` pays for none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tablestore.core.errors import MissingPackage, Unsupported

_places: dict[str, str] = {}
_loaded: dict[str, Any] = {}


def provide(places: Mapping[str, str]) -> None:
    """Register features by name, each as `module:attribute`."""
    for name, place in places.items():
        _places[name] = place
        _loaded.pop(name, None)


def feature(name: str) -> Any:
    """The object that a name stands for. Raises MissingPackage where a package of it is not installed,
    Unsupported where this version has none."""
    if name not in _loaded:
        if name not in _places:
            raise Unsupported(name, "not in this version")
        module, _, attribute = _places[name].partition(":")
        try:
            _loaded[name] = getattr(import_module(module), attribute)
        except ModuleNotFoundError as e:
            raise MissingPackage(name, f"{e.name} is missing") from e
    return _loaded[name]


def feature_or_none(name: str) -> Any:
    """The object that a name stands for, None where its code is not installed."""
    try:
        return feature(name)
    except Unsupported:
        return None
