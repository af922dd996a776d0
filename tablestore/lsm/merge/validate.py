"""Which merge options go together, and which rows an engine takes, checked before anything is written.

Java accepts some rows on which every later read then fails (a −D for `max`, or for partial-update without a
delete option); here the batch is refused, and the error names the option that would allow it. Pure. Called
when a table is created, altered or opened for writing, and for each batch.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidOption, InvalidRequest
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine, TableOptions
from tablestore.format import rowkind
from tablestore.format.schema import TableSchema
from tablestore.lsm.merge import counted
from tablestore.lsm.merge.aggregation import Aggregation
from tablestore.lsm.merge.groups import MergeFunction
from tablestore.lsm.merge.merge_function import FIRST_ROW_RETRACT, FirstRow, merge_function, sequence_order
from tablestore.lsm.merge.partial_update import RETRACT_CHOICES, PartialUpdate
from tablestore.lsm.merge.record_expiry import RecordExpire

_SAME_FOR_BOOLEANS = {"max": "bool_or", "min": "bool_and"}


def validate(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOption naming the first merge option that does not fit the table or another option."""
    _require_columns(schema)
    _require_sequence(schema, options)
    if options.rowkind_field and options.rowkind_field not in schema.by_name:
        raise InvalidOption(f"option 'rowkind.field' names {options.rowkind_field!r}, which is not a column")
    if options.on_merge_error not in ("fail", "skip"):
        raise InvalidOption(
            f"option 'tablestore.merge.on-error' is {options.on_merge_error!r}; it must be fail or skip"
        )
    RecordExpire.of(schema, options)
    if options.row_count_field is not None:
        counted.require_sound(schema, options, options.row_count_field)
    if not schema.primary_keys:
        return
    producers = (ChangelogProducer.NONE, ChangelogProducer.LOOKUP)
    if options.merge_engine is MergeEngine.FIRST_ROW and options.changelog_producer not in producers:
        raise InvalidOption("merge-engine first-row goes with changelog-producer none or lookup only")
    _refuse_extremes_of_booleans(merge_function(schema, options))


def _refuse_extremes_of_booleans(function: MergeFunction) -> None:
    """Raise InvalidOption for max or min of a BOOLEAN: Java Paimon 2.0.0 fails at the first merge."""
    if isinstance(function, PartialUpdate):
        functions = tuple(function.functions.values())
    else:
        functions = function.functions if isinstance(function, Aggregation) else ()
    for aggregator in functions:
        if aggregator.name in _SAME_FOR_BOOLEANS and aggregator.field.type.root == "BOOLEAN":
            raise InvalidOption(
                f"aggregate function {aggregator.name!r} of column {aggregator.field.name!r}, a BOOLEAN, "
                f"fails in Paimon 2.0.0: {_SAME_FOR_BOOLEANS[aggregator.name]!r} is the same"
            )


def _require_columns(schema: TableSchema) -> None:
    """Raise InvalidOption for `fields.<columns>.…` that name no column."""
    for key in schema.options:
        parts = key.split(".")
        if parts[0] != "fields" or len(parts) < 2 or parts[1] == "default-aggregate-function":
            continue
        for name in parts[1].split(","):
            if name not in schema.by_name:
                raise InvalidOption(f"option {key!r} names {name!r}, which is not a column")


def _require_sequence(schema: TableSchema, options: TableOptions) -> None:
    sequence_order(schema, options)
    names = options.sequence_fields
    for name in names:
        if f"fields.{name}.aggregate-function" in schema.options:
            raise InvalidOption(f"column {name!r} is a sequence.field and cannot have an aggregate function")
        if names.count(name) > 1:
            raise InvalidOption(f"option 'sequence.field' names {name!r} twice")
        if not schema.by_name[name].type.is_scalar:
            raise InvalidOption(
                f"sequence.field {name!r} is {schema.by_name[name].type}: it cannot be compared"
            )
    if not names:
        return
    if options.merge_engine is MergeEngine.FIRST_ROW:
        raise InvalidOption("sequence.field and merge-engine first-row exclude each other")
    missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if schema.primary_keys and missing:
        raise InvalidOption(
            f"option 'sequence.field' needs all partition columns in the primary key: {', '.join(missing)}"
        )


def wanted_rows(options: TableOptions, kinds: np.ndarray) -> pa.BooleanArray | None:
    """Which rows are written, as `ignore-delete` and `ignore-update-before` drop some; None: all."""
    if not (options.ignore_delete or options.ignore_update_before):
        return None
    dropped = rowkind.retracts(kinds) if options.ignore_delete else kinds == rowkind.UPDATE_BEFORE
    return pa.array(~dropped) if dropped.any() else None


def require_acceptable(function: MergeFunction, options: TableOptions, kinds: np.ndarray) -> None:
    """Raise InvalidRequest for a −U or −D that the engine does not take, before anything is written."""
    taken = rowkind.retracts(kinds)
    if options.ignore_delete or not taken.any():
        return
    problem = _problem(function, deletes_only=not (kinds == rowkind.UPDATE_BEFORE).any())
    if problem:
        rows = f"{int(taken.sum())} of {len(kinds)} rows are -U or -D"
        raise InvalidRequest(f"{problem}; {rows}, nothing was written")


def require_deletable(options: TableOptions) -> None:
    """Raise InvalidRequest unless a −D row with the old values removes its row, as a DELETE must."""
    remedies = {
        MergeEngine.PARTIAL_UPDATE: (
            options.partial_update_removes or bool(options.partial_update_removing_groups),
            "set 'partial-update.remove-record-on-delete'",
        ),
        MergeEngine.AGGREGATION: (
            options.aggregation_removes,
            "set 'aggregation.remove-record-on-delete', or write -D rows to retract their values",
        ),
        MergeEngine.FIRST_ROW: (False, "its rows are never deleted"),
    }
    removes, remedy = remedies.get(options.merge_engine, (True, ""))
    if not removes:
        raise InvalidRequest(f"merge-engine {options.merge_engine.value} does not delete rows: {remedy}")
    if options.ignore_delete:
        raise InvalidRequest("'ignore-delete' is set: deletes are dropped")


def update_kinds(function: MergeFunction, values: Mapping[str, pa.Scalar]) -> tuple[int, ...]:
    """The kinds in which an UPDATE writes each row: before and after, or after only where a −U means nothing.

    Raises InvalidRequest where the new values would not be seen.
    """
    if isinstance(function, FirstRow):
        raise InvalidRequest("merge-engine first-row does not update rows: the first one stays")
    if isinstance(function, PartialUpdate | Aggregation):
        engine = (
            MergeEngine.PARTIAL_UPDATE if isinstance(function, PartialUpdate) else MergeEngine.AGGREGATION
        )
        for name, text in function.hidden_nulls().items():
            if name in values and not values[name].is_valid:
                raise InvalidRequest(f"merge-engine {engine.value} {text} where the new one is NULL")
        functions = function.functions.values() if isinstance(function, PartialUpdate) else function.functions
        for aggregator in functions:
            if aggregator.takes_retracts and not aggregator.follows_updates:
                raise InvalidRequest(
                    f"an update cannot replace what {aggregator.name!r} of column {aggregator.field.name!r} "
                    "has added up: delete the rows and write new ones"
                )
    if isinstance(function, PartialUpdate) and not function.groups:
        return (rowkind.UPDATE_AFTER,)
    return rowkind.UPDATE_BEFORE, rowkind.UPDATE_AFTER


def _problem(function: MergeFunction, *, deletes_only: bool) -> str | None:
    if isinstance(function, FirstRow):
        return FIRST_ROW_RETRACT
    if isinstance(function, PartialUpdate):
        if not function.groups:
            return None if function.removes else RETRACT_CHOICES
        guarded = {name for group in function.groups for name in group.guarded}
        functions = [f for name, f in function.functions.items() if name in guarded]
    elif isinstance(function, Aggregation):
        if function.removes and deletes_only:
            return None
        functions = list(function.functions)
    else:
        return None
    return next((f.remedy for f in functions if not f.takes_retracts), None)


_FOR_VECTORS = (ChangelogProducer.NONE, ChangelogProducer.INPUT, ChangelogProducer.LOOKUP)


def require_changelog(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOption for a changelog producer, or deletion vectors, that other options of the table
    exclude (FORMAT.md 13.1). The rules are Paimon's: what is refused could not be opened there."""
    producer = options.changelog_producer
    if not schema.primary_keys and producer is not ChangelogProducer.NONE:
        raise InvalidOption(f"changelog-producer = {producer.value} needs a primary key")
    if options.full_delta_commits is not None and producer is ChangelogProducer.LOOKUP:
        raise InvalidOption(
            "full-compaction.delta-commits does not go with changelog-producer lookup: drop it, or set "
            "changelog-producer = full-compaction for a changelog made by periodic full compactions"
        )
    if schema.primary_keys and options.deletion_vectors:
        _require_vectors(options)


def _require_vectors(options: TableOptions) -> None:
    if options.changelog_producer not in _FOR_VECTORS:
        allowed = ", ".join(p.value for p in _FOR_VECTORS)
        raise InvalidOption(f"deletion-vectors.enabled goes with changelog-producer {allowed} only")
    if options.merge_engine is MergeEngine.FIRST_ROW:
        raise InvalidOption("merge-engine first-row replaces no rows: it takes no deletion-vectors.enabled")
