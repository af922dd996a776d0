"""A private Kafka: one broker (KRaft) in a temporary directory, on 127.0.0.1 only, which ends with its maker.

Its jars come from Maven once for a machine. A guard process outside ours removes server and directory when we
are gone.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from notebooks.demo.guard import Guard
from notebooks.demo.jars import fetched_jars, jars_folder
from notebooks.demo.ports import free_port, listens
from tablestore.core.errors import Unavailable, Unsupported
from tablestore.core.extras import required

VERSION = "4.3.0"
_NAME, _ARTIFACTS = f"kafka-{VERSION}", [f"org.apache.kafka:kafka_2.13:{VERSION}"]
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 500,
    "log.initial.task.delay.ms": 1000,
    "log.segment.delete.delay.ms": 500,
    "log.cleaner.dedupe.buffer.size": 16777216,
    "broker.session.timeout.ms": 1500,  # with the default a restart after a kill waits nine seconds
    "broker.heartbeat.interval.ms": 300,
}
_CLUSTER = "QLnoTHw8R2mN5mJtXbVqzA"  # fixed: one drawn can begin with "-", which the tool takes for an option
_JAVA = ["java", "-Xmx256m", "-Xms256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_LOGGING = """Configuration:
  Appenders: {Console: {name: Out, PatternLayout: {pattern: "%d %p %m%n"}}}
  Loggers: {Root: {level: warn, AppenderRef: {ref: Out}}}
"""
_START_SECONDS, _STOP_SECONDS = 180, 10


def missing() -> str:
    """What to install so that there can be a private Kafka; empty where it is there."""
    if shutil.which("java") is None:
        return "java not found; on Debian and Ubuntu: apt-get install openjdk-17-jdk-headless"
    if not jars_folder(_NAME).exists() and shutil.which("mvn") is None:
        return f"the jars of Kafka {VERSION} are not there; on Debian and Ubuntu: apt-get install maven"
    return ""


class KafkaBroker:
    """A private broker, running when made; `kill` and `start` it as often as you like, `close` (or the end of
    its `with` block) removes it with all it holds. `settings` are added to those of the server. Not
    thread-safe. Raises Unsupported, with what to install, where it cannot be had, Unavailable where it does
    not start."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        if absent := missing():
            raise Unsupported("a private Kafka", absent)
        jars = fetched_jars(_NAME, _ARTIFACTS)
        self.folder = Path(tempfile.mkdtemp(prefix="workbench-kafka-"))
        self._guard = Guard(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._port = free_port()
            self._java = self._prepare(jars, settings or {})
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> KafkaBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Host and port, for `kafka.bootstrap.servers`."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it where it was killed; returns when it answers."""
        log = self.folder / "broker.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self.folder / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us
            )
        self._guard.watch(self._process.pid)
        admin = required("confluent_kafka.admin", by="a private Kafka")
        client = None
        until = time.monotonic() + _START_SECONDS
        while True:
            if self._process.poll() is not None or time.monotonic() > until:
                raise Unavailable(f"Kafka did not start: {log.read_text(errors='replace')[-1500:]}")
            if listens(self._port):
                client = client or admin.AdminClient({"bootstrap.servers": self.address, "log_level": 0})
                try:
                    if client.list_topics(timeout=5).brokers:
                        return
                except required("confluent_kafka", by="a private Kafka").KafkaException:
                    pass
            time.sleep(0.05)

    def kill(self) -> None:
        """The end by SIGKILL."""
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process.wait()
        self._guard.watch()

    def close(self) -> None:
        """End it and remove its directory."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()  # nobody will read what it holds
            self._process.wait(_STOP_SECONDS)
            self._guard.watch()
        self._guard.close()

    def _prepare(self, jars: Path, settings: Mapping[str, str]) -> list[str]:
        """Write its settings and format its directory; the command of its programs."""
        controller = free_port()
        found = {
            **_SETTINGS,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": str(self.folder / "data"),
            **settings,
        }
        properties, logging = self.folder / "server.properties", self.folder / "log4j2.yaml"
        properties.write_text("".join(f"{key}={value}\n" for key, value in found.items()))
        logging.write_text(_LOGGING)
        java = [*_JAVA, f"-Dlog4j2.configurationFile=file:{logging}", "-cp", f"{jars}/*"]
        format = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)]
        made = subprocess.run(format, capture_output=True, text=True, timeout=300)
        if made.returncode:
            raise Unavailable(f"Kafka could not format its directory: {(made.stdout + made.stderr)[-1500:]}")
        return java
