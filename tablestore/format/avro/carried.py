"""Fields of Avro records that this version does not know: they are carried on when a record is written again.

Later releases add fields at the end of records, such as `_EXTRA_FILES` of a manifest list in Paimon 2.1. A
field is carried with the type that its writer gave it. Pure. Used by manifest lists and index manifests.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
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


def fields_of(record: Mapping[str, Any], schema: bytes, known: Collection[str]) -> tuple[CarriedField, ...]:
    """The fields of a record beyond the `known` ones that have a value; `schema`: that of its file."""
    if all(name in known for name in record):
        return ()
    types = _types(schema)
    return tuple(
        CarriedField(name, types[name], value)
        for name, value in record.items()
        if name not in known and value is not None
    )


@lru_cache(maxsize=16)
def _types(schema: bytes) -> dict[str, str]:
    """The type of each field of a record, as JSON."""
    return {f["name"]: json.dumps(f["type"]) for f in json.loads(schema)["fields"]}


def schema_with(schema: Mapping[str, Any], carried: Iterable[tuple[CarriedField, ...]]) -> Any:
    """The schema of a record with the carried fields of all records at its end, each of which may be NULL."""
    types = {f.name: f.type for fields in carried for f in fields}
    if not types:
        return schema
    plain = {key: value for key, value in schema.items() if not key.startswith("__")}
    more = [{"name": name, "type": _nullable(json.loads(text))} for name, text in types.items()]
    return fastavro.parse_schema({**plain, "fields": [*schema["fields"], *more]})


def _nullable(kind: Any) -> list[Any]:
    union = kind if isinstance(kind, list) else [kind]
    return union if "null" in union else ["null", *union]


def values(carried: Iterable[CarriedField]) -> Iterator[tuple[str, Any]]:
    """(name, value) of each carried field."""
    return ((f.name, f.value) for f in carried)
