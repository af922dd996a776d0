"""What every test may ask for; the machinery of a run is in tests/suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests import browsing
from tests.servers import mariadb as mariadb_servers
from tests.servers import postgres as postgres_servers
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Postgres
from tests.suite import counterparts

pytest_plugins = [
    f"tests.suite.{name}"
    for name in (
        "parts",
        "garbage",
        "seeds",
        "schedule",
        "temporary",
        "progress",
        "skips",
        "ending",
        "entered",
        "branches",
    )
]
LATE = "Python worker failed to connect back"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("workbench")
    group.addoption("--rewrite", action="store_true", help="write what text cases give below their ----")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether text cases are to be written anew instead of compared."""
    return bool(request.config.option.rewrite)


@pytest.fixture
def lake(tmp_path: Path) -> ts.Lake:
    """An empty lake."""
    return ts.connect(tmp_path / "lake")


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """One server for all tests of a run; a test makes databases of its own in it."""
    with mariadb_servers.mariadb() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """The same of PostgreSQL."""
    with postgres_servers.postgres() as server:
        yield server


@pytest.fixture
def browser() -> object:
    """A headless Chromium, shared by all browser tests in a row."""
    return browsing.browser()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    result = yield
    browsing.close_before(nextitem)
    return result


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The Spark session of this process, started by the first test that wants one; nobody else stops it."""
    from tablestore.spark import session

    counterparts.need("Java")
    created = session("tests", cores=2, memory="512m")
    yield created
    created.stop()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Tests with Spark run once more if it gave up on a Python worker: it waits 10 s, which on a busy machine
    may be too short, and lets nobody choose. Any other failure stands.
    """
    if item.get_closest_marker("spark") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    protocol = item.config.pluginmanager.get_plugin("runner").runtestprotocol
    reports = protocol(item, nextitem=nextitem, log=False)
    if any(report.failed and LATE in report.longreprtext for report in reports):
        item._initrequest()  # fixtures of the test are made anew
        reports = protocol(item, nextitem=nextitem, log=False)
        reports[-1].sections.append(("Spark", f"{LATE}: run again"))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
