"""Avro object containers by fastavro: bytes ⇄ records, with one clear error for damaged files; fields that
this version does not know are carried on when a record is written again.

Used for manifests and their lists, whose records are dicts here; data files are written by columns
(`avro/encode.py`). Later releases add fields at the end of records, such as `_EXTRA_FILES` of a manifest list
in Paimon 2.1. A field is carried with the type that its writer gave it.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class CarriedField:
    """A field with a value; `type`: its Avro type as JSON."""

    name: str
    type: str
    value: Any


def carried_fields(
    record: Mapping[str, Any], schema: bytes, own: AbstractSet[str], *, within: str = ""
) -> tuple[CarriedField, ...]:
    """The fields of a record beyond the `own` ones that have a value; `schema`: that of its file, where the
    record is the field `within`, if that is named."""
    types = _types(schema, within)
    if types.keys() <= own:
        return ()
    return tuple(
        CarriedField(name, types[name], value)
        for name, value in record.items()
        if name not in own and value is not None
    )


@lru_cache(maxsize=32)
def _types(schema: bytes, within: str) -> dict[str, str]:
    """The type of each field of a record, as JSON."""
    types = _fields(json.loads(schema))
    if within:
        types = _fields(types[within])
    return {name: json.dumps(kind) for name, kind in types.items()}


def _fields(kind: Any) -> dict[str, Any]:
    """The type of each field of a record, or of the record in a union."""
    record = next((k for k in kind if isinstance(k, dict)), {}) if isinstance(kind, list) else kind
    return {f["name"]: f["type"] for f in record["fields"]}


def schema_with(schema: dict[str, Any], carried: Iterable[tuple[CarriedField, ...]]) -> Any:
    """The schema of a record with the carried fields of all records at its end, each of which may be NULL."""
    wider = plain_schema_with(schema, carried)
    return schema if wider is schema else fastavro.parse_schema(wider)


def plain_schema_with(schema: dict[str, Any], carried: Iterable[tuple[CarriedField, ...]]) -> dict[str, Any]:
    """The same, to stand in another schema; `schema` itself where nothing is carried."""
    types = {f.name: f.type for fields in carried for f in fields}
    if not types:
        return schema
    plain = {key: value for key, value in schema.items() if not key.startswith("__")}
    more = [{"name": name, "type": _nullable(json.loads(text))} for name, text in types.items()]
    return {**plain, "fields": [*schema["fields"], *more]}


def _nullable(kind: Any) -> list[Any]:
    union = kind if isinstance(kind, list) else [kind]
    return union if "null" in union else ["null", *union]


def carried_values(carried: Iterable[CarriedField]) -> Iterator[tuple[str, Any]]:
    """(name, value) of each carried field."""
    return ((f.name, f.value) for f in carried)


def carried_texts(carried: Iterable[CarriedField]) -> Iterator[str]:
    """Every text in the values of the fields, as far down as it is: it may name a file."""
    pending: list[Any] = [f.value for f in carried]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            pending += value.values()
        elif isinstance(value, list | tuple):
            pending += value


def carried_text(carried: Sequence[CarriedField]) -> str | None:
    """The fields as JSON, their values as Avro writes them; None for none."""
    return json.dumps([(f.name, f.type, _written(f)) for f in carried]) if carried else None


def carried_of_text(text: str | None) -> tuple[CarriedField, ...]:
    """The fields of `to_text`."""
    some = json.loads(text) if text else ()
    return tuple(CarriedField(name, kind, _read(kind, value)) for name, kind, value in some)


def _written(f: CarriedField) -> str:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(f.type)), f.value)
    return base64.b64encode(out.getvalue()).decode()


def _read(kind: str, value: str) -> Any:
    schema = fastavro.parse_schema(json.loads(kind))
    return fastavro.schemaless_reader(io.BytesIO(base64.b64decode(value)), schema, None)
