"""Every file below a table's directory with its bytes: who wrote it, who needs it, when it may go.

The files that snapshots, tags, branches and changelogs name (`claims.py`) are joined with those that are
there. What nothing names is an orphan, a temporary file or none of the engine's. So the bytes of all rows are
the bytes on disk; files at other roots (`data-file.external-paths`) are rows, too, with the sizes in
manifests. No data file is opened. Memory: a few columns a file. Called by `Inspect.storage`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import TablestoreError
from tablestore.format.result_tables import result_schema
from tablestore.insight.inspect.claim_book import (
    BRANCH,
    CHANGELOG,
    COMING,
    CONSUMER,
    KINDS,
    LEFT,
    SNAPSHOTS,
    TAG,
    Claims,
)
from tablestore.insight.inspect.claims import claims
from tablestore.insight.inspect.release import FOREIGN, FREE, KEPT, LIVE, MISSING, Needs, Release, Releases
from tablestore.io.fileio import FileStatus
from tablestore.io.paths import join
from tablestore.meta import refs
from tablestore.meta.store import Store
from tablestore.read.scan.time_travel import local_ms

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
    return _shown(store, claims, rows, kinds, outcomes, needs, codes, outside)


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
    kinds: np.ndarray,
    outcomes: Sequence[Release],
    needs: Sequence[Needs],
    codes: np.ndarray,
    outside: np.ndarray,
) -> pa.Table:
    """The rows as STORAGE; what is the same for a combination is made once and taken."""
    padded_needs = [*needs, *[Needs(None, None, None, ())] * (len(outcomes) - len(needs))]
    which, places = pa.array(codes), claims.places

    def taken(values: Iterable[object], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(which)

    root = f"{store.paths.root}/"
    paths = pc.if_else(
        pa.array(outside), rows["path"], pc.replace_substring(rows["path"], root, "", max_replacements=1)
    )
    free = taken([r.state == FREE for r in outcomes], pa.bool_())
    at = rows["place"].combine_chunks()
    modified = pc.add(rows["modified"], local_ms(0))
    after = taken([None if r.after_ms is None else local_ms(r.after_ms) for r in outcomes], pa.int64())
    columns = {
        "path": paths,
        "kind": pa.array(KINDS).take(pa.array(kinds)),
        "bytes": pc.coalesce(rows["size"], pc.if_else(pa.array(outside), rows["bytes"], 0)),
        "state": taken([r.state for r in outcomes], pa.string()),
        "partition": pa.array([p for p, _ in places], pa.string()).take(at),
        "bucket": pa.array([b for _, b in places], pa.int32()).take(at),
        "written_by": pc.coalesce(rows["written_by"], rows["elsewhere"]),
        "tags": taken([n.names(TAG) for n in padded_needs], _TEXTS),
        "branches": taken([n.names(BRANCH) for n in padded_needs], _TEXTS),
        "consumers": taken(
            [[*r.consumers, *n.names(CONSUMER)] for r, n in zip(outcomes, padded_needs, strict=True)], _TEXTS
        ),
        "freed": taken([r.text for r in outcomes], pa.string()),
        "freed_after": pc.if_else(free, pc.add(modified, _DAY_MS), after),
        "freed_after_snapshot": taken([r.after_snapshot for r in outcomes], pa.int64()),
        "modified": modified,
        "outside": pa.array(outside),
    }
    columns = {n: columns.get(n, rows[n] if n in rows.column_names else None) for n in STORAGE.names}
    return pa.table({n: c.cast(STORAGE.field(n).type) for n, c in columns.items()}, schema=STORAGE)
