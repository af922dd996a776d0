"""CaptureRules: which tables of a source are captured, into which tables of the lake, and what becomes of
their columns.

Pure and picklable: what a user asks for, as values, checked as far as it can be without a source. `plan`
checks the rest of it against the tables of a source, before anything is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tablestore.cdc.capture import names
from tablestore.cdc.capture.computed import CapturedMetadata, ComputedTarget, computed_columns
from tablestore.cdc.capture.names import APPEND, REFUSE, ByTable, Patterns, SourceName, first_match, words
from tablestore.cdc.capture.shapes import TargetShape, united
from tablestore.cdc.capture.source import ShapeColumn, TableShape
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.core.options.table_options import as_text
from tablestore.format.schema import create_schema
from tablestore.format.types.arrow_types import BIGINT, BOOLEAN, BYTES, STRING
from tablestore.format.types.data_type import DataField, DataType
from tablestore.io.paths import checked_name

TYPE_MAPPINGS = {
    "tinyint1-to-bool": "TINYINT(1) becomes BOOLEAN, true where it is not 0",
    "tinyint1-not-bool": "TINYINT(1) becomes TINYINT; so it does without",
    "to-nullable": "NOT NULL is left out, but for columns of the key",
    "to-string": "every type becomes STRING",
    "char-to-string": "CHAR(n) and VARCHAR(n) become STRING",
    "longtext-to-bytes": "LONGTEXT becomes BYTES",
    "bigint-unsigned-to-bigint": "BIGINT UNSIGNED becomes BIGINT; larger values are bad rows",
    "decimal-no-change": "decimals stay as they are; so they do without",
}


@dataclass(frozen=True, slots=True)
class TypeMapping:
    """The rules that apply, of `TYPE_MAPPINGS`."""

    modes: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, written: str | Iterable[str]) -> TypeMapping:
        """Rules as written: several with commas, or a list; `_` counts as `-`. Raises NotFound with the
        nearest."""
        given = names.words(written, "type mappings")
        modes = [word.lower().replace("_", "-") for word in given if word]
        for mode in modes:
            if mode not in TYPE_MAPPINGS:
                raise NotFound.among("type mapping", mode, TYPE_MAPPINGS)
        return cls(frozenset(modes))

    def of(self, column: ShapeColumn) -> DataType:
        """The type of the column in the lake; one of the key is made NOT NULL by its table."""
        mapped = self._of(column)
        nullable = column.type.nullable or "to-nullable" in self.modes
        return mapped.as_nullable() if nullable else mapped.not_null()

    def _of(self, column: ShapeColumn) -> DataType:
        spelled, modes = column.spelled.lower(), self.modes
        if "to-string" in modes:
            return STRING
        if spelled == "tinyint(1)" and "tinyint1-to-bool" in modes:
            return BOOLEAN
        if spelled.startswith("bigint") and "unsigned" in spelled and "bigint-unsigned-to-bigint" in modes:
            return BIGINT
        if spelled == "longtext" and "longtext-to-bytes" in modes:
            return BYTES
        if column.type.is_string and "char-to-string" in modes:
            return STRING
        return column.type


EVOLVE, IGNORE, FAIL, DEAD_LETTER = "evolve", "ignore", "fail", "dead-letter"
SCHEMA_CHANGES = (EVOLVE, IGNORE, FAIL)
BAD_ROWS = (FAIL, DEAD_LETTER)
KEYLESS = (REFUSE, APPEND)
SOURCE_KEY = "*"  # in a key: the columns of the source's key


@dataclass(frozen=True)
class CaptureRules:
    """What is captured and how; `CaptureRules.of` takes it as a user writes it.

    `into`: a database of the lake, one table of it (`database.table`), or empty for the databases of the
    source. `primary_keys`, `partition_by` and `computed` are by patterns of `database.table`; of those that
    match, the first counts.
    """

    patterns: Patterns
    into: str = ""
    prefix: str = ""
    suffix: str = ""
    merge_shards: bool = False
    type_mapping: TypeMapping = TypeMapping()
    primary_keys: ByTable[tuple[str, ...]] = ()
    partition_by: ByTable[tuple[str, ...]] = ()
    computed: ByTable[tuple[ComputedTarget, ...]] = ()
    metadata: tuple[CapturedMetadata, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    schema_change: str = EVOLVE
    bad_rows: str = FAIL
    keyless: str = REFUSE

    @classmethod
    def of(
        cls,
        tables: str | Iterable[str],
        *,
        database: str = "",
        exclude: str | Iterable[str] = (),
        into: str = "",
        prefix: str = "",
        suffix: str = "",
        merge_shards: bool = False,
        type_mapping: str | Iterable[str] = (),
        primary_keys: Mapping[str, str | Sequence[str]] | str | Sequence[str] = (),
        partition_by: Mapping[str, str | Sequence[str]] | str | Sequence[str] = (),
        computed: Mapping[str, Any] | None = None,
        metadata: str | Iterable[str] = (),
        metadata_prefix: str = "",
        options: Mapping[str, Any] | None = None,
        schema_change: str = EVOLVE,
        bad_rows: str = FAIL,
        keyless: str = REFUSE,
    ) -> CaptureRules:
        """Rules as written. Patterns without a dot are of `database`. Keys and partitions: columns for all
        tables, or {pattern: columns}; `*` among key columns stands for the key of the source. Computed
        columns: {name: expression} for all tables, or {pattern: {name: expression}}. `keyless` is REFUSE or
        APPEND.

        Raises InvalidRequest, NotFound with the nearest name, Unsupported for what cannot be combined.

        >>> rules = CaptureRules.of("shop.*", into="ods", computed={"dt": "date(created_at)"})
        >>> rules.target(SourceName("shop", "orders"))
        'ods.orders'
        """
        rules = cls(
            Patterns.of(tables, exclude, database=database)
            if exclude
            else Patterns.of(tables, database=database),
            into,
            prefix,
            suffix,
            merge_shards,
            TypeMapping.parse(type_mapping),
            _by_table(primary_keys, database, _names),
            _by_table(partition_by, database, _names),
            _computed(computed or {}, database),
            CapturedMetadata.of(metadata, metadata_prefix),
            tuple(as_text(options).items()),
            schema_change,
            bad_rows,
            keyless,
        )
        rules._require_sound()
        return rules

    def captures(self, name: SourceName) -> bool:
        """Whether the table is captured: chosen by the patterns, and no shadow table of an online schema
        change unless it is named in full."""
        return self.patterns.choose(name)

    def target(self, name: SourceName) -> str:
        """The table of the lake, `database.table`, into which the rows of this one go. Raises InvalidRequest
        for a name that no table of the lake can have."""
        if self.pinned:
            return self.into
        database, table = self.into or name.database, f"{self.prefix}{name.table}{self.suffix}"
        for text, what in ((database, "database"), (table, "table")):
            checked_name(text, what)
            if "." in text:
                raise InvalidRequest(
                    f"{name}: {what} name {text!r} has a dot; exclude= the table, or capture it alone, into= "
                    "a table that you name"
                )
        return f"{database}.{table}"

    @property
    def pinned(self) -> bool:
        """Whether all rows go into one table that is named."""
        return "." in self.into

    def shard(self, name: SourceName, primary_key: Sequence[str]) -> dict[str, str]:
        """The metadata columns of a merged table, whose key this is, by which the rows of one table of the
        source are known, with their values; empty where nothing in the key tells rows of several apart."""
        values = {"database_name": name.database, "table_name": name.table}
        names = {c.what: c.name for c in self.metadata if c.name in primary_key and c.what in values}
        pairs = [pattern.partition(".")[::2] for pattern in self.patterns.include]
        for what, parts in (("database_name", [d for d, _ in pairs]), ("table_name", [t for _, t in pairs])):
            single = len({*parts}) == 1 and not any(c in "*?[" for c in parts[0])
            if what not in names and not single:
                return {}
        return {column: values[what] for what, column in names.items()}

    def key_override(self, name: SourceName) -> tuple[str, ...]:
        """The columns that are asked for as the key of this table, empty where none are. `*` among them
        stands for the key of the source."""
        return first_match(self.primary_keys, name) or ()

    def source_key(self, name: SourceName, shape: TableShape) -> tuple[str, ...]:
        """The key by which rows of the table are told apart in the source: its own, or for a table without
        one those columns of the key asked for that it has."""
        return shape.primary_key or tuple(c for c in self.key_override(name) if c in shape.names)

    def target_shape(self, name: SourceName, shape: TableShape) -> TargetShape:
        """What the table of the lake is to be for this table alone. Raises InvalidRequest (SchemaMismatch,
        Unsupported) and NotFound, with the table's name, for what cannot be."""
        try:
            return self._target_shape(name, shape)
        except NotFound as e:
            raise NotFound(f"{name}: {e}") from None
        except Unsupported as e:
            raise Unsupported(f"{name}: {e.feature}", e.why) from None
        except InvalidRequest as e:
            raise type(e)(f"{name}: {e}") from None

    def _target_shape(self, name: SourceName, shape: TableShape) -> TargetShape:
        key = self._key(name, shape)
        columns = [replace(c, type=self.type_mapping.of(c)) for c in shape.columns]
        columns += self._added(name, {c.name: c.type for c in shape.columns})
        columns = [replace(c, type=c.type.not_null()) if c.name in key else c for c in columns]
        partitions = first_match(self.partition_by, name) or ()
        target = TargetShape(tuple(columns), key, partitions, shape.comment)
        self._require_keys(name, target)
        _require_table(target)
        return target

    def plan(self, shapes: Mapping[SourceName, TableShape]) -> dict[str, TargetShape]:
        """The tables of the lake, by name, that these tables of a source need. Raises InvalidRequest (also
        SchemaMismatch, Unsupported) and NotFound, by name, for the first thing that cannot be: two tables
        that go into one without merge_shards, shards whose columns have no common type, keys without their
        columns."""
        self.require_own_targets(shapes)
        targets: dict[str, dict[SourceName, TargetShape]] = {}
        for name, shape in shapes.items():
            targets.setdefault(self.target(name), {})[name] = self.target_shape(name, shape)
        return {target: united(target, tables) for target, tables in targets.items()}

    def require_own_targets(self, names: Iterable[SourceName]) -> None:
        """Raise InvalidRequest where two of these tables go into one, unless shards are merged."""
        if self.merge_shards:
            return
        sources: dict[str, SourceName] = {}
        for name in names:
            target = self.target(name)
            if sources.setdefault(target, name) != name:
                raise InvalidRequest(self._collision(target, sources[target], name))

    def _collision(self, target: str, first: SourceName, second: SourceName) -> str:
        apart = "exclude one of them" if self.pinned else "leave out into=, or exclude one of them"
        return (
            f"{first} and {second} both go into {target}: for one table with the rows of both take "
            f"merge_shards=True, else {apart}"
        )

    def computed_of(self, name: SourceName) -> tuple[ComputedTarget, ...]:
        """The computed columns of a table."""
        return first_match(self.computed, name) or ()

    def needed(self, name: SourceName, wanted: Iterable[str]) -> set[str]:
        """The columns wanted and those that they are computed of."""
        needed = set(wanted)
        for column in reversed(self.computed_of(name)):
            if column.name in needed:
                needed |= column.expression.columns
        return needed

    def _key(self, name: SourceName, shape: TableShape) -> tuple[str, ...]:
        override = self.key_override(name)
        if SOURCE_KEY in override and not shape.primary_key:
            raise Unsupported("'*' in its primary_keys", "the table has no primary key")
        parts = (shape.primary_key if column == SOURCE_KEY else (column,) for column in override)
        key = tuple(dict.fromkeys(c for part in parts for c in part)) if override else shape.primary_key
        if not key and self.keyless != APPEND:
            raise Unsupported(
                "a table without a primary key",
                f"primary_keys={{'{name}': [columns that tell rows apart]}}, or keyless='append' if its rows "
                "are never changed",
            )
        return key

    def _added(self, name: SourceName, types: dict[str, DataType]) -> list[ShapeColumn]:
        """Computed and metadata columns; their names may be no other column's."""
        columns: list[ShapeColumn] = []
        for column in self.metadata:
            self._require_new(column.name, types, "choose a metadata_prefix")
            types[column.name] = column.type
        for added in self.computed_of(name):
            self._require_new(added.name, types, "choose another name")
            types[added.name] = added.type(types)
            columns.append(ShapeColumn(added.name, types[added.name], "", str(added.expression)))
        return columns + [ShapeColumn(column.name, column.type) for column in self.metadata]

    @staticmethod
    def _require_new(name: str, types: Mapping[str, DataType], remedy: str) -> None:
        if name in types:
            raise InvalidRequest(f"column {name!r} is there already; {remedy}")

    def _require_keys(self, name: SourceName, shape: TargetShape) -> None:
        """Raise for keys and partitions that the table has not or that cannot be some."""
        changing = {column.name for column in self.metadata if column.of_change}
        for added in self.computed_of(name):
            if added.expression.columns & changing:
                changing.add(added.name)
        for what, columns in (("primary key", shape.primary_key), ("partition", shape.partition_by)):
            for column in columns:
                if column not in shape.types:
                    raise NotFound.among(f"{what} column", column, shape.types)
                if column in changing:
                    raise Unsupported(
                        f"{what} column {column!r}",
                        "the time of a change differs from that of the row it takes back: the row would stay",
                    )
        outside = [column for column in shape.partition_by if column not in shape.primary_key]
        if outside and shape.primary_key:
            key = ", ".join(repr(column) for column in (SOURCE_KEY, *outside))
            raise InvalidRequest(
                f"partition column {', '.join(map(repr, outside))} is not in the primary key "
                f"({', '.join(shape.primary_key)}), and a key has to be in one partition only: add "
                f"primary_keys={{'{name}': [{key}]}}, where '*' stands for the key of the source"
            )

    def _require_sound(self) -> None:
        for what, word, choices in (
            ("schema_change", self.schema_change, SCHEMA_CHANGES),
            ("bad_rows", self.bad_rows, BAD_ROWS),
            ("keyless", self.keyless, KEYLESS),
        ):
            if word not in choices:
                raise NotFound.among(what, word, choices)
        if self.pinned and (self.prefix or self.suffix):
            raise InvalidRequest(
                f"into={self.into!r} names the table, so that prefix and suffix have no use; name a database"
            )
        if self.into:
            parts = self.into.split(".")
            if len(parts) > 2:
                raise InvalidRequest(f"into={self.into!r} is a database or database.table")
            for part, what in zip(parts, ("database", "table"), strict=False):
                checked_name(part, what)


def _names(written: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in words(written, "columns of keys and partitions") if name)


def _by_table(written: Any, database: str, of: Any) -> ByTable[Any]:
    if not written:
        return ()
    if not isinstance(written, Mapping):
        return (("*", of(written)),)
    return tuple((_pattern(pattern, database), of(value)) for pattern, value in written.items())


def _computed(written: Mapping[str, Any], database: str) -> ByTable[tuple[ComputedTarget, ...]]:
    nested = [isinstance(value, Mapping) for value in written.values()]
    if any(nested) and not all(nested):
        raise InvalidRequest(
            "computed columns are {name: expression} for all tables, or {pattern: {name: expression}}"
        )
    if not any(nested):
        return (("*", computed_columns(written)),) if written else ()
    return tuple((_pattern(pattern, database), computed_columns(value)) for pattern, value in written.items())


def _pattern(text: str, database: str) -> str:
    return Patterns.of(text, database=database).include[0]


def _require_table(shape: TargetShape) -> None:
    """Raise SchemaMismatch and InvalidRequest for columns and keys that no table can have."""
    fields = tuple(DataField(i, c.name, c.type) for i, c in enumerate(shape.columns))
    create_schema(
        fields,
        primary_key=shape.primary_key,
        partition_by=shape.partition_by,
        options={},
        comment=None,
        time_millis=0,
    )
