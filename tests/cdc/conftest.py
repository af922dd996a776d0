"""A SQL session for each test of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.sql import Session


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = ts.sql_session(ts.connect(tmp_path / "lake"))
    session.sql("CREATE DATABASE shop")
    session.sql("USE shop")
    return session
