"""In a run of many tests the garbage collector passes over what lives as long as the run.

A collection makes millions of objects: modules, tests, marks. Each full pass of Python's collector looks at
all of them, and passes come often where tests make many objects. So tests are collected without
the collector, and in a run of all they leave its sight. Who names tests has few of them, and `tests/mutants`
asks the collector for functions.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

from tests.suite import parts


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        if parts.part(session.config) != parts.NAMED:
            gc.collect()
            gc.freeze()
        gc.enable()
