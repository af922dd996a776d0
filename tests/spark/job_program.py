"""A program with two SQL jobs, made to be killed: `job_program.py LAKE ENGINE`. Prints `batch` after each
batch, and runs until it is killed or its stdin ends."""

from __future__ import annotations

import sys
import threading

import tablestore as ts
from tablestore.sql import Session

LARGE = "SELECT id, upper(customer) AS who FROM orders WHERE amount > 15"
SUMS = "SELECT customer, count(*) AS n, sum(amount) AS total, max(amount) AS hi FROM orders GROUP BY customer"
STATEMENTS = (
    ("large", f"INSERT INTO large {LARGE}"),
    (
        "sums",
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO counted {SUMS}; "
        "INSERT INTO log SELECT n, word FROM words; END",
    ),
)


def start(session: Session) -> None:
    """Start both jobs, or go on with them; without Spark where the session has none."""
    session.settings.set("execution.target", "local" if session.spark is None else "spark")
    session.settings.set("execution.runtime-mode", "streaming")
    session.settings.set("execution.checkpointing.interval", "50 ms")
    for name, statement in STATEMENTS:
        session.settings.set("pipeline.name", name)
        session.sql(statement)
    session.settings.set("execution.runtime-mode", "batch")


def report(session: Session, ended: threading.Event) -> None:
    """Print a line for each batch."""
    before = 0
    while not ended.wait(0.05):
        actual = sum(session.sql("SHOW JOBS").to_arrow()["batches"].to_pylist())
        for _ in range(before, actual):
            print("batch", flush=True)
        before = max(before, actual)


def main(warehouse: str, engine: str) -> None:
    session = ts.sql_session(ts.connect(warehouse))
    if engine == "spark":
        session.spark = ts.spark.session("job-program", cores=2, memory="512m")
    session.sql("USE shop")
    start(session)
    ended = threading.Event()
    reporter = threading.Thread(target=report, args=(session, ended))
    reporter.start()
    sys.stdin.read()
    ended.set()
    reporter.join()
    session.jobs.stop_all()


if __name__ == "__main__":
    main(*sys.argv[1:])
