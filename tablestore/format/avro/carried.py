"""Fields of Avro records that this version does not know: they are carried on when a record is written again.

Later releases add fields at the end of records, such as `_EXTRA_FILES` of a manifest list in Paimon 2.1. A
field is carried with the type that its writer gave it. Pure. Used by manifests, their lists, index manifests
and messages between processes.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro


@dataclass(frozen=True, slots=True)
class CarriedField:
    """A field with a value; `type`: its Avro type as JSON."""

    name: str
    type: str
    value: Any


def fields_of(
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


def values(carried: Iterable[CarriedField]) -> Iterator[tuple[str, Any]]:
    """(name, value) of each carried field."""
    return ((f.name, f.value) for f in carried)


def texts(carried: Iterable[CarriedField]) -> Iterator[str]:
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


def to_text(carried: Sequence[CarriedField]) -> str | None:
    """The fields as JSON, their values as Avro writes them; None for none."""
    return json.dumps([(f.name, f.type, _written(f)) for f in carried]) if carried else None


def from_text(text: str | None) -> tuple[CarriedField, ...]:
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
