"""`inspect.pressure()`: how far each bucket is from a compaction and from a write stall.

One row a bucket: sorted runs (leveled: files of level 0) now, the trigger, the stop trigger, how many more
flushes go without either, and what the rules would compact now with their reason. From manifests; the files
of one bucket at a time are objects.
"""

from __future__ import annotations

import pyarrow as pa

from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.snapshot import Snapshot
from tablestore.insight.doctor.facts import Facts, Limits
from tablestore.meta.store import Store

SCHEMA = result_schema(
    "partition string!, bucket int32!, runs int32!, level0_files int32!, trigger int32!, "
    "stop_trigger int32!, flushes_until_compaction int32!, flushes_until_stall int32!, bytes int64!, "
    "due string, reason string!"
)


def pressure(store: Store, snapshot: Snapshot | None) -> pa.Table:
    """Buckets of a table with a primary key, the nearest to a stall first; no rows for others."""
    if snapshot is None or not store.schema.primary_keys:
        return table_of(SCHEMA, [])
    facts = Facts(store, snapshot, Limits())
    places, rules = facts.places, facts.rules
    rows = []
    for place, entries in enumerate(facts.files_by_place()):
        decision, backlog = facts.decided(entries), int(facts.backlog[place])
        until = facts.trigger - backlog
        if rules.force_up_level0:
            until = min(until, rules.level0_interval - int(places.level0[place]))
        rows.append(
            (
                store.partition_text(places.partition[place]),
                int(places.bucket[place]),
                int(places.runs[place]),
                int(places.level0[place]),
                facts.trigger,
                rules.stop_trigger,
                0 if decision.unit is not None else max(until, 1),
                max(0, rules.stop_trigger - backlog + 1),
                int(places.size[place]),
                decision.unit.text if decision.unit is not None else None,
                f"{decision.reason.rule}: {decision.reason.text}",
            )
        )
    return table_of(SCHEMA, sorted(rows, key=lambda r: (r[7], -r[2], r[0], r[1])))
