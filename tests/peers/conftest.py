"""One Java process for all tests of peers that ask for `java`, one for those that ask for `flink`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.flink_sql import FlinkSql
from tests.peers.java_env import Missing
from tests.peers.java_paimon import JavaPaimon


@pytest.fixture(scope="session")
def java() -> Iterator[JavaPaimon]:
    try:
        peer = JavaPaimon()
    except Missing as e:
        pytest.skip(f"needs Java Paimon: {e}")
    with peer:
        yield peer


@pytest.fixture(scope="session")
def flink() -> Iterator[FlinkSql]:
    try:
        peer = FlinkSql()
    except Missing as e:
        pytest.skip(f"needs Flink: {e}")
    with peer:
        yield peer
