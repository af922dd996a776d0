"""Manifest lists and manifests: values ⇄ Avro bytes (FORMAT.md 8.1, 8.2, 8.3).

`ManifestEntry` is the addition or deletion of a data file (`data_file`), `ManifestFileMeta` one manifest in a
list. Field order and names are the format's; fields that an older writer left out are None.

Statistics over the partitions of a manifest's entries (`_PARTITION_STATS`, FORMAT.md 5.4) say whether it can
hold some of them. An entry contains the bytes of its partition as they are, so a block without them has no
entry of it; what that search gives is filtered by the decoded partition. A manifest of 88,000 entries takes
0.07 s of CPU this way and 0.3 s to decode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import fastavro

from tablestore.core.errors import Corrupt, TablestoreError, brief
from tablestore.format import binary_row
from tablestore.format.avro import blocks as avro_blocks
from tablestore.format.avro import container as avro
from tablestore.format.avro.blocks import zigzag
from tablestore.format.avro.container import (
    CarriedField,
    carried_fields,
    carried_of_text,
    carried_text,
    carried_values,
    plain_schema_with,
    schema_with,
)
from tablestore.format.manifests.data_file import APPEND_SOURCE as APPEND_SOURCE
from tablestore.format.manifests.data_file import COMPACT_SOURCE as COMPACT_SOURCE
from tablestore.format.manifests.data_file import EMPTY_ROW as EMPTY_ROW
from tablestore.format.manifests.data_file import EMPTY_STATS as EMPTY_STATS
from tablestore.format.manifests.data_file import DataFileMeta as DataFileMeta
from tablestore.format.manifests.data_file import SimpleStats as SimpleStats
from tablestore.format.types.arrow_types import DataType
from tablestore.io.paths import is_plain

ADD, DELETE = 0, 1
ENTRY_VERSION = 2
MAX_COUNT = 1 << 50  # bytes or rows of one file
MAX_LEVELS = 1 << 16
MIN_BUCKET = -2
EXTRA_FILES = "_EXTRA_FILES"
_FEW_ENTRIES = 500  # of a manifest with small blocks
_SMALL_BLOCK = 4_000  # bytes of some 14 entries


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file added to or deleted from (partition, bucket). `partition` is a serialized BinaryRow."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta
    carried: tuple[CarriedField, ...] = field(default=(), compare=False, repr=False)

    @property
    def identity(self) -> tuple[Any, ...]:
        """The fields by which a DELETE matches an ADD; the level is one, since an upgrade changes only that
        (FORMAT.md 8.4)."""
        f = self.file
        return (
            self.partition,
            self.bucket,
            f.level,
            f.file_name,
            f.extra_files,
            f.embedded_index,
            f.external_path,
        )


@dataclass(frozen=True, slots=True)
class ManifestFileMeta:
    """One manifest in a list; `carried`: fields of later releases, which stay with it."""

    file_name: str
    file_size: int
    num_added: int
    num_deleted: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    carried: tuple[CarriedField, ...] = ()

    @property
    def extra_files(self) -> tuple[str, ...]:
        """Names of files beside the manifest that belong to it, such as Paimon 2.1's sidecars."""
        return next((tuple(f.value) for f in self.carried if f.name == EXTRA_FILES), ())

    @property
    def names(self) -> tuple[str, ...]:
        """Its file and the extra ones, all in the manifest directory."""
        return self.file_name, *self.extra_files


def _stats_schema(name: str) -> dict[str, Any]:
    text = "_MIN_VALUES bytes, _MAX_VALUES bytes, _NULL_COUNTS counts?"
    return avro.record(name, text, counts=avro.array(["null", "long"]))


_FILE = (
    "_FILE_NAME string, _FILE_SIZE long, _ROW_COUNT long, _MIN_KEY bytes, _MAX_KEY bytes, _KEY_STATS keys, "
    "_VALUE_STATS values, _MIN_SEQUENCE_NUMBER long, _MAX_SEQUENCE_NUMBER long, _SCHEMA_ID long, _LEVEL int, "
    "_EXTRA_FILES strings, _CREATION_TIME millis?, _DELETE_ROW_COUNT long?, _EMBEDDED_FILE_INDEX bytes?, "
    "_FILE_SOURCE int?, _VALUE_STATS_COLS strings?, _EXTERNAL_PATH string?, _FIRST_ROW_ID long?, "
    "_WRITE_COLS strings?"
)


def file_schema(name: str = "record__FILE", text: str = _FILE) -> dict[str, Any]:
    """The Avro record of a DataFileMeta."""
    return avro.record(
        name,
        text,
        keys=_stats_schema(f"{name}__KEY_STATS"),
        values=_stats_schema(f"{name}__VALUE_STATS"),
        strings=avro.array("string"),
        millis={"type": "long", "logicalType": "timestamp-millis"},
    )


NAMESPACE = "org.apache.paimon.avro.generated"


def _entry_schema(file: dict[str, Any]) -> dict[str, Any]:
    text = "_VERSION int, _KIND int, _PARTITION bytes, _BUCKET int, _TOTAL_BUCKETS int, _FILE file"
    return avro.record("record", text, namespace=NAMESPACE, file=file)


_FILE_SCHEMA = file_schema()
ENTRY_SCHEMA: Any = fastavro.parse_schema(_entry_schema(_FILE_SCHEMA))
LIST_SCHEMA: Any = fastavro.parse_schema(
    avro.record(
        "record",
        "_VERSION int, _FILE_NAME string, _FILE_SIZE long, _NUM_ADDED_FILES long, _NUM_DELETED_FILES long, "
        "_PARTITION_STATS stats, _SCHEMA_ID long, _MIN_BUCKET int?, _MAX_BUCKET int?, _MIN_LEVEL int?, "
        "_MAX_LEVEL int?, _MIN_ROW_ID long?, _MAX_ROW_ID long?",
        namespace=NAMESPACE,
        stats=_stats_schema("record__PARTITION_STATS"),
    )
)

LIST_FIELDS = frozenset(f["name"] for f in LIST_SCHEMA["fields"])
ENTRY_FIELDS = frozenset(f["name"] for f in ENTRY_SCHEMA["fields"])
FILE_FIELDS = frozenset(f["name"] for f in _FILE_SCHEMA["fields"])


_FILE_NAMES = tuple(f["name"] for f in _FILE_SCHEMA["fields"])  # in the order of the fields of DataFileMeta
_LIST_NAMES = tuple(f["name"] for f in LIST_SCHEMA["fields"])[1:]  # in that of ManifestFileMeta
_FILE_VALUES = attrgetter(*(f.name for f in fields(DataFileMeta) if f.name != "carried"))
_LIST_VALUES = attrgetter(*(f.name for f in fields(ManifestFileMeta) if f.name != "carried"))


def stats_record(stats: SimpleStats) -> dict[str, Any]:
    """SimpleStats as an Avro record."""
    counts = None if stats.null_counts is None else list(stats.null_counts)
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": counts}


def _stats(record: Mapping[str, Any]) -> SimpleStats:
    return SimpleStats(
        _row(record["_MIN_VALUES"]), _row(record["_MAX_VALUES"]), _tuple(record.get("_NULL_COUNTS"))
    )


def _tuple(value: Any) -> tuple[Any, ...] | None:
    return None if value is None else tuple(value)


def _row(value: bytes) -> bytes:
    return value or EMPTY_ROW


_READ: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("_MIN_KEY", "_MAX_KEY"), _row),
    **dict.fromkeys(("_KEY_STATS", "_VALUE_STATS", "_PARTITION_STATS"), _stats),
    **dict.fromkeys(("_VALUE_STATS_COLS", "_WRITE_COLS"), _tuple),
    "_EXTRA_FILES": lambda names: tuple(names or ()),
    "_CREATION_TIME": avro.millis,
}
_READERS = {
    names: [(place, _READ[name]) for place, name in enumerate(names) if name in _READ]
    for names in (_FILE_NAMES, _LIST_NAMES)
}


def _record(names: Sequence[str], cells: Iterable[Any]) -> dict[str, Any]:
    """Values as the fields of an Avro record."""
    return {
        name: stats_record(v) if isinstance(v, SimpleStats) else list(v) if isinstance(v, tuple) else v
        for name, v in zip(names, cells, strict=True)
    }


def _values(r: Mapping[str, Any], names: tuple[str, ...], required: int) -> list[Any]:
    """The values of these fields of a record; of them so many are in records of every release."""
    there = [*map(r.__getitem__, names[:required]), *map(r.get, names[required:])]
    for place, read in _READERS[names]:
        there[place] = read(there[place])
    return there


def file_record(f: DataFileMeta) -> dict[str, Any]:
    """A DataFileMeta as an Avro record."""
    return _record(_FILE_NAMES, _FILE_VALUES(f))


def file_of(r: Mapping[str, Any]) -> DataFileMeta:
    """The DataFileMeta of an Avro record of any release."""
    return DataFileMeta(*_values(r, _FILE_NAMES, 11))


def file_message_schema(name: str = "file") -> dict[str, Any]:
    """The schema of `file_message`, for messages between processes."""
    return file_schema(name, f"{_FILE}, carried string?")


def file_message(f: DataFileMeta) -> dict[str, Any]:
    """A DataFileMeta as a record of a message, with what it carries as text."""
    return {**file_record(f), "carried": carried_text(f.carried)}


def file_of_message(r: Mapping[str, Any]) -> DataFileMeta:
    """The DataFileMeta of `file_message`."""
    return replace(file_of(r), carried=carried_of_text(r["carried"]))


def schema_of(entries: Iterable[ManifestEntry]) -> Any:
    """The Avro schema of a manifest of these entries, with the fields that they carry."""
    some = [e for e in entries if e.carried or e.file.carried]
    if not some:
        return ENTRY_SCHEMA
    file = plain_schema_with(_FILE_SCHEMA, (e.file.carried for e in some))
    return fastavro.parse_schema(plain_schema_with(_entry_schema(file), (e.carried for e in some)))


def encode_entries(
    entries: Iterable[ManifestEntry], codec: str, schema: Mapping[str, Any] | None = None
) -> bytes:
    """The bytes of a manifest; `schema`: another one than `schema_of` the entries, for more of them. Blocks
    of few entries are small, so that a lookup in one bucket decodes less; they take a tenth more bytes."""
    block_bytes, some = avro.BLOCK_BYTES, entries
    if schema is None:
        some = list(entries)
        schema, block_bytes = schema_of(some), _SMALL_BLOCK if len(some) <= _FEW_ENTRIES else block_bytes
    records = (
        {
            "_VERSION": ENTRY_VERSION,
            "_KIND": e.kind,
            "_PARTITION": e.partition,
            "_BUCKET": e.bucket,
            "_TOTAL_BUCKETS": e.total_buckets,
            "_FILE": {**file_record(e.file), **dict(carried_values(e.file.carried))},
            **dict(carried_values(e.carried)),
        }
        for e in some
    )
    return avro.encode(schema, records, codec, block_bytes=block_bytes)


def decode_entries(data: bytes, path: str, place: tuple[bytes, int] | None = None) -> list[ManifestEntry]:
    """The entries of a manifest, in order, those of one (partition, bucket) if it is given: others cost a
    sixth, and blocks without any are not decoded. Raises Corrupt naming `path` and the entry."""
    entries: list[ManifestEntry] = []
    holding = None if place is None else partial(_beginnings, *place)
    records, schema = avro.decode_with_schema(data, path, holding)
    for number, r in enumerate(records):
        try:
            partition, bucket = r["_PARTITION"] or EMPTY_ROW, r["_BUCKET"]
            if place is not None and place != (partition, bucket):
                continue
            if r["_VERSION"] != ENTRY_VERSION or r["_KIND"] not in (ADD, DELETE):
                problem = f"entry {number}: version {r['_VERSION']}, kind {r['_KIND']}; expected 2 and 0 or 1"
                raise Corrupt(path, problem)
            file = _sound(file_of(r["_FILE"]), bucket, f"entry {number}", path)
            if later := carried_fields(r["_FILE"], schema, FILE_FIELDS, within="_FILE"):
                file = replace(file, carried=later)
            first = r["_KIND"], partition, bucket, r["_TOTAL_BUCKETS"]
            entries.append(ManifestEntry(*first, file, carried_fields(r, schema, ENTRY_FIELDS)))
        except (KeyError, TypeError, AttributeError) as e:
            raise Corrupt(path, f"entry {number} is not a manifest entry: {brief(e)}") from e
    return entries


def _beginnings(partition: bytes, bucket: int, schema: bytes) -> list[bytes]:
    """The bytes with which entries of a bucket begin; [] where entries have other fields first."""
    if not _begins_as_ours(schema):
        return []
    partitions = (b"", EMPTY_ROW) if partition == EMPTY_ROW else (partition,)
    version, kinds, number = zigzag(ENTRY_VERSION), (zigzag(ADD), zigzag(DELETE)), zigzag(bucket)
    return [version + kind + zigzag(len(p)) + p + number for kind in kinds for p in partitions]


@lru_cache(maxsize=8)
def _begins_as_ours(schema: bytes) -> bool:
    record = json.loads(schema)
    fields = record["fields"] if isinstance(record, dict) else []
    ours, theirs = ([(f["name"], f["type"]) for f in some[:4]] for some in (ENTRY_SCHEMA["fields"], fields))
    return ours == theirs


def _sound(f: DataFileMeta, bucket: int, where: str, path: str) -> DataFileMeta:
    """The file; raises Corrupt for names that leave the bucket and for impossible numbers."""
    for name in (f.file_name, *f.extra_files):
        if not is_plain(name):
            raise Corrupt(path, f"{where}: the file name {name!r} points outside its directory")
    counts = (f.file_size, f.row_count, f.delete_count or 0)
    if not all(0 <= n <= MAX_COUNT for n in counts) or not 0 <= f.level < MAX_LEVELS or bucket < MIN_BUCKET:
        text = f"{f.file_size} bytes, {f.row_count} rows, {f.delete_count} deletes, level {f.level}"
        raise Corrupt(path, f"{where}: {f.file_name} in bucket {bucket} has {text}")
    return f


def listed_names(manifests: Iterable[ManifestFileMeta]) -> dict[str, int]:
    """The files of these manifests with their bytes, 0 for those beside a manifest."""
    names: dict[str, int] = {}
    for m in manifests:
        names |= {**dict.fromkeys(m.extra_files, 0), m.file_name: m.file_size}
    return names


def encode_list(manifests: Iterable[ManifestFileMeta], codec: str) -> bytes:
    """The bytes of a manifest list."""
    some = list(manifests)
    records = (
        {
            "_VERSION": ENTRY_VERSION,
            **_record(_LIST_NAMES, _LIST_VALUES(m)),
            **dict(carried_values(m.carried)),
        }
        for m in some
    )
    return avro.encode(schema_with(LIST_SCHEMA, (m.carried for m in some)), records, codec)


def decode_list(data: bytes, path: str) -> list[ManifestFileMeta]:
    """The manifests a list names, in order; raises Corrupt naming `path`."""
    manifests = list[ManifestFileMeta]()
    records, schema = avro.decode_with_schema(data, path)
    for r in records:
        try:
            if r["_VERSION"] != ENTRY_VERSION:
                raise Corrupt(
                    path, f"row {len(manifests)}: version {r['_VERSION']}, expected {ENTRY_VERSION}"
                )
            for name in (r["_FILE_NAME"], *(r.get(EXTRA_FILES) or ())):
                if not is_plain(name):
                    problem = f"row {len(manifests)}: the file name {name!r} points outside its directory"
                    raise Corrupt(path, problem)
            counts = (r["_FILE_SIZE"], r["_NUM_ADDED_FILES"], r["_NUM_DELETED_FILES"])
            if not all(0 <= n <= MAX_COUNT for n in counts):
                raise Corrupt(path, f"row {len(manifests)}: bytes, files added, files deleted are {counts}")
            later = carried_fields(r, schema, LIST_FIELDS)
            manifests.append(replace(ManifestFileMeta(*_values(r, _LIST_NAMES, 6)), carried=later))
        except (KeyError, TypeError, AttributeError, TablestoreError) as e:
            if isinstance(e, Corrupt):
                raise
            raise Corrupt(path, f"row {len(manifests)} is not a manifest: {brief(e)}") from e
    return manifests


def partition_stats(
    partitions: Sequence[bytes], counts: Sequence[int], types: Sequence[DataType]
) -> SimpleStats:
    """Minimum, maximum and null count of each partition column over all entries: distinct partitions, each
    with how many entries it has (a null counts once an entry)."""
    rows = [binary_row.decode(p, types) for p in partitions]
    lows, highs, nulls = [], [], []
    for i, t in enumerate(types):
        values = [r[i] for r in rows if r[i] is not None]
        order = sorted(set(values), key=partial(_order, t))
        lows.append(order[0] if order else None)
        highs.append(order[-1] if order else None)
        nulls.append(sum(n for r, n in zip(rows, counts, strict=True) if r[i] is None))
    nullable = [t.as_nullable() for t in types]
    return SimpleStats(binary_row.encode(lows, nullable), binary_row.encode(highs, nullable), tuple(nulls))


def _order(t: DataType, value: Any) -> Any:
    return binary_row.sort_key([value], [t])


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """The range of some partitions in each column. A column of `lows` is None where its range is not known: a
    partition has NULL in it."""

    types: tuple[DataType, ...]
    lows: tuple[Any, ...]
    highs: tuple[Any, ...]

    @classmethod
    def of(cls, partitions: Iterable[bytes], types: Sequence[DataType]) -> PartitionBounds:
        """The range of these serialized partitions; raises Corrupt for bytes that are no partition."""
        lows, highs = list[Any](), list[Any]()
        nullable = tuple(t.as_nullable() for t in types)
        rows = [binary_row.decode(p, nullable) for p in partitions]
        for i, t in enumerate(nullable):
            keys: list[Any] = [None if row[i] is None else _order(t, row[i]) for row in rows]
            are_known = bool(keys) and None not in keys
            lows.append(min(keys) if are_known else None)
            highs.append(max(keys) if are_known else None)
        return cls(nullable, tuple(lows), tuple(highs))

    def meets(self, about: SimpleStats) -> bool:
        """Whether a manifest with these statistics may hold an entry of the partitions; True where it has
        none."""
        try:
            rows = [binary_row.decode(row, self.types) for row in (about.min_values, about.max_values)]
        except Corrupt:  # written without partition statistics
            return True
        columns = zip(self.types, self.lows, self.highs, *rows, strict=True)
        for t, low, high, least, greatest in columns:
            if low is None or least is None or greatest is None:
                continue
            if high < _order(t, least) or low > _order(t, greatest):
                return False
        return True


def holding(data: bytes, path: str, partitions: Collection[bytes]) -> tuple[bytes, int]:
    """An uncompressed manifest of the blocks in which one of these serialized partitions occurs, and how many
    entries they have. Raises Corrupt naming `path`."""
    header, blocks = avro_blocks.BlockReader().plain(data, path)
    everywhere = any(p in (b"", EMPTY_ROW) for p in partitions)
    some = [b for b in blocks if everywhere or any(p in b.data for p in partitions)]
    return avro_blocks.joined(header.schema, some), sum(b.rows for b in some)
