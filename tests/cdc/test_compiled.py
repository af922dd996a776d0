"""Compiled loops where nothing can be kept: a service of a user without a home, whose package others own."""

from __future__ import annotations

import pytest

from tablestore.cdc.databases.slices import compiled

numba = pytest.importorskip("numba")


def twice(n: int) -> int:
    return 2 * n


def test_loops_are_compiled_where_no_folder_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    caching = pytest.importorskip("numba.core.caching")
    for locators in (caching.FunctionCache, caching.CodeLibraryCacheImpl, caching.CompileResultCacheImpl):
        if hasattr(locators, "_locator_classes"):
            monkeypatch.setattr(locators, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(twice)
    assert compiled(twice)(21) == 42
