"""Servers as fixtures, one of each for a whole run."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pyspark
import pytest

from notebooks.demo.fluss import NEWEST
from tests.cdc.databases.sources import PostgresSource, postgres_source
from tests.peers import java_env
from tests.servers import fluss as fluss_server
from tests.servers import hive as hive_server
from tests.servers import kafka as kafka_server
from tests.servers import s3 as s3_servers
from tests.servers.fluss import Fluss
from tests.servers.java_catalog import JavaCatalog
from tests.servers.kafka import Broker
from tests.servers.postgres import Postgres
from tests.servers.s3 import S3Server
from tests.suite import counterparts


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_servers.moto(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_servers.versitygw(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


@pytest.fixture(params=["moto", "versitygw"])
def s3(request: pytest.FixtureRequest) -> S3Server:
    """Both S3 servers, one after the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def postgres(postgres_server: Postgres) -> str:
    return postgres_server.owner_url


@pytest.fixture
def database(postgres_server: Postgres, tmp_path: Path) -> Iterator[PostgresSource]:
    with postgres_source(postgres_server, tmp_path) as source:
        yield source


@pytest.fixture(params=["sqlite", "postgres"])
def sql_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A SQL database for a catalog: a SQLite file, then PostgreSQL."""
    if request.param == "sqlite":
        return f"jdbc:sqlite:{tmp_path / 'catalog.sqlite'}"
    return request.getfixturevalue("postgres")


@pytest.fixture(scope="session")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hive_server.metastore(tmp_path_factory.mktemp("hive")) as uri:
        yield uri


@pytest.fixture(scope="session")
def kafka() -> Iterator[Broker]:
    with kafka_server.broker() as running:
        yield running


@pytest.fixture(scope="session")
def java_jdbc() -> Iterator[JavaCatalog]:
    """Java Paimon with drivers of databases; a test opens a catalog of its own in it."""
    counterparts.need("Java Paimon")
    with JavaCatalog(*java_env.driver_jars()) as running:
        yield running


@pytest.fixture(scope="session")
def java_hive() -> Iterator[JavaCatalog]:
    """The same with a client of Hive."""
    counterparts.need("Java Paimon")
    with JavaCatalog(Path(pyspark.__file__).parent / "jars" / "*") as running:
        yield running


@pytest.fixture(scope="module")
def killed_fluss() -> Iterator[Fluss]:
    """A private Fluss whose servers may be killed. With several kills behind it a 0.7.0 may copy neither
    segments nor snapshots of keys any more, so that no other test has it."""
    session = {"zookeeper.client.session-timeout": f"{fluss_server.KILLED_SESSION_SECONDS}s"}
    with fluss_server.fluss_cluster(session) as running:
        yield running


@pytest.fixture(scope="session")
def shared_fluss() -> Iterator[fluss_server.SharedFluss]:
    with fluss_server.SharedFluss() as shared:
        yield shared


@pytest.fixture
def fluss(shared_fluss: fluss_server.SharedFluss) -> Iterator[Fluss]:
    """A cluster of one tablet server, the same for all tests. A test that kills a server starts it again; its
    tables go with it, since a coordinator hands them out again and again."""
    yield shared_fluss.cluster()
    shared_fluss.drop_tables()


@pytest.fixture(scope="session")
def newest() -> Iterator[Fluss]:
    """A cluster of the newest version, with the Paimon of its own plugin."""
    with fluss_server.fluss_cluster(version=NEWEST) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Do a test once more on another cluster, where it failed and its cluster gives no leaders any more."""
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as e:  # an error that did not come is no Exception
        args = pyfuncitem.funcargs
        if "fluss" not in args or args["fluss"] is (another := args["shared_fluss"].cluster(str(e))):
            raise
        args["fluss"] = another
    for left in args["tmp_path"].iterdir() if "tmp_path" in args else ():
        shutil.rmtree(left)
    pyfuncitem.obj(**{name: args[name] for name in inspect.signature(pyfuncitem.obj).parameters})
    return True
