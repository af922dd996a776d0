"""Schemas of Avro messages, from a registry that speaks Confluent's protocol, by confluent-kafka's client.

A schema of an id never changes, so each is asked for once in a process. Options: `url` (`mock://NAME` in
tests) and `basic-auth.user-info` as `user:password`, which must come from the environment.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tablestore.core.errors import InvalidRequest, SchemaMismatch, Unavailable
from tablestore.core.extras import required
from tablestore.core.options.environment import resolved

Registry = tuple[tuple[str, str], ...]  # options of the client, `${env:NAME}` as it is typed
_NAMES = {"url": "url", "basic-auth.user-info": "basic.auth.user.info"}


def schema_text(registry: Registry, schema_id: int) -> str:
    """The schema of an id as JSON. Raises SchemaMismatch where the registry has none, Unavailable where it
    does not answer."""
    text, kind, references = _schema(registry, schema_id)
    if kind not in ("AVRO", None) or references:
        raise SchemaMismatch(f"schema {schema_id} of the registry is not Avro that stands alone")
    return text


@lru_cache(maxsize=256)
def registered(registry: Registry, subject: str, schema: str) -> int:
    """The id of an Avro schema, registered under this subject if it was not. Raises InvalidRequest where the
    registry refuses it, Unavailable where it does not answer."""
    package = required("confluent_kafka.schema_registry", by="Avro messages")
    error = required("confluent_kafka.schema_registry.error", by="Avro messages").SchemaRegistryError
    try:
        return int(client(registry).register_schema(subject, package.Schema(schema, "AVRO")))
    except error as e:
        if e.http_status_code in (409, 422):
            raise InvalidRequest(f"the schema registry refuses the schema of {subject!r}: {e}") from None
        raise Unavailable(f"the schema registry does not take the schema of {subject!r}: {e}") from None
    except Exception as e:
        raise Unavailable(f"the schema registry does not answer: {type(e).__name__}: {e}") from None


@lru_cache(maxsize=256)
def _schema(registry: Registry, schema_id: int) -> tuple[str, str | None, int]:
    error = required("confluent_kafka.schema_registry.error", by="Avro messages").SchemaRegistryError
    try:
        registered = client(registry).get_schema(schema_id)
    except error as e:
        if e.http_status_code == 404:
            raise SchemaMismatch(f"the schema registry has no schema {schema_id}") from None
        raise Unavailable(f"the schema registry does not give schema {schema_id}: {e}") from None
    except Exception as e:
        raise Unavailable(f"the schema registry does not answer: {type(e).__name__}: {e}") from None
    return registered.schema_str, registered.schema_type, len(registered.references or ())


@lru_cache(maxsize=16)
def client(registry: Registry) -> Any:
    """The client of a registry, one in a process."""
    package = required("confluent_kafka.schema_registry", by="Avro messages")
    return package.SchemaRegistryClient.new_client({_NAMES[k]: resolved(k, v) for k, v in registry})
