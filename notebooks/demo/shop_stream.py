"""A shop on a streaming cluster: orders that are appended, customers that change, and a service of another
process that tiers them. The cluster is a private Fluss, or this engine's own coordinator over tables with a
log, which speaks the same protocol.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

import tablestore as ts
from notebooks.cli.places import ROOT
from notebooks.demo import fluss
from notebooks.demo.guard import Guard
from notebooks.demo.jars import jars_folder
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.tables import FlussColumn, TableDescriptor, TablePath
from tablestore.fluss.write import TableWriter
from tablestore.tiering.opening import journal_directory
from tablestore.tiering.report import HoldPhase

ORDERS, CUSTOMERS = "shop.orders", "shop.customers"
ORDER = {"order_id": ts.BIGINT, "customer": ts.INT, "amount": ts.DOUBLE}
CUSTOMER = {"customer": ts.INT.not_null(), "orders": ts.BIGINT}
PEOPLE, BUCKETS = 1_000, 2


class Streams(Protocol):
    """A cluster with the two tables."""

    @property
    def address(self) -> str:
        """What clients connect to."""

    def append(self, orders: pa.Table) -> None: ...

    def upsert(self, customers: pa.Table) -> None: ...

    def close(self) -> None: ...


class FlussStreams:
    """The tables in a private Fluss, whose lake is as fresh as `freshness` says."""

    def __init__(self, freshness: str) -> None:
        self._servers = fluss.FlussCluster()
        try:
            self._cluster = Cluster(self._servers.address)
            admin = Admin(self._cluster)
            admin.create_database("shop")
            lake = {"table.datalake.enabled": "true", "table.datalake.freshness": freshness}

            def writer(path: str, columns: Mapping[str, Any], key: tuple[str, ...]) -> TableWriter:
                fields = tuple(FlussColumn(name, t) for name, t in columns.items())
                descriptor = TableDescriptor(fields, key, (), key or ("order_id",), BUCKETS, lake)
                return TableWriter(self._cluster, admin.create_table(TablePath.parse(path), descriptor))

            self._orders, self._customers = (
                writer(ORDERS, ORDER, ()),
                writer(CUSTOMERS, CUSTOMER, ("customer",)),
            )
        except BaseException:
            self._servers.close()
            raise

    @property
    def address(self) -> str:
        """Host and port of the coordinator."""
        return self._servers.address

    def append(self, orders: pa.Table) -> None:
        """Append orders."""
        self._orders.append(orders)

    def upsert(self, customers: pa.Table) -> None:
        """Put customers in the place of those with their keys."""
        self._customers.upsert(customers)

    def close(self) -> None:
        """End the servers."""
        self._cluster.close()
        self._servers.close()


class OwnStreams:
    """The tables in a lake at `path`, each with a log, served as a cluster."""

    def __init__(self, path: Path, freshness: str) -> None:
        lake = ts.connect(path)
        log = {"log.system": "embedded", "bucket": BUCKETS}
        tiered = log | {"tablestore.tiering.enabled": True, "tablestore.tiering.freshness": freshness}
        self._orders = lake.create_table(ORDERS, schema=ORDER, options=tiered | {"bucket-key": "order_id"})
        self._customers = lake.create_table(
            CUSTOMERS, schema=CUSTOMER, primary_key=["customer"], options=tiered
        )
        self._coordinator = lake.coordinator()

    @property
    def address(self) -> str:
        """The lake, and host and port of its coordinator: by it a client finds the password."""
        return str(self._coordinator.address)

    def append(self, orders: pa.Table) -> None:
        """Append orders."""
        self._orders.write(orders)

    def upsert(self, customers: pa.Table) -> None:
        """Put customers in the place of those with their keys."""
        self._customers.write(customers)

    def close(self) -> None:
        """Serve no more."""
        self._coordinator.close()


def streams(kind: str, path: Path, *, freshness: str = "2s") -> tuple[Streams, str]:
    """The cluster and what it is: `fluss`, `own` (in the folder `path`), or `auto`: a Fluss if its jars are
    there."""
    if kind == "auto":
        there = not fluss.missing() and jars_folder(f"fluss-{fluss.VERSION}").exists()
        kind = "fluss" if there else "own"
    if kind == "fluss":
        return FlussStreams(freshness), f"Fluss {fluss.VERSION}"
    if kind == "own":
        return OwnStreams(path, freshness), "this engine's own coordinator"
    raise ts.InvalidRequest(f"cluster {kind!r} must be auto, fluss or own")


class Shop:
    """Writes orders, numbered from 0, and counts those of each customer; `open` begins to write all the time
    in a thread, `shut` ends that. `orders` is how many were written."""

    def __init__(self, streams: Streams, *, rows: int = 300, every: float = 0.2) -> None:
        self._streams, self._rows, self._every = streams, rows, every
        self.orders = 0
        self._counts = np.zeros(PEOPLE, np.int64)
        self._shut = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def sell(self, rows: int) -> None:
        """Write so many orders, then the customers who gave them."""
        numbers = np.arange(self.orders, self.orders + rows, dtype=np.int64)
        people = (numbers * 7919 % PEOPLE).astype(np.int32)
        amounts = (numbers % 997) / 8
        self._streams.append(pa.table({"order_id": numbers, "customer": people, "amount": amounts}))
        self.orders += rows
        self._counts += np.bincount(people, minlength=PEOPLE)
        changed = np.unique(people)
        self._streams.upsert(pa.table({"customer": changed, "orders": self._counts[changed]}))

    def open(self) -> None:
        """Sell all the time."""
        self._shut.clear()
        self._thread = threading.Thread(target=self._sell_on, name="shop", daemon=True)
        self._thread.start()

    def shut(self) -> int:
        """Sell no more; how many orders there are. Raises what a write has raised."""
        self._shut.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self.orders

    def _sell_on(self) -> None:
        try:
            while not self._shut.wait(self._every):
                self.sell(self._rows)
        except BaseException as e:  # `shut` raises it
            self._error = e


class ServiceProcess:
    """`./workbench tier` as a process of its own; `journal` is where it writes down what it does. `hold`
    makes its rounds wait before a phase, where they can be seen and killed, until `release`."""

    def __init__(self, address: str, warehouse: Path, *, name: str = "tier") -> None:
        command = [sys.executable, "-m", "notebooks.cli", "tier", "--from", f"fluss://{address}"]
        how = ["--warehouse", str(warehouse), "--tables", "shop.*", "--name", name, "--poll", "200ms"]
        self.journal = journal_directory(str(warehouse), name)
        self._folder = warehouse.parent / f"{warehouse.name}-{name}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._hold = self._folder / "hold"
        self._command = [*command, *how, "--hold", str(self._hold)]
        self._guard = Guard(self._folder)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start it, unless it runs; gives its journal."""
        if not self.running:
            with (self._folder / "output").open("ab") as out:
                self._process = subprocess.Popen(
                    self._command,
                    cwd=ROOT,
                    env=os.environ | {"NO_COLOR": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C is for us
                )
            self._guard.watch(self._process.pid)
        return self.journal

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def hold(self, phase: HoldPhase) -> None:
        """Its rounds wait before this phase from now on."""
        self._hold.write_text(phase)

    def release(self) -> None:
        """Its rounds wait no more."""
        self._hold.unlink(missing_ok=True)

    def kill(self) -> None:
        """End it by SIGKILL, whatever it is at."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it by Ctrl-C: it gives back the tables that it holds."""
        self._end(signal.SIGINT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None
            self._guard.watch()

    def report(self) -> ts.TieringReport:
        """What it has written down."""
        return ts.tiering_report(self.journal)

    def wait(self, true: Callable[[ts.TieringReport], object], *, seconds: float = 240) -> ts.TieringReport:
        """Wait until its report is so. Raises Unavailable, with its last words, where it ends or takes
        longer."""
        until = time.monotonic() + seconds
        while not true(report := self.report()):
            if not self.running or time.monotonic() > until:
                words = (self._folder / "output").read_text(errors="replace")
                raise ts.Unavailable(0, f"the service did not come to that: {words[-1500:]}")
            time.sleep(0.02)
        return report

    def close(self) -> None:
        """Release and stop it, and remove what it wrote to its terminal."""
        self.release()
        self.stop()
        self._guard.close()
