"""One Spark session for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import tablestore as ts
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        made = session("tests", cores=2, memory="512m")
    except (NotFound, InvalidRequest) as e:
        pytest.skip(f"needs Java: {e}")
    yield made
    made.stop()


@pytest.fixture
def lake(tmp_path) -> ts.Lake:
    return ts.connect(str(tmp_path / "lake"))
