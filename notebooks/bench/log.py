"""measures the log of a table: from write to reader, and rows a second, embedded and in Kafka

Latency: one process changes a row at a time of a table that has many, another follows the table's stream, as
it was written or normalised; both look at the clock of the machine. Throughput: rows of four columns are
appended in one transaction and read back; beside it the same bytes by what each log stands on, a bare Arrow
file and librdkafka alone, as floors. CPU time is that of all threads of writer and reader, the broker's not
among it: it says the same on a machine that does other work, too.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tablestore
from notebooks.bench.parts import report
from notebooks.demo.kafka import KafkaBroker, missing
from tablestore.core.extras import required
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import CommitMark, Log
from tablestore.read.table_log import log_of

EMBEDDED, KAFKA = "embedded", "kafka"
EVENTUAL, NORMALISED, TRANSACTIONAL = "eventual", "eventual, normalised", "transactional"
AFTER = "transactional, from the commit"
MODES = (EVENTUAL, NORMALISED, TRANSACTIONAL, AFTER)
GOAL_MS = {EMBEDDED: 20, KAFKA: 50}
GOAL_ROWS, GOAL_SHARE = 1_000_000, 0.5
_BATCH, _BUCKETS, _LOADED = 50_000, 2, 250_000
_CHANGED = 1 << 40  # customers from here on are numbers of messages
_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("customer", pa.int64()),
        pa.field("price", pa.decimal128(15, 2)),
        pa.field("note", pa.string()),
    ]
)


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    print(f"{report.command('log', arguments)}\n{report.machine()}", flush=True)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-log-")))
        systems = {EMBEDDED: {"log.system": EMBEDDED}}
        absent = "left out (--no-kafka)" if chosen.no_kafka else missing()
        if absent:
            print(f"Kafka: {absent}")
        else:
            broker = stack.enter_context(KafkaBroker())
            systems[KAFKA] = {"log.system": KAFKA, "kafka.bootstrap.servers": broker.address}
        figures = measure(systems, chosen, place)
    print(show(figures), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./workbench bench log", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a transaction (default 1 M)")
    parser.add_argument("--keys", type=int, default=1_000_000, help="rows before the first (default 1 M)")
    parser.add_argument("--messages", type=int, default=300, help="single rows of each latency (default 300)")
    parser.add_argument("--pause-ms", type=float, default=10, help="between two of them (default 10)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each throughput (default 3)")
    parser.add_argument("--no-kafka", action="store_true", help="measure the embedded log alone")
    parser.add_argument("--json", type=Path, help="a file for every figure")
    return parser


def measure(
    systems: Mapping[str, Mapping[str, str]], chosen: argparse.Namespace, place: Path
) -> dict[str, Any]:
    """Latencies and CPU times in milliseconds, and (rows a second, rows a second of CPU time), by system."""
    figures: dict[str, Any] = {}
    for system, options in systems.items():
        for mode in (EVENTUAL, NORMALISED, TRANSACTIONAL):
            warehouse = str(place / f"{system}-{mode.replace(', ', '-')}")
            run = latencies(warehouse, options, mode, chosen)
            figures[f"{system}/{mode}"] = {"ms": run.from_write, "cpu": run.cpu}
            if mode == TRANSACTIONAL:
                figures[f"{system}/{AFTER}"] = {"ms": run.from_return, "cpu": run.cpu}
    for _ in range(chosen.rounds):
        for system, options in systems.items():
            for step, rates in throughput(place, system, options, chosen.rows).items():
                figures.setdefault(f"{system}/{step}", []).append(rates)
    return figures


@dataclass(frozen=True)
class Latencies:
    """Milliseconds until the reader has a row, each by itself: from the call that writes it, and from its
    return. `cpu`: milliseconds of CPU time a row, of the writer and of the reader."""

    from_write: list[float]
    from_return: list[float]
    cpu: tuple[float, float]


def latencies(warehouse: str, options: Mapping[str, str], mode: str, chosen: argparse.Namespace) -> Latencies:
    """How soon a reader has each of the rows that are changed one by one."""
    lake = tablestore.Lake(warehouse)
    consistency = {"log.consistency": TRANSACTIONAL if mode == TRANSACTIONAL else EVENTUAL}
    table = lake.create_table(
        "shop.orders", schema=_SCHEMA, primary_key=["id"], options={"bucket": 1, **options, **consistency}
    )
    for n in range(0, chosen.keys, _LOADED):
        table.write(_rows(n, min(_LOADED, chosen.keys - n)))
    context = multiprocessing.get_context("spawn")
    ready, queue = context.Event(), context.Queue()
    asked = warehouse, chosen.messages, None if mode == NORMALISED else False, ready, queue
    reader = context.Process(target=_follow, args=asked, daemon=True)
    reader.start()
    table, began, returned = lake.table("shop.orders"), [], []
    with ExitStack() as stack:
        write = table.write if mode == TRANSACTIONAL else stack.enter_context(table.writer()).write
        while not ready.is_set():  # it has read the table, and filled its state
            if reader.exitcode is not None:
                raise SystemExit("the reader did not start")
            write(_rows(-1, 1))
            ready.wait(1)
        cpu = time.process_time()
        for row in [_changed(n, chosen) for n in range(chosen.messages)]:
            began.append(time.monotonic_ns())
            write(row)
            returned.append(time.monotonic_ns())
            time.sleep(chosen.pause_ms / 1000)
        cpu = time.process_time() - cpu
    seen, cpu_of_reader = queue.get(timeout=120)
    reader.join(30)
    if len(seen) != chosen.messages:
        raise SystemExit(f"the reader has {len(seen)} of {chosen.messages} rows")
    return Latencies(
        [(seen[n] - began[n]) / 1e6 for n in seen],
        [max(seen[n] - returned[n], 0) / 1e6 for n in seen],
        (cpu * 1000 / chosen.messages, cpu_of_reader * 1000 / chosen.messages),
    )


def _changed(number: int, chosen: argparse.Namespace) -> pa.RecordBatch:
    """The row of that number as it is changed: its customer says the number."""
    row = _rows(number * max(1, chosen.keys // chosen.messages), 1)
    return row.set_column(1, "customer", pa.array([_CHANGED + number]))


def _follow(warehouse: str, wanted: int, normalize: bool | None, ready: Event, queue: Any) -> None:
    """The reader's process: when it had each row first, and its CPU time."""
    table = tablestore.Lake(warehouse).table("shop.orders")
    seen: dict[int, int] = {}
    cpu = 0.0
    for change in table.stream(start="latest-full", normalize=normalize):
        if change.source != "log":
            continue
        for batch in change.batches:
            now = time.monotonic_ns()
            for customer in batch.column("customer").to_pylist():
                if customer >= _CHANGED:
                    seen.setdefault(customer - _CHANGED, now)
        if not ready.is_set():
            ready.set()
            cpu = time.process_time()
        if len(seen) >= wanted:
            break
    queue.put((seen, time.process_time() - cpu))


def throughput(
    place: Path, system: str, options: Mapping[str, str], rows: int
) -> dict[str, tuple[float, float]]:
    """(rows a second, rows a second of CPU time) of one transaction, of reading it, and of the floors."""
    name = f"t{time.monotonic_ns()}"
    lake = tablestore.Lake(str(place / "throughput"))
    lake.create_table(
        f"shop.{name}", schema=_SCHEMA, primary_key=["id"], options={"bucket": _BUCKETS, **options}
    )
    table = lake.table(f"shop.{name}")
    log = log_of(table.store)
    assert log is not None, "the table was made with one"
    batches = [_rows(n, min(_BATCH, rows - n)) for n in range(0, rows, _BATCH)]
    figures = {"append": _rates(rows, lambda: _append(log, batches))}
    figures["read"] = _rates(rows, lambda: _read(log, rows))
    if isinstance(log, KafkaLog):
        messages = _messages(log, batches)
        figures["librdkafka alone, send"] = _rates(rows, lambda: _produce(log, messages, f"{name}-floor"))
        figures["librdkafka alone, receive"] = _rates(rows, lambda: _consume(log, f"{name}-floor", rows))
    else:
        file = place / "floor.arrow"
        figures["Arrow IPC file, write"] = _rates(rows, lambda: _write_ipc(file, batches))
        figures["Arrow IPC file, read"] = _rates(rows, lambda: _read_ipc(file, rows))
    log.close()
    lake.drop_table(f"shop.{name}")
    return figures


def _rows(start: int, count: int) -> pa.RecordBatch:
    ids = np.arange(start, start + count)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ids),
            pa.array(ids % 1000),
            pa.array(ids).cast(pa.decimal128(19, 0)).cast(pa.decimal128(15, 2), safe=False),
            pa.array([f"order {n} of the shop" for n in ids]),
        ],
        schema=_SCHEMA,
    )


def _rates(rows: int, step: Callable[[], None]) -> tuple[float, float]:
    begin, cpu = time.perf_counter(), time.process_time()
    step()
    return rows / (time.perf_counter() - begin), rows / (time.process_time() - cpu)


def _append(log: Log, batches: list[pa.RecordBatch]) -> None:
    appender = log.appender()
    for n, batch in enumerate(batches):
        appender.write(n % _BUCKETS, _inserted(batch), batch)
    appender.commit(CommitMark("bench", 1))


def _inserted(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(np.zeros(batch.num_rows, np.int8))


def _read(log: Log, rows: int) -> None:
    bounds = log.bounds()
    _require(sum(batch.rows.num_rows for batch in log.read(bounds.start, bounds.end)), rows)


def _require(rows: int, wanted: int) -> None:
    if rows != wanted:
        raise SystemExit(f"{rows:,} of {wanted:,} rows were read")


def _messages(log: KafkaLog, batches: list[pa.RecordBatch]) -> list[tuple[int, list[dict[str, Any]]]]:
    messages = []
    for n, batch in enumerate(batches):
        keys, values = log.format.encode(_inserted(batch), batch)
        pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
        messages.append((n % _BUCKETS, [{"key": key, "value": value} for key, value in pairs]))
    return messages


def _produce(log: KafkaLog, messages: list[tuple[int, list[dict[str, Any]]]], topic: str) -> None:
    kafka = required("confluent_kafka", by="bench log")
    admin = required("confluent_kafka.admin", by="bench log")
    server = dict(log.properties)["bootstrap.servers"]
    client = admin.AdminClient({"bootstrap.servers": server})
    client.create_topics([admin.NewTopic(topic, num_partitions=_BUCKETS)])[topic].result(30)
    producer = kafka.Producer(
        {
            "bootstrap.servers": server,
            "transactional.id": topic,
            "compression.type": "lz4",
            "linger.ms": 20,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition, batch in messages:
        producer.produce_batch(topic, batch, partition)
    producer.commit_transaction(60)


def _consume(log: KafkaLog, topic: str, rows: int) -> None:
    count = sum(1 for _ in _received(dict(log.properties)["bootstrap.servers"], topic, rows))
    _require(count, rows)


def _received(server: str, topic: str, rows: int) -> Iterator[bytes]:
    kafka = required("confluent_kafka", by="bench log")
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": server,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
            "queued.max.messages.kbytes": 32768,
        }
    )
    consumer.assign([kafka.TopicPartition(topic, p, 0) for p in range(_BUCKETS)])
    remaining = rows
    while remaining:
        for message in consumer.consume(20_000, 1):
            if message.error() is None:
                remaining -= 1
                yield message.value()
    consumer.close()


def _write_ipc(file: Path, batches: list[pa.RecordBatch]) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, _SCHEMA, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _read_ipc(file: Path, rows: int) -> None:
    with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as reader:
        _require(sum(batch.num_rows for batch in reader), rows)


def show(results: Mapping[str, Any]) -> str:
    """The figures as two tables, with goals."""
    waits = []
    for name in [f"{system}/{mode}" for system in (EMBEDDED, KAFKA) for mode in MODES]:
        if name not in results:
            continue
        system, mode = name.split("/")
        values = sorted(results[name]["ms"])
        middle, late = statistics.median(values), values[int(len(values) * 0.99)]
        goal = "" if mode == TRANSACTIONAL else f"{GOAL_MS[system]} ms"
        figures = [f"{value:.1f} ms" for value in (middle, late, values[-1])]
        waits.append([system, mode, *figures, *(f"{value:.1f} ms" for value in results[name]["cpu"]), goal])
    header = ["log", "rows are seen", "p50", "p99", "most", "CPU of writer", "of reader", "goal (p50)"]
    rates = []
    for name, values in results.items():
        system, step = name.split("/", 1)
        if step in MODES:
            continue
        wall, cpu = (statistics.median(each) for each in zip(*values, strict=True))
        floor, shares = _FLOORS.get((system, step)), ["", ""]
        if floor is not None:
            floors = (statistics.median(each) for each in zip(*results[f"{system}/{floor}"], strict=True))
            shares = [f"{mine / its:.2f}" for mine, its in zip((wall, cpu), floors, strict=True)]
        millions = report.spread([each / 1e6 for each, _ in values])
        rates.append([system, step, f"{wall:,.0f}", millions, f"{cpu:,.0f}", *shares])
    columns = ["log", "step", "rows/s", "millions", "rows/s of CPU", "share of the floor", "by CPU"]
    return "\n".join(
        [
            "",
            report.text(header, waits),
            "",
            report.text(columns, rates),
            f"goals: {GOAL_ROWS:,} rows/s embedded; {GOAL_SHARE} of librdkafka's own rate for Kafka",
        ]
    )


_FLOORS = {
    (EMBEDDED, "append"): "Arrow IPC file, write",
    (EMBEDDED, "read"): "Arrow IPC file, read",
    (KAFKA, "append"): "librdkafka alone, send",
    (KAFKA, "read"): "librdkafka alone, receive",
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
