"""The storage of a table: its files and bytes by kind, state and holder, as Arrow tables and as a text.

Made of the rows of `attribution.py`; any reader of Arrow streams takes it as those rows. Bytes that one
holder alone needs are those that its removal would free. Immutable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core import quantities
from tablestore.format.result_tables import table_of
from tablestore.insight.inspect.attribution import STORAGE, storage
from tablestore.insight.inspect.claim_book import KINDS
from tablestore.insight.inspect.release import FOREIGN, FREE, KEPT, LIVE, MISSING
from tablestore.meta.store import Store

STATES = (LIVE, KEPT, FREE, FOREIGN, MISSING)
SUMMARY = pa.schema({"kind": pa.string(), "state": pa.string(), "files": pa.int64(), "bytes": pa.int64()})
HOLDERS = pa.schema(
    {"holder": pa.string(), "files": pa.int64(), "bytes": pa.int64(), "alone_bytes": pa.int64()}
)
_MEANING = {
    LIVE: "the newest snapshot or the table itself reads it",
    KEPT: "older snapshots, tags, branches, consumers or changelogs keep it",
    FREE: "nothing names it: remove_orphans()",
    FOREIGN: "none of the engine's files",
    MISSING: "named, but not there: check()",
}


@dataclass(frozen=True)
class Storage:
    """`files`: a row a file, see STORAGE; `location`: the table's directory; `at_ms`: local wall clock."""

    location: str
    files: pa.Table
    at_ms: int = 0

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.files.__arrow_c_stream__(requested_schema)

    @property
    def bytes(self) -> int:
        """Bytes below the table's directory."""
        return _sum(self.files.filter(pc.invert(self.files["outside"])))

    def summary(self) -> pa.Table:
        """Files and bytes of each kind and state."""
        sums = self.files.group_by(["kind", "state"]).aggregate([("bytes", "sum"), ([], "count_all")])
        counted = {(r["kind"], r["state"]): (r["count_all"], r["bytes_sum"]) for r in sums.to_pylist()}
        rows = [(k, s, *counted[k, s]) for k in KINDS for s in STATES if (k, s) in counted]
        return table_of(SUMMARY, rows)

    def holders(self) -> pa.Table:
        """Files and bytes that are kept but not live, by holder; `alone_bytes` are those that no other holder
        needs, null for consumers, which keep snapshots."""
        kept = self.files.filter(pc.equal(self.files["state"], KEPT))
        counts = {n: pc.fill_null(pc.list_value_length(kept[n]), 0) for n in ("tags", "branches")}
        counts_by_holder = {
            "snapshots": pc.cast(pc.is_valid(kept["last_needed"]), pa.int32()),
            "changelogs": pc.cast(pc.is_valid(kept["last_changelog"]), pa.int32()),
            **counts,
        }
        every = counts_by_holder["snapshots"]
        for more in ("changelogs", "tags", "branches"):
            every = pc.add(every, counts_by_holder[more])
        alone = pc.equal(every, 1)
        rows = []
        for name, column in (("snapshots", "last_needed"), ("changelogs", "last_changelog")):
            mine = pc.greater(counts_by_holder[name], 0)
            some = kept.filter(mine)
            if some.num_rows:
                first = pc.min(some[column.replace("last", "first")]).as_py()
                text = f"{name} {first}..{pc.max(some[column]).as_py()}"
                rows.append((text, some.num_rows, _sum(some), _sum(kept.filter(pc.and_(mine, alone)))))
        for what, column in (("tag", "tags"), ("branch", "branches")):
            rows += _named(what, kept, kept[column], alone)
        snapshots = kept.filter(pc.is_valid(kept["last_needed"]))
        rows += _named("consumer", snapshots, snapshots["consumers"], None)
        return table_of(HOLDERS, rows)

    def released(self) -> tuple[int, int, int]:
        """Kept bytes in three parts: those that the next expiry frees (of ended tags: the next commit), those
        that go with time and more commits, and those that tags, branches or consumers keep until removed."""
        kept = self.files.filter(pc.equal(self.files["state"], KEPT))
        newest = pc.max(self.files["last_needed"])
        old = pc.less_equal(pc.cast(kept["freed_after"], pa.int64()), self.at_ms)
        enough = pc.less_equal(pc.coalesce(kept["freed_after_snapshot"], newest), newest)
        by_itself = pc.is_valid(kept["freed_after"])
        due = _sum(kept.filter(pc.coalesce(pc.and_(old, enough), False)))
        sooner_or_later = _sum(kept.filter(by_itself))
        return due, sooner_or_later - due, _sum(kept) - sooner_or_later

    @property
    def text(self) -> str:
        """Bytes by kind and state, by holder, and what goes next."""
        total, files = self.bytes, self.files.num_rows
        lines = [f"{_size(total)} in {quantities.many(files, 'file')} below {self.location}"]
        states = self.files.group_by("state").aggregate([("bytes", "sum"), ([], "count_all")])
        by_state = {r["state"]: (r["count_all"], r["bytes_sum"]) for r in states.to_pylist()}
        for state in (s for s in STATES if s in by_state):
            count, size = by_state[state]
            share = f"{100 * size / total:5.1f} %" if total else ""
            sums = f"{_size(size):>12}{share:>9}{count:9,} {'file ' if count == 1 else 'files'}"
            lines.append(f"  {state:8}{sums}  {_MEANING[state]}")
        lines += ["", *_crossed(self.summary(), [s for s in STATES if s in by_state])]
        holders = self.holders()
        if holders.num_rows:
            lines += ["", f"  {'kept by':<28}{'bytes':>12}{'alone':>12}"]
            lines += [
                f"  {r['holder'][:27]:<28}{_size(r['bytes']):>12}{_size(r['alone_bytes']):>12}".rstrip()
                for r in holders.slice(0, 12).to_pylist()
            ]
            lines += [f"  … and {holders.num_rows - 12} more holders"] if holders.num_rows > 12 else []
            due, later, asked = self.released()
            lines.append(f"  goes with the next commit or expiry: {_size(due)};")
            lines.append(f"  with time and more commits: {_size(later)};")
            lines.append(f"  only when tags, branches or consumers let go: {_size(asked)}")
        outside = self.files.filter(self.files["outside"])
        if outside.num_rows:
            lines.append(f"  besides {_size(_sum(outside))} in {outside.num_rows:,} files at other roots")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text


def stored(store: Store) -> Storage:
    """The storage of a table as it is now."""
    return Storage(store.paths.root, storage(store), store.env.local_now_ms())


def _crossed(summary: pa.Table, states: Iterable[str]) -> list[str]:
    """Bytes of each kind in each state."""
    sizes = {(r["kind"], r["state"]): r["bytes"] for r in summary.to_pylist()}
    states = list(states)
    lines = ["  " + f"{'':<16}" + "".join(f"{s:>12}" for s in states)]
    for kind in (k for k in KINDS if any((k, s) in sizes for s in states)):
        cells = (f"{_size(sizes[kind, s]) if (kind, s) in sizes else '':>12}" for s in states)
        lines.append(f"  {kind:<16}{''.join(cells)}")
    return lines


def _named(
    what: str, kept: pa.Table, names: pa.ChunkedArray, alone: pa.ChunkedArray | None
) -> list[tuple[Any, ...]]:
    """A row a holder: files and bytes it keeps, and those that only it does."""
    lists = names.combine_chunks()
    if not len(lists.flatten()):
        return []
    parents = pc.list_parent_indices(lists)
    sizes = kept["bytes"].combine_chunks().take(parents)
    nothing = pa.nulls(len(parents), pa.int64())
    mine = nothing if alone is None else pc.if_else(alone.combine_chunks().take(parents), sizes, 0)
    flat = pa.table({"name": pc.list_flatten(lists), "bytes": sizes, "alone": mine})
    sums = flat.group_by("name").aggregate([([], "count_all"), ("bytes", "sum"), ("alone", "sum")])
    rows = sums.sort_by("name").to_pylist()
    return [(f"{what} {r['name']}", r["count_all"], r["bytes_sum"], r["alone_sum"]) for r in rows]


def _sum(files: pa.Table) -> int:
    return pc.sum(files["bytes"]).as_py() or 0


def _size(size: int | None) -> str:
    return "" if size is None else quantities.size(size)


__all__ = ["HOLDERS", "STORAGE", "SUMMARY", "Storage", "stored"]
