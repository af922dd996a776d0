"""Result: what one statement gave: rows, or what it changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest
from tablestore.core.quantities import many
from tablestore.sql.problems import conceal, concealed
from tablestore.sql.rendering import html_line, html_pages, seconds, text_table
from tablestore.table.lazy_read import LazyRead

if TYPE_CHECKING:
    from tablestore.doors import Figure

_TEXT_ROWS, _HTML_ROWS, _PAGE_ROWS = 20, 500, 50
_ENDLESS = "this stream has no end: take to_batches(), to_reader() or head(n), or stop() it first"
_COUNTED_ROWS, _COUNTED_BYTES = 1_000_000, 64 << 20  # that are read, and kept, to say how many there are


class Rows(Protocol):
    """Batches of one schema, read once."""

    @property
    def schema(self) -> pa.Schema: ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


class RowStream(Rows, Protocol):
    """Batches that come as they happen, until their end, if they have one, or `stop`, which any thread may
    call."""

    @property
    def endless(self) -> bool: ...

    def stop(self) -> None: ...


class Result(LazyRead):
    """The rows of a statement, in the forms that a scan has. `to_reader` and `to_batches` give rows as they
    come, once; the other forms keep them and may be asked again.

    `rows_affected` are rows written or marked as gone, None where a statement writes none; `snapshots` those
    that it made; `message` is what it did, in words; `seconds` until it was done or its first rows were
    there. It shows itself as a table of its first rows; the rest can be read afterwards.

    Rows of a `stream` come as they happen, those of an endless one until `stop`: `to_batches`, `to_reader`
    and `head` give them, in the thread that asks; what needs all of them, and what would count them, does
    not wait for an end.
    """

    def __init__(
        self,
        rows: Rows | pa.Table | None = None,
        *,
        stream: RowStream | None = None,
        rows_affected: int | None = None,
        snapshots: tuple[int, ...] = (),
        message: str = "",
    ) -> None:
        rows = stream if rows is None else rows
        rows = pa.schema([]).empty_table() if rows is None else rows
        self._stream, self._stopped = stream, False
        self._all = rows if isinstance(rows, pa.Table) else None
        self._read: list[pa.RecordBatch] = []  # of those that are coming, those that were looked at
        self._coming = None if isinstance(rows, pa.Table) else self._explained(iter(rows))
        self.explain: Callable[[Exception], None] = conceal  # gets what rows raise while they are read
        self._schema = rows.schema
        self.rows_affected, self.snapshots, self.message = rows_affected, snapshots, message
        self._statement, self.seconds = "", 0.0
        self.link = ""  # where a notebook goes on from here

    @staticmethod
    def of_texts(columns: Mapping[str, Iterable[str | None]], **more: Any) -> Result:
        """Rows of texts, by column, and what else a result takes."""
        arrays = {name: pa.array(list(texts), pa.string()) for name, texts in columns.items()}
        return Result(pa.table(arrays), **more)

    @property
    def statement(self) -> str:
        """The text of the statement, with `***` in place of its secrets."""
        return concealed(self._statement)

    @statement.setter
    def statement(self, text: str) -> None:
        self._statement = text

    @property
    def endless(self) -> bool:
        """Whether rows come until `stop`."""
        return self._stream is not None and self._stream.endless and not self._stopped

    @property
    def streaming(self) -> bool:
        """Whether rows come as they happen, with the kind of change as column `op`."""
        return self._stream is not None

    def stop(self) -> None:
        """End a stream at its next look; what came can be read. Any thread may call it."""
        self._stopped = True
        if self._stream is not None:
            self._stream.stop()

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows; no columns where a statement gives none."""
        return self._schema

    def _explained(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches; what they raise says where in the text it arose, and shows no secret."""
        try:
            yield from rows
        except Exception as e:
            self.explain(e)
            raise

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Rows as they come. Raises InvalidRequest if they were given as a stream before."""
        if self._all is not None:
            return iter(self._all.to_batches())
        if self._coming is None:
            raise InvalidRequest("the rows of this result were given as a stream: run the statement again")
        read, coming = self._read, self._coming
        self._read, self._coming = [], None
        return _one_after_another(read, coming)

    def to_arrow(self) -> pa.Table:
        """All rows, as an Arrow table. Raises InvalidRequest for a stream without an end."""
        if self._all is None and self.endless:
            raise InvalidRequest(_ENDLESS)
        if self._all is None:
            self._all = pa.Table.from_batches(self.to_batches(), self.schema)
        return self._all

    def head(self, rows: int) -> pa.Table:
        """The first rows, at most so many; all can be asked for afterwards."""
        if self._all is None and self._coming is None:
            raise InvalidRequest("the rows of this result were given as a stream: run the statement again")
        self._look(rows, _COUNTED_BYTES)
        rows_read = self._all if self._all is not None else pa.Table.from_batches(self._read, self.schema)
        return rows_read.slice(0, rows)

    def plot(self, **asked: Any) -> Figure:
        """A chart of the rows, see `Scan.plot`. Of many rows it takes those that come, which are then given
        away. Raises InvalidRequest for a stream, and for a statement that gives no rows."""
        if self.streaming or not self.schema.names:
            what = "a stream moves: it" if self.streaming else "this statement gives no rows: it"
            raise InvalidRequest(f"{what} has no chart; plot a query of a table")
        self._look(_COUNTED_ROWS, _COUNTED_BYTES)
        return super().plot(**asked)

    def _look(self, rows: int, bytes: int) -> None:
        """Read until there are so many rows or bytes, or the end, and keep what was read."""
        read_rows, read_bytes = sum(b.num_rows for b in self._read), sum(b.nbytes for b in self._read)
        while self._coming is not None and read_rows < rows and read_bytes < bytes:
            try:
                batch = next(self._coming, None)
            except BaseException:  # Ctrl-C too: what was read is not all, and the rest is lost
                self._read, self._coming = [], None
                raise
            if batch is None:
                self._all = pa.Table.from_batches(self._read, self.schema)
                self._read, self._coming = [], None
            else:
                self._read.append(batch)
                read_rows, read_bytes = read_rows + batch.num_rows, read_bytes + batch.nbytes

    def summary(self) -> str:
        """One line: `3 rows · snapshot 7 · 0.12 s`. Rows are read, and kept, to count them."""
        if self.endless:
            return f"a stream of {', '.join(self.schema.names)} without an end: to_batches() gives what comes"
        if not self._given_away:
            self._look(_COUNTED_ROWS, _COUNTED_BYTES)
        parts = [self.message] if self.message else []
        if self.schema.names and self._all is not None:
            parts.append(many(len(self._all), "row"))
        elif self.schema.names:
            parts.append(f"at least {many(sum(b.num_rows for b in self._read), 'row')}")
        elif self.rows_affected is not None and not self.message:
            parts.append(f"{many(self.rows_affected, 'row')} affected")
        if self.snapshots and "snapshot" not in self.message:
            ids = ", ".join(map(str, self.snapshots[:5])) + (", …" if len(self.snapshots) > 5 else "")
            parts.append(f"snapshot{'s' if len(self.snapshots) > 1 else ''} {ids}")
        return " · ".join([*parts, seconds(self.seconds)])

    def text(self, *, rows: int = _TEXT_ROWS, width: int | None = 120) -> str:
        """The first rows as a table of at most `width` columns of a terminal, below it the summary."""
        lines = []
        if self.schema.names and not self.endless:
            self._look(_COUNTED_ROWS, _COUNTED_BYTES)
            first = self.head(rows)
            lines.append(text_table(first, width=width))
            if hidden := self._hidden(len(first)):
                lines.append(hidden)
        return "\n".join([*lines, self.summary()])

    def _hidden(self, displayed: int) -> str:
        if self._all is None:
            return "… more rows"
        more = len(self._all) - displayed
        return f"… {many(more, 'more row')}" if more else ""

    @property
    def _given_away(self) -> bool:
        return self._all is None and self._coming is None

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __repr__(self) -> str:
        if self._given_away:
            return f"Result({', '.join(self.schema.names)}; its rows were given as a stream)"
        return self.text(width=shutil.get_terminal_size((120, 24)).columns)

    def _repr_html_(self) -> str:
        """The first rows for a notebook, in pages; what cells hold is escaped."""
        if self._given_away:
            return html_line(repr(self))
        table = ""
        if self.schema.names and not self.endless:
            self._look(_COUNTED_ROWS, _COUNTED_BYTES)
            first = self.head(_HTML_ROWS)
            hidden = self._hidden(len(first))
            name = f"rows-{SYSTEM.uuid()}"
            table = html_pages(first, page_rows=_PAGE_ROWS, name=name) + (html_line(hidden) if hidden else "")
        return table + html_line(self.summary() + (f" · {self.link}" if self.link else ""))


def _one_after_another(
    read: list[pa.RecordBatch], coming: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from read
    yield from coming
