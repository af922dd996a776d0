"""Packages that a browser does not have: they import, and what is asked of them raises, naming it.

`install()` is called before the engine is imported. The engine's own rules ask nothing of them
(tests/test_without_arrow.py).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGES = (
    *("fastavro", "pyroaring", "cramjam", "pandas", "ipywidgets", "IPython", "sqlglot", "rich", "plotly"),
    *("resource", "fcntl", "termios", "ssl", "sqlite3", "_multiprocessing", "lzma"),  # Python's own
)
INSIDE = ("pyarrow", "numpy")  # modules of these that there is no part of


class Absent:
    """A name of a package that is not here."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ModuleNotFoundError(
            f"{type(self).__module__} is not in this page: open the table in JupyterLab"
        )


class _Module(ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "parse_schema":
            return lambda schema, *_, **__: schema
        if name.startswith("__"):
            raise AttributeError(name)
        absent = type(name, (Absent,), {"__module__": self.__name__})
        setattr(self, name, absent)
        return absent


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        package, _, inside = name.partition(".")
        if package in PACKAGES or (package in INSIDE and inside):
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is in it."""


def install() -> None:
    """Let absent packages import."""
    sys.meta_path.append(_Finder())
