"""The formats of messages by name, made from their options, whose names are Flink's or, for how Debezium
writes values, Debezium's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tablestore.cdc.formats.debezium_events import AvroEvents, JsonEvents
from tablestore.cdc.formats.events import EventFormat
from tablestore.cdc.formats.row_events import CanalEvents, MaxwellEvents
from tablestore.core.errors import InvalidOption, NotFound, Unsupported
from tablestore.core.options.environment import ENVIRONMENT, resolved
from tablestore.core.options.secrets import is_from_environment, is_secret
from tablestore.core.options.values import boolean
from tablestore.format.messages import json_text
from tablestore.format.messages.canal_maxwell import ChangedRows
from tablestore.format.messages.debezium_avro import DebeziumAvro
from tablestore.format.messages.debezium_json import DebeziumJson, Handling
from tablestore.format.messages.messages import MessageFormat
from tablestore.format.messages.registry_client import Registry
from tablestore.format.messages.row_json import PlainJson
from tablestore.format.types.data_type import DataField

Options = Mapping[str, Any]
SKIP_BAD = "ignore-parse-errors"
_DECIMAL, _TIME = "decimal.handling.mode", "time.precision.mode"
_BINARY, _UNSIGNED = "binary.handling.mode", "bigint.unsigned.handling.mode"


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(" or ".join(words))
        return text.strip().lower()

    return parse


@dataclass(frozen=True, slots=True)
class FormatKind:
    """A format: its options with what parses each, those that are refused with the reason, and how it is
    made."""

    text: str
    options: Mapping[str, Callable[[str], Any]]
    make: Callable[[tuple[DataField, ...], Options], MessageFormat]
    refused: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()


_ANY = {SKIP_BAD: boolean}
_TIMES = {"timestamp-format.standard": _one_of("sql", "iso-8601")}
_HANDLING: dict[str, Callable[[str], Any]] = {
    _DECIMAL: _one_of("precise", "double", "string"),
    _TIME: _one_of(
        "adaptive_time_microseconds", "adaptive", "connect", "isostring", "microseconds", "nanoseconds"
    ),
    _BINARY: _one_of("bytes", "base64", "base64-url-safe", "hex"),
    _UNSIGNED: _one_of("long", "precise"),
}
_NO_MISSING = {
    "fail-on-missing-field": "a field that is missing is NULL",
    "map-null-key.mode": "maps are not read",
    "map-null-key.literal": "maps are not read",
}


def _handling(options: Options) -> Handling:
    plain = Handling()
    binary = options.get(_BINARY, plain.binary)
    return Handling(
        options.get(_DECIMAL),
        options.get(_TIME, plain.time),
        "base64" if binary == "bytes" else binary,
        options.get(_UNSIGNED, plain.unsigned),
    )


def _debezium_json(columns: tuple[DataField, ...], options: Options) -> MessageFormat:
    return DebeziumJson(columns, options.get("schema-include", False), _handling(options))


def _debezium_avro(columns: tuple[DataField, ...], options: Options) -> MessageFormat:
    return DebeziumAvro(columns, _registry(options), _handling(options))


def _registry(options: Options) -> Registry:
    names = ("url", "basic-auth.user-info")
    return tuple((name, options[name]) for name in names if name in options)


def _changed_rows(listed: bool) -> Callable[[tuple[DataField, ...], Options], MessageFormat]:
    def make(columns: tuple[DataField, ...], options: Options) -> MessageFormat:
        return ChangedRows(columns, listed, options.get("database.include"), options.get("table.include"))

    return make


_AVRO = FormatKind(
    "Debezium's change events in Avro, with a schema registry",
    {**_ANY, "url": str, "basic-auth.user-info": str, _BINARY: _HANDLING[_BINARY]},
    _debezium_avro,
    {"subject": "the id in a message names its schema", "schema": "the id in a message names its schema"},
    ("url",),
)
FORMATS: Mapping[str, FormatKind] = MappingProxyType(
    {
        "json": FormatKind(
            "each message a row, one JSON object",
            {**_ANY, **_TIMES},
            lambda columns, _: PlainJson(columns),
            _NO_MISSING,
        ),
        "debezium-json": FormatKind(
            "Debezium's change events in JSON",
            {**_ANY, **_TIMES, **_HANDLING, "schema-include": boolean},
            _debezium_json,
            _NO_MISSING,
        ),
        "debezium-avro": _AVRO,
        "debezium-avro-confluent": _AVRO,
        "canal-json": FormatKind(
            "changes as Canal writes them, in JSON",
            {**_ANY, **_TIMES, "database.include": str, "table.include": str},
            _changed_rows(True),
            _NO_MISSING,
        ),
        "maxwell-json": FormatKind(
            "changes as Maxwell writes them, in JSON",
            {**_ANY, **_TIMES, "database.include": str, "table.include": str},
            _changed_rows(False),
            _NO_MISSING,
        ),
    }
)
"""Every format; `timestamp-format.standard` is taken and does nothing, for both forms are read."""


EVENTS: Mapping[str, Callable[[Options], EventFormat]] = MappingProxyType(
    {
        "debezium-json": lambda options: JsonEvents(_handling(options)),
        "debezium-avro": lambda options: AvroEvents(_registry(options), _handling(options)),
        "debezium-avro-confluent": lambda options: AvroEvents(_registry(options), _handling(options)),
        "canal-json": lambda options: CanalEvents(),
        "maxwell-json": lambda options: MaxwellEvents(),
    }
)
"""The formats that a capture of many tables reads."""
_OF_ONE_TABLE = {
    SKIP_BAD: "its bad_rows says what becomes of bad messages",
    "database.include": "its tables are chosen by patterns",
    "table.include": "its tables are chosen by patterns",
}


def format_of(
    name: str, columns: tuple[DataField, ...], options: Mapping[str, str]
) -> tuple[MessageFormat, bool]:
    """(the format, whether messages that it cannot read are left out) of a name and its options without the
    name before them. Raises NotFound, InvalidOption and Unsupported, naming the option."""
    if name not in FORMATS:
        raise NotFound.among("format", name, FORMATS)
    kind, parsed = FORMATS[name], _options(name, options)
    if kind is not _AVRO:
        json_text.shape(columns)
    format = kind.make(columns, parsed)
    return format, bool(parsed.get(SKIP_BAD, False))


def _options(name: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The options of a format, checked and parsed."""
    kind, parsed = FORMATS[name], {}
    for key, written in options.items():
        if key in kind.refused:
            raise Unsupported(f"option '{name}.{key}'", kind.refused[key])
        if key not in kind.options:
            raise NotFound.among("option", f"{name}.{key}", [f"{name}.{k}" for k in kind.options])
        parsed[key] = _parsed(f"{name}.{key}", written, kind.options[key])
    for key in kind.required:
        if key not in parsed:
            raise InvalidOption(f"format {name!r} needs option '{name}.{key}'")
    return parsed


def events_of(name: str, options: Mapping[str, str]) -> EventFormat:
    """The format of a name for messages of many tables, with options as `format_of` takes them. Raises
    NotFound, InvalidOption and Unsupported, naming the option."""
    if name not in EVENTS:
        raise NotFound.among("format of changes", name, EVENTS)
    for key in options.keys() & _OF_ONE_TABLE.keys():
        raise Unsupported(f"option '{name}.{key}' for a capture", _OF_ONE_TABLE[key])
    return EVENTS[name](_options(name, options))


def _parsed(key: str, written: str, parse: Callable[[str], Any]) -> Any:
    require_from_environment(key, written)
    if parse is str:
        return written  # with `${env:NAME}` in it, which is looked up where the value is used
    try:
        return parse(resolved(key, written))
    except ValueError as e:
        raise InvalidOption(f"option {key!r} is {e}, not {written!r}") from None


def require_from_environment(key: str, written: str) -> None:
    """Raise InvalidOption for a secret that is typed: it would be in offsets, job files and logs."""
    if is_secret(key) and not is_from_environment(written):
        raise InvalidOption(
            f"option {key!r} is a secret: give it as {ENVIRONMENT}NAME}}, from the environment"
        )
