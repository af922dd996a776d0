"""The schema of a table that is to be made, from what the caller says of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from tablestore.core.env import Env
from tablestore.core.errors import InvalidOption, InvalidRequest, SchemaMismatch
from tablestore.core.options.names import UUID
from tablestore.core.options.rules import require_storable
from tablestore.core.options.table_options import TableOptions, as_text, current_names, keys_of, with_levels
from tablestore.format.change_tracking import require_partitions_exist
from tablestore.format.changed_options import require_columns_exist
from tablestore.format.schema import TableSchema, create_schema
from tablestore.log.settings import ADOPTED
from tablestore.lsm.merge import counted
from tablestore.meta.refs import FALLBACK, PRIMARY
from tablestore.table.columns import declared
from tablestore.table.identifier import Identifier
from tablestore.table.log_of import with_topic
from tablestore.table.new_table import NewTable
from tablestore.table.table import Table
from tablestore.write.retention.auto_tags import Periods
from tablestore.write.retention.expire_partitions import PartitionPolicy
from tablestore.write.supported import require_openable, require_writable, warning_of

log = logging.getLogger(__name__)
_OWN = {UUID, "path", FALLBACK, PRIMARY, "kafka.topic", ADOPTED}
_OWN |= {f"data-file.external-paths{end}" for end in ("", ".strategy", ".specific-fs", ".weights")}


def new_schema(
    identifier: Identifier,
    new: NewTable,
    *,
    defaults: Mapping[str, str],
    roots: Iterable[str],
    env: Env,
) -> TableSchema:
    """Schema 0 of the table that `Lake.create_table` makes, `defaults` the options of the catalog for new
    tables. Raises SchemaMismatch, InvalidOption, InvalidRequest, Unsupported."""
    if new.like is not None and not isinstance(new.like, Table):
        raise InvalidRequest(f"like={new.like!r} is no table: give one, or its name")
    model = None if new.like is None else new.like.store.schema.shown
    schema, comment = new.schema, new.comment
    primary_key, partition_by = new.primary_key, new.partition_by
    if model is not None:
        schema = model.fields if schema is None else schema
        primary_key = model.primary_keys if primary_key is None else primary_key
        partition_by = model.partition_keys if partition_by is None else partition_by
        comment = model.comment if comment is None else comment
    elif schema is None:
        raise SchemaMismatch("a table needs columns: schema={column: type}, or like=another_table")
    copied = {} if model is None else {k: v for k, v in model.options.items() if k not in _OWN}
    chosen = {**defaults, **copied, **as_text(new.options)}
    chosen = {k: v for k, v in chosen.items() if (new.options or {}).get(k, v) is not None}
    primary_key = keys_of(chosen, "primary-key", _names(primary_key or (), "primary_key"))
    partition_by = keys_of(chosen, "partition", _names(partition_by or (), "partition_by"))
    given = current_names(chosen, keyed=bool(primary_key))
    fields = declared(schema, new.comments)
    if counted.is_asked_for(given, primary_key):
        fields, primary_key, given = counted.declared(fields, partition_by, given)
    require_storable(given, keyed=bool(primary_key))
    if primary_key and model is None:  # of a model an absent one means what it means there
        given.setdefault("bucket", "1")
    given[UUID] = env.uuid()  # also where the options are those of another table
    given = with_levels(with_topic(given, str(identifier), given[UUID]))
    created = create_schema(
        fields,
        primary_key=primary_key,
        partition_by=partition_by,
        options=given,
        comment=comment,
        time_millis=env.now_ms(),
    )
    _require_sound(created, roots, identifier)
    return created


def _require_sound(schema: TableSchema, roots: Iterable[str], identifier: Identifier) -> None:
    """Raise InvalidOption or Unsupported for a schema that this engine cannot write by; warn of more."""
    require_columns_exist(schema)
    require_partitions_exist(schema)
    for key in (FALLBACK, PRIMARY):
        if schema.options.get(key):
            raise InvalidOption(f"option {key!r} names a branch, and a table that is made has none yet")
    options = TableOptions.parse(schema.options)
    require_writable(schema, options, roots=roots)
    require_openable(schema, options)
    PartitionPolicy.of(options)
    Periods.of(options)
    warning = warning_of(schema, options)
    if warning is not None:
        log.warning("table %s: %s", identifier, warning)


def _names(names: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InvalidRequest(f"{what} is a list of column names, not the text {names!r}")
    if not isinstance(names, Iterable):
        raise InvalidRequest(f"{what} is a list of column names, not {names!r}")
    return tuple(names)
