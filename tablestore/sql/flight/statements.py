"""What clients have asked for and not fetched yet: statements that are ready to give their rows, each once.

A SELECT is planned when it is asked for: its snapshot is that moment's, and no row is computed before it is
fetched. A statement that changes something is carried out when its result is fetched, so that a client that
asks twice what it will be does not do it twice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablestore.core.env import Env
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.sql.dialect.tokenizer import pieces, placeholders
from tablestore.sql.form import FunctionStatement
from tablestore.sql.forms import statement_of
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.sql.statements.queries import Explain, Select

AFFECTED = pa.schema([pa.field("rows_affected", pa.int64())])
"""What a client gets that fetches the result of a statement without rows; NULL where it writes none."""
MOST, KEPT_SECONDS = 256, 600
"""So many statements wait to be fetched, so long at most; then the oldest goes."""
Parameters = list[Any] | None
Sessions = Callable[[], Session]


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement that was read, with the values for its `?`."""

    text: str
    reads: bool
    parameters: Parameters = None


@dataclass(frozen=True, slots=True)
class ReadyStatement:
    """A statement whose rows can be fetched: the columns, and what gives the rows, once."""

    schema: pa.Schema
    rows: Callable[[], Iterator[pa.RecordBatch]]
    since: float


class Statements:
    """Statements of all clients, by handles. `sessions` makes the session in which a
    statement runs. Safe to share."""

    def __init__(self, sessions: Sessions, *, writes: bool, env: Env) -> None:
        self._sessions, self._writes, self._env = sessions, writes, env
        self._lock = threading.Lock()
        self._ready: OrderedDict[bytes, ReadyStatement] = OrderedDict()
        self._prepared: OrderedDict[bytes, PreparedStatement] = OrderedDict()

    def ask(self, text: str, parameters: Parameters = None) -> tuple[bytes, pa.Schema]:
        """The handle and the columns of a statement. Raises what the statement raises."""
        if self._reads(text):
            result = self._result(text, parameters)
            ready = ReadyStatement(result.schema, result.to_batches, self._now())
        else:
            ready = ReadyStatement(AFFECTED, lambda: self._affected(text, parameters), self._now())
        with self._lock:
            return self._kept(self._ready, ready), ready.schema

    def fetch(self, handle: bytes) -> ReadyStatement:
        """The statement of a handle, which is forgotten. Raises NotFound."""
        with self._lock:
            ready = self._ready.pop(handle, None)
        if ready is None:
            raise NotFound(f"no such statement: each is fetched once, within {KEPT_SECONDS // 60} minutes")
        return ready

    def change(self, text: str, parameters: Parameters = None) -> int:
        """Carry out a statement; how many rows it wrote, -1 where it does not say. Raises what it raises."""
        self._reads(text)
        affected = self._result(text, parameters).rows_affected
        return -1 if affected is None else affected

    def prepare(self, text: str) -> tuple[bytes, pa.Schema | None]:
        """The handle of a prepared statement, and its columns where they are known without values."""
        prepared = PreparedStatement(text, self._reads(text))
        schema = AFFECTED if not prepared.reads else None
        if prepared.reads and not placeholders(text):
            schema = self._result(text, None).schema
        with self._lock:
            return self._kept(self._prepared, prepared), schema

    def bind(self, handle: bytes, parameters: list[Any]) -> None:
        """Set the values of a prepared statement. Raises NotFound."""
        statement = self.prepared(handle)
        with self._lock:
            self._prepared[handle] = PreparedStatement(statement.text, statement.reads, parameters)

    def prepared(self, handle: bytes) -> PreparedStatement:
        """The prepared statement of a handle. Raises NotFound."""
        with self._lock:
            statement = self._prepared.get(handle)
        if statement is None:
            raise NotFound("no such prepared statement: it was closed, or too many came after it")
        return statement

    def close(self, handle: bytes) -> None:
        """Forget a prepared statement."""
        with self._lock:
            self._prepared.pop(handle, None)

    def _reads(self, text: str) -> bool:
        """Whether a text is one statement that changes nothing. Raises InvalidRequest for another number of
        statements, Unsupported for one that changes something where that is not allowed."""
        parts = pieces(text, [1] * placeholders(text))
        if len(parts) != 1:
            raise InvalidRequest(f"one statement is expected, not {len(parts)}")
        statement = statement_of(parts[0])
        if isinstance(statement, Select | Explain) or (
            isinstance(statement, FunctionStatement) and statement.reads
        ):
            return True
        if not self._writes:
            raise Unsupported(
                "a statement that changes something", "this server only reads: sql --serve --write"
            )
        return False

    def _result(self, text: str, parameters: Parameters) -> Result:
        result = self._sessions().sql(text, parameters)
        if result.endless:
            result.stop()
            raise Unsupported("a stream without an end over Flight SQL", "bound what it reads")
        return result

    def _affected(self, text: str, parameters: Parameters) -> Iterator[pa.RecordBatch]:
        result = self._result(text, parameters)
        yield pa.record_batch([pa.array([result.rows_affected], pa.int64())], schema=AFFECTED)

    def _kept(self, kept: OrderedDict[bytes, Any], value: Any) -> bytes:
        """The new handle of a value; the lock is held."""
        handle = self._env.uuid().encode()
        kept[handle] = value
        while len(kept) > MOST:
            kept.popitem(last=False)
        while self._ready and next(iter(self._ready.values())).since < self._now() - KEPT_SECONDS:
            self._ready.popitem(last=False)
        return handle

    def _now(self) -> float:
        return self._env.now_ms() / 1000
