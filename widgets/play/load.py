"""A compaction of a source as a `PlayModel`: its record, the levels before and after it, rows it merged.

Reads the record, two snapshots' files of one bucket, and for five places of the key range at most ten keys
of each run. Called by the widget.
"""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tablestore as ts
from widgets.kit.source import num_levels_of, title_of
from widgets.levels.model import CompactionPlan, lsm_model
from widgets.merge.model import KeyStep, MergeModel, merge_model
from widgets.play.model import STOPS, PlayModel, taken_runs

PLACES = tuple((2 * n + 1) / (2 * STOPS) for n in range(STOPS))


def compaction_of(
    source: Any, snapshot: int | None, *, partition: str | None, bucket: int | None
) -> dict[str, Any] | None:
    """The record of the newest compaction at or before a snapshot (None: of all), in one bucket if it is
    named, else that of the most bytes in its commit; None where there is none."""
    records = source.inspect.compactions(partition=partition, bucket=bucket)
    if snapshot is not None:
        records = records.filter(pc.less_equal(records["snapshot_id"], snapshot))
    if not records.num_rows:
        return None
    newest = pc.max(records["snapshot_id"])
    records = records.filter(pc.equal(records["snapshot_id"], newest)).sort_by([("bytes_read", "descending")])
    compaction: dict[str, Any] = records.slice(0, 1).to_pylist()[0]
    return compaction


def play_model(source: Any, record: dict[str, Any]) -> PlayModel:
    """The model of a recorded compaction. Raises InvalidRequest where the snapshot before it has expired."""
    number, place = record["snapshot_id"], {"partition": record["partition"], "bucket": record["bucket"]}
    try:
        old = source.inspect.levels(number - 1, **place)
        new = source.inspect.levels(number, **place)
    except ts.NotFound as e:
        raise ts.InvalidRequest(
            f"compaction #{number} cannot be played, since a snapshot around it has expired ({e}); choose a "
            "newer one: inspect.compactions() lists them"
        ) from None
    gone = _gone(old, new)
    plan = CompactionPlan(gone, record["output_level"])
    slots = max(_level0(old), _level0(new))
    shape: dict[str, Any] = {"num_levels": num_levels_of(source), "l0_slots": slots, **place}
    before = lsm_model(old, snapshot=number - 1, plan=plan, **shape)
    after = lsm_model(new, snapshot=number, **shape)
    model = PlayModel(title_of(source), record, before, after, taken_runs(before, gone), stops=PLACES)
    if not record["files_read"]:
        return replace(model, stops=())
    rows, stops, why = _merged(source, model, number - 1, place)
    return replace(model, rows=rows, stops=stops or PLACES, no_rows=why)


def _gone(old: pa.Table, new: pa.Table) -> frozenset[str]:
    """The files that are not in the same level afterwards."""
    left = set(zip(new["file_name"].to_pylist(), new["level"].to_pylist(), strict=True))
    both = zip(old["file_name"].to_pylist(), old["level"].to_pylist(), strict=True)
    return frozenset(name for name, level in both if (name, level) not in left)


def _level0(files: pa.Table) -> int:
    return int(pc.count_distinct(files.filter(pc.equal(files["level"], 0))["run"]).as_py())


def _merged(
    source: Any, model: PlayModel, snapshot: int, place: dict[str, Any]
) -> tuple[MergeModel | None, tuple[float, ...], str]:
    """A key at each of five places of what is merged, with the share of the range behind it, or why not."""
    before = model.before
    assert before is not None, "it was made"
    if not hasattr(source.inspect, "merging"):
        return None, (), "a simulation has sizes, not rows"
    planned = [lane.planned for lane in before.lanes if lane.count]
    newest = sum(planned)
    if not all(planned[:newest]):
        return None, (), "its runs are not the newest ones, whose rows can be merged alone"
    if any(lane.merged > 1 for lane in before.lanes):
        newest = sum(lane.runs for lane in before.lanes if lane.planned)
    columns = before.columns
    low, high = float(columns.lo[columns.planned].min()), float(columns.hi[columns.planned].max())
    whole, steps, stops = MergeModel(), list[KeyStep](), list[float]()
    for share in PLACES:
        start = low + max(share - 0.5 / STOPS, 0) * (high - low)
        try:
            merged = source.inspect.merging(
                snapshot, between=(start, high), runs=None if newest == len(planned) else newest, **place
            )
        except (ts.Unsupported, ts.NotFound) as e:
            return None, (), str(e)
        part = merge_model(merged)
        fresh = [step for step in part.steps if step.key not in {each.key for each in steps}]
        if not fresh:
            continue
        steps.append(max(fresh, key=lambda step: len(step.inputs)))
        end = merged.place.last if merged.place is not None and merged.place.last is not None else high
        stops.append((end - low) / (high - low) if high > low else 1.0)
        whole = part
    if not steps:
        return None, (), "no keys are left of it"
    return replace(whole, steps=tuple(steps), more=True), tuple(stops), ""
