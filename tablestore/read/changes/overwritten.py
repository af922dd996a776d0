"""What an OVERWRITE changed, as streams deliver it: −D for the rows that went, then +I for those that came.

No changelog has these rows: a writer's holds what it wrote, a compaction's what it looked up at level 0. A
stream whose changes add up to the table tells them, so that sums and copies of it stay right: of tables that
keep a changelog, and where a normaliser or a look-up adds what was before. `streaming-read-overwrite`
(without a key `streaming-read-append-overwrite`) decides where the table sets it: "true" tells them in every
stream, "false" in none. A feed of rows that are only added, and a log, cannot tell them: unless the option
chooses, they end there with NotFound. Rows that a compaction's changelog tells later, or has not told yet,
are left to it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format import rowkind
from tablestore.format.manifests.manifest import ADD, DELETE
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import OVERWRITE, Snapshot
from tablestore.log import offsets
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store
from tablestore.read.changes.first_state import first_level, first_store
from tablestore.read.scan.plan import pruner_of, splits_of
from tablestore.read.scan.pruning import Filters
from tablestore.read.scan.time_travel import expiring
from tablestore.read.supported import require_readable_files
from tablestore.read.table_log import offsets_at, settings_of

_KEYED, _KEYLESS = "streaming-read-overwrite", "streaming-read-append-overwrite"

log = logging.getLogger(__name__)


def option_of(store: Store) -> str:
    """The option that decides for this table."""
    return _KEYED if store.schema.primary_keys else _KEYLESS


def asked_for(store: Store) -> bool:
    """Whether the table's option tells every stream what an OVERWRITE replaced."""
    options = store.options
    keyed = bool(store.schema.primary_keys)
    return options.streaming_read_overwrite if keyed else options.streaming_read_append_overwrite


def streams_overwrite(store: Store, snapshot: Snapshot) -> bool:
    """Whether streams deliver what this snapshot, an OVERWRITE, replaced."""
    if snapshot.commit_kind != OVERWRITE:
        return False
    if option_of(store) in store.schema.options:
        return asked_for(store)
    return _adds_up(store) and settings_of(store) is None


def with_overwrites(store: Store) -> Store:
    """The table as one whose changes as they were written tell what an OVERWRITE replaced, too, unless its
    option says otherwise: what a normaliser or a look-up begins with."""
    if option_of(store) in store.schema.options or settings_of(store) is not None:
        return store
    return store.with_schema(store.schema.with_options({option_of(store): "true"}))


def _adds_up(store: Store) -> bool:
    """Whether the changes as they were written add up to the table: those of a changelog, and those of rows
    that are counted."""
    schema = store.schema
    has = bool(schema.primary_keys) and store.options.changelog_producer is not ChangelogProducer.NONE
    return has or schema.row_count_field is not None


def overwritten_changes(
    store: Store, snapshot: Snapshot, names: Sequence[str], where: Predicate | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """−D for the rows that an OVERWRITE replaced, then +I for the rows that came, in the columns of `schema`
    (`rowkind`, then `names`). Memory: that of a read of its files.

    Raises NotFound where the snapshot, or the one before whose files it took away, has expired.
    """
    if not store.snapshots.exists(snapshot.id):  # a long-lived changelog alone is left
        raise _expired(snapshot.id, snapshot.id)
    entries = store.manifests.delta_entries(snapshot)
    for kind, row_kind in ((DELETE, rowkind.DELETE), (ADD, rowkind.INSERT)):
        some = entries.filter(entries.numbers("kind") == kind)
        if not len(some):
            continue
        state = _before(store, snapshot) if kind == DELETE else snapshot
        with expiring(store, state.id):
            for batch in _rows(store, state, some, names, where):
                kinds = pa.repeat(pa.scalar(rowkind.TEXTS[row_kind]), batch.num_rows)
                yield pa.RecordBatch.from_arrays([kinds, *batch.columns], schema=schema)


def _rows(
    store: Store, state: Snapshot, entries: Entries, names: Sequence[str], where: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """The rows of these files, all of their buckets, as streams have told or now tell them."""
    level, store = first_level(store), first_store(store)
    pruner = pruner_of(store, Filters.of(where, store.schema))
    kept = entries.filter(pruner.keep(entries, min_level=level))
    require_readable_files(kept, store.schema_of)
    for split in splits_of(store, kept, state):
        yield from split.read(store, names, where)


def _before(store: Store, snapshot: Snapshot) -> Snapshot:
    try:
        return store.snapshots.get(snapshot.id - 1)
    except NotFound:
        raise _expired(snapshot.id, snapshot.id - 1) from None


def _expired(overwrite: int, gone: int) -> NotFound:
    return NotFound(
        f"snapshot {overwrite} is an OVERWRITE, and snapshot {gone}, which has the rows that it replaced, "
        "has expired: start again with latest-full"
    )


def leave_out(store: Store, snapshot: Snapshot) -> None:
    """Pass over an OVERWRITE that a feed or a log cannot tell: with a warning where the table's option
    chooses that. Else raise NotFound if it changed rows: what the stream feeds would differ from the table.
    """
    if not len(store.manifests.delta_entries(snapshot)):
        return
    if option_of(store) in store.schema.options:
        warn_of_left_out(store, snapshot)
    else:
        option = option_of(store)
        true = "" if _refuses_option(store) else f"with '{option}' = 'true' it gives them −D and +I, "
        raise NotFound(
            f"snapshot {snapshot.id} of {store.paths.root} is an OVERWRITE, and the stream cannot take back "
            f"the rows that it replaced: start again with latest-full; {true}with '{option}' = 'false' "
            "of the table it leaves them out"
        )


def overwrites(store: Store, after: int, until: int) -> Iterator[Snapshot]:
    """The OVERWRITEs among snapshots behind `after` up to `until` that have not expired, and of which the
    table's log has no rows."""
    for snapshot_id in range(max(after + 1, store.snapshots.earliest_id() or 1), until + 1):
        try:
            snapshot = store.snapshots.get(snapshot_id)
        except NotFound:  # expired or rolled back meanwhile
            continue
        if snapshot.commit_kind == OVERWRITE and not _in_log(store, snapshot):
            yield snapshot


def _in_log(store: Store, snapshot: Snapshot) -> bool:
    """Whether the log has the rows that an OVERWRITE changed, as it has those of DELETE, UPDATE and MERGE:
    then the snapshot moves the log's offsets. Where the one before it has expired, an OVERWRITE that takes no
    file away counts as such: it marks single rows as deleted."""
    try:
        before = offsets_at(store, store.snapshots.get(snapshot.id - 1) if snapshot.id > 1 else None)
    except NotFound:
        return bool((store.manifests.delta_entries(snapshot).numbers("kind") != DELETE).all())
    return offsets.of_snapshot(snapshot) not in (None, before)


def warn_of_left_out(store: Store, snapshot: Snapshot) -> None:
    """Say that changes of an OVERWRITE are left out, which what follows the table drifts by."""
    refused = _refuses_option(store)
    log.warning(
        "%s: snapshot %d is an OVERWRITE, whose changes this stream leaves out, as Paimon's do: what it "
        "feeds differs from the table now; start again with latest-full%s",
        store.paths.root,
        snapshot.id,
        f", without '{option_of(store)}'" if refused else f", or read with '{option_of(store)}' = true",
    )


def _refuses_option(store: Store) -> bool:
    """Whether the option may not be set: a compaction's changelog gives changes of an OVERWRITE, too."""
    compacting = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
    return bool(store.schema.primary_keys) and store.options.changelog_producer in compacting
