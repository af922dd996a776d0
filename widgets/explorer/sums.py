"""The five key figures of the explorer: of one state, or of two and what lies between them.

Pure: `inspect.state()` and `inspect.diff()` → `KeyFigure`s. Called by the widget.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from widgets.explorer.model import KeyFigure
from widgets.kit import format as fmt


def key_figures(files: pa.Table, *, compared: bool, only_compacted: bool) -> tuple[KeyFigure, ...]:
    """Files, rows, bytes, sorted runs and masked rows, of a state or, `compared`, of a difference."""
    if not compared:
        return _state_figures(files, _sums(files))
    diff = files
    old = _sums(
        diff.filter(pc.not_equal(diff["change"], "added")), level="level_before", masked="masked_before"
    )
    now = _sums(diff.filter(pc.not_equal(diff["change"], "removed")))
    counts = {c["values"]: c["counts"] for c in pc.value_counts(diff["change"].combine_chunks()).to_pylist()}
    parts = [f"{sign}{counts[c]:,}" for c, sign in (("removed", fmt.MINUS), ("added", "+")) if counts.get(c)]
    parts = [" ".join(parts)] if parts else []
    parts += [f"{counts[c]:,} {c}" for c in ("moved", "masked", "kept") if counts.get(c)]
    rows = now["rows"] - old["rows"]
    return (
        KeyFigure("files", _arrow(f"{old['files']:,}", f"{now['files']:,}"), ", ".join(parts)),
        KeyFigure(
            "rows in files",
            _arrow(fmt.short_count(old["rows"]), fmt.short_count(now["rows"])),
            "no row of the table changed" if only_compacted else f"{_signed(rows)} in files",
        ),
        KeyFigure(
            "bytes",
            _two_sizes(old["bytes"], now["bytes"]),
            _growth(now["bytes"] - old["bytes"], old["bytes"]),
        ),
        _runs_figure(diff, old["runs"], now["runs"]),
        KeyFigure(
            "marked deleted",
            _arrow(f"{old['masked']:,}", f"{now['masked']:,}"),
            f"{_signed(now['masked'] - old['masked'])} in deletion vectors"
            if old["masked"] or now["masked"]
            else "no vectors",
        ),
    )


def _growth(change: int, whole: int) -> str:
    """`+93.5 KiB (+25.4 %)`."""
    if not change:
        return "unchanged"
    share = f" ({_signed_percent(change, whole)})" if whole else ""
    return f"{'+' if change > 0 else ''}{fmt.bytes_text(change)}{share}"


def _runs_figure(diff: pa.Table, old: int, now: int) -> KeyFigure:
    """Runs of both states; of tables without a key, which have none, the buckets."""
    if diff.num_rows and diff["min_key"].null_count == diff.num_rows:
        return _buckets_figure(diff)
    return KeyFigure("sorted runs", _arrow(f"{old:,}", f"{now:,}"), _runs_note(diff))


def _buckets_figure(state: pa.Table) -> KeyFigure:
    buckets = state.group_by(["partition", "bucket"]).aggregate([]).num_rows
    return KeyFigure("buckets", f"{buckets:,}", "no key, no sorted runs")


def _state_figures(after: pa.Table, now: Mapping[str, int]) -> tuple[KeyFigure, ...]:
    buckets = after.group_by(["partition", "bucket"]).aggregate([]).num_rows if after.num_rows else 0
    vectors = pc.sum(pc.greater(pc.fill_null(after["masked"], 0), 0)).as_py() or 0
    deletes = f"{now['deletes']:,} of them deletes" if now["deletes"] else "no deletes"
    each = f"{fmt.bytes_text(now['bytes'] // now['files'])} a file" if now["files"] else ""
    per = f"{now['runs'] / buckets:.1f} a bucket" if buckets else ""
    keyed = after["min_key"].null_count < after.num_rows
    return (
        KeyFigure("files", f"{now['files']:,}", f"in {fmt.plural(buckets, 'bucket')}"),
        KeyFigure("rows in files", fmt.short_count(now["rows"]), deletes),
        KeyFigure("bytes", fmt.bytes_text(now["bytes"]), each),
        KeyFigure("sorted runs", f"{now['runs']:,}", per) if keyed or not buckets else _buckets_figure(after),
        KeyFigure(
            "marked deleted",
            f"{now['masked']:,}",
            fmt.plural(vectors, "deletion vector") if vectors else "no vectors",
        ),
    )


def _sums(state: pa.Table, *, level: str = "level", masked: str = "masked") -> dict[str, int]:
    """Sums of one state. A run is a file of level 0, or all files of an older level of a bucket."""
    columns = {"rows": "rows", "bytes": "bytes", "deletes": "deletes", "masked": masked}
    sums = {name: pc.sum(state[column]).as_py() or 0 for name, column in columns.items()}
    level0 = pc.equal(state[level], 0)
    deeper = state.filter(pc.invert(level0)).group_by(["partition", "bucket", level]).aggregate([])
    return sums | {"files": state.num_rows, "runs": (pc.sum(level0).as_py() or 0) + deeper.num_rows}


def _runs_note(diff: pa.Table) -> str:
    """`L0×4, L3 → L3`, `new: L0`, `gone: L3`."""
    gone = diff.filter(pc.is_in(diff["change"], pa.array(["removed", "moved"])))
    new = diff.filter(pc.is_in(diff["change"], pa.array(["added", "moved"])))
    old, now = _levels(gone["level_before"]), _levels(new["level"])
    if not old:
        return f"new: {now}" if now else "unchanged"
    return f"{old} → {now}" if now else f"gone: {old}"


def _levels(levels: pa.ChunkedArray) -> str:
    counts = {
        c["values"]: c["counts"] for c in pc.value_counts(levels).to_pylist() if c["values"] is not None
    }
    names = [f"L{n}×{counts[n]}" if counts[n] > 1 else f"L{n}" for n in sorted(counts)]
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def _arrow(old: str, now: str) -> str:
    return f"{old} → {now}" if old != now else f"{now}"


def _two_sizes(old: int, now: int) -> str:
    """`920 → 906 MiB` where the unit is one."""
    first, last = fmt.bytes_text(old), fmt.bytes_text(now)
    if first.split(" ")[1] == last.split(" ")[1]:
        first = first.split(" ")[0]
    return _arrow(first, last) if old != now else last


def _signed(value: int) -> str:
    return fmt.plus(value) if value else "±0"


def _signed_percent(change: int, whole: int) -> str:
    share = 100 * change / whole
    return "±0 %" if not change else f"{'+' if change > 0 else fmt.MINUS}{abs(share):.1f} %"
