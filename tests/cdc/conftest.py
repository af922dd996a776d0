"""A lake for each test of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts


@pytest.fixture
def lake(tmp_path: Path) -> ts.Lake:
    return ts.connect(str(tmp_path / "lake"))
