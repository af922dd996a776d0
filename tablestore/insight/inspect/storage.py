"""The storage of a table: every file below its directory with its bytes, who wrote it, who needs it, when it
may go; and sums by kind, state and holder, as Arrow tables and as a text.

The files that snapshots, tags, branches and changelogs name (`claims.py`) are joined with those that are
there. What nothing names is an orphan, a temporary file or none of the engine's. So the bytes of all rows are
the bytes on disk; files at other roots (`data-file.external-paths`) are rows, too, with the sizes in
manifests. Bytes that one holder alone needs are those that its removal would free. No data file is opened.
Memory: a few columns a file. Called by `Inspect.storage`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core import quantities
from tablestore.core.errors import TablestoreError
from tablestore.format.result_tables import result_schema, table_of
from tablestore.insight.inspect.claim_book import (
    BRANCH,
    CHANGELOG,
    COMING,
    CONSUMER,
    FOREIGN,
    FREE,
    KEPT,
    KINDS,
    LEFT,
    LIVE,
    MISSING,
    SNAPSHOTS,
    TAG,
    Claims,
    Needs,
    Release,
    Releases,
)
from tablestore.insight.inspect.claims import claims
from tablestore.io.fileio import FileStatus
from tablestore.io.paths import join
from tablestore.meta import refs
from tablestore.meta.store import Store
from tablestore.read.scan.time_travel import local_ms

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


_MS = pa.timestamp("ms")
_TEXTS = pa.list_(pa.string())
STORAGE = result_schema(
    "path string, kind string, bytes int64, state string, partition string, bucket int32, "
    "written_by int64, first_needed int64, last_needed int64, tags strings, branches strings, "
    "first_changelog int64, last_changelog int64, consumers strings, freed string, freed_after ms, "
    "freed_after_snapshot int64, modified ms, outside bool"
)
_DAY_MS = 86_400_000  # the age at which `remove_orphans` takes a file by default
_TRIES = 3


def storage(store: Store) -> pa.Table:
    """One row of STORAGE a file below the table's directory, and one for each file that is named but lies
    elsewhere or is missing; by path."""
    for tried in range(1, _TRIES + 1):
        before = _references(store)
        try:
            claimed = claims(store)
            disk = listed(store)  # last: of a commit in between there are files too many, none too few
        except TablestoreError:
            if tried == _TRIES or _references(store) == before:
                raise
            continue  # expired, tagged or rolled back while it was looked at
        if _references(store) == before:
            break
    return _table(store, disk, claimed)


def _references(store: Store) -> object:
    """What changes when files change hands; a commit in between would show its files as orphans."""
    lines = (store, *refs.other_branches(store))
    return [(s.paths.branch, s.snapshots.ids(), refs.tag_names(s)) for s in lines]


def listed(store: Store) -> pa.Table:
    """Path, bytes and time of the last change (epoch) of every file below the table's directory, hidden ones
    too."""
    paths = list(_walk(store, store.paths.root))
    return pa.table(
        {
            "path": pa.array([path for path, _ in paths], pa.large_string()),
            "size": pa.array([s.size for _, s in paths], pa.int64()),
            "modified": pa.array([s.modified_ms for _, s in paths], pa.int64()),
        }
    )


def _walk(store: Store, folder: str) -> Iterator[tuple[str, FileStatus]]:
    for status in store.io.list(folder, hidden=True):
        path = join(folder, status.name)
        if status.is_dir:
            yield from _walk(store, path)
        else:
            yield path, status


def _table(store: Store, disk: pa.Table, claims: Claims) -> pa.Table:
    by_path, needs = _by_path(claims)
    rows = disk.join(by_path, "path", join_type="full outer")
    sure = pc.or_(pc.is_valid(rows["size"]), pc.coalesce(rows["sure"], False))
    rows = rows.filter(sure).sort_by("path").combine_chunks()
    releases = Releases(store)
    outcomes = [releases.of(n) for n in needs]
    codes = rows["needs"].fill_null(-1).to_numpy().astype(np.int64)
    kinds = rows["kind"].fill_null(KINDS.index("unknown")).to_numpy().copy()
    there = _mask(pc.is_valid(rows["size"]))
    outside = ~there & ~_mask(pc.starts_with(rows["path"], f"{store.paths.root}/"))
    for kind, release, chosen in _unnamed(store, rows, (codes < 0) & there):
        kinds[chosen] = kinds[chosen] if kind is None else KINDS.index(kind)
        codes[chosen] = len(outcomes)
        outcomes.append(release)
    codes[~there & ~outside] = len(outcomes)
    outcomes.append(Release(MISSING, "it is named and not there: see check()"))
    return _shown(store, claims, rows, _Outcomes(outcomes, needs, codes), kinds, outside)


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """What becomes of files: the distinct releases, the needs behind the first of them, and which one is each
    file's."""

    releases: Sequence[Release]
    needs: Sequence[Needs]
    codes: np.ndarray


def _mask(values: pa.ChunkedArray) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()


def _by_path(claims: Claims) -> tuple[pa.Table, list[Needs]]:
    """One row a path, with the number of its combination of needs, and these combinations."""
    t, holders = claims.table, claims.holders
    kinds = np.array([h.kind for h in holders])[t["holder"].to_numpy()]  # never empty: there is a schema
    own, lasting, left, coming = (pa.array(kinds == kind) for kind in (SNAPSHOTS, CHANGELOG, LEFT, COMING))
    mine = pa.array(kinds != BRANCH)
    ids = {
        "first_needed": (own, "first"),
        "last_needed": (own, "last"),
        "first_changelog": (lasting, "first"),
        "last_changelog": (lasting, "last"),
        "last_left": (left, "last"),
        "last_coming": (coming, "last"),
        "written_by": (mine, "written"),
        "elsewhere": (pc.invert(mine), "written"),
    }
    for name, (where, column) in ids.items():
        t = t.append_column(name, pc.if_else(where, t[column], pa.scalar(None, pa.int64())))
    sums = [(n, "max" if n.startswith("last") else "min") for n in ids]
    sums += [("kind", "min"), ("place", "min"), ("bytes", "max"), ("sure", "max")]
    rows = t.group_by("path").aggregate(sums)
    rows = rows.rename_columns([n.removesuffix("_min").removesuffix("_max") for n in rows.column_names])
    spans = pc.or_(pc.or_(own, coming), pc.or_(lasting, left))
    sets, codes = _sets(t.filter(pc.invert(spans)), rows["path"])
    rows = _with_left(rows, pa.array(codes == 0))
    columns = [rows[n].fill_null(-1).to_numpy() for n in ("last_needed", "last_changelog", "last_coming")]
    distinct, inverse = np.unique(np.stack([*columns, codes], axis=1), axis=0, return_inverse=True)
    needs = []
    for *ids, code in distinct.tolist():
        snapshot, changelog, coming = (i if i >= 0 else None for i in ids)
        needs.append(Needs(snapshot, changelog, coming, tuple(holders[h] for h in sets[code])))
    return rows.append_column("needs", pa.array(inverse.reshape(-1))), needs


def _with_left(rows: pa.Table, alone: pa.Array) -> pa.Table:
    """Files that no snapshot reads and a changelog's expiry will remove count as that changelog's, too."""
    mine = pc.if_else(
        pc.and_(alone, pc.is_null(rows["last_needed"])), rows["last_left"], pa.scalar(None, pa.int64())
    )
    for name, part in (
        ("first_changelog", pc.coalesce(rows["first_changelog"], mine)),
        ("last_changelog", pc.max_element_wise(rows["last_changelog"], mine)),
    ):
        rows = rows.set_column(rows.column_names.index(name), name, part)
    return rows


def _sets(others: pa.Table, paths: pa.ChunkedArray) -> tuple[list[list[int]], np.ndarray]:
    """The distinct sets of other holders (positions, ascending), the empty one first, and each path's."""
    pairs = others.select(["path", "holder"]).group_by(["path", "holder"]).aggregate([])
    pairs = pairs.sort_by([("path", "ascending"), ("holder", "ascending")])
    texts = pairs.set_column(1, "holder", pc.cast(pairs["holder"], pa.string()))
    lists = texts.group_by("path", use_threads=False).aggregate([("holder", "list")])
    joined = pc.binary_join(lists["holder_list"].combine_chunks(), ",").dictionary_encode()
    sets: list[list[int]] = [[]]
    sets += [[int(h) for h in text.split(",")] for text in joined.dictionary.to_pylist()]
    at = pc.index_in(paths, lists["path"])
    codes = pc.take(pc.add(joined.indices, 1), at.combine_chunks())
    return sets, codes.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _unnamed(
    store: Store, rows: pa.Table, unnamed: np.ndarray
) -> Iterator[tuple[str | None, Release, np.ndarray]]:
    """Files that nothing names, by where they lie: (kind, release, which)."""
    local = pc.utf8_slice_codeunits(rows["path"], len(store.paths.root) + 1)
    depth, data = len(store.schema.partition_keys), store.paths.data_directory
    folder = f"{re.escape(data)}/" if data else ""
    mine = f"{store.paths.refs_dir}/".removeprefix(f"{store.paths.root}/")
    own = r"^(branch/branch-[^/]+/)?(schema|snapshot|tag|consumer|changelog)/"
    orphan = Release(FREE, "nothing names it: remove_orphans() takes it once it is a day old")
    places = (
        ("checksum", r"^tablestore/checksums/[^/]+$", orphan),
        ("temporary", r"^tablestore/writers/[^/]+$", Release(FREE, "when its writer ends")),
        ("history", f"^{re.escape(mine)}tablestore/", Release(LIVE, "with the table")),
        ("history", r"^(branch/branch-[^/]+/)?tablestore/", Release(KEPT, "with its branch")),
        ("temporary", r"(^|/)\.[^/]+\.tmp$", orphan),
        ("manifest", r"^manifest/[^/]+$", orphan),
        ("index", r"^index/[^/]+$", orphan),
        ("statistics", r"^statistics/[^/]+$", orphan),
        ("data", rf"^{folder}([^/]*=[^/]*/){{{depth}}}bucket-[^/]*/[^/]+$", orphan),
        ("unknown", own, orphan),
        ("unknown", "", Release(FOREIGN, "none of the engine's files: it stays")),
    )
    left = unnamed
    for kind, pattern, release in places:
        if left.any():
            chosen = left & _mask(pc.match_substring_regex(local, pattern))
            left = left & ~chosen
            yield kind, release, chosen


def _shown(
    store: Store,
    claims: Claims,
    rows: pa.Table,
    outcomes: _Outcomes,
    kinds: np.ndarray,
    outside: np.ndarray,
) -> pa.Table:
    """The rows as STORAGE; what is the same for a combination is made once and taken."""
    releases, needs = outcomes.releases, outcomes.needs
    padded_needs = [*needs, *[Needs(None, None, None, ())] * (len(releases) - len(needs))]
    which, places = pa.array(outcomes.codes), claims.places

    def taken(values: Iterable[object], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(which)

    root = f"{store.paths.root}/"
    paths = pc.if_else(
        pa.array(outside), rows["path"], pc.replace_substring(rows["path"], root, "", max_replacements=1)
    )
    free = taken([r.state == FREE for r in releases], pa.bool_())
    at = rows["place"].combine_chunks()
    modified = pc.add(rows["modified"], local_ms(0))
    after = taken([None if r.after_ms is None else local_ms(r.after_ms) for r in releases], pa.int64())
    columns = {
        "path": paths,
        "kind": pa.array(KINDS).take(pa.array(kinds)),
        "bytes": pc.coalesce(rows["size"], pc.if_else(pa.array(outside), rows["bytes"], 0)),
        "state": taken([r.state for r in releases], pa.string()),
        "partition": pa.array([p for p, _ in places], pa.string()).take(at),
        "bucket": pa.array([b for _, b in places], pa.int32()).take(at),
        "written_by": pc.coalesce(rows["written_by"], rows["elsewhere"]),
        "tags": taken([n.names(TAG) for n in padded_needs], _TEXTS),
        "branches": taken([n.names(BRANCH) for n in padded_needs], _TEXTS),
        "consumers": taken(
            [[*r.consumers, *n.names(CONSUMER)] for r, n in zip(releases, padded_needs, strict=True)], _TEXTS
        ),
        "freed": taken([r.text for r in releases], pa.string()),
        "freed_after": pc.if_else(free, pc.add(modified, _DAY_MS), after),
        "freed_after_snapshot": taken([r.after_snapshot for r in releases], pa.int64()),
        "modified": modified,
        "outside": pa.array(outside),
    }
    columns = {n: columns.get(n, rows[n] if n in rows.column_names else None) for n in STORAGE.names}
    return pa.table({n: c.cast(STORAGE.field(n).type) for n, c in columns.items()}, schema=STORAGE)
