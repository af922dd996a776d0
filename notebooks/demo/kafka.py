"""A private Kafka: one broker (KRaft) in a temporary directory, on 127.0.0.1 only, which ends with its maker.

Its jars come from Maven once for a machine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from notebooks.demo.jars import fetched_jars, jars_folder
from notebooks.demo.ports import free_port, listens
from notebooks.demo.private_servers import PrivateServers
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
_SERVER, _START_SECONDS = "broker", 180


def missing() -> str:
    """What to install so that there can be a private Kafka; empty where it is there."""
    if shutil.which("java") is None:
        return "java not found; on Debian and Ubuntu: apt-get install openjdk-17-jdk-headless"
    if not is_fetched() and shutil.which("mvn") is None:
        return f"the jars of Kafka {VERSION} are not there; on Debian and Ubuntu: apt-get install maven"
    return ""


def is_fetched() -> bool:
    """Whether its jars are on this machine."""
    return jars_folder(_NAME).exists()


def fetch() -> Path:
    """The folder of its jars. Raises Unavailable where Maven does not bring them."""
    return fetched_jars(_NAME, _ARTIFACTS)


class KafkaBroker(PrivateServers):
    """A private broker, running when made; `kill` and `start` it as often as you like, `close` (or the end of
    its `with` block) removes it with all it holds. `settings` are added to those of the server. Not
    thread-safe. Raises Unsupported, with what to install, where it cannot be had, Unavailable where it does
    not start."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        if absent := missing():
            raise Unsupported("a private Kafka", absent)
        jars = fetch()
        super().__init__("kafka")
        try:
            self._port = free_port()
            self._java = self._prepare(jars, settings or {})
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """Host and port, for `kafka.bootstrap.servers`."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it where it was killed; returns when it answers."""
        self._launch(_SERVER, [*self._java, "kafka.Kafka", str(self.folder / "server.properties")])
        admin = required("confluent_kafka.admin", by="a private Kafka")
        refused = required("confluent_kafka", by="a private Kafka").KafkaException

        @cache
        def client() -> Any:
            return admin.AdminClient({"bootstrap.servers": self.address, "log_level": 0})

        def answers() -> bool:
            with suppress(refused):
                return listens(self._port) and bool(client().list_topics(timeout=5).brokers)
            return False

        self._await(_SERVER, answers, seconds=_START_SECONDS, name="Kafka")

    def kill(self) -> None:
        """The end by SIGKILL."""
        self._kill(_SERVER)

    def _prepare(self, jars: Path, settings: Mapping[str, str]) -> list[str]:
        """Write its settings and format its directory; the command of its programs."""
        controller = free_port()
        values = {
            **_SETTINGS,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": str(self.folder / "data"),
            **settings,
        }
        properties, logging = self.folder / "server.properties", self.folder / "log4j2.yaml"
        properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        logging.write_text(_LOGGING)
        java = [*_JAVA, f"-Dlog4j2.configurationFile=file:{logging}", "-cp", f"{jars}/*"]
        format = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)]
        formatted = subprocess.run(format, capture_output=True, text=True, timeout=300)
        if formatted.returncode:
            raise Unavailable(
                f"Kafka could not format its directory: {(formatted.stdout + formatted.stderr)[-1500:]}"
            )
        return java
