"""A page of a table that plays: its cockpit as recorded, then one of its buckets, which goes on in the page.

What of the table goes into the played part: of each live file of the bucket its name, level, size, counts of
rows and deletes, and the place of its key range; the options of compaction; how many rows the newest flushes
had, and how many of them behind all keys before. No row, no key and no value. Bounds: `MOST_FILES` files,
`MOST_FLUSHES` flushes. Called by `Workbench.to_html`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tablestore as ts
from widgets.kit import format as fmt
from widgets.kit.source import is_bucket, option_map, title_of
from widgets.kit.svg import esc
from widgets.playground.folder import play_page
from widgets.playground.recipes import Recipe

MOST_FILES, MOST_FLUSHES = 2_000, 20
MOST_KEYS_A_ROW = 100
"""Keys a row of the bucket, where no two runs seem to share one."""
_COLUMNS = ("level", "run", "file_name", "rows", "deletes", "bytes", "min_key_pos", "max_key_pos")
_MORE = ("min_sequence", "max_sequence", "file_source")
_RULES = ("num-sorted-run.", "num-levels", "compaction.", "tablestore.compaction.", "target-file-size")
_ROWS = ("merge-engine", "sequence.field", "changelog-producer", "deletion-vectors.enabled", "lookup")


def table_page(bench: Any, *, title: str) -> str:
    """The page of a workbench whose bucket plays. Raises InvalidRequest for what has no levels or too many
    files, Unsupported for a table that the engine does not compact, NoPyodide without a Python for
    browsers."""
    recipe = bucket_recipe(bench.source, bench.opened)
    return play_page(title, recipe, inline=True, before=(bench,), lead=_lead(recipe))


def bucket_recipe(table: Any, opened: str) -> Recipe:
    """What the played part is made of: the bucket that is `opened` ("day=mon/3"), else the one with most
    runs."""
    if not getattr(table, "primary_key", ()):
        raise ts.InvalidRequest("play=True needs a table with a primary key: others have no levels to play")
    place = _place(table, opened)
    files = table.inspect.levels(**place)
    if not 0 < files.num_rows <= MOST_FILES:
        raise ts.InvalidRequest(
            f"play=True takes 1 to {MOST_FILES:,} files of a bucket, {_named(place)} has {files.num_rows:,}: "
            "choose another by bench.opened, or leave play out"
        )
    options = {key: str(value) for key, value in option_map(table).items() if key.startswith(_RULES + _ROWS)}
    snapshot = pc.max(table.inspect.commits()["snapshot_id"]).as_py()
    return {
        "kind": "tree",
        "title": f"{title_of(table)} · {_named(place)} · from #{snapshot} on",
        "workload": workload_of(table, files, place),
        "options": options,
        "start": _rows(files),
    }


def _place(table: Any, opened: str) -> dict[str, Any]:
    """The partition and the bucket as `inspect.levels` takes them."""
    if not is_bucket(opened):
        runs = table.inspect.levels().group_by(["partition", "bucket"]).aggregate([("run", "max")])
        if not runs.num_rows:
            return {"partition": None, "bucket": 0}
        order = [("run_max", "descending"), ("partition", "ascending"), ("bucket", "ascending")]
        (most,) = runs.sort_by(order).slice(0, 1).to_pylist()
        return {"partition": most["partition"] or None, "bucket": most["bucket"]}
    partition, _, bucket = opened.rpartition("/")
    return {"partition": partition or None, "bucket": int(bucket)}


def _named(place: Mapping[str, Any]) -> str:
    return f"bucket {place['bucket']}" + (f" of {place['partition']}" if place["partition"] else "")


def _rows(files: pa.Table) -> list[dict[str, Any]]:
    some = files.select([*_COLUMNS, *_MORE])
    times = files["creation_time"].cast(pa.int64())
    return some.append_column("creation_time", times).to_pylist()


def workload_of(table: Any, files: pa.Table, place: Mapping[str, Any]) -> dict[str, Any]:
    """Flushes like the newest ones of the bucket: their rows and deletes, and whether their keys are new."""
    flushes = _flushes(table, place)
    some = flushes or files.select(["rows", "deletes", "bytes"]).to_pylist()
    many = max(1, round(median([f["rows"] for f in some])))
    deleted = sum(f["deletes"] or 0 for f in some) / max(sum(f["rows"] for f in some), 1)
    fresh, (row, file) = _fresh(flushes), _sizes([*some, *files.select(["rows", "bytes"]).to_pylist()])
    workload: dict[str, Any] = {"rows": many, "row_bytes": row, "file_bytes": file, "deletes": deleted}
    if fresh > 0.5:
        return workload | {"kind": "sequential", "updates": max(0.0, 1.0 - fresh - deleted)}
    return workload | {"kind": "uniform", "keys": _key_space(table, files, place)}


def _flushes(table: Any, place: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The newest files of level 0 that were flushed, oldest first, each with the greatest key before it."""
    edits = table.inspect.edits()
    here = pc.and_(
        pc.equal(edits["bucket"], place["bucket"]), pc.equal(edits["partition"], place["partition"] or "")
    )
    edits = edits.filter(pc.and_(here, pc.equal(edits["file_source"], "APPEND")))
    edits = edits.filter(pc.equal(edits["level"], 0)).sort_by([("max_sequence", "ascending")])
    flushed = edits.select(["rows", "deletes", "bytes", "min_key_number", "max_key_number"])
    tops = pc.cumulative_max(flushed["max_key_number"])
    before = pa.chunked_array([pa.nulls(1, tops.type), *tops.slice(0, max(len(tops) - 1, 0)).chunks])
    with_before = flushed.append_column("before", before.slice(0, len(tops)))
    return with_before.slice(max(flushed.num_rows - MOST_FLUSHES, 0)).to_pylist()


def _sizes(files: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """(bytes of a row, bytes of a file without rows): the line through the smallest and the largest file."""
    small, large = (pick(files, key=lambda f: f["rows"]) for pick in (min, max))
    steep = (large["bytes"] - small["bytes"]) / max(large["rows"] - small["rows"], 1)
    if 2 * small["rows"] > large["rows"] or steep <= 0 or steep * small["rows"] > small["bytes"]:
        return max(sum(f["bytes"] for f in files) / max(sum(f["rows"] for f in files), 1), 0.1), 0.0
    return steep, small["bytes"] - steep * small["rows"]


def _fresh(flushes: Sequence[Mapping[str, Any]]) -> float:
    """The share of a flush's key range that lies behind all keys before it, in the median."""
    shares = []
    for f in flushes:
        low, high, before = f["min_key_number"], f["max_key_number"], f["before"]
        if low is None or high is None or before is None:
            continue
        shares.append(float(high > before) if high == low else (high - max(before, low)) / (high - low))
    return max(0.0, median(shares)) if shares else 0.0


def _key_space(table: Any, files: pa.Table, place: Mapping[str, Any]) -> int:
    """How many keys there are, so that merging all runs leaves the rows that the engine's estimate says."""
    by_run = files.group_by("run").aggregate([("rows", "sum")])["rows_sum"].to_pylist()
    (pick,) = table.compact(full=True, dry_run=True, **place).picks
    left = pick.forecast.output.rows if pick.forecast is not None else sum(by_run)
    low, high = max(by_run), MOST_KEYS_A_ROW * sum(by_run)
    while low < high:  # the rows that are left grow with the keys
        keys = (low + high) // 2
        if _left(by_run, keys) < left:
            low = keys + 1
        else:
            high = keys
    return max(int(low), 1)


def _left(by_run: Sequence[int], keys: int) -> float:
    """Rows of merged runs whose keys are drawn evenly from so many."""
    absent = 1.0
    for rows in by_run:
        absent *= 1.0 - rows / keys
    return keys * (1.0 - absent)


def _lead(recipe: Recipe) -> str:
    """What stands above the played part: what it is, and what of the table is in the file."""
    workload = recipe["workload"]
    keys = (
        f"keys drawn from {workload['keys']:,}"
        if workload["kind"] == "uniform"
        else "mostly keys that are new"
    )
    files = fmt.plural(len(recipe["start"]), "file")
    return (
        f"<h2>What if: {esc(recipe['title'])}</h2>"
        "<p class='lw-sub'>Flush, step, and change options: the engine's own rules run in this page, and the "
        f"table stays as it is. It begins with the {files} of the bucket; a flush has {workload['rows']:,} "
        f"rows as the newest ones had, {keys}. Sizes of merges are expected ones, keys stand by their rank; "
        "the bucket's number is 0 here. "
        "This part holds names, levels, sizes and counts of files and the options of compaction: no row and "
        "no value.</p>"
    )
