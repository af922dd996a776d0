"""A Kafka broker (KRaft, one node) from Maven's jars, on 127.0.0.1."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from notebooks.demo.ports import free_port, listens
from tests.peers import require
from tests.servers.process import running

VERSION = "4.3.0"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tablestore</groupId><artifactId>kafka-jars</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
</dependencies></project>"""
SETTINGS = {
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
    "broker.session.timeout.ms": 1500,
    "broker.heartbeat.interval.ms": 300,
}
CLUSTER = "QLnoTHw8R2mN5mJtXbVqzA"  # fixed: one drawn can begin with "-", which the tool takes for an option
JAVA = ["java", "-Xmx256m", "-Xms256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
LOGGING = """Configuration:
  Appenders: {Console: {name: Out, PatternLayout: {pattern: "%d %p %m%n"}}}
  Loggers: {Root: {level: warn, AppenderRef: {ref: Out}}}
"""


@dataclass(frozen=True)
class Broker:
    """A running broker; `address` is host:port."""

    address: str

    def topic(self, *, partitions: int = 1, name: str = "", **config: Any) -> str:
        """A new topic's name; options of the topic with `_` for `.`."""
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        options = {key.replace("_", "."): str(value) for key, value in config.items()}
        self._done(self.admin.create_topics([NewTopic(name, partitions, 1, config=options)]))
        self._wait(name, partitions)
        return name

    @cached_property
    def admin(self) -> AdminClient:
        """A client that asks for and changes topics. It lives as long as the broker: one that is gone answers
        nothing that it was asked."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def more_partitions(self, topic: str, count: int) -> None:
        """The topic with so many partitions."""
        self.__dict__.pop("_sender", None)  # it knows the old ones for minutes
        self._done(self.admin.create_partitions([NewPartitions(topic, count)]))
        self._wait(topic, count)

    def _wait(self, topic: str, partitions: int) -> None:
        """Until the broker answers for a change that the controller has made."""
        until = time.monotonic() + 30
        while len(self.admin.list_topics(topic).topics[topic].partitions) != partitions:
            assert time.monotonic() < until, f"{topic} does not come"
            time.sleep(0.02)

    def send(self, topic: str, messages: Sequence[tuple[Any, Any]], *, partition: int = 0) -> None:
        """Messages as (key, value), in one partition and in this order."""
        for key, value in messages:
            self._sender.produce(topic, value, key, partition)
        assert self._sender.flush(60) == 0

    @cached_property
    def _sender(self) -> Producer:
        return self.producer()

    def producer(self, **config: Any) -> Producer:
        """A producer that keeps the order; options with `_` for `.`."""
        more = {key.replace("_", "."): value for key, value in config.items()}
        return Producer(
            {
                "bootstrap.servers": self.address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "log_level": 0,
                **more,
            }
        )

    def _done(self, futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(60)


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """It lives for a run; what it stored goes with `folder`."""
    require(shutil.which("java"), "needs Java (apt: openjdk-17-jdk-headless)")
    jars = f"{_jars()}/*"
    port, controller = free_port(), free_port()
    settings = {
        **SETTINGS,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder / "data"),
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    (folder / "log4j2.yaml").write_text(LOGGING)
    java = [*JAVA, f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.yaml'}", "-cp", jars]
    format = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(properties)]
    subprocess.run(format, check=True, capture_output=True, timeout=300)
    found = Broker(f"127.0.0.1:{port}")

    def ready() -> bool:
        return listens(port) and bool(found.admin.list_topics(timeout=5).brokers)

    with running([*java, "kafka.Kafka", str(properties)], ready=ready, log=folder / "broker.log"):
        yield found


def _jars() -> Path:
    """The folder of the jars, whole, fetched once for a machine."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tablestore-workbench"
    folder = cache / f"kafka-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "kafka.turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not folder.exists():
            require(shutil.which("mvn"), "needs Maven (apt: maven)")
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                pom = Path(scratch) / "pom.xml"
                pom.write_text(POM)
                goal = [
                    "dependency:copy-dependencies",
                    f"-DoutputDirectory={scratch}/jars",
                    "-DincludeScope=runtime",
                ]
                done = subprocess.run(
                    ["mvn", "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, timeout=900
                )
                problem = (done.stdout + done.stderr).strip()[-300:]
                require(done.returncode == 0, f"needs Kafka {VERSION} from Maven: {problem}")
                (Path(scratch) / "jars").rename(folder)
    return folder
