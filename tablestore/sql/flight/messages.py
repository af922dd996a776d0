"""The messages of Flight SQL that the server reads and writes, as classes of protobuf.

Source: the Flight SQL protocol of Apache Arrow, package `arrow.flight.protocol.sql`. Each travels in a
`google.protobuf.Any`, whose type names it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.core.extras import required

PACKAGE = "arrow.flight.protocol.sql"
_PREFIX = "type.googleapis.com/"
_BY = "a server of Flight SQL"
_TYPES = {
    "text": "TYPE_STRING",
    "bytes": "TYPE_BYTES",
    "flag": "TYPE_BOOL",
    "int64": "TYPE_INT64",
    "uint32": "TYPE_UINT32",
}
_MESSAGES: dict[str, str] = {
    "CommandGetSqlInfo": "info 1 uint32*",
    "CommandGetCatalogs": "",
    "CommandGetDbSchemas": "catalog 1 text, db_schema_filter_pattern 2 text",
    "CommandGetTables": (
        "catalog 1 text, db_schema_filter_pattern 2 text, table_name_filter_pattern 3 text, "
        "table_types 4 text*, include_schema 5 flag"
    ),
    "CommandGetTableTypes": "",
    "CommandGetPrimaryKeys": "catalog 1 text, db_schema 2 text, table 3 text",
    "CommandStatementQuery": "query 1 text, transaction_id 2 bytes",
    "CommandStatementUpdate": "query 1 text, transaction_id 2 bytes",
    "TicketStatementQuery": "statement_handle 1 bytes",
    "CommandPreparedStatementQuery": "prepared_statement_handle 1 bytes",
    "CommandPreparedStatementUpdate": "prepared_statement_handle 1 bytes",
    "ActionCreatePreparedStatementRequest": "query 1 text, transaction_id 2 bytes",
    "ActionCreatePreparedStatementResult": (
        "prepared_statement_handle 1 bytes, dataset_schema 2 bytes, parameter_schema 3 bytes"
    ),
    "ActionClosePreparedStatementRequest": "prepared_statement_handle 1 bytes",
    "DoPutUpdateResult": "record_count 1 int64",
    "DoPutPreparedStatementResult": "prepared_statement_handle 1 bytes",
}
"""Fields of each message: name, number, type; a star: as often as one likes."""


@cache
def _classes() -> dict[str, Any]:
    """The class of each message. Raises MissingPackage without protobuf."""
    described = required("google.protobuf.descriptor_pb2", by=_BY)
    field_of = described.FieldDescriptorProto
    file = described.FileDescriptorProto(name="tablestore/flight_sql.proto", package=PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        added = file.message_type.add(name=message)
        for field in filter(None, fields.split(", ")):
            name, number, kind = field.split()
            label = field_of.LABEL_REPEATED if kind.endswith("*") else field_of.LABEL_OPTIONAL
            of_type = getattr(field_of, _TYPES[kind.rstrip("*")])
            added.field.add(name=name, number=int(number), type=of_type, label=label)
    # a pool of its own: another package may know the same names
    pool = required("google.protobuf.descriptor_pool", by=_BY).DescriptorPool()
    pool.Add(file)
    class_of = required("google.protobuf.message_factory", by=_BY).GetMessageClass
    return {name: class_of(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _MESSAGES}


def _any() -> Any:
    return required("google.protobuf.any_pb2", by=_BY).Any


def new(name: str, **fields: Any) -> Any:
    """A message of that name."""
    return _classes()[name](**fields)


def packed(name: str, **fields: Any) -> bytes:
    """The bytes of a message in an Any."""
    value = new(name, **fields).SerializeToString()
    return _any()(type_url=f"{_PREFIX}{PACKAGE}.{name}", value=value).SerializeToString()


def unpacked(data: bytes) -> tuple[str, Any]:
    """The name and the message of an Any. Raises InvalidRequest for bytes that are none, Unsupported for a
    message that this server does not know."""
    try:
        outer = _any().FromString(data)
    except Exception:  # DecodeError, and what protobuf raises for text that is no UTF-8
        raise InvalidRequest("this is no command of Flight SQL") from None
    name = outer.type_url.removeprefix(f"{_PREFIX}{PACKAGE}.")
    if not outer.type_url.startswith(_PREFIX):
        raise InvalidRequest("this is no command of Flight SQL")
    if name not in _MESSAGES:
        raise Unsupported(f"{name[:60]} of Flight SQL")
    try:
        return name, _classes()[name].FromString(outer.value)
    except Exception:
        raise InvalidRequest(f"{name} of Flight SQL cannot be read") from None
