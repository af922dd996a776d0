"""A soak from start to end: sources that are written, services that are killed, and both sides compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

import tablestore as ts
from notebooks.demo import postgres
from notebooks.demo.mariadb import MariaDb
from notebooks.demo.postgres import Postgres
from notebooks.demo.private_database import PrivateDatabase
from notebooks.demo.shop_stream import CUSTOMERS, ORDERS, PEOPLE, Shop, streams
from notebooks.demo.source_checksums import TableComparison, compare, compare_postgres
from notebooks.soak import beside
from notebooks.soak.database import DATABASE, TABLES, Bank, Progress
from notebooks.soak.figures import Sampler, readings, stored_rows
from notebooks.soak.schedule import FREEZE, Fault, faults
from notebooks.soak.services import Services
from tablestore.cdc.capture.report import CaptureJournal
from tablestore.cdc.databases.address import Address
from tablestore.cdc.postgres.server import parse_address
from tablestore.cli.door import ExitCode

TIER, MAINTAIN, READER, WRITER = "tier", "maintain", "reader", "log writer"
_CLI = "tablestore.cli"
_LOOK_SECONDS, _SHOP_EVERY, _MOST_LOOKS = 1.0, 0.5, 2_000
_SETTLE_SECONDS, _BEGIN_SECONDS = 600.0, 300.0
_PAUSE = 0.2
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """How long, in seconds, how many rows a second each source is given, and by which seed; `cluster` is that
    of `shop_stream.streams`."""

    seconds: float
    rate: float
    seed: int
    cluster: str = "auto"


@dataclass(slots=True)
class Outcome:
    """What was compared and carried out, and what was wrong; nothing is wrong where `problems` is empty."""

    compared: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CapturedBank:
    """A bank, and the capture of its database: the service of that name writes into database `into`."""

    server: PrivateDatabase
    bank: Bank
    service: str
    into: str
    checkpoint: str

    @classmethod
    def open(
        cls, server: PrivateDatabase, service: str, into: str, plan: SoakPlan, folder: Path
    ) -> CapturedBank:
        """The bank of a server, which nobody writes yet."""
        bank = Bank(server, plan.seed, rate=plan.rate)
        if isinstance(server, Postgres):
            server.publish(DATABASE)
        return cls(server, bank, service, into, str(folder / f"checkpoint-{service}"))

    @property
    def source(self) -> list[str]:
        """Where it is, as options of the capture."""
        return [f"{self.server.url}/{DATABASE}", "--password-file", str(self.server.password_file)]

    def lag(self, lake: ts.Lake) -> float:
        """Seconds that the lake is late."""
        beats = lake.table(f"{self.into}.beat").scan(columns=["n"]).to_arrow()["n"].to_pylist()
        return self.bank.progress.lag(max(beats, default=-1))

    def is_loaded(self) -> bool:
        """Whether all of the first reading, and what changed meanwhile, is in the lake."""
        newest = CaptureJournal(self.checkpoint).reports(1)
        return bool(newest) and not newest[-1].snapshotting and not newest[-1].chunks

    def compare(self, name: str, lake: ts.Lake) -> TableComparison:
        """A table on both sides."""
        url, _, secret = self.source
        target = lake.table(f"{self.into}.{name}")
        if isinstance(self.server, Postgres):
            return compare_postgres(parse_address(url, password_file=secret), "public", name, target)
        return compare(Address.parse(url, password_file=secret), name, target)


class Soak:
    """Everything that runs, in a `with` block at whose end it is gone."""

    def __init__(self, plan: SoakPlan, folder: Path, tell: Tell) -> None:
        self.plan, self._folder, self._tell = plan, folder, tell
        self.outcome, self._stack = Outcome(), ExitStack()
        self._written, self._sold = Progress(), Progress()
        self._services_began = 0.0  # seconds since the epoch

    def __enter__(self) -> Soak:
        try:
            self._begin()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _begin(self) -> None:
        """Servers and sources, then the services, then the reader once all rows are there."""
        self._banks = [self._opened(MariaDb(), "cdc", "ods")]
        if not postgres.missing():
            self._banks.append(self._opened(Postgres(), "postgres-cdc", "postgres"))
        source, self.cluster = streams(self.plan.cluster, self._folder / "cluster")
        self._stack.callback(source.close)
        warehouse = str(self._folder / "lake")
        self.lake = ts.connect(warehouse)
        beside.create_events(self.lake)
        self._shop = Shop(source, rows=max(round(self.plan.rate * _SHOP_EVERY), 1), every=_SHOP_EVERY)
        self._services = self._stack.enter_context(Services(trusted=source.address.rpartition("@")[2]))
        self._add_services(warehouse, source.address)
        self._shop.open()
        self._stack.callback(self._shop.shut)
        for bank in self._banks:
            bank.bank.open()
            self._stack.callback(bank.bank.shut)
        self._services_began = time.time()
        for name in (*self._captures, TIER, MAINTAIN, WRITER):
            self._services.start(name)
        self._until(
            lambda: all(bank.is_loaded() for bank in self._banks),
            _BEGIN_SECONDS,
            "a capture has not read the tables",
        )
        self._services.start(READER)
        lags: dict[str, Callable[[], float]] = {"tiering": self._shop_lag, "log": self._log_lag}
        lags |= {bank.service: partial(bank.lag, self.lake) for bank in self._banks}
        self.sampler = Sampler(self._services, self.lake, lags)

    def _opened(self, server: PrivateDatabase, service: str, into: str) -> CapturedBank:
        self._stack.enter_context(server)
        return CapturedBank.open(server, service, into, self.plan, self._folder)

    @property
    def sources(self) -> str:
        """What is captured and tiered, in words."""
        return ", ".join([*(bank.server.title for bank in self._banks), self.cluster])

    @property
    def _captures(self) -> list[str]:
        return [bank.service for bank in self._banks]

    def _add_services(self, warehouse: str, address: str) -> None:
        options = [f"--table-option={key}={str(value).lower()}" for key, value in beside.BOUNDED.items()]
        how = ["--warehouse", warehouse, *options]
        local = ["--engine", "local", "--cores", "1", "--table-option=bucket=2"]
        add = self._services.add
        for bank in self._banks:
            into = ["--into", bank.into, "--checkpoint", bank.checkpoint]
            add(bank.service, _CLI, "cdc", "--from", *bank.source, *into, *local, *how)
        add(TIER, _CLI, "tier", "--from", f"fluss://{address}", "--tables", "shop.*", *how)
        add(MAINTAIN, _CLI, "maintain", "--warehouse", warehouse, "--runs", "4", "--poll", "1 s")
        place, rows = str(self._services.folder), max(round(self.plan.rate * 0.5), 1)
        add(WRITER, "notebooks.soak.beside", "write", warehouse, place, str(rows), metrics=False)
        add(READER, "notebooks.soak.beside", "read", warehouse, place, metrics=False)

    # ---- how far the lake is

    def _shop_lag(self) -> float:
        self._note_written()
        return self._sold.lag(stored_rows(self.lake.table(ORDERS)) if ORDERS in self.lake else 0)

    def _log_lag(self) -> float:
        self._note_written()
        return self._written.lag(beside.newest(self.lake.table(beside.EVENTS), log=False))

    def _note_written(self) -> None:
        """Note how much was written by now; the bank does so itself."""
        self._sold.note(self._shop.orders)
        path = self._services.folder / beside.WRITTEN
        if path.exists():
            self._written.note(int(path.read_text()))

    # ---- the run

    def run(self) -> None:
        """Keep it going for the time of the plan, with the faults of its seed."""
        began, every = time.monotonic(), max(_LOOK_SECONDS, self.plan.seconds / _MOST_LOOKS)
        targets = (*self._captures, TIER, MAINTAIN, READER, WRITER, *self._servers)
        steps = _steps(faults(self.plan.seed, self.plan.seconds, targets))
        look = began
        while (now := time.monotonic()) < began + self.plan.seconds or steps:
            self._restart_ended()
            self._note_written()
            if steps and now - began >= steps[0][0]:
                _, fault, begins = steps.pop(0)
                self._carry_out(fault, begins=begins)
            elif now >= look:
                self.sampler.look()
                look = max(look + every, time.monotonic())
            else:
                time.sleep(_PAUSE)

    def _carry_out(self, fault: Fault, *, begins: bool) -> None:
        """The beginning of a fault, or its end."""
        if begins:
            self._tell(str(fault))
            self.outcome.faults.append(fault)
        if (server := self._servers.get(fault.target)) is not None:
            if fault.kind == FREEZE:
                server.freeze(server.program, on=begins)
            else:
                (server.kill if begins else server.start)()
        elif fault.kind == FREEZE:
            self._services.freeze(fault.target, on=begins)
        else:
            (self._services.kill if begins else self._services.start)(fault.target)

    @property
    def _servers(self) -> dict[str, PrivateDatabase]:
        return {bank.server.title: bank.server for bank in self._banks}

    def _restart_ended(self) -> None:
        """Start again what has ended by itself, as a supervisor does, and note it."""
        for name, code in self._services.ended().items():
            text = f"{name} ended by itself with {code}: {self._services.output(name).strip()[-600:]}"
            expected = code == ExitCode.FAILED  # what it needs was away, and it is to be started again
            (self.outcome.notes if expected else self.outcome.problems).append(text)
            self._tell(text)
            self._services.start(name)

    def _until(self, true: Callable[[], bool], seconds: float, words: str) -> None:
        """Wait for something. Raises Unavailable with what every process said last."""
        until = time.monotonic() + seconds
        while not true():
            self._restart_ended()
            if time.monotonic() > until:
                said = [f"{name}: {self._services.output(name)[-400:]}" for name in self._services.names[:3]]
                raise ts.Unavailable(0, f"{words} within {seconds:.0f} s. {' '.join(said)}")
            time.sleep(_PAUSE)

    # ---- the end

    def finish(self) -> None:
        """End the sources, let the services come to an end, stop them, compare everything."""
        for bank in self._banks:
            bank.bank.shut()
        sold = self._shop.shut()
        self._stop(WRITER)
        wrong = self.outcome.problems
        try:
            self._until(lambda: not self._open_differences(sold), _SETTLE_SECONDS, "the lake lacks rows")
        except ts.Unavailable as e:
            wrong.append(str(e))
        wrong += [
            f"{name} is not well at the end: {self._services.illness(name)}"
            for name in (*self._captures, TIER, MAINTAIN)
            if self._services.illness(name)
        ]
        for name in (READER, *self._captures, TIER, MAINTAIN):
            self._stop(name)
        wrong += self._open_differences(sold, compared=self.outcome.compared)
        wrong += self._log_differences()
        lines = readings(self._services.folder)
        wrong += [
            f"a reading {line['at'] - self._services_began:.0f} s after the services' start: {problem}"
            for line in lines
            for problem in line["wrong"]
        ]
        self.outcome.compared.append(f"{len(lines):,} readings beside, each consistent in itself")
        for name in self.lake.tables():
            wrong += [f"{name}: {finding}" for finding in self.lake.table(name).check()]

    def _stop(self, name: str) -> None:
        code = self._services.stop(name)
        if name == MAINTAIN and code == ExitCode.FAILED:  # some work lost to another commit, and came again
            self.outcome.notes.append(f"{name} ended with {code}: some of its work had failed")
        elif code != ExitCode.INTERRUPTED:
            words = self._services.output(name).strip()[-600:]
            self.outcome.problems.append(
                f"{name}, asked to end: {code}, not {ExitCode.INTERRUPTED:d}: {words}"
            )

    def _open_differences(self, sold: int, *, compared: list[str] | None = None) -> list[str]:
        """What differs between a source and the lake, row by row; `compared` gets a line of each that is
        equal. The costly comparisons come once the cheap one says that all is there."""
        if compared is None and (self._shop_lag() or any(bank.lag(self.lake) for bank in self._banks)):
            return ["the lake is behind"]
        wrong: list[str] = []
        lines = []
        for bank, name in product(self._banks, TABLES):
            comparison = bank.compare(name, self.lake)
            wrong += comparison.differences
            lines.append(f"{comparison.source} = {comparison.target}: {comparison.rows:,} rows")
        wrong += shop_differences(self.lake, sold)
        lines.append(f"orders and customers of {self.cluster} = shop: {sold:,} orders")
        if compared is not None:
            compared += lines
        return wrong

    def _log_differences(self) -> list[str]:
        """The table with a log has all that was acknowledged, with the log and without."""
        table = self.lake.table(beside.EVENTS)
        self._note_written()
        acknowledged = self._written.count
        wrong = []
        for log in (True, False):
            wrong += [p for p in [beside.event_problem(table.scan(log=log).to_arrow())] if p]
            newest = beside.newest(table, log=log)
            if newest < acknowledged:
                wrong.append(f"{beside.EVENTS}: {acknowledged:,} was acknowledged, {newest:,} is there")
        self.outcome.compared.append(f"{beside.EVENTS}: {acknowledged + 1:,} rows were written in turn")
        return wrong


def _steps(planned: Sequence[Fault]) -> list[tuple[float, Fault, bool]]:
    """Beginnings and ends of faults in order."""
    both = [(fault.at, fault, True) for fault in planned]
    both += [(fault.at + fault.seconds, fault, False) for fault in planned]
    return sorted(both, key=lambda step: step[0])


def shop_differences(lake: ts.Lake, sold: int) -> list[str]:
    """What differs between the first `sold` orders of a `Shop`, with their customers, and the lake."""
    counts = np.zeros(sold, np.int64)
    wrong = strange = 0
    for batch in lake.table(ORDERS).scan().to_batches():
        numbers, amounts = batch["order_id"].to_numpy(), batch["amount"].to_numpy()
        inside = (numbers >= 0) & (numbers < sold)
        strange += int((~inside).sum())
        counts += np.bincount(numbers[inside], minlength=sold)
        wrong += int((amounts != (numbers % 997) / 8).sum())
        wrong += int((batch["customer"].to_numpy() != numbers * 7919 % PEOPLE).sum())
    lines = [
        (int((counts == 0).sum()), "are not in the lake"),
        (int((counts > 1).sum()), "are there more than once"),
        (strange, "were never written"),
        (wrong, "have other values"),
    ]
    differences = [f"{ORDERS}: {count:,} orders {words}" for count, words in lines if count]
    people = np.bincount(np.arange(sold) * 7919 % PEOPLE, minlength=PEOPLE)
    rows = lake.table(CUSTOMERS).scan().to_arrow().sort_by("customer")
    given = np.flatnonzero(people)
    if rows["customer"].to_pylist() != given.tolist() or rows["orders"].to_pylist() != people[given].tolist():
        differences.append(f"{CUSTOMERS}: the customers are not those of {sold:,} orders")
    return differences
