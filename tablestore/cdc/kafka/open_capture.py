"""A capture of topics from an address and options: `kafka://host:9092/topic`.

The path is a topic, several with commas between them, or a regular expression that matches whole names, as
Paimon's `topic-pattern`: kafka://host:9092/srv\\.shop\\..* takes all topics of a database, also those that
come later. Names of topics hold letters, digits and `._-` only, so that anything else is an expression.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.shapes import ShapeFiles
from tablestore.cdc.formats.registry import EVENTS, events_of, require_from_environment
from tablestore.cdc.kafka.capture import TopicsCapture
from tablestore.cdc.kafka.scan_point import EARLIEST, GROUP, LATEST, TIMESTAMP, UNBOUNDED, ScanPoint
from tablestore.cdc.kafka.shape_scan import CaptureTables
from tablestore.cdc.kafka.topic_ranges import TopicRanges
from tablestore.core.errors import InvalidOption, InvalidRequest
from tablestore.format.types.arrow_types import as_type
from tablestore.format.types.data_type import DataType
from tablestore.log.kafka.cluster import Properties

SCHEME = "kafka://"
_FORM = "kafka://host:9092/topic"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True)
class TopicSettings:
    """How topics are read, as a user writes it.

    `format` is one of those of `EVENTS`, and `format_options` are its options without its name before them:
    `{"decimal.handling.mode": "precise"}`, `{"url": "http://registry:8081"}`. `properties` are librdkafka's;
    a secret is `${env:NAME}`. `columns` gives types that messages do not say, `{"shop.orders": {"price":
    "DECIMAL(15, 2)"}}`, by patterns of tables. `start`: earliest-offset, latest-offset, group-offsets or
    milliseconds since 1970. `messages` of a partition at most make a batch.
    """

    format: str
    format_options: Mapping[str, str] | None = None
    properties: Mapping[str, str] | None = None
    columns: Mapping[str, Mapping[str, Any]] | None = None
    start: str | int = EARLIEST
    messages: int = 500_000


def open_topics(
    url: str, settings: TopicSettings, rules: CaptureRules, *, checkpoint: str, follow: bool = True
) -> TopicsCapture:
    """The capture of the topics of an address. `rules` choose tables by the names that the messages say.
    Without `follow` it ends at what there is when it begins. Raises InvalidRequest, InvalidOption, NotFound,
    Unsupported.
    """
    brokers, topics, pattern = parsed(url)
    events = events_of(settings.format, _texts("format_options", settings.format_options))
    given, messages = _texts("properties", settings.properties), settings.messages
    if isinstance(messages, bool) or not isinstance(messages, int) or messages < 1:
        raise InvalidRequest(f"messages is a whole number above 0, not {messages!r}")
    ranges = TopicRanges(
        _properties(brokers, given),
        topics,
        _start(settings.start, given.get("group.id", "")),
        ScanPoint(UNBOUNDED if follow else LATEST),
        limit=messages,
        pattern=pattern,
    )
    declared = {str(table): _types(types) for table, types in _mapping(_COLUMNS, settings.columns).items()}
    return TopicsCapture(ranges, events, CaptureTables(rules, declared), ShapeFiles(checkpoint))


def parsed(url: str) -> tuple[str, tuple[str, ...], str]:
    """(brokers, topics, regular expression) of an address. Raises InvalidRequest, without showing the text,
    for one that holds a password."""
    brokers, _, path = url.removeprefix(SCHEME).partition("/")
    if "@" in brokers:
        raise InvalidRequest(
            "the address of the topics holds a user; give properties={'sasl.username': …, "
            f"'sasl.password': '${{env:NAME}}'}} and write {_FORM}"
        )
    path = unquote(path)
    if not url.startswith(SCHEME) or not brokers or not path:
        raise InvalidRequest(f"the address of the topics names brokers and topics; write {_FORM}")
    topics = tuple(topic.strip() for topic in path.split(","))
    if all(_TOPIC.fullmatch(topic) for topic in topics):
        return brokers, topics, ""
    try:
        re.compile(path)
    except re.error as e:
        raise InvalidRequest(
            f"{path!r} is neither a topic nor a regular expression ({e}); all topics are kafka://{brokers}/.*"
        ) from None
    return brokers, (), path


_COLUMNS = "columns is {table: {column: type}}"


def _types(written: Any) -> dict[str, DataType]:
    types = _mapping(_COLUMNS, written)
    return {name: as_type(kind, f"the type of column {name!r}") for name, kind in types.items()}


def _texts(name: str, written: Any) -> dict[str, str]:
    texts = _mapping(f"{name} is a mapping of names to texts", written)
    return {str(key): str(value) for key, value in texts.items()}


def _mapping(form: str, written: Any) -> Mapping[Any, Any]:
    if written is not None and not isinstance(written, Mapping):
        raise InvalidRequest(f"{form}, not {type(written).__name__}")
    return written or {}


def _properties(brokers: str, given: Mapping[str, str]) -> Properties:
    for key, written in given.items():
        require_from_environment(f"properties.{key}", written)
    return tuple(sorted({**given, "bootstrap.servers": brokers}.items()))


def _start(start: str | int, group: str) -> ScanPoint:
    if isinstance(start, int) and not isinstance(start, bool):
        return ScanPoint(TIMESTAMP, millis=start)
    if start not in (EARLIEST, LATEST, GROUP):
        raise InvalidOption(
            f"start is {EARLIEST}, {LATEST}, {GROUP} or milliseconds since 1970, not {start!r}"
        )
    if start == GROUP and not group:
        raise InvalidOption(f"start is {GROUP!r} and properties name no 'group.id'")
    return ScanPoint(start, group=group)


FORMATS = tuple(EVENTS)
"""The names of formats that a capture reads."""
