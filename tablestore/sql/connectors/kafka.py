"""`kafka`: topics of Kafka, read in batch mode up to what there is, or followed; INSERT sends rows as JSON.

Options are Flink's; `properties.*` are librdkafka's, and those that are secrets must be `${env:NAME}`. Of
messages in transactions only committed ones are read, unless `properties.isolation.level` says otherwise. In
batch mode a format with updates gives the rows that are there in the end: by primary key, or by their whole
value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tablestore.cdc.final_rows import FinalRows
from tablestore.cdc.formats.registry import FORMATS, format_of, require_from_environment
from tablestore.cdc.kafka.topic_ranges import (
    BOUNDED_MODES,
    EARLIEST,
    GROUP,
    LATEST,
    SPECIFIC,
    STARTUP_MODES,
    TIMESTAMP,
    UNBOUNDED,
    ScanPoint,
    specific_offsets,
)
from tablestore.cdc.kafka.topic_stream import METADATA, MessageMetadata, TopicStream
from tablestore.core.errors import InvalidOption, Unsupported
from tablestore.core.options.values import boolean, one_of
from tablestore.flow.source import Offset
from tablestore.format.messages.messages import Changes, MessageFormat
from tablestore.log.kafka.cluster import Properties, names_file
from tablestore.log.kafka.sender import TopicWriter
from tablestore.sql.connectors.connector import Connector, ConnectorOptions, Option, count, whole
from tablestore.sql.connectors.file_formats import json_objects, require_json

_PROPERTIES = "properties."
_KEYS = "rows are made of the values of messages"
_OF_JAVA = {
    "sasl.jaas.config": "'properties.sasl.username' and 'properties.sasl.password' say it",
    "key.deserializer": "the format reads the bytes",
    "value.deserializer": "the format reads the bytes",
}
_RESET = "auto.offset.reset"
_OTHERWISE = {"earliest": EARLIEST, "latest": LATEST, "none": ""}


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(topic.strip() for topic in text.split(";") if topic.strip())
    if not topics:
        raise ValueError("names of topics, with ; between them")
    return topics


_OPTIONS = (
    Option("topic", "the topic, or several with ; between them", _topics, required=True),
    Option("properties.bootstrap.servers", "brokers as host:port,host:port", required=True, late=True),
    Option("properties.group.id", "a consumer group: where it is, and where progress is noted", late=True),
    Option("properties.*", "any property of librdkafka; secrets as ${env:NAME}", late=True, place=names_file),
    Option("format", f"of the values: {', '.join(FORMATS)}", one_of(*FORMATS)),
    Option("value.format", "the same as format", one_of(*FORMATS)),
    Option(
        "scan.startup.mode",
        "where reading begins, by default where the consumer group is",
        one_of(*STARTUP_MODES),
        default=GROUP,
    ),
    Option("scan.startup.timestamp-millis", "for the mode timestamp", whole),
    Option("scan.startup.specific-offsets", "partition:0,offset:42;partition:1,offset:300", specific_offsets),
    Option(
        "scan.bounded.mode",
        "where reading ends; in batch mode by default at the latest offset",
        one_of(*BOUNDED_MODES),
        default=UNBOUNDED,
    ),
    Option("scan.bounded.timestamp-millis", "for the mode timestamp", whole),
    Option("scan.bounded.specific-offsets", "partition:0,offset:42;partition:1,offset:300", specific_offsets),
    Option(
        "tablestore.fail-on-data-loss",
        "messages that retention removed before they were read are an error",
        boolean,
        default=True,
    ),
    Option(
        "tablestore.max-messages-per-batch",
        "of one partition, in streaming mode",
        count,
        default=1_000_000,
    ),
    Option(
        "tablestore.dead-letter-topic",
        "takes messages that the format cannot read, with where they were and why in headers",
        default="",
    ),
    *(Option(f"{name}.*", f"options of the format {name}", late=True) for name in FORMATS),
    Option("topic-pattern", refused="topics are named, with ; between them"),
    Option("key.format", refused=_KEYS),
    Option("key.fields", refused=_KEYS),
    Option("key.fields-prefix", refused=_KEYS),
    Option("value.fields-include", refused=_KEYS),
    Option("scan.topic-partition-discovery.interval", refused="each batch looks for new partitions"),
    Option("scan.parallelism", refused="there is a task for each partition"),
    Option("sink.partitioner", refused="the client spreads messages without a key"),
    Option("sink.parallelism", refused="an INSERT has one producer"),
    Option("sink.delivery-guarantee", refused="an INSERT is one transaction"),
    Option("sink.transactional-id-prefix", refused="an INSERT is one transaction under a name of its own"),
)


def _stream(options: ConnectorOptions) -> TopicStream:
    """The topics as the options say. Raises InvalidOption, NotFound, Unsupported, naming the option."""
    values, properties = options.values, _properties(options.values)
    format, skip_bad = _format(options)
    if format.appends and options.primary_key:
        name = _format_name(values)
        raise InvalidOption(
            f"a primary key with format {name!r}: {name!r} only adds rows, and one key may come twice"
        )
    return TopicStream(
        tuple(pair for pair in properties if pair[0] != _RESET),
        values["topic"],
        format,
        _point("startup", values, dict(properties)),
        _point("bounded", values, dict(properties)),
        skip_bad,
        values["tablestore.fail-on-data-loss"],
        values["tablestore.max-messages-per-batch"],
        options.primary_key,
        values["tablestore.dead-letter-topic"],
        _metadata(options, format),
    )


def _metadata(options: ConnectorOptions, format: MessageFormat) -> tuple[MessageMetadata, ...]:
    """The METADATA columns. Raises SchemaMismatch for a type that does not fit."""
    if options.metadata and not format.appends:
        name = _format_name(options.values)
        raise Unsupported(
            f"METADATA columns with format {name!r}", "its messages may change several rows, or none"
        )
    fields = {f.name: f for f in options.columns}
    columns = tuple(MessageMetadata(fields[name], key) for name, key in options.metadata)
    for column in columns:
        column.require_valid()
    return columns


def _properties(values: Mapping[str, Any]) -> Properties:
    properties = {k.removeprefix(_PROPERTIES): v for k, v in values.items() if k.startswith(_PROPERTIES)}
    for key, written in properties.items():
        if key in _OF_JAVA:
            raise Unsupported(f"option '{_PROPERTIES}{key}' of connector 'kafka'", _OF_JAVA[key])
        if written is not None:
            require_from_environment(f"{_PROPERTIES}{key}", written)
    return tuple(sorted((key, written) for key, written in properties.items() if written is not None))


def _format_name(values: Mapping[str, Any]) -> str:
    name = values["format"] or values["value.format"]
    if name is None:
        raise InvalidOption(f"connector 'kafka' needs option 'format': {', '.join(FORMATS)}")
    return name


def _format(options: ConnectorOptions) -> tuple[MessageFormat, bool]:
    name = _format_name(options.values)
    for key in options.values:
        other = next((form for form in FORMATS if key.startswith(f"{form}.")), name)
        if other != name:
            raise InvalidOption(f"option {key!r} is one of format {other!r}, and the format is {name!r}")
    mine = {k.removeprefix(f"{name}."): v for k, v in options.values.items() if k.startswith(f"{name}.")}
    beside = {column for column, _ in options.metadata}
    return format_of(name, tuple(f for f in options.columns if f.name not in beside), mine)


def _point(which: str, values: Mapping[str, Any], properties: Mapping[str, str]) -> ScanPoint:
    mode = values[f"scan.{which}.mode"]
    if mode == TIMESTAMP:
        return ScanPoint(mode, millis=_needed(f"scan.{which}.timestamp-millis", mode, values))
    if mode == SPECIFIC:
        if len(values["topic"]) > 1:
            raise InvalidOption(f"option 'scan.{which}.specific-offsets' is for one topic")
        return ScanPoint(mode, offsets=_needed(f"scan.{which}.specific-offsets", mode, values))
    if mode != GROUP:
        return ScanPoint(mode)
    if "group.id" not in properties:
        raise InvalidOption(
            f"option 'scan.{which}.mode' is {GROUP!r} and 'properties.group.id' names no group; "
            "'earliest-offset' reads all that there is"
        )
    reset = properties.get(_RESET, "none")
    if reset not in _OTHERWISE:
        raise InvalidOption(f"option '{_PROPERTIES}{_RESET}' is earliest, latest or none, not {reset!r}")
    return ScanPoint(mode, group=properties["group.id"], otherwise=_OTHERWISE[reset])


def _needed(key: str, mode: str, values: Mapping[str, Any]) -> Any:
    if values[key] is None:
        raise InvalidOption(f"mode {mode!r} needs option {key!r}")
    return values[key]


class _Topics:
    """Rows of topics up to what there is when they are first asked for, or to the stream's end."""

    def __init__(self, options: ConnectorOptions) -> None:
        stream = _stream(options)
        if stream.bound.mode == UNBOUNDED:
            stream = replace(stream, bound=ScanPoint(LATEST))
        self._stream = stream

    @cached_property
    def _range(self) -> tuple[Offset, Offset]:
        return self._stream.next(self._stream.initial()), self._stream.latest()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows; where the format has updates, those that are there after all of them."""
        pieces = self._stream.pieces(*self._range)
        if self._stream.appends:
            for piece in pieces:
                for rows, _ in piece.read(columns):
                    yield rows
            return
        schema = self._stream.schema
        key = self._stream.primary_key
        needed = [n for n in schema.names if not key or n in columns or n in key]
        final = FinalRows(pa.schema([schema.field(n) for n in needed]), key)
        for piece in pieces:
            for rows, kinds in piece.read(needed):
                final.add(Changes(rows, kinds))
        yield from final.rows().select(list(columns)).to_batches()


class _TopicRows:
    """Rows that become messages of one topic, in one transaction."""

    def __init__(self, options: ConnectorOptions) -> None:
        name, topics = _format_name(options.values), options.values["topic"]
        if name != "json":
            raise Unsupported(f"INSERT with format {name!r}", "rows are sent as 'json'")
        if len(topics) > 1:
            raise Unsupported("INSERT into several topics")
        if options.metadata:
            raise Unsupported(
                "INSERT into a table with METADATA columns", "a message gets its own from the broker"
            )
        require_json(options.columns)
        _format(options)
        self._topic, self._columns = topics[0], options.columns
        self._writer = TopicWriter(_properties(options.values), self._topic)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(json_objects(batch, self._columns).cast(pa.binary()))

    def finish(self) -> str:
        self._writer.commit()
        return f"topic {self._topic}"

    def abandon(self) -> None:
        self._writer.abort()


CONNECTOR = Connector("kafka", "topics of Kafka", _OPTIONS, _Topics, _TopicRows, _stream, metadata=METADATA)
