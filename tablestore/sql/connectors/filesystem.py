"""`filesystem`: the files of a directory, or one file, in CSV, JSON (one object a line) or Parquet.

Reads what `path` names and what lies below it, follows no link there, and passes over names that begin with
`.` or `_`. INSERT adds one file, which has its name once it is whole. CSV has no header unless
`tablestore.csv.header` says so; a value that is empty is NULL, and `""` is the empty text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.core.errors import NotFound, Unsupported
from tablestore.core.options.values import boolean
from tablestore.io.confined import ConfinedFileIO, confined
from tablestore.io.paths import join, location
from tablestore.io.routed import file_io_for
from tablestore.sql.connectors.connector import Connector, ConnectorOptions, Option, one_of
from tablestore.sql.connectors.file_formats import FORMATS

_NO_STREAM = "files are read once, as they are"


def _character(text: str) -> str:
    if len(text) != 1:
        raise ValueError("one character")
    return text


_OPTIONS = (
    Option("path", "a directory or a file", location, required=True),
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
    Option("source.monitor-interval", refused=_NO_STREAM),
    Option("source.path.regex-pattern", refused="all files of the directory are read"),
    Option("partition.default-name", refused="a table of files has no partitions here"),
    Option("sink.rolling-policy.file-size", refused="an INSERT writes one file"),
    Option("sink.parallelism", refused="an INSERT writes one file"),
    Option("auto-compaction", refused="an INSERT writes one file"),
)


class _Files:
    """The rows of files."""

    def __init__(self, options: ConnectorOptions) -> None:
        self._options = options
        self._io, self._path = _reach(options)
        self._format = FORMATS[options.values["format"]]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, file by file in the order of names. Raises NotFound where the path names nothing,
        SchemaMismatch for a file that does not fit the columns."""
        for path in self._names():
            with self._io.open_input(path) as file:
                yield from self._format.read(file, path, self._options, columns)

    def _names(self) -> list[str]:
        if self._io.is_dir(self._path):
            return sorted(_below(self._io, self._path))
        if not self._io.exists(self._path):
            raise NotFound(f"option 'path': there is no file and no directory {self._path}")
        return [self._path]


def _below(io: ConfinedFileIO, directory: str) -> Iterator[str]:
    for one in io.list(directory):
        if one.name.startswith((".", "_")):
            continue
        path = join(directory, one.name)
        if one.is_dir:
            yield from _below(io, path)
        else:
            yield path


class _NewFile:
    """One file that takes rows."""

    def __init__(self, options: ConnectorOptions) -> None:
        self._io, directory = _reach(options)
        end = options.values["format"]
        if self._io.exists(directory) and not self._io.is_dir(directory):
            raise Unsupported(f"INSERT INTO the file {directory}", "option 'path' names a directory then")
        self._path = join(directory, f"part-{SYSTEM.uuid()}.{end}")
        self._coming = join(directory, f".{self._path.rpartition('/')[2]}.inprogress")
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


def _reach(options: ConnectorOptions) -> tuple[ConfinedFileIO, str]:
    """What reads the path, and nothing outside it."""
    path = options.values["path"].rstrip("/") or "/"
    return confined(file_io_for(path), path), path


CONNECTOR = Connector("filesystem", "files in CSV, JSON or Parquet", _OPTIONS, _Files, _NewFile)
