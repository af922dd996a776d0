"""Which changelog producers and deletion vectors are allowed with a table's other options (FORMAT.md 13.1).
Pure.

The rules are Paimon's, so a table that is refused here could not be opened there. Checked when a table is
created, altered or written.
"""

from __future__ import annotations

from tablestore.core.errors import InvalidOption
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine, TableOptions
from tablestore.format.schema import TableSchema

_FOR_VECTORS = (ChangelogProducer.NONE, ChangelogProducer.INPUT, ChangelogProducer.LOOKUP)


def require_changelog(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOption naming the first pair of options that exclude each other."""
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
