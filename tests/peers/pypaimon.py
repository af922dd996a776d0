"""`PyPaimon(warehouse)`: pypaimon seen from a test, in its own process and environment.

One process serves the whole run, since its import takes seconds; it ends with the run.

    peer = PyPaimon(warehouse)                 # skips, with the reason, where pypaimon cannot be had
    rows = peer.read("shop.orders", snapshot=3)
"""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.peers import pypaimon_env
from tests.suite import counterparts


class PeerError(Exception):
    """pypaimon refused or failed; the text is its own, the note its traceback."""

    def __init__(self, text: str, *, detail: str) -> None:
        super().__init__(text)
        self.add_note(detail)


class PyPaimon:
    """A warehouse through pypaimon. Safe to use from several threads: requests take turns."""

    def __init__(self, warehouse: str | Path) -> None:
        counterparts.need("pypaimon")
        self.warehouse = str(warehouse)

    def read(
        self,
        table: str,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        columns: Sequence[str] | None = None,
        options: dict[str, str] | None = None,
    ) -> pa.Table:
        """The table's rows, in pypaimon's order, with pypaimon's types. `options` are dynamic options."""
        chosen = dict(options or {})
        if snapshot is not None:
            chosen["scan.snapshot-id"] = str(snapshot)
        if tag is not None:
            chosen["scan.tag-name"] = tag
        driver = _driver()
        out = driver.fresh_file()
        wanted = None if columns is None else list(columns)
        self._ask("read", table, out=str(out), columns=wanted, options=chosen)
        rows = _load(out)
        out.unlink()
        return rows

    def create(
        self,
        table: str,
        *,
        schema: pa.Schema,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: dict[str, str] | None = None,
    ) -> None:
        """Create the table, and its database if that is missing."""
        rows = _driver().keep(schema.empty_table())
        keys = {"primary_keys": list(primary_keys), "partition_keys": list(partition_keys)}
        self._ask("create", table, rows=rows, options=dict(options or {}), **keys)

    def write(
        self,
        table: str,
        rows: pa.Table,
        *,
        overwrite: bool = False,
        options: dict[str, str] | None = None,
    ) -> int:
        """Commit `rows` (columns cast to the table's types); the id of the newest snapshot."""
        kept = _driver().keep(rows)
        return int(self._ask("write", table, rows=kept, overwrite=overwrite, options=dict(options or {})))

    def snapshots(self, table: str) -> list[dict[str, Any]]:
        """id, schema_id, commit_kind, commit_user, commit_identifier and record counts, oldest first."""
        return list(self._ask("snapshots", table))

    def tables(self, database: str) -> list[str]:
        return list(self._ask("tables", database))

    def _ask(self, operation: str, table: str, **arguments: Any) -> Any:
        return _driver().ask(
            {"operation": operation, "warehouse": self.warehouse, "table": table, **arguments}
        )


class Driver:
    """The process, its two pipes and a directory of exchanged files."""

    def __init__(self, python: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pypaimon-")
        self._errors = (Path(self._folder.name) / "stderr").open("w+")
        script = Path(__file__).with_name("pypaimon_driver.py")
        self._process = subprocess.Popen(
            [str(python), "-P", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=self._folder.name,
        )
        self._one_at_a_time = threading.Lock()
        self._files = 0

    def ask(self, request: dict[str, Any]) -> Any:
        """The answer's value; PeerError when pypaimon raised or its process ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._one_at_a_time:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise PeerError("pypaimon's process ended", detail=self._errors.read()[-4000:])
        answer = json.loads(line)
        if not answer["ok"]:
            raise PeerError(answer["error"], detail=answer["traceback"])
        return answer["value"]

    def fresh_file(self) -> Path:
        with self._one_at_a_time:
            self._files += 1
            return Path(self._folder.name) / f"{self._files}.arrow"

    def keep(self, rows: pa.Table) -> str:
        """`rows` in a file of the format both sides' Arrow versions read."""
        path = self.fresh_file()
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        return str(path)

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
        self._folder.cleanup()


@functools.cache
def _driver() -> Driver:
    python = pypaimon_env.python().path
    assert python is not None, "PyPaimon() is made before a request is sent"
    driver = Driver(python)
    atexit.register(driver.close)
    return driver


def _load(path: Path) -> pa.Table:
    with pa.OSFile(str(path), "rb") as source:
        return pa.ipc.open_file(source).read_all()
