"""FlinkSql: the client of tests/peers/flink/FlinkPeer.java, Flink SQL over Java Paimon, one JVM.

    flink.start(warehouse)                                   # a new session with the catalog `lake` in use
    flink.run("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v STRING)")
    flink.run("INSERT INTO t VALUES (1, 'a')")
    flink.run("SELECT * FROM t").rows == [["1", "a"]]
    flink.run("SET 'execution.runtime-mode' = 'streaming'")
    flink.run("SELECT * FROM t", limit=1)                    # the job is cancelled after one row

Values are texts as Flink's own client shows them (`1.50`, `TRUE`, `2024-01-01 00:00:00.000`, `[1, 2]`), NULL
is None. INSERT, UPDATE and DELETE return when their job has ended. The local time zone is UTC, parallelism 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.peers.flink_env import class_path
from tests.peers.java_process import JavaProcess

OPEN = ("--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED")


class FlinkError(AssertionError):
    """Flink refused a statement or failed in it; the text is the message of the root cause."""


@dataclass(frozen=True, slots=True)
class FlinkResult:
    """What a statement gave: columns [[name, Flink's type]], rows of texts, each row's kind ("+I", ..)."""

    columns: list[list[str]]
    rows: list[list[str | None]]
    kinds: list[str]


class FlinkSql(JavaProcess):
    """Runs statements with Flink 2.0.0 and Java Paimon 2.0.0. One at a time."""

    def __init__(self) -> None:
        super().__init__("FlinkPeer", class_path(), flags=OPEN)

    def start(self, warehouse: str | Path, *, settings: Mapping[str, str] | None = None) -> None:
        """A new session whose catalog `lake` has its tables in `warehouse`; what the last one set is gone."""
        self._ask(new=True, settings=dict(settings or {}))
        self.run(f"CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '{warehouse}')")
        self.run("USE CATALOG lake")

    def run(self, statement: str, *, limit: int = 10_000) -> FlinkResult:
        """One statement, with or without its `;`. At most `limit` rows are awaited."""
        return FlinkResult(**self._ask(sql=statement.strip().removesuffix(";"), limit=limit))

    def _ask(self, **request: Any) -> Any:
        answer = self.answer(request)
        if answer is None:
            raise AssertionError(f"the Java process ended at {request}")
        if "error" in answer:
            raise FlinkError(answer["error"])
        return answer
