"""A private Spark standalone cluster: a master and workers, each a process with a directory of its own, on
127.0.0.1 only.

`python -m notebooks.cli cluster` runs one until Ctrl-C. Its processes know nothing of this checkout: they
have neither its directory nor its variables, so that what a job needs is what it ships.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pyspark

from notebooks.demo.ports import free_port
from notebooks.demo.private_servers import PrivateServers
from tablestore.core.errors import InvalidRequest, Unavailable

_HOME = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"
_START_SECONDS = 180
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true"
_KEPT = ("PATH", "HOME", "LANG", "JAVA_HOME", "TZ")
"""Variables of this process that its servers have, too."""


class SparkCluster(PrivateServers):
    """A master and `workers` workers, running when made; each worker runs tasks on `cores` cores and gives
    `memory_mb` to executors. The servers `master`, `worker-1`, … can be killed and started one by one: a
    master that comes back knows its workers and applications. `close` (or the end of its `with` block) ends
    them.

    Raises InvalidRequest for a number below 1, Unavailable where a server does not start.
    """

    def __init__(self, *, workers: int = 2, cores: int = 1, memory_mb: int = 1024) -> None:
        for name, number in (("workers", workers), ("cores", cores), ("memory", memory_mb)):
            if number < 1:
                raise InvalidRequest(f"{name} {number} must be a number above 0")
        super().__init__("spark")
        self.workers = [f"worker-{number + 1}" for number in range(workers)]
        self._cores, self._memory = cores, memory_mb
        self._ports = {name: free_port() for name in ("master", "page", *self.workers)}
        try:
            self.start("master")
            for worker in self.workers:
                self._begin(worker)
            for worker in self.workers:
                self._until_alive(worker, frozenset())
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """What `spark.master` is set to."""
        return f"spark://{_HOST}:{self._ports['master']}"

    @property
    def page(self) -> str:
        """The master's page for a browser."""
        return f"http://{_HOST}:{self._ports['page']}"

    def status(self) -> Mapping[str, object]:
        """What the master says of its workers and applications. Raises Unavailable where it does not."""
        try:
            with urllib.request.urlopen(f"{self.page}/json/", timeout=10) as answer:
                status: Mapping[str, object] = json.load(answer)
                return status
        except (URLError, OSError, ValueError) as e:
            raise Unavailable(f"the master at {self.page} does not answer: {e}") from None

    def alive(self) -> frozenset[str]:
        """The ids of the workers that the master believes to be alive: when they began, host and port."""
        workers: Any = self.status()["workers"]
        return frozenset(worker["id"] for worker in workers if worker["state"] == "ALIVE")

    def states(self) -> dict[str, str]:
        """The states of workers and applications by what a person calls them."""
        status: Any = self.status()
        names = {str(port): name for name, port in self._ports.items()}
        of_workers = {names[str(worker["port"])]: worker for worker in status["workers"]}
        states = {
            name: f"{w['state']}, {w['coresused']} of {w['cores']} cores used"
            for name, w in of_workers.items()
        }
        for application in [*status["activeapps"], *status["completedapps"]]:
            seconds = application["duration"] / 1000
            took = f" after {seconds:.0f} s" if application["state"] != "RUNNING" else ""
            name = f"application {application['id']} ({application['name']})"
            states[name] = f"{application['state']}{took}, {application['cores']} cores"
        return states

    def start(self, server: str) -> None:
        """Start a server that was killed; returns when it answers."""
        if server == "master":
            self._begin(server)
            self._await(server, self._answers, seconds=_START_SECONDS, name="the master of Spark")
        else:
            before = self.alive()
            self._begin(server)
            self._until_alive(server, before)

    def kill(self, server: str) -> None:
        """End it by SIGKILL; the executors of a worker end with it."""
        self._kill(server)

    def _begin(self, server: str) -> None:
        place = self.folder / server
        place.mkdir(exist_ok=True)
        self._launch(server, self._command(server, place), self._environment(place), folder=place)

    def _command(self, server: str, place: Path) -> list[str]:
        script = str(_HOME / "bin" / "spark-class")
        if server == "master":
            where = ["--port", str(self._ports["master"]), "--webui-port", str(self._ports["page"])]
            return [script, "org.apache.spark.deploy.master.Master", "--host", _HOST, *where]
        offers = ["--cores", str(self._cores), "--memory", f"{self._memory}m"]
        where = ["--host", _HOST, "--port", str(self._ports[server]), "--webui-port", "0"]
        where += ["--work-dir", str(place / "work")]
        return [script, "org.apache.spark.deploy.worker.Worker", *where, *offers, self.url]

    def _environment(self, place: Path) -> dict[str, str]:
        recovery = self.folder / "master" / "recovery"
        keeps = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={recovery}"
        return {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            "SPARK_HOME": str(_HOME),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_LOCAL_HOSTNAME": _HOST,
            "SPARK_LOCAL_DIRS": str(place / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{_JAVA} -Dspark.ui.killEnabled=false {keeps}",
            "PYSPARK_PYTHON": sys.executable,
            "OMP_NUM_THREADS": "1",
        }

    def _answers(self) -> bool:
        try:
            return bool(self.status())
        except Unavailable:
            return False

    def _until_alive(self, worker: str, before: Set[str]) -> None:
        """Wait until the master knows the worker by an id that is not one of those `before`."""
        port = f"-{self._ports[worker]}"
        self._await(
            worker,
            lambda: any(name.endswith(port) for name in self.alive() - before),
            seconds=_START_SECONDS,
            name=f"{worker} of Spark",
        )
