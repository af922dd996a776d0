"""Values sent between processes of this engine: one version byte, then an Avro record.

Not a file format: both sides run the same code, and another version is refused. Used for commit messages and
compaction tasks.
"""

from __future__ import annotations

import io
from typing import Any

import fastavro

from tablestore.core.errors import InvalidRequest, brief


def encode(version: int, schema: Any, record: dict[str, Any]) -> bytes:
    """The bytes of a record under a parsed Avro schema."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return bytes([version]) + out.getvalue()


def decode(data: bytes, version: int, schema: Any, *, what: str) -> Any:
    """The record of `encode`; raises InvalidRequest for other versions or damaged bytes of `what`."""
    if not data or data[0] != version:
        raise InvalidRequest(f"{what} of version {data[:1].hex() or 'none'}; version {version} is known")
    try:
        return fastavro.schemaless_reader(io.BytesIO(data[1:]), schema, None)
    except Exception as e:
        raise InvalidRequest(f"damaged {what}: {brief(e)}") from e
