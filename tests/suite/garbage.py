"""In a run of many tests the garbage collector passes over what lives as long as the run.

A collection makes millions of objects: modules, tests, marks. Each full pass of Python's collector looks at
all of them, and passes come often where tests make many objects. So tests are collected without
the collector, and then leave its sight. `tests/mutants` brings them back, to ask for functions.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
