"""One Java process for all tests of peers that ask for `java`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
