"""A private MariaDB (`notebooks.demo.mariadb`) with a password that the tests know."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from notebooks.demo.mariadb import DURABLE, FAST, MariaDb
from tests.suite import counterparts

__all__ = ["DURABLE", "FAST", "PASSWORD", "MariaDb", "mariadb"]
PASSWORD = "a secret: of tests@/%"


@contextlib.contextmanager
def mariadb(durability: Sequence[str] = DURABLE) -> Iterator[MariaDb]:
    """A server of which `PASSWORD` is the reader's, which ends with the block."""
    counterparts.need("MariaDB")
    with MariaDb(durability, password=PASSWORD) as server:
        yield server
