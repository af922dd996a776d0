"""Avro object containers by fastavro: bytes ⇄ records, with one clear error for damaged files.

Used for manifests and their lists, whose records are dicts here; data files are written by columns
(`avro/encode.py`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa

from tablestore.core.errors import Corrupt, InvalidOption, brief
from tablestore.core.extras import available
from tablestore.format.avro import blocks as avro_blocks

_CONTAINERS = avro_blocks.BlockReader()
_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "none": "null",
    "null": "null",
    "deflate": "deflate",
}
BLOCK_BYTES = 16_000
"""Bytes of records from which a block is finished."""


def encode(
    schema: Any, records: Iterable[dict[str, Any]], codec: str, *, block_bytes: int = BLOCK_BYTES
) -> bytes:
    """A whole container file. `codec` is an option value: zstd, none, deflate."""
    if codec not in _CODECS:
        raise InvalidOption(
            f"option 'manifest.compression' is {codec!r}; it must be one of {', '.join(_CODECS)}"
        )
    out = io.BytesIO()
    codec = _CODECS[codec]
    fastavro.writer(out, schema, records, codec, sync_interval=block_bytes, codec_compression_level=1)
    return out.getvalue()


def decode_with_schema(
    data: bytes, path: str, holding: Callable[[bytes], Sequence[bytes]] | None = None
) -> tuple[list[dict[str, Any]], bytes]:
    """The records of a container, and the schema they were written with; raises Corrupt naming `path`.
    `holding(schema)` gives bytes of which one must occur in a block for it to be decoded, none for all."""
    header, blocks = _CONTAINERS.plain(data, path)
    sought = holding(header.schema) if holding is not None else ()
    try:
        schema, records = _parsed(header.schema), list[Any]()
        for block in blocks:
            if sought and not any(some in block.data for some in sought):
                continue
            source = io.BytesIO(block.data)
            records += [fastavro.schemaless_reader(source, schema, None) for _ in range(block.rows)]
    except Exception as e:  # damaged bytes may raise any exception
        raise Corrupt(path, f"not a readable Avro file: {brief(e)}") from e
    return records, header.schema


@lru_cache(maxsize=8)
def _parsed(schema: bytes) -> Any:
    """A schema, parsed once for all files of a writer: that costs as much as the records of a small one."""
    return fastavro.parse_schema(json.loads(schema))


def by_polars(data: bytes, columns: list[str] | None = None) -> pa.Table | None:
    """The records of a container as columns; None where Polars is missing or fails, so that fastavro decodes
    them or says what is wrong. Polars is imported here: it takes a quarter of a second, which small files
    need not spend."""
    polars = available("polars")
    if polars is None:
        return None
    try:
        table: pa.Table = polars.read_avro(io.BytesIO(data), columns=columns).to_arrow()
        return table
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # damage may also raise a panic, which is not an Exception
        return None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def millis(value: Any) -> int | None:
    """Milliseconds of a timestamp-millis field, which fastavro returns as a datetime."""
    if isinstance(value, datetime):
        since = value - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return None if value is None else int(value)


def record(name: str, text: str, *, namespace: str = "", **types: Any) -> dict[str, Any]:
    """The schema of records with the fields of a text: names and types in turn, `?` behind a type for a field
    that may be NULL. `types`: those that have no name in Avro.

    >>> record("pair", "left long, right texts?", texts={"type": "array", "items": "string"})["name"]
    'pair'
    """
    fields = []
    for field in text.split(","):
        called, kind = field.split()
        plain = kind.removesuffix("?")
        avro_type = types.get(plain, plain)
        optional = {"type": ["null", avro_type], "default": None}
        fields.append({"name": called, **({"type": avro_type} if plain == kind else optional)})
    return {
        "type": "record",
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "fields": fields,
    }


def array(items: Any) -> dict[str, Any]:
    """The schema of arrays."""
    return {"type": "array", "items": items}
