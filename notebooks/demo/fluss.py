"""A private Fluss: ZooKeeper, a coordinator and tablet servers in a temporary directory, on 127.0.0.1 only.

`python -m notebooks.demo.fluss` runs one until Ctrl-C and prints its address. The lake of a Fluss 0.7 is one
that takes every table and makes none (`fluss_lake/`), so that tables can be tiered from outside; a Fluss 0.9
has the Paimon of its own plugin, which makes a lake table with every table. Jars come from Maven once for a
machine.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from notebooks.demo.jars import copy_jars, fetched_jars, jars_folder
from notebooks.demo.ports import free_port, listens
from notebooks.demo.private_servers import PrivateServers
from tablestore.core.errors import TablestoreError, Unavailable, Unsupported
from tablestore.core.extras import available
from tablestore.fluss import apis
from tablestore.fluss.connection import FlussConnection
from tablestore.fluss.messages import pb
from tablestore.fluss.sign_in import MECHANISM, Credentials

VERSION, NEWEST = "0.7.0", "0.9.1-incubating"
_PACKAGES = {VERSION: "com.alibaba.fluss", NEWEST: "org.apache.fluss"}
_PLUGIN = [  # fluss-lake-paimon has a parent that is not in Maven's store, so no pom can name it
    f"org.apache.fluss:fluss-lake-paimon:{NEWEST}",
    "org.apache.paimon:paimon-bundle:1.3.1",
    "org.apache.flink:flink-shaded-hadoop-2-uber:2.8.3-10.0",
]
_LAKE = Path(__file__).parent / "fluss_lake" / "NoLakeStorage.java"
_PLUGIN_JARS = ("fluss-lake-paimon", "paimon-bundle", "flink-shaded-hadoop")
_SERVICE = "META-INF/services/com.alibaba.fluss.lake.lakestorage.LakeStoragePlugin"
_JOB = [f"org.apache.fluss:fluss-flink-{part}:{NEWEST}" for part in ("1.20", "tiering")]
_OF_JOB = [
    *(f"org.apache.flink:flink-{part}:1.20.3" for part in ("clients", "connector-base")),
    *(f"org.apache.logging.log4j:log4j-{part}:2.25.4" for part in ("slf4j-impl", "core", "1.2-api")),
]
_SETTINGS = {
    "default.bucket.number": 1,
    "default.replication.factor": 1,
    "netty.server.num-network-threads": 1,
    "netty.server.num-worker-threads": 2,
    "server.buffer.memory-size": "64mb",
    "datalake.format": "paimon",
    "log.segment.file-size": "4mb",
    "log.index.file-size": "256kb",
    "log.replica.high-watermark.checkpoint-interval": "100ms",  # what came after it, a killed leader loses
    "remote.log.task-interval-duration": "1s",
    "remote.log.index-file-cache-size": "16mb",
    "kv.snapshot.interval": "5s",
    "kv.rocksdb.writebuffer.size": "4mb",
    "kv.rocksdb.block.cache-size": "4mb",
    "zookeeper.client.session-timeout": "20s",  # a server without a processor for so long stays a member
}
_JAVA = [
    *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-XX:MaxDirectMemorySize=256m"),
    *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED"),
]
_PROGRAMS = {
    "zookeeper": ("-Xmx64m", "shaded.zookeeper3.org.apache.zookeeper.server.quorum.QuorumPeerMain"),
    "coordinator": ("-Xmx192m", "server.coordinator.CoordinatorServer"),
    "tablet": ("-Xmx256m", "server.tablet.TabletServer"),
}
_LOGIN_MODULE = "security.auth.sasl.plain.PlainLoginModule"
_START_SECONDS, _KILLED_SECONDS = 180, 90


def missing(version: str = VERSION) -> str:
    """What to install so that there can be a private Fluss; empty where it is there."""
    if any(available(name) is None for name in ("google.protobuf", "google_crc32c", "rocksdict")):
        return "the extra fluss is missing: pip install 'tablestore-workbench[fluss]'"
    if shutil.which("java") is None:
        return "java not found; on Debian and Ubuntu: apt-get install openjdk-17-jdk-headless"
    if not is_fetched(version):
        for program, package in (("javac", "openjdk-17-jdk-headless"), ("mvn", "maven")):
            if shutil.which(program) is None:
                absent = f"the jars of Fluss {version} are not there"
                return f"{absent}; on Debian and Ubuntu: apt-get install {package}"
    return ""


def is_fetched(version: str = VERSION) -> bool:
    """Whether its jars are on this machine."""
    return jars_folder(f"fluss-{version}").exists()


def client_jars(version: str = VERSION) -> Path:
    """The folder of the jars of Fluss's own client. Raises Unavailable where they cannot be had."""
    artifacts = [f"{_PACKAGES[version]}:fluss-{part}:{version}" for part in ("server", "client")]
    add = _add_lake if version == VERSION else partial(copy_jars, artifacts=_PLUGIN)
    return fetched_jars(f"fluss-{version}", artifacts, add=add)


def job_is_fetched() -> bool:
    """Whether the jars of Fluss's own tiering job are on this machine."""
    return jars_folder(f"flusstier-{NEWEST}").exists()


def job_jars() -> Path:
    """The folder of the jars of Fluss's own tiering job, but for the plugin. Raises Unavailable where they
    cannot be had."""
    return fetched_jars(f"flusstier-{NEWEST}", _OF_JOB, add=partial(copy_jars, artifacts=_JOB))


class FlussCluster(PrivateServers):
    """A private cluster of `version`, VERSION or NEWEST, running when made; its servers `zookeeper`,
    `coordinator`, `tablet-0`, … can be killed, stopped and started one by one. `close` (or the end of its
    `with` block) removes it with all it holds.

    `settings` are added to those of its servers. With `users`, passwords by name, it requires that clients
    sign in; its own servers do as the first of them. Not thread-safe. Raises Unsupported, with what to
    install, where it cannot be had, Unavailable where it does not start.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        tablet_servers: int = 1,
        users: Mapping[str, str] | None = None,
        version: str = VERSION,
    ) -> None:
        if absent := missing(version):
            raise Unsupported("a private Fluss", absent)
        self._jars, self._package = client_jars(version), _PACKAGES[version]
        super().__init__("fluss")
        self._sign_in = Credentials(*next(iter(users.items()))) if users else None
        self._tablets = [f"tablet-{i}" for i in range(tablet_servers)]
        try:
            self._ports = {name: free_port() for name in ("zookeeper", "coordinator", *self._tablets)}
            lake = {} if version == VERSION else _paimon_settings(self.warehouse)
            self._prepare({**lake, **self._sign_in_settings(users or {}), **(settings or {})})
            self.start("zookeeper")
            for name in ("coordinator", *self._tablets):
                self._begin(name)
            for name in ("coordinator", *self._tablets):
                self._until_answers(name)
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """Host and port of the coordinator."""
        return f"127.0.0.1:{self._ports['coordinator']}"

    @property
    def remote_folder(self) -> Path:
        """Where its segments and snapshots are."""
        return self.folder / "remote"

    @property
    def warehouse(self) -> Path:
        """Where the Paimon tables of its plugin are, `<database>.db/<table>`, in a cluster of NEWEST."""
        return self.folder / "warehouse"

    def start(self, server: str) -> None:
        """Start a server that was stopped or killed; returns when it answers. ZooKeeper believes for some
        seconds that a server which was killed is alive: a coordinator does not start before, and a tablet
        server does not lead its buckets again."""
        until = time.monotonic() + _KILLED_SECONDS
        while True:
            self._begin(server)
            try:
                return self._until_answers(server)
            except Unavailable:
                if self._processes[server].poll() is None or time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def start_tiering_job(self) -> None:
        """Start Fluss's own tiering service, the server `job`: it tiers all tables of a cluster of NEWEST
        into the Paimon of the plugin. It ends when a row fails."""
        self._launch("job", _job_command(self.address, self.warehouse, self._sign_in))

    def stop(self, server: str) -> None:
        """End it by SIGTERM: it says goodbye."""
        self._stop(server)

    def kill(self, server: str) -> None:
        """End it by SIGKILL. A tablet server that leads the only replica of a bucket loses the rows of
        its last tenth of a second, which it had acknowledged."""
        self._kill(server)

    def _begin(self, server: str) -> None:
        memory, program = _PROGRAMS[server.partition("-")[0]]
        place = self.folder / server
        config = [str(place / "zoo.cfg")] if server == "zookeeper" else ["--configDir", str(place)]
        java = [*_JAVA, memory, f"-Djava.io.tmpdir={place}", "-cp", f"{self._jars}/*"]
        self._launch(server, [*java, f"{self._package}.{program}", *config])

    def _until_answers(self, server: str) -> None:
        answers, name = partial(self._answers, server), f"{server} of Fluss"
        self._await(server, answers, seconds=_START_SECONDS, name=name)

    def _answers(self, server: str) -> bool:
        """Whether it does its work: a coordinator tells of itself, a tablet server is known to it."""
        if not listens(self._ports[server]):
            return False
        if server == "zookeeper":
            return True
        port = self._ports["coordinator"]
        connection = FlussConnection("127.0.0.1", port, timeout=5, sign_in=self._sign_in)
        with contextlib.closing(connection), contextlib.suppress(TablestoreError):
            metadata = connection.call(apis.METADATA, pb.MetadataRequest(), again=False)
            if server != "coordinator":
                return self._ports[server] in {other.port for other in metadata.tablet_servers}
            databases = connection.call(apis.LIST_DATABASES, pb.ListDatabasesRequest(), again=False)
            return len(databases.database_names) > 0  # it makes one when it starts
        return "coordinator" not in self._processes

    def _prepare(self, settings: Mapping[str, str]) -> None:
        """Write the settings of every server."""
        zookeeper = self.folder / "zookeeper"
        zookeeper.mkdir()
        address = ("clientPortAddress=127.0.0.1", f"clientPort={self._ports['zookeeper']}")
        quick = ("tickTime=500", "maxSessionTimeout=120000", "maxClientCnxns=0", "admin.enableServer=false")
        (zookeeper / "zoo.cfg").write_text("\n".join([f"dataDir={zookeeper}", *address, *quick]))
        shared = {
            **_SETTINGS,
            "zookeeper.address": f"127.0.0.1:{self._ports['zookeeper']}",
            "remote.data.dir": str(self.remote_folder),
        }
        for number, server in enumerate(("coordinator", *self._tablets)):
            place = self.folder / server
            place.mkdir()
            own = {
                "bind.listeners": f"FLUSS://127.0.0.1:{self._ports[server]}",
                "data.dir": str(place / "data"),
                **({} if server == "coordinator" else {"tablet-server.id": number - 1}),
            }
            lines = [f"{key}: {value}\n" for key, value in {**shared, **own, **settings}.items()]
            (place / "server.yaml").write_text("".join(lines))

    def _sign_in_settings(self, users: Mapping[str, str]) -> dict[str, str]:
        """What makes servers require one of these users, and sign in to each other as the first."""
        if not users:
            return {}
        name, password = next(iter(users.items()))
        accounts = " ".join(f'user_{user}="{secret}"' for user, secret in users.items())
        module = f"{self._package}.{_LOGIN_MODULE}"
        return {
            "security.protocol.map": "FLUSS:sasl",
            "security.sasl.enabled.mechanisms": MECHANISM,
            "security.sasl.plain.jaas.config": f"{module} required {accounts};",
            **_client_sign_in(Credentials(name, password)),
        }


class FlussTieringJob(PrivateServers):
    """Fluss's own tiering service, running when made: it tiers the tables of the cluster at `address`,
    host:port, into the Paimon tables of a `warehouse`, which must be there. It ends when a row fails.
    `close` (or the end of its `with` block) kills it. Not thread-safe."""

    def __init__(self, address: str, warehouse: Path, *, sign_in: Credentials | None = None) -> None:
        super().__init__("fluss-job")
        try:
            self._launch("job", _job_command(address, warehouse, sign_in))
        except BaseException:
            self.close()
            raise


def _job_command(address: str, warehouse: Path, sign_in: Credentials | None) -> list[str]:
    """What starts Fluss's own tiering service. Its password can be seen among the processes."""
    plugin = [str(path) for path in client_jars(NEWEST).iterdir() if path.name.startswith(_PLUGIN_JARS)]
    opens = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "nio", "util")]
    paths = ":".join([f"{job_jars()}/*", *plugin])
    java = [*_JAVA[:3], "-Xmx512m", "-XX:MaxDirectMemorySize=256m", *opens, "-cp", paths]
    user = {} if sign_in is None else _client_sign_in(sign_in)
    settings = {
        "fluss.bootstrap.servers": address,
        **{f"fluss.{key}": value for key, value in user.items()},
        "datalake.format": "paimon",
        **_paimon_settings(warehouse),
        "fluss.tiering.poll.table.interval": "500ms",
    }
    options = [text for key, value in settings.items() for text in (f"--{key}", value)]
    return [*java, f"{_PACKAGES[NEWEST]}.flink.tiering.FlussLakeTieringEntrypoint", *options]


def _paimon_settings(warehouse: Path) -> dict[str, str]:
    """The Paimon in which Fluss's plugin makes its tables."""
    return {"datalake.paimon.metastore": "filesystem", "datalake.paimon.warehouse": str(warehouse)}


def _client_sign_in(user: Credentials) -> dict[str, str]:
    """What makes a client sign in."""
    return {
        "client.security.protocol": "sasl",
        "client.security.sasl.mechanism": MECHANISM,
        "client.security.sasl.username": user.user,
        "client.security.sasl.password": user.password,
    }


def _add_lake(folder: Path) -> None:
    """Compile the lake that makes no tables, as a jar beside the others."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as classes:
        command = ["javac", "--release", "11", "-cp", f"{folder}/*", "-d", classes, str(_LAKE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise Unavailable(f"the lake of a private Fluss does not compile: {done.stderr.strip()[-500:]}")
        with zipfile.ZipFile(folder / "no-lake.jar", "w") as jar:
            for path in Path(classes).glob("*.class"):
                jar.write(path, path.name)
            jar.writestr(_SERVICE, _LAKE.stem)


def main() -> int:
    """Run a private cluster until Ctrl-C."""
    try:
        with FlussCluster() as cluster:
            print(f"fluss://{cluster.address}", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()
    except TablestoreError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
