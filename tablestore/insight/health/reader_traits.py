"""What of a table makes some reader of its files go wrong: each trait says why, or nothing. Metadata only.

A trait is a function of the doctor's `Facts`; its text holds the numbers. The rules are in `reader_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from tablestore.core.options.table_options import MergeEngine
from tablestore.core.quantities import many
from tablestore.format.manifests.index_manifest import DELETION_VECTORS
from tablestore.format.manifests.manifest import ADD
from tablestore.format.types.data_type import DataType
from tablestore.insight.doctor.facts import Facts
from tablestore.io.paths import file_format
from tablestore.meta import refs
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store
from tablestore.read.scan.file_stats import stats_by_name

_PARTS = (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)


def unmerged(facts: Facts) -> str:
    """Buckets of several sorted runs, whose keys a reader has to merge."""
    several = int((facts.places.runs > 1).sum()) if facts.keyed else 0
    total = len(facts.places)
    return f"several sorted runs in {several:,} of {many(total, 'bucket')}" if several else ""


def unmerged_parts(facts: Facts) -> str:
    """The same, where each row is a part of its key's: partial updates, aggregates."""
    return _under(facts, facts.options.merge_engine in _PARTS)


def unmerged_first(facts: Facts) -> str:
    """The same, where the oldest row of a key counts."""
    return _under(facts, facts.options.merge_engine is MergeEngine.FIRST_ROW)


def unmerged_sequence(facts: Facts) -> str:
    """The same, where a sequence field says which row of a key is the newest."""
    why = _under(facts, bool(facts.options.sequence_fields))
    return f"{why}, ordered by {', '.join(facts.options.sequence_fields)}" if why else ""


def _under(facts: Facts, applies: bool) -> str:
    why = unmerged(facts) if applies else ""
    return f"{facts.options.merge_engine.value}: {why}" if why else ""


def hidden(facts: Facts) -> str:
    """Files of level 0 that readers leave out until a compaction looks them up, and postponed ones."""
    options = facts.options
    leaves_out = options.merge_engine is MergeEngine.FIRST_ROW or options.deletion_vectors
    files = facts.live.filter(facts.live.numbers("level") == 0)
    left_out = facts.keyed and leaves_out and not options.merge_on_read
    rows = int(facts.waiting.numbers("row_count").sum())
    rows += int(files.numbers("row_count").sum()) if left_out else 0
    return f"{many(rows, 'row')} wait for a compaction" if rows else ""


def deletes(facts: Facts) -> str:
    """Rows of kind -D or -U in data files."""
    rows = int(facts.places.deletes.sum())
    return f"{many(rows, 'stored row')} only say that others are gone" if rows else ""


def vectors(facts: Facts) -> str:
    """Rows that deletion vectors mask."""
    entries = facts.store.manifests.index_entries(facts.snapshot)
    masks = [
        r.cardinality or 0
        for e in entries
        if e.file.index_type == DELETION_VECTORS
        for r in e.file.dv_ranges or ()
    ]
    return f"{many(sum(masks), 'row')} masked in {many(len(masks), 'file')}" if masks else ""


def wide_vectors(facts: Facts) -> str:
    """The same, in the 64-bit form that `deletion-vectors.bitmap64` asks for."""
    return vectors(facts) if facts.options.bitmap64 else ""


def renamed(facts: Facts) -> str:
    """Columns whose name in an older live file is another one now, or belongs to another column."""
    now, changed = facts.schema, set[str]()
    for schema_id in np.unique(facts.live.numbers("schema_id")).tolist():
        for f in facts.store.schema_of(schema_id).fields:
            kept, same = now.by_id.get(f.id), now.by_name.get(f.name)
            if kept is not None and kept.name != f.name:
                changed.add(f"{f.name} is now {kept.name}")
            elif same is not None and same.id != f.id:
                changed.add(f"{f.name} is another column now")
    return "; ".join(sorted(changed))


def other_files(facts: Facts) -> str:
    """Files in the buckets' directories that this snapshot does not name: data of others, changelogs."""
    limit, live_entries = facts.limits.tags, facts.store.manifests.live_entries
    kept = _names(d.filter(d.numbers("kind") != ADD) for d in facts.deltas[1:])
    kept |= _names(live_entries(t.snapshot) for t in facts.tags[:limit])
    kept |= _names(b.manifests.live_entries(b.snapshots.latest()) for b in _branches(facts)[:limit])
    others, changes = len(kept - _names([facts.live])), len(_names(facts.changelogs))
    parts = [f"{many(others, 'file')} of other snapshots, tags or branches"] if others else []
    parts += [many(changes, "changelog file")] if changes else []
    return ", ".join(parts)


def _branches(facts: Facts) -> list[Store]:
    return [b for b in refs.other_branches(facts.store) if b.snapshots.latest() is not None]


def avro_times(facts: Facts) -> str:
    """Timestamps in Avro files, whose two logical types Paimon names the other way round."""
    return _columns(facts, "avro", lambda t: t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"))


def orc_clocks(facts: Facts) -> str:
    """TIME in ORC files, which have no such type."""
    return _columns(facts, "orc", lambda t: t.root == "TIME")


def early_orc_times(facts: Facts) -> str:
    """Timestamps before 1970 in ORC files, or of which no statistics say that there are none."""
    why = _columns(facts, "orc", lambda t: t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"))
    if not why:
        return ""
    early = set[str]()
    for entry in _of_format(facts, "orc"):
        written = facts.store.schema_of(entry.file.schema_id)
        stored = stats_by_name(entry.file, written, facts.schema)
        for name, f in facts.schema.by_name.items():
            if f.type.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
                stats = stored.get(name)
                early |= {name} if stats is None or _before_1970(stats.min) else set()
    return f"{', '.join(sorted(early))} may hold times before 1970" if early else ""


def multisets(facts: Facts) -> str:
    """Columns of type MULTISET."""
    return ", ".join(f.name for f in facts.schema.fields if f.type.root == "MULTISET")


def sequence_groups(facts: Facts) -> str:
    """Options of partial updates beyond the merge of columns that are not NULL."""
    if facts.options.merge_engine is not MergeEngine.PARTIAL_UPDATE:
        return ""
    ours = (k for k in facts.schema.options if k.startswith("fields.") and k.endswith(".sequence-group"))
    return ", ".join(sorted(ours))


def strict_keys(facts: Facts) -> str:
    """Columns without NULL, the key's among them."""
    names = [f.name for f in facts.schema.fields if not f.type.nullable]
    return ", ".join(names[:3]) + (" and more" if len(names) > 3 else "") if names else ""


def iceberg_behind(facts: Facts) -> str:
    """Files below the top level of a keyed table that keeps Iceberg metadata."""
    if facts.schema.options.get("metadata.iceberg.storage", "disabled") == "disabled" or not facts.keyed:
        return ""
    levels = facts.live.numbers("level")
    lower = int((levels < facts.options.num_levels - 1).sum())
    return f"{lower:,} of {many(len(levels), 'file')} lie below the top level" if lower else ""


def _columns(facts: Facts, form: str, wanted: Callable[[DataType], bool]) -> str:
    """The columns of such a type, if a live file has this format."""
    names = [f.name for f in facts.schema.fields if wanted(f.type)]
    files = len(_of_format(facts, form)) if names else 0
    return f"{', '.join(names)} in {many(files, f'{form.upper()} file')}" if files else ""


def _of_format(facts: Facts, form: str) -> Entries:
    names = facts.live.table.column("file_name").to_numpy(zero_copy_only=False)
    return facts.live.filter(np.array([file_format(n) == form for n in names], dtype=bool))


def _names(some: Iterable[Entries]) -> set[str]:
    names = [e.table.column("file_name").to_numpy(zero_copy_only=False) for e in some if len(e)]
    return set(np.concatenate(names).tolist()) if names else set()


def _before_1970(least: object) -> bool:
    return not isinstance(least, int) or least < 0
