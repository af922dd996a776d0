"""A Hive metastore from the jars PySpark carries, on Derby.

It listens on all interfaces and has no option against that: it lives for the run of a few tests, on a random
port, and holds nothing but their tables. Three settings are not obvious: no asynchronous log (its library is
not there), HikariCP for the pool (the other one neither), and the lock tables, which Derby's automatic schema
lacks: a start in test mode makes them once, into a template that later starts copy.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark

from notebooks.demo.ports import free_port, listens
from tablestore.catalog.metastore import Metastore, types
from tablestore.core.errors import TablestoreError
from tests.servers.process import running
from tests.suite import counterparts

JARS = Path(pyspark.__file__).parent / "jars"
TEMPLATE = Path.home() / ".cache" / "tablestore-workbench" / f"hive-template-{pyspark.__version__}"
LOCK_SECONDS = 12  # a lock whose holder is silent for so long is nobody's; a starved one must not be


@contextlib.contextmanager
def metastore(folder: Path) -> Iterator[str]:
    """Its URI, thrift://127.0.0.1:…"""
    counterparts.need("Hive metastore")
    shutil.copytree(TEMPLATE, folder / "metastore_db", ignore=shutil.ignore_patterns("*.lck"))
    with _started(folder, {}) as uri:
        yield uri


def make_template() -> None:
    """Make what each start copies, unless it is there."""
    if not TEMPLATE.exists():
        with tempfile.TemporaryDirectory() as folder:
            _make_template(Path(folder))


def _make_template(folder: Path) -> None:
    with _started(folder, {"hive.in.test": "true"}) as uri, Metastore.parse(uri).session() as client:
        t = types()
        part = t.LockComponent(type=t.LockType.EXCLUSIVE, level=t.LockLevel.TABLE, dbname="a", tablename="b")
        with contextlib.suppress(TablestoreError, Exception):  # it may fail, but then the tables are there
            client.lock(t.LockRequest(component=[part], user="u", hostname=socket.gethostname()))
    TEMPLATE.parent.mkdir(parents=True, exist_ok=True)
    whole = Path(tempfile.mkdtemp(prefix="hive-", dir=TEMPLATE.parent))
    shutil.copytree(folder / "metastore_db", whole / "db", ignore=shutil.ignore_patterns("*.lck"))
    with contextlib.suppress(OSError):  # another run was faster
        (whole / "db").rename(TEMPLATE)
    shutil.rmtree(whole)


@contextlib.contextmanager
def _started(folder: Path, more: Mapping[str, str]) -> Iterator[str]:
    port = free_port()
    (folder / "hive-site.xml").write_text(_site(folder, more))
    flags = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dderby.system.home={folder}"]
    flags += [f"-Djava.io.tmpdir={folder}", "-cp", f"{folder}:{JARS}/*"]
    command = ["java", *flags, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    command += ["--hiveconf", "hive.async.log.enabled=false"]
    with running(command, ready=lambda: listens(port), log=folder / "metastore.log", seconds=300):
        yield f"thrift://127.0.0.1:{port}"


def _site(folder: Path, more: Mapping[str, str]) -> str:
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore_db;create=true",
        "hive.metastore.warehouse.dir": f"file://{folder}/warehouse",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "datanucleus.autoStartMechanismMode": "ignored",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.server.min.threads": "2",
        "hive.support.concurrency": "true",
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
        "hive.txn.timeout": f"{LOCK_SECONDS}s",
        "hive.compactor.initiator.on": "true",  # with it comes the thread that ends silent locks
        "hive.compactor.worker.threads": "0",
        "hive.timedout.txn.reaper.start": "1s",
        "hive.timedout.txn.reaper.interval": "1s",
        **more,
    }
    body = "".join(
        f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in settings.items()
    )
    return f"<configuration>{body}</configuration>"
