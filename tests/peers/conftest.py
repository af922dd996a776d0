"""One Java process for all tests of peers that ask for `java`, one for those that ask for `flink`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.flink_sql import FlinkSql
from tests.peers.java_paimon import JavaPaimon
from tests.suite import counterparts


@pytest.fixture(scope="session")
def java() -> Iterator[JavaPaimon]:
    counterparts.need("Java Paimon")
    with JavaPaimon() as peer:
        yield peer


@pytest.fixture(scope="session")
def flink() -> Iterator[FlinkSql]:
    counterparts.need("Flink")
    with FlinkSql() as peer:
        yield peer
