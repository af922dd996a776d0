"""A private PostgreSQL (`notebooks.demo.postgres`) that asks nobody for a password."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from notebooks.demo.postgres import FAST, Postgres
from tests.suite import counterparts

__all__ = ["Postgres", "postgres"]


@contextlib.contextmanager
def postgres(*settings: str) -> Iterator[Postgres]:
    """A server of which everybody is the owner, and which ends with the block."""
    counterparts.need("PostgreSQL")
    with Postgres([*FAST, *settings], trusting=True) as server:
        yield server
