"""`filesystem`: the files of a directory, or one file, in CSV, JSON (one object a line) or Parquet.

Reads what `path` names and what lies below it, follows no link there, and passes over names that begin with
`.` or `_`. INSERT adds one file, which has its name once it is whole. CSV has no header unless
`tablestore.csv.header` says so; a value that is empty is NULL, and `""` is the empty text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidOption, InvalidRequest, NotFound, Unsupported
from tablestore.core.options.values import boolean, duration_ms, one_of
from tablestore.flow.batch import Work
from tablestore.flow.sink import Computation, SinkBatch
from tablestore.flow.source import Changes, Offset
from tablestore.format.predicates.predicate import Predicate
from tablestore.io.confined import ConfinedFileIO, confined
from tablestore.io.paths import join, location
from tablestore.io.routed import file_io_for
from tablestore.sql.connectors.connector import (
    Connector,
    ConnectorOptions,
    Option,
    always,
    inserts,
    matching,
)
from tablestore.sql.connectors.file_formats import FORMATS, RowWriter


def _character(text: str) -> str:
    if len(text) != 1:
        raise ValueError("one character")
    return text


_OPTIONS = (
    Option("path", "a directory or a file", location, required=True, place=always),
    Option("format", "csv, json or parquet", one_of(*FORMATS), required=True),
    Option("csv.field-delimiter", "between values", _character, default=","),
    Option("csv.quote-character", "around texts", _character, default='"'),
    Option("csv.disable-quote-character", "texts have no quotes", boolean, default=False),
    Option("csv.null-literal", "a text that means NULL"),
    Option("tablestore.csv.header", "the first line names the columns", boolean, default=False),
    Option("csv.ignore-parse-errors", refused="a row that does not fit is an error"),
    Option("csv.allow-comments", refused="every line is a row"),
    Option("csv.array-element-delimiter", refused="CSV has no arrays here"),
    Option("csv.escape-character", refused="a quote within quotes is written twice"),
    Option("json.ignore-parse-errors", refused="a row that does not fit is an error"),
    Option("json.fail-on-missing-field", refused="a field that is missing is NULL"),
    Option("json.timestamp-format.standard", refused="both forms are read, SQL's is written"),
    Option("source.monitor-interval", "a stream looks for new files that often; else it ends", duration_ms),
    Option("source.path.regex-pattern", refused="all files of the directory are read"),
    Option("partition.default-name", refused="a table of files has no partitions here"),
    Option("sink.rolling-policy.file-size", refused="an INSERT writes one file"),
    Option("sink.parallelism", refused="an INSERT writes one file"),
    Option("auto-compaction", refused="an INSERT writes one file"),
)


class _FileRows:
    """The rows of files."""

    def __init__(self, options: ConnectorOptions) -> None:
        self._options = options
        self._io, self._path = _reach(options)
        self._format = FORMATS[options.values["format"]]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, file by file in the order of names. Raises NotFound where the path names nothing,
        SchemaMismatch for a file that does not fit the columns."""
        for path in self.names():
            yield from self.rows_of(path, columns)

    def rows_of(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of one file."""
        with self._io.open_input(path) as file:
            yield from self._format.read(file, path, self._options, columns)

    def names(self) -> list[str]:
        """The files, sorted."""
        if self._io.is_dir(self._path):
            return sorted(_below(self._io, self._path))
        if not self._io.exists(self._path):
            raise NotFound(f"option 'path': there is no file and no directory {self._path}")
        return [self._path]


def _below(io: ConfinedFileIO, directory: str) -> Iterator[str]:
    for entry in io.list(directory):
        if entry.name.startswith((".", "_")):
            continue
        path = join(directory, entry.name)
        if entry.is_dir:
            yield from _below(io, path)
        else:
            yield path


class _NewFile:
    """One file that takes rows."""

    def __init__(self, options: ConnectorOptions) -> None:
        self._io, directory = _reach(options)
        end = options.values["format"]
        _require_directory(self._io, directory)
        self._path = join(directory, f"part-{SYSTEM.uuid()}.{end}")
        self._coming = _coming(self._path)
        self._rows = FORMATS[end].writer(self._io.open_output(self._coming), options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.write(batch)

    def finish(self) -> str:
        self._rows.close()
        self._io.move(self._coming, self._path)
        return self._path

    def abandon(self) -> None:
        self._rows.abandon()
        self._io.delete(self._coming)


@dataclass(frozen=True)
class _FileStream:
    """The files of the path, each read once; with a monitor interval also those that come later. An offset
    holds their names."""

    options: ConnectorOptions
    looked: list[float] = field(default_factory=list, compare=False)  # when, last, in seconds

    @property
    def schema(self) -> pa.Schema:
        return self.options.schema

    @property
    def appends(self) -> bool:
        return True

    def initial(self) -> Offset:
        return {"v": 1, "files": [], "ended": False}

    def latest(self) -> Offset:
        return {"v": 1, "files": self._names(), "ended": self._interval_ms is None}

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        if target is not None:
            return target
        now, interval = SYSTEM.monotonic(), self._interval_ms
        early = bool(self.looked) and interval is not None and now < self.looked[-1] + interval / 1000
        if start["ended"] or early:
            return start
        self.looked[:] = [now]
        before = set(start["files"])
        files = [*start["files"], *(name for name in self._names() if name not in before)]
        return {"v": 1, "files": files, "ended": interval is None}

    def ended(self, offset: Offset) -> bool:
        return bool(offset["ended"])

    def pieces(self, start: Offset, end: Offset) -> list[_FilePiece]:
        before = set(start["files"])
        return [_FilePiece(self.options, name) for name in end["files"] if name not in before]

    def done(self, end: Offset) -> None:
        """Files stay."""

    @property
    def _interval_ms(self) -> int | None:
        interval: int | None = self.options.values["source.monitor-interval"]
        return interval

    def _names(self) -> list[str]:
        return _FileRows(self.options).names()


@dataclass(frozen=True)
class _FilePiece:
    """The rows of one file."""

    options: ConnectorOptions
    path: str

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        return inserts(matching(self, self.options.schema, columns, where))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return _FileRows(self.options).rows_of(self.path, columns)


@dataclass(frozen=True)
class _BatchFiles:
    """A file for each piece of a batch that has rows. Its name says which batch of which job it is of, so a
    batch that comes again writes the same files; they have their names once all are whole."""

    options: ConnectorOptions

    def write(self, batch: SinkBatch) -> int:
        io, directory = _reach(self.options)
        _require_directory(io, directory)
        prefix = f"part-{batch.job_id}-{batch.identifier:06}"
        task = FileTask(self.options, batch.changes, join(directory, prefix))
        written = batch.batch.over(task, batch.batch.works())
        for path, _ in written:
            if path:
                _show(io, path)
        return sum(rows for _, rows in written)


def _show(io: ConfinedFileIO, path: str) -> None:
    """Give a file its name; the one that an earlier try of its batch has named stays. Raises InvalidRequest
    where that is another file: the job began anew."""
    coming = _coming(path)
    if not io.exists(path):
        io.move(coming, path)
        return
    if io.size(coming) != io.size(path):
        problem = f"{path} holds another batch of a job whose checkpoint is gone"
        raise InvalidRequest(f"{problem}: give this one another name: SET 'pipeline.name' = '…'")
    io.delete(coming)


@dataclass(frozen=True)
class FileTask:
    """The task that writes the rows of a piece to a file that is not visible yet."""

    options: ConnectorOptions
    changes: Computation
    prefix: str

    def __call__(self, work: Work) -> tuple[str, int]:
        """The name that the file will have, empty for none, and how many rows it holds."""
        end, count = self.options.values["format"], 0
        path = f"{self.prefix}-{work.ordinal:04}.{end}"
        rows: RowWriter | None = None
        try:
            for batch, _ in self.changes(work):
                if rows is None:
                    file = _reach(self.options)[0].open_output(_coming(path))
                    rows = FORMATS[end].writer(file, self.options)
                rows.write(batch)
                count += batch.num_rows
        except BaseException:
            if rows is not None:
                rows.abandon()
            raise
        if rows is None:
            return "", 0
        rows.close()
        return path, count


def _coming(path: str) -> str:
    """The name of a file that is being written."""
    directory, _, name = path.rpartition("/")
    return join(directory, f".{name}.inprogress")


def _require_directory(io: ConfinedFileIO, path: str) -> None:
    if io.exists(path) and not io.is_dir(path):
        raise Unsupported(f"INSERT INTO the file {path}", "option 'path' names a directory then")


def _reach(options: ConnectorOptions) -> tuple[ConfinedFileIO, str]:
    """What reads the path, and nothing outside it. A path in a root is resolved, so from there on no link
    leads to it. Raises InvalidOption for an option of another format."""
    values, format = options.values, options.values["format"]
    for option in _OPTIONS if format != "csv" else ():
        if "csv." in option.key and values.get(option.key) != option.default:
            raise InvalidOption(f"option {option.key!r} is one of format 'csv', and the format is {format!r}")
    path = options.values["path"].rstrip("/") or "/"
    base = None if options.roots is None else options.roots.base_of(path)
    return confined(file_io_for(path), base or path), path


CONNECTOR = Connector(
    "filesystem", "files in CSV, JSON or Parquet", _OPTIONS, _FileRows, _NewFile, _FileStream, _BatchFiles
)
