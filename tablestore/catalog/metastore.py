"""A Hive metastore: short sessions over Thrift, with its errors as errors of this engine; and a table's entry
in it, columns, storage classes and parameters as Paimon writes them.

The client is hmsclient's generated code: it needs only thrift and click, while the same stubs in pyiceberg
need all of pyiceberg. Plain transport: no SASL. A session is one connection, so nothing is shared between
threads or processes. Entries are plain values, which `hive` puts into the server's own objects. The classes
named here are those of Paimon's Hive connector; the metastore itself never loads them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tablestore.catalog.catalog import table_properties
from tablestore.core.errors import (
    AlreadyExists,
    InvalidOption,
    InvalidRequest,
    NotFound,
    SchemaMismatch,
    Unavailable,
    Unsupported,
)
from tablestore.core.extras import required
from tablestore.core.options.secrets import scrubbed
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField, DataType
from tablestore.format.types.type_text import parse_type

INPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
OUTPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
SERDE = "org.apache.paimon.hive.PaimonSerDe"
STORAGE_HANDLER = "org.apache.paimon.hive.PaimonStorageHandler"
# of views, as Hive makes them
VIEW_INPUT_FORMAT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
VIEW_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
_LONGEST_CHAR, _LONGEST_VARCHAR = 255, 65535
_LONGEST_COMMENT = 4000
_CUT = "..."
_SAME = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "DATE": "date",
    "TIME": "string",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",  # Hive has no zoned type before version 3
    "VARIANT": "struct<value:binary,metadata:binary>",
}
_TIMEOUT_MS = 60_000
_STUBS = "hmsclient.genthrift.hive_metastore"


@dataclass(frozen=True, slots=True)
class Metastore:
    """The servers of one metastore: the first that answers is used."""

    servers: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, uri: str) -> Metastore:
        """`thrift://host:9083[,thrift://…]`. Raises InvalidOption."""
        servers = []
        for address in uri.split(","):
            try:
                parts = urlsplit(address.strip())
                host, port = parts.hostname, parts.port or 9083
            except ValueError:
                host, port = None, 0
            if host is None or parts.scheme != "thrift":
                shown = scrubbed(uri)
                raise InvalidOption(
                    f"option 'uri' of a hive metastore is {shown!r}; write thrift://host:9083"
                )
            servers.append((host, port))
        return cls(tuple(servers))

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        """A Thrift client; its errors become NotFound, AlreadyExists, InvalidRequest or Unavailable."""
        t = types()
        transport, client = self._connect()
        try:
            yield client
        except (t.NoSuchObjectException, t.UnknownDBException, t.UnknownTableException) as e:
            raise NotFound(f"not in the metastore: {e.message}") from e
        except t.AlreadyExistsException as e:
            raise AlreadyExists(str(e.message)) from e
        except (t.InvalidObjectException, t.InvalidOperationException) as e:
            raise InvalidRequest(f"the metastore refuses: {e.message}") from e
        except (t.MetaException, _thrift().Thrift.TException, OSError) as e:
            raise Unavailable(f"{self}: {getattr(e, 'message', None) or e}") from e
        finally:
            transport.close()

    def _connect(self) -> tuple[Any, Any]:
        thrift, failed = _thrift(), []
        for host, port in self.servers:
            socket = thrift.transport.TSocket.TSocket(host, port)
            socket.setTimeout(_TIMEOUT_MS)
            transport = thrift.transport.TTransport.TBufferedTransport(socket)
            try:
                transport.open()
            except thrift.transport.TTransport.TTransportException as e:
                failed.append(str(e))
                continue
            protocol = thrift.protocol.TBinaryProtocol.TBinaryProtocol(transport)
            return transport, _stubs().ThriftHiveMetastore.Client(protocol)
        raise Unavailable(f"{self}: {'; '.join(failed)}")

    def __str__(self) -> str:
        return ",".join(f"thrift://{host}:{port}" for host, port in self.servers)


def types() -> Any:
    """The module of the metastore's Thrift types."""
    return _stubs().ttypes


def _stubs() -> Any:
    for stub in ("ThriftHiveMetastore", "ttypes"):
        required(f"{_STUBS}.{stub}", by="metastore hive")
    return required(_STUBS, by="metastore hive")


def _thrift() -> Any:
    for part in ("Thrift", "protocol.TBinaryProtocol", "transport.TSocket", "transport.TTransport"):
        required(f"thrift.{part}", by="metastore hive")
    return required("thrift", by="metastore hive")


@dataclass(frozen=True, slots=True)
class HiveColumn:
    """Name, Hive type and comment."""

    name: str
    type: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class HiveShape:
    """The part of a metastore's table that follows the schema."""

    columns: tuple[HiveColumn, ...]
    parameters: Mapping[str, str]


def shape(schema: TableSchema, *, all_properties: bool, external: bool) -> HiveShape:
    """Columns and parameters of a schema. Raises Unsupported for tables with partitions in the metastore."""
    for option in ("metastore.partitioned-table", "metastore.tag-to-partition"):
        if schema.options.get(option, "false") != "false":
            raise Unsupported(f"option {option!r}", "partitions are not entered in the metastore")
    parameters = {"table_type": "PAIMON", "storage_handler": STORAGE_HANDLER}
    if external:
        parameters["EXTERNAL"] = "TRUE"
    if schema.comment:
        parameters["comment"] = schema.comment
    return HiveShape(columns(schema), {**_properties(schema, all_properties), **parameters})


def _properties(schema: TableSchema, everything: bool) -> dict[str, str]:
    if everything:
        return table_properties(schema)
    properties = {k.removeprefix("hive."): v for k, v in schema.options.items() if k.startswith("hive.")}
    for key in ("partition.expiration-time", "data-file.path-directory"):
        if key in schema.options:
            properties[key] = schema.options[key]
    return properties


def columns(schema: TableSchema) -> tuple[HiveColumn, ...]:
    """All columns, partition columns among them: Paimon's partitions are no Hive partitions by default."""
    return tuple(column(f) for f in schema.fields)


def column(f: DataField) -> HiveColumn:
    """A column as the metastore has it, its comment cut to what that takes."""
    comment = f.description
    if comment is not None:
        comment = comment.replace("\n", " ").replace("\r", " ")
        if len(comment) > _LONGEST_COMMENT:
            comment = comment[: _LONGEST_COMMENT - len(_CUT)] + _CUT
    return HiveColumn(f.name, hive_type(f.type), comment)


def hive_type(t: DataType) -> str:
    """The name of a type in Hive."""
    if t.root in _SAME:
        return _SAME[t.root]
    if t.root == "DECIMAL":
        return f"decimal({t.precision},{t.scale})"
    if t.root == "CHAR":
        return f"char({t.precision})" if t.precision <= _LONGEST_CHAR else "string"
    if t.root == "VARCHAR":
        return f"varchar({t.precision})" if t.precision <= _LONGEST_VARCHAR else "string"
    inner = [hive_type(f.type) for f in t.children]
    if t.root == "ARRAY":
        return f"array<{inner[0]}>"
    if t.root == "MULTISET":
        return f"map<{inner[0]},int>"
    if t.root == "MAP":
        return f"map<{inner[0]},{inner[1]}>"
    if t.root == "ROW":
        return f"struct<{','.join(f'{f.name}:{i}' for f, i in zip(t.children, inner, strict=True))}>"
    raise Unsupported(f"type {t.root} in a Hive metastore")


def paimon_type(text: str) -> DataType:
    """The type that a Hive type's name stands for, the other way round; raises Unsupported for one that no
    type of ours has."""
    head, _, rest = text.partition("<")
    inner = rest.removesuffix(">")
    if head == "array":
        return parse_type(f"ARRAY<{paimon_type(inner)}>")
    if head in ("map", "struct"):
        parts = _parts(inner)
        if head == "map":
            return parse_type(f"MAP<{paimon_type(parts[0])}, {paimon_type(parts[1])}>")
        fields = (part.partition(":") for part in parts)
        return parse_type(f"ROW<{', '.join(f'`{name}` {paimon_type(t)}' for name, _, t in fields)}>")
    if head == "timestamp":
        return parse_type("TIMESTAMP(6)")
    try:
        return parse_type({"binary": "BYTES"}.get(head, head.upper()))
    except SchemaMismatch:
        raise Unsupported(f"type {text} of a Hive metastore") from None


def _parts(text: str) -> list[str]:
    """The parts between the commas that are within no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "<(") - (c in ">)")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return parts
