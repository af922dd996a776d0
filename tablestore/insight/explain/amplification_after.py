"""Write, read and space amplification after the next compactions, if they are carried out.

Made of the picks of a dry run, the live files (`inspect.levels()`) and the amplification of now
(`inspect.amplification()`), all of the same buckets. Runs are counted, so they are exact; bytes are as exact
as those of the forecast. A bucket that ends as one run is its own compacted copy. Pure. Used by
`Compaction.amplification_after`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.lsm.compaction.bucket_pick import Forecast, Pick


@dataclass(frozen=True, slots=True)
class AmplificationAfter:
    """Write, read (sorted runs) and space amplification after compactions; None where one is not known.
    `exact`: no byte was estimated."""

    write_amplification: float | None
    runs: int
    space_amplification: float | None
    exact: bool


def amplification_after(
    whole: Forecast, picks: Sequence[Pick], files: pa.Table, now: pa.Table
) -> AmplificationAfter | None:
    """Amplification after `picks`, whose forecasts add up to `whole`, over buckets with these live `files`;
    None if the picks do nothing.

    `now` is the row of `inspect.amplification()`, of the table or of the bucket that is planned, or all rows
    of its view by snapshot, which add up to it.
    """
    busy = [pick for pick in picks if pick.decision.unit]
    if not busy or not now.num_rows:
        return None
    at = now.slice(now.num_rows - 1).to_pylist()[0]
    ingested, compacted = (pc.sum(now[name]).as_py() or 0 for name in ("bytes_ingested", "bytes_compacted"))
    written = ingested + compacted + whole.output.bytes if ingested else None
    copy, live = at["compacted_bytes"], (at["live_bytes"] or 0) - whole.bytes_read + whole.output.bytes
    left = sum(_runs_after(pick, files) for pick in picks)
    copy = live if left == len(busy) == len(picks) else min(copy, live) if copy else copy
    return AmplificationAfter(
        written / ingested if written is not None else None,
        left,
        live / copy if copy else None,
        whole.output.exact and not whole.output.bytes,
    )


def _runs_after(pick: Pick, files: pa.Table) -> int:
    """The sorted runs of a bucket when its pick is done: those not taken whole, and the one that is made."""
    here = pc.and_(pc.equal(files["partition"], pick.partition), pc.equal(files["bucket"], pick.bucket))
    found, unit = files.filter(here).select(["run", "level", "file_name"]), pick.decision.unit
    if unit is None:
        return int(pc.count_distinct(found["run"]).as_py())
    taken = pa.array([f.file_name for f in unit.files], pa.string())
    left = found.filter(pc.invert(pc.is_in(found["file_name"], value_set=taken)))
    makes = pick.forecast is not None and bool(pick.forecast.output.rows or pick.forecast.moved)
    joins = unit.output_level in pc.unique(left["level"]).to_pylist()
    return int(pc.count_distinct(left["run"]).as_py()) + int(makes and not joins)
