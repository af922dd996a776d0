"""The rows of a log that a condition selects: its columns are decoded first, and others of rows that pass.

What is spared is the decoding of rows that do not; which they are says each row's own value, never another
row. So a condition on values that change (of a table with a key) is for callers who know what they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tablestore.format.predicates import evaluate
from tablestore.format.predicates.predicate import Predicate
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import Log, LogBatch
from tablestore.log.offsets import Offsets


def selected_rows(
    log: Log, start: Offsets, stop: Offsets, names: Sequence[str], where: Predicate | None
) -> Iterator[LogBatch]:
    """The rows between two offsets that a bound condition (None: all) selects, with these columns, of each
    bucket in order. Raises what `Log.read` does. Memory: two batches."""
    if where is None:
        yield from log.read(start, stop, names)
    elif isinstance(log, KafkaLog):  # a message is fetched once
        yield from log.read(start, stop, names, where)
    elif isinstance(log, EmbeddedLog):  # by columns: those of the condition cost a part of all
        for batch in log.read(start, stop, sorted(where.columns)):
            yield from _found(log, batch, names, where)
    else:
        asked = list(dict.fromkeys((*names, *sorted(where.columns))))
        for batch in log.read(start, stop, asked):
            selected = _filtered(batch, _mask(where, batch.rows))
            if selected.rows.num_rows:
                yield replace(selected, rows=selected.rows.select(list(names)))


def _found(log: EmbeddedLog, batch: LogBatch, names: Sequence[str], where: Predicate) -> Iterator[LogBatch]:
    """The rows of a batch that the condition on its columns selects, read again with all columns."""
    wanted = batch.offsets[_mask(where, batch.rows)]
    if not len(wanted):
        return
    ends = {batch.bucket: int(wanted[0])}, {batch.bucket: int(wanted[-1]) + 1}
    for whole in log.read(*ends, names):
        chosen = np.isin(whole.offsets, wanted, assume_unique=True)
        if chosen.any():
            yield _filtered(whole, chosen)


def _mask(where: Predicate, rows: pa.RecordBatch) -> np.ndarray:
    return np.asarray(evaluate.mask(where, rows).to_numpy(zero_copy_only=False), dtype=bool)


def _filtered(batch: LogBatch, chosen: np.ndarray) -> LogBatch:
    kept = pa.array(chosen)
    return replace(
        batch,
        offsets=batch.offsets[chosen],
        timestamps=batch.timestamps[chosen],
        kinds=batch.kinds.filter(kept),
        rows=batch.rows.filter(kept),
    )
