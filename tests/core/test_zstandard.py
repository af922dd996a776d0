"""The codec of Python 3.14 and its backport."""

from __future__ import annotations

import importlib
import sys
import types

import pytest

from tablestore.core import zstandard


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 13, 9), (3, 14, 0)])
def test_the_codec_is_that_of_the_interpreter(
    version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.14 has no package `backports.zstd`; what stands for its own is put in the place of it."""
    own, backport = types.ModuleType("compression.zstd"), types.ModuleType("backports.zstd")
    for package, codec in (("compression", own), ("backports", backport)):
        parent = types.ModuleType(package)
        parent.zstd = codec  # type: ignore[attr-defined]  # a module that is made here
        monkeypatch.setitem(sys.modules, package, parent)
        monkeypatch.setitem(sys.modules, codec.__name__, codec)
    monkeypatch.setattr(sys, "version_info", version)
    try:
        importlib.reload(zstandard)
        assert zstandard.zstd is (own if version >= (3, 14) else backport)
    finally:
        monkeypatch.undo()
        importlib.reload(zstandard)
