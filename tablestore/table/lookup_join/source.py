"""What a lookup join reads of which table, and what a refresh of it found. Values; used by `join.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.core.options.table_options import LookupCacheMode
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import condition
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import NotByKey
from tablestore.read.supported import require_readable

On = Mapping[str, str] | Sequence[str] | str
Columns = Mapping[str, str] | Sequence[str]


@dataclass(frozen=True)
class LookupSource:
    """The table of a lookup join: the joined columns `on`, the `columns` that its cache keeps, and the
    condition of the rows that are joined.

    `identity` is what no two rows share: the primary key with the partition columns; empty without a key.
    """

    store: Store
    name: str
    on: tuple[str, ...]
    identity: tuple[str, ...]
    columns: tuple[str, ...]
    where: Predicate | None


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh found: the newest snapshot, how many keys had changed since the last one (None: the
    whole table was read, for the reason `why`), and how many rows are cached now."""

    snapshot: int | None
    changed: int | None
    rows: int
    why: str = ""


def require_went_on(store: Store, since: Snapshot | None, newest: Snapshot) -> Snapshot:
    """`since`; raises NotByKey where the changes after it cannot be followed: there is none, the table was
    rolled back, or it is too far behind."""
    if since is None:
        raise NotByKey("there was no snapshot")
    if newest.id <= since.id or store.snapshots.find(since.id) not in (None, since):
        raise NotByKey(f"the table was rolled back to before snapshot {since.id}")
    if newest.id - since.id > store.options.lookup_full_load:
        raise NotByKey(f"{newest.id - since.id} snapshots behind (lookup.refresh.full-load-threshold)")
    return since


def pairs_of(store: Store, name: str, on: On | None) -> tuple[tuple[str, str], ...]:
    """(column of the table, column of the facts), in the order of the key where it is the key."""
    shown = store.schema.shown
    if on is None:
        if not shown.primary_keys:
            raise InvalidRequest(f"{name} has no primary key: say on={{column: column of the facts}}")
        on = shown.primary_keys
    if isinstance(on, str):
        on = [on]
    pairs = _renamed(on, "on")
    if not pairs:
        raise InvalidRequest("a lookup join needs a column to join on")
    for column in pairs:
        if column not in shown.by_name:
            raise NotFound.among("column", str(column), shown.names)
        if shown.by_name[column].type.is_nested:
            raise Unsupported(f"a lookup join on {column!r}, which is {shown.by_name[column].type}")
    key = identity_of(store)
    ordered = key if set(pairs) == set(key) else tuple(pairs)
    return tuple((n, pairs[n]) for n in ordered)


def _renamed(given: Any, what: str) -> dict[str, str]:
    """Names, each with the one it has on the other side."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidRequest(f"{what} is a list of names, or a mapping of names to names, not {given!r}")
    return dict(given) if isinstance(given, Mapping) else {n: n for n in given}


def identity_of(store: Store) -> tuple[str, ...]:
    """The columns that no two rows of the table share; empty for a table without a key."""
    schema = store.schema
    if not schema.shown.primary_keys:
        return ()
    return tuple(dict.fromkeys((*schema.trimmed_primary_keys, *schema.partition_keys)))


def source_of(
    store: Store,
    name: str,
    pairs: Sequence[tuple[str, str]],
    columns: Columns | None,
    where: Predicate | str | None,
) -> tuple[LookupSource, dict[str, str]]:
    """What the join reads of the table, and the columns that it adds to facts, with the names they get
    there."""
    shown = store.schema.shown
    on = tuple(ours for ours, _ in pairs)
    if columns is None:
        columns = [n for n in shown.names if n not in on]
    names = _renamed(columns, "columns")
    for column in names:
        if column not in shown.by_name:
            raise NotFound.among("column", str(column), shown.names)
    if len(set(names.values())) < len(names):
        raise InvalidRequest(f"a column is named twice: {', '.join(names.values())}")
    where = condition(where, store.schema)
    bound = None if where is None else predicate.bind(where, store.schema)
    asked = (*on, *identity_of(store), *names, *(bound.columns if bound is not None else ()))
    cached = tuple(n for n in store.schema.names if n in asked)
    require_readable(store.schema, store.options, cached)
    return LookupSource(store, name, on, identity_of(store), cached, bound), names


def mode_of(source: LookupSource, cache: str | None) -> LookupCacheMode:
    """Which cache the join keeps: as the call says, else as the table's option does; `auto` becomes one of
    the others."""
    store = source.store
    try:
        mode = store.options.lookup_cache_mode if cache is None else LookupCacheMode(cache)
    except ValueError:
        raise InvalidRequest(f"cache {cache!r} must be one of {', '.join(LookupCacheMode)}") from None
    by_key = set(source.on) == set(store.schema.shown.primary_keys)
    if mode is LookupCacheMode.PARTIAL and not by_key:
        keys = ", ".join(store.schema.shown.primary_keys) or "there is none"
        raise InvalidRequest(
            f"a partial cache reads rows by their primary key ({keys}), not by {', '.join(source.on)}: "
            "use cache='full'"
        )
    if mode is not LookupCacheMode.AUTO:
        return mode
    live = store.manifests.live_entries(store.snapshots.latest())
    large = len(live) > 0 and int(live.numbers("file_size").sum()) > store.options.lookup_cache_bytes
    return LookupCacheMode.PARTIAL if large and by_key else LookupCacheMode.FULL


def joinable(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of these types can be compared: numbers of any width, text and bytes of any layout."""
    t = pa.types
    if t.is_dictionary(given):
        given = given.value_type
    if t.is_decimal(given) and t.is_decimal(kind):
        return given.scale <= kind.scale and given.precision - given.scale <= kind.precision - kind.scale
    alike = (
        (t.is_signed_integer,),
        (t.is_floating,),
        (t.is_string, t.is_large_string, t.is_string_view),
        (t.is_binary, t.is_large_binary, t.is_fixed_size_binary, t.is_binary_view),
    )
    both = (any(f(given) for f in some) and any(f(kind) for f in some) for some in alike)
    return given == kind or any(both)
